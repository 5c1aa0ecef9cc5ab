package hostile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/internal/config"
	"authgate/internal/gateway"
	"authgate/limits"
)

// site is a running gateway in front of one backend, with the wire between them tapped.
type site struct {
	t       testing.TB
	g       *gateway.Gateway
	wire    *wire
	account *account
	clock   atomic.Int64 // what the store takes for now, in milliseconds
	stopped bool
}

// token lets an operator into /meta.
const token = "the operator's token"

// settings is a configuration; more is YAML of further sections, server the inside of that section.
func settings(upstream, server, more string) string {
	sum := sha256.Sum256([]byte(token))
	return fmt.Sprintf(`
server: {listen: "127.0.0.1:0", %s}
upstream: {url: %q, response_timeout: 60s, max_idle_connections: 8}
log: {level: info, identifiers: plain}
admin:
  listen: "127.0.0.1:0"
  hosts: [admin.test]
  tokens: [{name: ops, role: operator, hash: "sha256:%s"}]
%s`, server, upstream, hex.EncodeToString(sum[:]), more)
}

// patient are limits of time that no machine, however busy, makes an honest request exceed.
const patient = "read_header_timeout: 30s, read_body_timeout: 30s"

// begin starts a gateway in front of a backend; it ends with the test at the latest. The store's clock stands still until it is
// moved.
func begin(t testing.TB, b *backend, server, more string) *site {
	t.Helper()
	w, err := tap(b.dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	s := beginAt(t, "http://"+w.addr(), server, more)
	s.wire = w
	return s
}

// beginDirect is begin without a tap, for what is about resources.
func beginDirect(t testing.TB, b *backend, server, more string) *site {
	t.Helper()
	return beginAt(t, "http://"+b.addr, server, more)
}

func beginAt(t testing.TB, upstream, server, more string) *site {
	t.Helper()
	s := &site{t: t, account: &account{requests: map[string]request{}}}
	cfg, _, err := config.Parse("hostile.yaml", []byte(settings(upstream, server, more)), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.clock.Store(1_000_000_000_000)
	s.g, err = gateway.New(cfg, gateway.Options{Log: slog.New(s.account), Now: func() limits.Millis { return s.clock.Load() }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

func (s *site) addr() string { return s.g.Addr().String() }

// stop waits for the requests under way and ends the gateway.
func (s *site) stop() {
	if s.stopped {
		return
	}
	s.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.g.Stop(ctx); err != nil {
		s.t.Errorf("stopping: %v", err)
	}
}

// later lets so much time pass for the store that every bucket of a minute is empty again.
func (s *site) later() { s.clock.Add(int64(2 * time.Minute / time.Millisecond)) }

// metrics sums the values of a metric over its labels.
func (s *site) metrics(name string) (sum float64) {
	conn := open(s.t, s.g.AdminAddr().String())
	defer conn.close()
	a, err := conn.ask([]byte("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(a.body)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// account is the gateway's own account of its requests: its access log. It is a [slog.Handler].
type account struct {
	mu       sync.Mutex
	requests map[string]request // by id
	twice    []string           // ids that came twice
	quiet    bool               // keeps nothing
}

func (a *account) size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

// request is one line of the access log.
type request struct {
	target string // the one name that was read, or ""
}

func (a *account) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (a *account) WithAttrs([]slog.Attr) slog.Handler               { return a }
func (a *account) WithGroup(string) slog.Handler                    { return a }

func (a *account) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "request" {
		return nil
	}
	var id string
	var q request
	r.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "request_id":
			id = attr.Value.String()
		case "target":
			q.target = attr.Value.Resolve().String()
		}
		return true
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.quiet {
		return nil
	}
	if _, ok := a.requests[id]; ok {
		a.twice = append(a.twice, id)
	}
	a.requests[id] = q
	return nil
}

// inProcess is a backend within the test, for what does not depend on whose parsers it has.
func inProcess(t testing.TB, h http.Handler) *backend {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	addr := s.Listener.Addr().String()
	return &backend{name: "handler", addr: addr, dial: dialer("tcp", addr), end: func() {}}
}
