package unlock

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"authgate/internal/notify"
	"authgate/internal/valkeytest"
	"authgate/limits/valkeystore"
)

// Tests in real time, on a real server.

func connect(t *testing.T, addr string) *valkeystore.Store {
	t.Helper()
	s, err := valkeystore.New(valkeystore.Config{
		Addresses: []string{addr}, Timeout: valkeytest.Patience, Logger: slog.New(slog.DiscardHandler),
		Events: valkeystore.Events{Degraded: func(bool) {}, Failed: func(string) {}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	<-s.Probed()
	return s
}

// From the full bucket to the click, with real mail: the link in the letter works once, through any instance, and the store
// never sees it.
func TestByMail(t *testing.T) {
	server := valkeytest.Start(t)
	post := startPostbox(t)
	byMail := func(c *Config) { c.Way = post.way(t) }
	a := open(t, connect(t, server.Addr()), &outbox{}, byMail)
	b := open(t, connect(t, server.Addr()), &outbox{}, byMail)
	a.Filled("acme", "login", "bob@example.org", window)
	b.Filled("acme", "login", "bob@example.org", window)
	valkeytest.Eventually(t, "a letter", func() bool { n, _ := post.letters(t, "bob@example.org"); return n > 0 })
	valkeytest.Eventually(t, "the end of the job", func() bool { return len(listed(t, a.cfg.Records)) == 0 })
	n, text := post.letters(t, "bob@example.org")
	link, err := url.Parse(regexp.MustCompile(`https://\S+`).FindString(text))
	if n != 1 || err != nil || link.Host != "acme.test" || link.Path != Path {
		t.Fatalf("got %d letters, link %v, %v", n, link, err)
	}
	token := link.Query().Get("token")
	raw, _ := base64.RawURLEncoding.DecodeString(token)
	keys, _ := server.Do("KEYS", "*").([]any)
	if len(keys) == 0 {
		t.Error("the store holds nothing")
	}
	for _, key := range keys {
		if k, _ := key.(string); strings.Contains(k, token) || strings.Contains(k, hex.EncodeToString(raw)) {
			t.Errorf("the token is in key %s", k)
		} else if ttl, _ := server.Do("PTTL", k).(int64); ttl == -1 {
			t.Errorf("%s lives for ever", k)
		}
	}
	if w, err := b.visit(http.MethodGet, link.RequestURI(), "", "", nil); err != nil || w.Code != http.StatusOK {
		t.Errorf("got %d, %v", w.Code, err)
	}
	used := 0
	if _, err := b.visit(http.MethodPost, Path, "token="+token, ours, func(c Claim) error { used++; return nil }); err != nil || used != 1 {
		t.Errorf("got %v, used %d times", err, used)
	}
	if w, err := a.visit(http.MethodPost, Path, "token="+token, ours, nil); err != nil || w.Code != http.StatusGone {
		t.Errorf("got %d, %v for a used link", w.Code, err)
	}
}

// Two services on one server send each notice once.
func TestTwoServicesOnValkey(t *testing.T) {
	server := valkeytest.Start(t)
	o := &outbox{}
	a, b := open(t, connect(t, server.Addr()), o, nil), open(t, connect(t, server.Addr()), o, nil)
	const users = 40
	for i := range users {
		a.Filled("acme", "login", user(i), window)
		b.Filled("acme", "login", user(i), window)
	}
	valkeytest.Eventually(t, "all notices", func() bool { sent, _ := o.counts(); return sent >= users })
	valkeytest.Eventually(t, "the end of all jobs", func() bool {
		return len(a.fills)+len(b.fills) == 0 && len(listed(t, a.cfg.Records)) == 0
	})
	a.Close()
	b.Close()
	seen := map[string]int{}
	for _, n := range o.sent {
		seen[n.claim.Target]++
	}
	if len(seen) != users || len(o.sent) != users {
		t.Errorf("got %d notices to %d users, want %d to each once", len(o.sent), len(seen), users)
	}
}

// What waits outlives the service, and every goroutine ends with it.
func TestRestartOnValkey(t *testing.T) {
	server := valkeytest.Start(t)
	store := connect(t, server.Addr())
	before := runtime.NumGoroutine()
	asked := make(chan struct{}, 1)
	o := &outbox{answer: func(ctx context.Context, n int) error {
		asked <- struct{}{}
		return never(ctx, n)
	}}
	a := open(t, store, o, nil)
	a.Filled("acme", "login", user(1), window)
	<-asked
	a.Close()
	o.respond(nil)
	b := open(t, store, o, nil)
	valkeytest.Eventually(t, "the notice", func() bool { sent, _ := o.counts(); return sent == 1 })
	b.Close()
	if o.sent[0].id != o.tried[0].id {
		t.Error("it is another delivery")
	}
	valkeytest.Eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

// A webhook that never answers holds up nobody, and is left in peace at the end.
func TestSilentWebhook(t *testing.T) {
	server := valkeytest.Start(t)
	hold := make(chan struct{})
	asked := make(chan struct{}, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		asked <- struct{}{}
		<-hold
	}))
	defer hook.Close()
	defer close(hold)
	s := open(t, connect(t, server.Addr()), &outbox{}, func(c *Config) {
		c.Way = ByWebhook(notify.NewWebhook(notify.WebhookConfig{URL: hook.URL, Secret: "s", Timeout: 50 * time.Millisecond}))
	})
	s.Filled("acme", "login", "bob", window)
	<-asked
	<-asked // again
	begin := time.Now()
	s.Close()
	if d := time.Since(begin); d > valkeytest.Patience/2 {
		t.Errorf("closing took %s", d)
	}
	if n := len(listed(t, s.cfg.Records)); n != 1 {
		t.Errorf("got %d jobs, want it to wait for another service", n)
	}
}
