package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/config"
	"authgate/internal/gateway"
)

// office is one address with many people behind it, in front of the shipped magic-link policy.
type office struct {
	t *testing.T
	g *gateway.Gateway
}

// newOffice must be called in a synctest bubble.
func newOffice(t *testing.T) *office {
	cfg, _, err := config.Parse("office.yaml", []byte("upstream: {url: \"http://backend.test\"}\npresets: [modgud]\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(cfg, gateway.Options{Transport: sender{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &office{t, g}
}

// sender is a backend that sends a link to whoever is named.
type sender struct{}

func (sender) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("sent")), ContentLength: 4, Request: r,
	}, nil
}

// ask has a person ask for a link, and returns the status and how long to wait.
func (o *office) ask(person string) (status, retryAfter int) {
	r := httptest.NewRequest("POST", "/api/account/magic-link/request", strings.NewReader(`{"Email":"`+person+`"}`))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = "203.0.113.7:40000"
	w := httptest.NewRecorder()
	o.g.Handler().ServeHTTP(w, r)
	retryAfter, _ = strconv.Atoi(w.Header().Get("Retry-After"))
	return w.Code, retryAfter
}

// TestWorkedExample is the example of the README: an office at nine o'clock.
func TestWorkedExample(t *testing.T) {
	t.Run("a thousand people within the hour", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t)
			for i := range 1000 {
				if status, _ := o.ask(fmt.Sprintf("person%d@office.test", i)); status != http.StatusOK {
					t.Fatalf("person %d got %d, want 200", i, status)
				}
				time.Sleep(time.Hour / 1000)
			}
		})
	})
	t.Run("two thousand in the same instant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t)
			passed, wait := 0, 0
			for i := range 2000 {
				status, retryAfter := o.ask(fmt.Sprintf("person%d@office.test", i))
				switch status {
				case http.StatusOK:
					passed++
				case http.StatusTooManyRequests:
					wait = retryAfter
				default:
					t.Fatalf("person %d got %d, want 200 or 429", i, status)
				}
			}
			if got, want := passed, 300; got != want {
				t.Errorf("%d passed, want %d", got, want)
			}
			if got, want := wait, 3; got != want { // 1200 an hour is one in three seconds
				t.Errorf("the others are told to wait %d s, want %d", got, want)
			}
			time.Sleep(time.Duration(wait) * time.Second)
			if status, _ := o.ask("person1999@office.test"); status != http.StatusOK {
				t.Errorf("after that wait: got %d, want 200", status)
			}
		})
	})
	t.Run("one person's mailbox", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t)
			for i := range 6 {
				want := http.StatusOK
				if i == 5 {
					want = http.StatusTooManyRequests
				}
				if got, _ := o.ask("colleague@office.test"); got != want {
					t.Errorf("request %d got %d, want %d", i+1, got, want)
				}
			}
		})
	})
}
