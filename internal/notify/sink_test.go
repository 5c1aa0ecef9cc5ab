package notify_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/notify"
)

// receiver is the other side of a webhook, in virtual time.
type receiver struct {
	mu         sync.Mutex
	answer     func(n int) int // the status of the nth post; 0: none, ever
	events     []string        // of posts that succeeded
	deliveries []string        // of all posts
	at         []time.Time
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	var e struct{ Event string }
	_ = json.Unmarshal(body, &e)
	r.mu.Lock()
	n := len(r.at)
	r.at = append(r.at, time.Now())
	r.deliveries = append(r.deliveries, req.Header.Get(notify.DeliveryHeader))
	status := http.StatusOK
	if r.answer != nil {
		status = r.answer(n)
	}
	if status/100 == 2 {
		r.events = append(r.events, e.Event)
	}
	r.mu.Unlock()
	if status == 0 {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}, Request: req}, nil
}

// always answers every post alike.
func always(status int) func(int) int { return func(int) int { return status } }

type trail struct {
	*notify.Audit
	log  bytes.Buffer
	lost atomic.Int64
}

func posting(t *testing.T, r *receiver) *trail {
	t.Helper()
	a := &trail{}
	var err error
	if a.Audit, err = notify.NewAudit(slog.New(slog.NewJSONHandler(&a.log, nil)), names, ""); err != nil {
		t.Fatal(err)
	}
	a.Post(notify.NewWebhook(notify.WebhookConfig{URL: "http://audit.test/", Transport: r}), func() { a.lost.Add(1) })
	return a
}

// said are the messages of the log, but for the events themselves.
func (a *trail) said(t *testing.T) (out []string) {
	t.Helper()
	for _, e := range events(t, a.log.String()) {
		if m, _ := e["msg"].(string); m != "audit" {
			out = append(out, m)
		}
	}
	return out
}

// An event is posted as the line that the file gets.
func TestAuditPosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		var posted []byte
		hook := notify.NewWebhook(notify.WebhookConfig{URL: "http://audit.test/", Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			posted, _ = io.ReadAll(req.Body)
			req.Body = io.NopCloser(bytes.NewReader(posted))
			return r.RoundTrip(req)
		})})
		path := filepath.Join(t.TempDir(), "audit")
		a, err := notify.NewAudit(slog.New(slog.DiscardHandler), names, path)
		if err != nil {
			t.Fatal(err)
		}
		a.Event("before", "ops")
		a.Post(hook, nil)
		a.Event("release", "ops", slog.String("identity", "bob@example.org"))
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		a.Event("after", "ops")
		lines := read(t, path)
		if len(lines) != 2 || len(r.events) != 1 {
			t.Fatalf("got %v in the file and %v posted, want 2 and 1", lines, r.events)
		}
		got := events(t, string(posted))
		if len(got) != 1 || got[0]["identity"] != names.Text("bob@example.org") || got[0]["time"] != lines[1]["time"] || bytes.HasSuffix(posted, []byte("\n")) {
			t.Errorf("got %s posted, want %v", posted, lines[1])
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Events arrive in order; one that fails is tried again, ever more seldom, as the same delivery, and holds up the others.
func TestAuditRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(n int) int {
			if n < 4 {
				return 503
			}
			return 200
		}}
		a := posting(t, r)
		a.Event("one", "ops")
		a.Event("two", "ops")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Join(r.events, " "); got != "one two" {
			t.Fatalf("got %q, want both in order", got)
		}
		for i, longest := range []time.Duration{1, 2, 4, 8} {
			if d := r.at[i+1].Sub(r.at[i]); d > longest*time.Second || d < longest*time.Second/2 {
				t.Errorf("pause %d is %s, want about %d s", i, d, longest)
			}
			if r.deliveries[i] == "" || r.deliveries[i] != r.deliveries[i+1] {
				t.Error("a repetition cannot be told")
			}
		}
		if r.deliveries[5] == r.deliveries[4] {
			t.Error("another event looks like a repetition")
		}
		if err := a.Close(); err != nil || a.lost.Load() != 0 || len(a.said(t)) != 0 {
			t.Errorf("got %v, %d lost, %v", err, a.lost.Load(), a.said(t))
		}
	})
}

// What cannot be delivered is counted, and told once until something is delivered.
func TestAuditLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: always(400)}
		a := posting(t, r)
		for range 3 {
			a.Event("refused", "ops")
		}
		a.Event("large", "ops", slog.String("reason", strings.Repeat("x", 9000)))
		synctest.Wait()
		if len(r.at) != 3 || a.lost.Load() != 4 {
			t.Errorf("got %d posts and %d lost, want 3 and 4: nothing is tried again that is refused for good", len(r.at), a.lost.Load())
		}
		r.mu.Lock()
		r.answer = nil
		r.mu.Unlock()
		a.Event("fine", "ops")
		synctest.Wait()
		r.mu.Lock()
		r.answer = always(400)
		r.mu.Unlock()
		a.Event("refused", "ops")
		synctest.Wait()
		_ = a.Close()
		if got := strings.Join(a.said(t), ", "); got != "audit webhook loses events, audit webhook recovered, audit webhook loses events" {
			t.Errorf("got %s in the log", got)
		}
		if !strings.Contains(a.log.String(), `"lost":4`) || !strings.Contains(a.log.String(), `"cause":"it answered 400"`) {
			t.Errorf("got %s, want how many and why", a.log.String())
		}
	})
}

// A receiver that never answers costs bounded memory, and nobody waits for it: not who reports, nor who closes.
func TestAuditSilentReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: always(0)}
		a := posting(t, r)
		a.Event("first", "ops")
		synctest.Wait() // it is under way
		begin := time.Now()
		for range 1005 {
			a.Event("mode", "ops")
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("reporting took %s", d)
		}
		if a.lost.Load() != 5 {
			t.Errorf("got %d lost, want those beyond 1000", a.lost.Load())
		}
		time.Sleep(16 * time.Minute)
		synctest.Wait()
		if n := len(r.at); n > 40 {
			t.Errorf("got %d tries, want ever fewer", n)
		}
		if a.lost.Load() < 6 {
			t.Error("the first event is tried for ever")
		}
		begin = time.Now()
		if err := a.Close(); err != nil || time.Since(begin) > 3*time.Second {
			t.Errorf("got %v after %s, want an end within seconds", err, time.Since(begin))
		}
		if a.lost.Load() != 1006 {
			t.Errorf("got %d lost, want all 1006", a.lost.Load())
		}
	})
}

// At the end what waits is delivered, if that works at once.
func TestAuditDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(n int) int {
			if n == 0 {
				return 503
			}
			return 200
		}}
		a := posting(t, r)
		for range 5 {
			a.Event("mode", "ops")
		}
		synctest.Wait() // the first waits for its second try
		if err := a.Close(); err != nil || len(r.events) != 4 || a.lost.Load() != 1 {
			t.Errorf("got %v, %d events, %d lost; want 4 and 1", err, len(r.events), a.lost.Load())
		}
		if err := a.Close(); err != nil {
			t.Errorf("closing again: %v", err)
		}
	})
}
