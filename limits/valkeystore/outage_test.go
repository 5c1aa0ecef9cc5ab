package valkeystore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/internal/valkeytest"
	"authgate/limits"
)

// budget is that of one call in tests where calls fail: short, since each failure costs it.
const budget = 500 * time.Millisecond

func withBudget(cfg *Config) { cfg.Timeout = budget }

// out makes calls until the breaker is open, and checks that each returned in time with the right error.
func (w *watched) out(t *testing.T, call func() error) (calls int) {
	t.Helper()
	for !w.Degraded() {
		if calls++; calls > 2*tripAfter {
			t.Fatalf("after %d calls the breaker is not open", calls)
		}
		start := time.Now()
		err := call()
		if took := time.Since(start); took > budget+time.Second { // a second for a busy machine; what must not be is the client's two
			t.Errorf("call %d took %s, want at most %s", calls, took, budget)
		}
		if !errors.Is(err, limits.ErrUnavailable) {
			t.Errorf("call %d: got %v, want ErrUnavailable", calls, err)
		}
	}
	return calls
}

func (w *watched) decideOnce(rules ...*limits.Rule) func() error {
	return func() error {
		_, err := w.Decide(context.Background(), attempt("x", rules...))
		return err
	}
}

// recovered waits for the end of an outage and checks what was told of it.
func (w *watched) recovered(t *testing.T) {
	t.Helper()
	valkeytest.Eventually(t, "recovery", func() bool { return !w.Degraded() && slices.Equal(w.told(), []bool{false, true, false}) })
	if in, out := w.log.count("store degraded"), w.log.count("store recovered"); in != 1 || out != 1 {
		t.Errorf("got %d lines of the way in and %d of the way out, want one each", in, out)
	}
	if err := w.decideOnce(windowRule)(); err != nil {
		t.Errorf("after recovery: %v", err)
	}
}

func TestPausedServer(t *testing.T) {
	for name, pause := range map[string]func(*valkeytest.Server) (resume func()){
		"CLIENT PAUSE": func(s *valkeytest.Server) func() {
			s.Do("CLIENT", "PAUSE", "3000") // it cannot be ended early: who would is paused, too
			return func() {}
		},
		"SIGSTOP": func(s *valkeytest.Server) func() { s.Pause(); return s.Resume },
	} {
		t.Run(name, func(t *testing.T) {
			server := valkeytest.Start(t)
			w := open(t, server.Addr(), withBudget)
			if err := w.decideOnce(windowRule)(); err != nil {
				t.Fatal(err)
			}
			resume := pause(server)
			defer resume()
			calls := w.out(t, w.decideOnce(windowRule))
			if calls > tripAfter { // the probe may have failed as well, so it may be fewer
				t.Errorf("the breaker opened after %d calls, want at most %d", calls, tripAfter)
			}
			if got := w.failures("decide"); got != calls {
				t.Errorf("got %d failures told, want %d", got, calls)
			}
			const more = 1000
			start := time.Now()
			for range more { // nobody waits any more
				if err := w.decideOnce(windowRule)(); !errors.Is(err, limits.ErrUnavailable) {
					t.Fatalf("got %v, want ErrUnavailable", err)
				}
			}
			if took := time.Since(start); took > more*budget/50 {
				t.Errorf("%d calls took %s although the breaker is open", more, took)
			}
			resume()
			w.recovered(t)
		})
	}
}

// A script that arrives after its deadline does nothing: not even the server's long absence makes old attempts count.
func TestLateScriptDoesNothing(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), withBudget)
	w.admit(t, attempt("before", windowRule))
	server.Pause()
	w.out(t, w.decideOnce(windowRule, failRule))
	last := time.Now()
	valkeytest.Eventually(t, "the deadline", func() bool { return time.Since(last) > 2*budget })
	server.Resume()
	valkeytest.Eventually(t, "recovery", func() bool { return !w.Degraded() })
	for key := range keys(server) {
		if strings.HasSuffix(key, ":x") {
			t.Errorf("%s was made too late", key)
		}
	}
}

// A reservation of which the answer came too late is given back, while a charge stays [S6].
func TestReservationInDoubtIsGivenBack(t *testing.T) {
	server := valkeytest.Start(t)
	between := newSlow(t, server.Addr())
	w := open(t, between.addr(), withBudget)
	w.admit(t, attempt("other", windowRule, failRule)) // the script is known to the server
	between.hold()
	_, err := w.Decide(context.Background(), attempt("x", windowRule, failRule))
	if !errors.Is(err, limits.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	valkeytest.Eventually(t, "the late decision", func() bool { return server.Do("EXISTS", "gateway:r:w:source:realm:x") == int64(1) })
	between.release()
	valkeytest.Eventually(t, "giving back", func() bool { return server.Do("EXISTS", "gateway:f:f:target:realm:x") == int64(0) })
	if got := server.Do("EXISTS", "gateway:f:f:target:realm:other"); got != int64(1) {
		t.Error("another's reservation was given back, too")
	}
}

func TestWhatWasNotAskedIsNotGivenBack(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), withBudget)
	server.Kill()
	w.out(t, w.decideOnce(failRule))
	valkeytest.Eventually(t, "an empty queue", func() bool { return len(w.undo.queue) <= tripAfter })
	for range 100 {
		_ = w.decideOnce(failRule)()
	}
	if got := len(w.undo.queue); got > tripAfter {
		t.Errorf("%d attempts wait to be given back, of which at most %d were ever sent", got, tripAfter)
	}
}

// A caller that leaves gets the answer all the same: the server may have counted already, so nothing is taken back by leaving.
func TestCallerWhoLeaves(t *testing.T) {
	server := valkeytest.Start(t)
	between := newSlow(t, server.Addr())
	w := open(t, between.addr(), nil)
	between.hold()
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(chan error)
	for range 2 * tripAfter {
		go func() {
			d, err := w.Decide(ctx, attempt("x", failRule))
			if err == nil && d.Alone {
				err = errors.New("decided without the server")
			}
			answers <- err
		}()
	}
	cancel()
	select {
	case err := <-answers:
		t.Errorf("got %v before the server has answered", err)
	case <-time.After(50 * time.Millisecond):
	}
	between.release()
	for range 2 * tripAfter {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if w.Degraded() {
		t.Error("the store is degraded because callers left")
	}
}

func TestFullServerAdmitsNothing(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), withBudget)
	w.admit(t, attempt("x", windowRule))
	server.Config("maxmemory", "1")
	w.out(t, func() error {
		d, err := w.Decide(context.Background(), attempt("x", windowRule, tokenRule, failRule))
		if d.Admitted {
			t.Errorf("got %+v, want no admission", d)
		}
		return err
	})
	for key := range keys(server) {
		if strings.Contains(key, ":t:") || strings.Contains(key, ":f:f:") {
			t.Errorf("%s was charged although the decision failed", key)
		}
	}
	server.Config("maxmemory", "0")
	w.recovered(t)
}

func TestKilledServer(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), withBudget)
	w.admit(t, attempt("x", windowRule))
	server.Kill()
	w.out(t, w.decideOnce(windowRule))
	server.Restart()
	w.recovered(t)
}

func TestStartsWhileTheServerIsDown(t *testing.T) {
	server := valkeytest.Start(t)
	server.Kill()
	w := open(t, server.Addr(), withBudget)
	if !w.Degraded() || !slices.Equal(w.told(), []bool{true}) {
		t.Errorf("degraded: %t, told: %v", w.Degraded(), w.told())
	}
	if err := w.decideOnce(windowRule)(); !errors.Is(err, limits.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	server.Restart()
	valkeytest.Eventually(t, "recovery", func() bool { return !w.Degraded() && slices.Equal(w.told(), []bool{true, false}) })
	if in, out := w.log.count("store degraded"), w.log.count("store recovered"); in != 1 || out != 1 {
		t.Errorf("got %d lines of the way in and %d of the way out, want one each", in, out)
	}
	if err := w.decideOnce(windowRule)(); err != nil {
		t.Error(err)
	}
}

func TestStartIsSilent(t *testing.T) {
	w := open(t, valkeytest.Start(t).Addr(), nil)
	if w.Degraded() || !slices.Equal(w.told(), []bool{false}) {
		t.Errorf("degraded: %t, told: %v", w.Degraded(), w.told())
	}
	if n := w.log.count("store degraded") + w.log.count("store recovered"); n != 0 {
		t.Errorf("got %d lines about a usual start", n)
	}
}

func TestRestartsAreSurvived(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	for range 3 {
		server.Restart() // empty, and without the scripts
		valkeytest.Eventually(t, "an answer", func() bool {
			d, err := w.Decide(context.Background(), attempt("x", windowRule, failRule))
			return err == nil && d.Admitted
		})
	}
}

// The server may lose its scripts at any moment; no decision is lost with them, and none is made twice.
func TestScriptFlushInTraffic(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	rule := *windowRule
	rule.Limit = 200
	var admitted, failed atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				a := attempt("x", &rule, failRule)
				a.Charges[1].Key += fmt.Sprint(a.ID)
				d, err := w.Decide(context.Background(), a)
				if err == nil && d.Admitted {
					admitted.Add(1)
					_, err = w.Settle(context.Background(), a.Release())
				}
				if err != nil {
					failed.Add(1)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for flushing := true; flushing; {
		server.Do("SCRIPT", "FLUSH")
		select {
		case <-done:
			flushing = false
		default:
		}
	}
	if got, errs := admitted.Load(), failed.Load(); got != 200 || errs != 0 {
		t.Errorf("got %d admitted and %d errors, want 200 and none", got, errs)
	}
}

// Two instances on one server agree on the count, whatever happens at once.
func TestExactlyTheLimitAcrossInstances(t *testing.T) {
	server := valkeytest.Start(t)
	stores := []*watched{open(t, server.Addr(), nil), open(t, server.Addr(), nil)}
	rule, slots := *windowRule, *failRule
	rule.Limit, slots.Limit = 60, 50
	var admitted atomic.Int64
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			a := attempt("x", &rule, &slots)
			if i%2 == 0 {
				slices.Reverse(a.Charges)
			}
			if d, err := stores[i%2].Decide(context.Background(), a); err == nil && d.Admitted {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	if got := admitted.Load(); got != 50 {
		t.Errorf("got %d admitted, want 50", got)
	}
}

func TestEvictionPolicyIsWarnedOfOnce(t *testing.T) {
	const message = "store may evict live buckets: set maxmemory-policy to noeviction"
	for policy, want := range map[string]int{"noeviction": 0, "allkeys-lru": 1} {
		server := valkeytest.Start(t, valkeytest.Flag("maxmemory-policy", policy))
		w := open(t, server.Addr(), nil)
		probes := func() int64 { return server.Stats()["time"].Calls }
		for seen := probes(); probes() < seen+3; { // a few probes later
			w.health.resync()
		}
		if got := w.log.count(message); got != want {
			t.Errorf("%s: got %d warnings, want %d", policy, got, want)
		}
	}
}

// What operators ask for is bounded as well, and says that the store is out [A4].
func TestAdministrationOfAPausedServer(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), func(cfg *Config) { cfg.Timeout = budget })
	server.Pause()
	defer server.Resume()
	ctx := context.Background()
	var all sync.WaitGroup
	for name, call := range map[string]func() error{
		"entries": func() error { _, _, err := w.Entries(ctx, "", 10); return err },
		"clear":   func() error { _, err := w.Clear(ctx); return err },
		"release": func() error { _, err := w.Release(ctx, "f:f:target:realm:x"); return err },
		"mode":    func() error { return w.SetLogOnly(ctx, time.Hour) },
		"load":    func() error { _, err := w.Load(ctx, "n"); return err },
		"swap": func() error {
			_, err := w.Swap(ctx, nil, limits.Change{Key: "n", Text: "text", TTL: time.Hour})
			return err
		},
		"list":   func() error { _, _, err := w.List(ctx, "l", "", 10); return err },
		"secret": func() error { _, err := limits.KeptSecret(ctx, w, "s", []byte("mine")); return err },
	} {
		all.Go(func() {
			start := time.Now()
			if err := call(); !errors.Is(err, limits.ErrUnavailable) {
				t.Errorf("%s: got %v, want ErrUnavailable", name, err)
			}
			if took := time.Since(start); took > adminTimeout+time.Second {
				t.Errorf("%s took %s, want at most %s", name, took, adminTimeout)
			}
		})
	}
	all.Wait()
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	server := valkeytest.Start(t)
	before := runtime.NumGoroutine()
	for range 3 {
		w := open(t, server.Addr(), nil)
		w.admit(t, attempt("x", &limits.Rule{Policy: "wide", Dimension: limits.App, Limit: 100, Window: time.Hour}))
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	server.Kill()
	open(t, server.Addr(), withBudget).Close()
	valkeytest.Eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

// When the estimate of the server's clock is off, decisions fail rather than count late, and the clock is read again at once.
func TestWrongClockIsReadAgain(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), withBudget)
	w.health.clock.Store(&reading{server: limits.ToMillis(time.Now().Add(-time.Hour)), at: time.Now()})
	if _, err := w.Decide(context.Background(), attempt("x", windowRule)); !errors.Is(err, limits.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if got := server.Do("EXISTS", "gateway:r:w:source:realm:x"); got != int64(0) {
		t.Error("a decision after its deadline was made")
	}
	valkeytest.Eventually(t, "the right clock", func() bool {
		now, ok := w.health.serverNow()
		return ok && now > limits.ToMillis(time.Now().Add(-time.Minute))
	})
	w.admit(t, attempt("x", windowRule))
}

// Only failures in a row open the breaker: an answer, or a probe that is answered, begins the count anew.
func TestBreakerCountsInARow(t *testing.T) {
	var told []bool
	s := &Store{cfg: Config{
		Logger: slog.New(slog.DiscardHandler),
		Events: Events{Degraded: func(on bool) { told = append(told, on) }},
	}}
	h := newHealth(s)
	h.isOpen.Store(false)
	cause := errors.New("no answer")
	for name, good := range map[string]func(){"an answer": h.answered, "a probe": func() { h.back(context.Background()) }} {
		for range 5 {
			for range tripAfter - 1 {
				h.failed(cause)
			}
			good()
		}
		if h.open() {
			t.Errorf("%s in between: the breaker is open all the same", name)
		}
	}
	for n := range 2 * tripAfter {
		h.failed(cause)
		if got, want := h.open(), n+1 >= tripAfter; got != want {
			t.Errorf("after %d failures in a row: open %t, want %t", n+1, got, want)
		}
	}
	h.back(context.Background())
	if h.open() || !slices.Equal(told, []bool{true, false}) {
		t.Errorf("open: %t, told: %v", h.open(), told)
	}
	h.failed(cause)
	if h.open() {
		t.Error("one failure after recovery opens it again")
	}
}
