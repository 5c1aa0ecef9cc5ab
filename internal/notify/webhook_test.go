package notify_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"authgate/internal/lookup"
	"authgate/internal/notify"
)

const secret = "a secret of these tests"

// failure is what went wrong with a delivery.
func failure(t *testing.T, err error) *notify.Failure {
	t.Helper()
	var f *notify.Failure
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a failure", err)
	}
	return f
}

// What is posted arrives whole, named and signed.
func TestPost(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	h := notify.NewWebhook(notify.WebhookConfig{URL: server.URL + "/hook?key=1", Secret: secret})
	if err := h.Post(context.Background(), "d1", []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	signature := got.Header.Get("Gateway-Signature")
	unix, _, _ := strings.Cut(strings.TrimPrefix(signature, "t="), ",")
	seconds, err := strconv.ParseInt(unix, 10, 64)
	at := time.Unix(seconds, 0)
	if err != nil || time.Since(at).Abs() > time.Minute || signature != lookup.Sign(secret, at, body) {
		t.Errorf("got signature %q, want one of the body, of now", signature)
	}
	if got.Method != http.MethodPost || got.URL.String() != "/hook?key=1" || string(body) != `{"a":1}` ||
		got.Header.Get("Content-Type") != "application/json" || got.Header.Get(notify.DeliveryHeader) != "d1" {
		t.Errorf("got %s %s %v with %s", got.Method, got.URL, got.Header, body)
	}
	unsigned := notify.NewWebhook(notify.WebhookConfig{URL: server.URL})
	if err := unsigned.Post(context.Background(), "d2", nil); err != nil || got.Header.Get("Gateway-Signature") != "" {
		t.Errorf("got %v and signature %q, want none without a secret", err, got.Header.Get("Gateway-Signature"))
	}
}

func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		status    int
		ok, final bool
	}{
		{200, true, false},
		{202, true, false},
		{299, true, false},
		{302, false, false},
		{304, false, false},
		{400, false, true},
		{401, false, true},
		{404, false, true},
		{410, false, true},
		{408, false, false},
		{425, false, false},
		{429, false, false},
		{500, false, false},
		{503, false, false},
	} {
		followed := false
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				followed = true
				return
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(test.status)
		}))
		err := notify.NewWebhook(notify.WebhookConfig{URL: server.URL}).Post(context.Background(), "d", nil)
		server.Close()
		if followed {
			t.Errorf("%d: a redirect was followed", test.status)
		}
		if test.ok {
			if err != nil {
				t.Errorf("%d: got %v, want success", test.status, err)
			}
			continue
		}
		f := failure(t, err)
		if f.Final != test.final || f.Unsure || f.Error() != "it answered "+strconv.Itoa(test.status) {
			t.Errorf("%d: got %+v, want final %v", test.status, f, test.final)
		}
	}
}

// Whatever a server does, a post ends in time, and says whether it may have arrived.
func TestNoAnswer(t *testing.T) {
	hold := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer silent.Close()
	defer close(hold)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
	}))
	defer endless.Close()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	deaf.Close()
	for _, test := range []struct {
		name    string
		url     string
		timeout time.Duration
		caller  time.Duration // its patience
		want    notify.Failure
	}{
		{"silent", silent.URL, 30 * time.Millisecond, time.Hour, notify.Failure{Cause: "no answer in time", Unsure: true}},
		{"its caller gives up", silent.URL, time.Hour, 30 * time.Millisecond, notify.Failure{Cause: "no answer in time", Unsure: true}},
		{"an endless header", endless.URL, time.Minute, time.Hour, notify.Failure{Cause: "no answer", Unsure: true}},
		{"nobody listens", "http://" + deaf.Addr().String(), time.Minute, time.Hour, notify.Failure{Cause: "no answer"}},
		{"no URL", "http://[::1/?key=hidden", time.Minute, time.Hour, notify.Failure{Cause: "the URL cannot be used", Final: true}},
	} {
		h := notify.NewWebhook(notify.WebhookConfig{URL: test.url, Timeout: test.timeout})
		ctx, cancel := context.WithTimeout(context.Background(), test.caller)
		defer cancel()
		if got := failure(t, h.Post(ctx, "d", nil)); *got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, *got, test.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	for _, test := range []struct {
		failures int
		longest  time.Duration
	}{{-1, time.Second}, {1, time.Second}, {2, 2 * time.Second}, {5, 16 * time.Second}, {9, 256 * time.Second}, {10, 5 * time.Minute}, {1 << 40, 5 * time.Minute}} {
		least, most := time.Hour, time.Duration(0)
		for range 200 {
			d := notify.Backoff(test.failures)
			least, most = min(least, d), max(most, d)
		}
		if least <= test.longest/2 || most > test.longest || most-least < test.longest/4 {
			t.Errorf("after %d: got %s to %s, want them spread over the upper half of %s", test.failures, least, most, test.longest)
		}
	}
}
