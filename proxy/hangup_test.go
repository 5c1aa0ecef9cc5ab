package proxy_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/outcome"
	"authgate/limits"
	"authgate/limits/memstore"
	"authgate/proxy"
)

// afterwards is a store that does something once it has decided.
type afterwards struct {
	*memstore.Store
	do func()
}

func (s *afterwards) Decide(ctx context.Context, a *limits.Attempt) (limits.Decision, error) {
	d, err := s.Store.Decide(ctx, a)
	s.do()
	return d, err
}

// A client that is gone before the backend was contacted leaves nothing behind [L9].
func TestHangUpBeforeTheBackend(t *testing.T) {
	ctx, hangUp := context.WithCancel(t.Context())
	store := &afterwards{memstore.New(memstore.Config{}), hangUp}
	defer store.Close()
	backend := &accounts{}
	g := newGate(t, setup{backend: backend, store: store, policies: []policy{logins(failures(limits.Target, 1, time.Hour))}})
	g.ask(login("bob", "wrong").WithContext(ctx))
	_ = g.limiter.Wait(t.Context())
	if backend.asked.count() != 0 || store.Stats().Pinned != 0 || g.events.count("served login 499") != 1 {
		t.Errorf("the backend was asked %d times; %+v; %v; want nothing but a line in the log", backend.asked.count(), store.Stats(), g.events)
	}
	expect(t, g.attempts("bob wrong", "bob right"), "401 429")
}

// Once the request has been sent, hanging up is no free guess: the verdict counts, however the backend gives it and however the
// client leaves.
func TestHangUpAfterwards(t *testing.T) {
	rules := []outcome.Rule{
		{Is: "success", Status: []string{"200"}, Header: map[string]string{"X-Welcome": "*"}},
		{Is: "failure", Status: []string{"401"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"wrong password"}},
	}
	for _, test := range []struct{ name, head, rest string }{
		{"by the status", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", ""},
		{"in the body", "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n", "wrong password"},
		{"in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfoo \r\n", "e\r\nwrong password\r\n0\r\n\r\n"},
		{"at the end of the connection", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfoo", "wrong password"},
	} {
		for _, leave := range []string{"close", "reset"} {
			t.Run(test.name+", "+leave, func(t *testing.T) {
				asked, left := make(chan bool, 1), make(chan bool)
				url := scripted(t, func(c *conn) {
					c.ask()
					asked <- true
					<-left
					c.write(test.head)
					time.Sleep(5 * time.Millisecond) // so that the gateway finds out that nobody is there
					c.write(test.rest)
				})
				p := logins(failures(limits.Target, 1, time.Hour))
				p.outcome = rules
				g := newGate(t, setup{url: url, policies: []policy{p}})
				addr := g.serve()
				c := dial(t, addr)
				const body = `{"user":"bob"}`
				c.write(fmt.Sprintf("POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
				<-asked
				if leave == "reset" {
					_ = c.Conn.(*net.TCPConn).SetLinger(0)
				}
				_ = c.Close()
				time.Sleep(5 * time.Millisecond)
				left <- true
				eventually(t, "the verdict", func() bool { return g.events.count("verdict login failure") == 1 })
				eventually(t, "the end of the exchange", func() bool { return len(g.log.lines("request")) == 1 })
				if w := g.ask(login("bob", "right")); w.Code != 429 {
					t.Errorf("got %d for the next attempt, want 429", w.Code)
				}
			})
		}
	}
}

// Only so many calls go on without their clients, and none for ever; the others are called off and count as neutral.
func TestOrphans(t *testing.T) {
	const orphans, all = 256, 300
	for _, test := range []struct {
		name              string
		takes             time.Duration
		failures, neutral int
	}{{"in time", time.Second, orphans, all - orphans}, {"too slow", time.Hour, 0, all}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t, setup{
					backend: &accounts{takes: test.takes}, policies: []policy{logins(failures(limits.Target, 5, time.Hour))},
					upstream: func(u *proxy.UpstreamConfig) { u.ResponseTimeout = 10 * time.Second },
				})
				ctx, hangUp := context.WithCancel(t.Context())
				var done sync.WaitGroup
				for i := range all {
					done.Go(func() { g.ask(login(fmt.Sprint("u", i), "wrong").WithContext(ctx)) })
				}
				synctest.Wait()
				left := time.Now()
				hangUp()
				done.Wait()
				if f, n := g.events.count("verdict login failure"), g.events.count("verdict login neutral"); f != test.failures || n != test.neutral {
					t.Errorf("got %d failures and %d neutral, want %d and %d", f, n, test.failures, test.neutral)
				}
				if took := time.Since(left); took > 10*time.Second {
					t.Errorf("calls went on for %v, want 10s at most", took)
				}
				// Their places are free again.
				ctx, hangUp = context.WithCancel(t.Context())
				done.Go(func() { g.ask(login("next", "wrong").WithContext(ctx)) })
				synctest.Wait()
				hangUp()
				synctest.Wait()
				if test.failures > 0 {
					done.Wait()
					if f := g.events.count("verdict login failure"); f != test.failures+1 {
						t.Errorf("got %d failures, want one more", f)
					}
				}
				g.handler.Close() // calls off what is left
				done.Wait()
				_ = g.limiter.Wait(t.Context())
				_ = g.store.Close()
			})
		})
	}
}

// A call that nobody judges ends with its client.
func TestHangUpWithoutVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, setup{backend: &accounts{takes: time.Hour}, policies: []policy{logins(requests(limits.Target, 5, time.Hour))}})
		ctx, hangUp := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { g.ask(login("bob", "x").WithContext(ctx)) })
		synctest.Wait()
		began := time.Now()
		hangUp()
		done.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("the call went on for %v", took)
		}
		_ = g.store.Close()
	})
}

// A client that has only stopped sending must not take silence for success.
func TestHalfClosedClient(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy policy
		want   int // 0: the connection ends
	}{
		{"nobody judges", logins(requests(limits.Target, 5, time.Hour)), 0},
		{"the verdict is awaited", logins(failures(limits.Target, 5, time.Hour)), 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked, left := make(chan bool, 1), make(chan bool)
			over := sync.OnceFunc(func() { close(left) })
			s := backend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked <- true
				<-left
				w.WriteHeader(401)
			}))
			t.Cleanup(over) // before the backend is closed
			g := newGate(t, setup{url: s.URL, policies: []policy{test.policy}})
			c := dial(t, g.serve())
			c.write("POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
			<-asked
			c.closeWrite()
			if test.want != 0 {
				time.Sleep(5 * time.Millisecond) // for a gateway that would give up
				over()
			}
			res, err := http.ReadResponse(c.in, nil)
			switch {
			case test.want == 0 && err == nil:
				t.Errorf("got %d, want nothing", res.StatusCode)
			case test.want != 0 && (err != nil || res.StatusCode != test.want):
				t.Errorf("got %v, %v; want %d", res, err, test.want)
			}
		})
	}
}
