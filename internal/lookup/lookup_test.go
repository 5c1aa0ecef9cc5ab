package lookup

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestKnown(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		b, _ := io.ReadAll(r.Body)
		sig := r.Header.Get("Gateway-Signature")
		unix, _, _ := strings.Cut(strings.TrimPrefix(sig, "t="), ",")
		sec, err := time.ParseDuration(unix + "s")
		if err != nil || sig != Sign("s3cret", time.Unix(int64(sec.Seconds()), 0), b) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		switch {
		case strings.Contains(string(b), "ann"):
			_, _ = io.WriteString(w, `{"known": true}`)
		case strings.Contains(string(b), "ben"):
			_, _ = io.WriteString(w, `{"known": false}`)
		case strings.Contains(string(b), "odd"):
			_, _ = io.WriteString(w, `{"known": null}`)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer s.Close()
	failures := 0
	h := New(Config{URL: s.URL + "/?key=hidden", Secret: "s3cret", Timeout: time.Second, Failed: func(err error) {
		failures++
		if strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "odd@") {
			t.Errorf("the error tells too much: %v", err)
		}
	}})
	tests := []struct {
		target string
		known  bool
		fails  bool
	}{
		{"ann@a.test", true, false}, {"ben@a.test", false, false}, {"odd@a.test", false, true}, {"else@a.test", false, true},
	}
	for range 2 {
		for _, tt := range tests {
			known, err := h.Known(context.Background(), "acme", tt.target)
			if known != tt.known || (err != nil) != tt.fails {
				t.Errorf("%s: got %v, %v; want %v, fails %v", tt.target, known, err, tt.known, tt.fails)
			}
		}
	}
	if got, want := asked.Load(), int64(2+4); got != want {
		t.Errorf("the service was asked %d times, want %d: its answers are remembered, its failures not", got, want)
	}
	if failures != 4 {
		t.Errorf("%d failures were told, want 4", failures)
	}
}

func TestBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"known":false}`) }))
	defer s.Close()
	h := New(Config{URL: s.URL, Timeout: time.Second})
	for range maxAnswers {
		h.cache[question{"r", time.Now().String()}] = answer{}
	}
	if _, err := h.Known(context.Background(), "r", "x"); err != nil {
		t.Fatal(err)
	}
	if len(h.cache) > maxAnswers {
		t.Errorf("%d answers are remembered, want at most %d", len(h.cache), maxAnswers)
	}
}

func TestSlow(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	h := New(Config{URL: s.URL, Timeout: 20 * time.Millisecond})
	if _, err := h.Known(context.Background(), "r", "x"); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Errorf("got %v, want an error about time", err)
	}
}
