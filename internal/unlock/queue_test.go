package unlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/notify"
	"authgate/limits"
	"authgate/limits/memstore"
	"authgate/limits/storetest"
)

// line is the way from a process to the store, which may be cut, or be slow.
type line struct {
	limits.Records
	cut  atomic.Bool
	hang atomic.Bool                  // until the caller gives up
	hook atomic.Pointer[func(string)] // before each call
}

var errCut = errors.New("cut")

func (l *line) pass(ctx context.Context, call string) error {
	if hook := l.hook.Load(); hook != nil {
		(*hook)(call)
	}
	if l.hang.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if l.cut.Load() {
		return errCut
	}
	return nil // even if the caller has given up: what was sent arrives
}

func (l *line) Load(ctx context.Context, keys ...string) ([]string, error) {
	if err := l.pass(ctx, "load"); err != nil {
		return nil, err
	}
	return l.Records.Load(ctx, keys...)
}

func (l *line) Swap(ctx context.Context, was []limits.Kept, changes ...limits.Change) (bool, error) {
	if err := l.pass(ctx, "swap"); err != nil {
		return false, err
	}
	return l.Records.Swap(ctx, was, changes...)
}

func (l *line) List(ctx context.Context, index, cursor string, limit int) ([]string, string, error) {
	if err := l.pass(ctx, "list"); err != nil {
		return nil, "", err
	}
	return l.Records.List(ctx, index, cursor, limit)
}

func user(i int) string { return fmt.Sprintf("user%d@example.org", i) }

// Two services on one store send each notice once, whoever was told.
func TestTwoServices(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		o := &outbox{answer: func(_ context.Context, n int) error {
			time.Sleep(time.Duration(n%7) * time.Second)
			if n%3 == 0 {
				return &notify.Failure{Cause: "not now"}
			}
			return nil
		}}
		a, b := open(t, store, o, nil), open(t, store, o, nil)
		for i := range 60 {
			a.Filled("acme", "login", user(i), window)
			b.Filled("acme", "login", user(i), window)
		}
		pass(10 * time.Minute)
		seen := map[string]int{}
		for _, n := range o.sent {
			seen[n.claim.Target]++
		}
		for i := range 60 {
			if seen[user(i)] != 1 {
				t.Errorf("%s got %d notices, want 1", user(i), seen[user(i)])
			}
		}
		if o.most > 2*maxSenders || o.most < 2 {
			t.Errorf("got %d tries at a time", o.most)
		}
	})
}

// What waits outlives the process: after an orderly end the next one goes on, as the same delivery.
func TestRestart(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		o := &outbox{answer: failing(notify.Failure{Cause: "not now"})}
		a := open(t, store, o, nil)
		a.Filled("acme", "login", user(1), window)
		pass(time.Minute)
		a.Close()
		o.respond(nil)
		open(t, store, o, nil)
		pass(2 * time.Minute)
		if len(o.sent) != 1 || o.sent[0].id != o.tried[0].id || o.sent[0].claim.Policy != "login" {
			t.Errorf("got %+v after %d tries", o.sent, len(o.tried))
		}
	})
}

// A try under way at the end has a moment; one that needs longer is broken off and left to the next process, at once.
func TestClose(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		o := &outbox{answer: func(context.Context, int) error { time.Sleep(time.Second); return nil }}
		a := open(t, store, o, nil)
		a.Filled("acme", "login", user(1), window)
		synctest.Wait()
		begin := time.Now()
		a.Close()
		if sent, _ := o.counts(); sent != 1 || time.Since(begin) != time.Second || a.counted(Sent) != 1 || len(listed(t, store)) != 0 {
			t.Errorf("got %d sent after %s, %v", sent, time.Since(begin), a.results)
		}

		o.respond(never)
		b := open(t, store, o, nil)
		b.Filled("acme", "login", user(2), window)
		synctest.Wait()
		begin = time.Now()
		b.Close()
		if d := time.Since(begin); d > drainWithin+abortWithin {
			t.Errorf("closing took %s", d)
		}
		b.Close() // again
		o.respond(nil)
		open(t, store, o, nil)
		synctest.Wait()
		if sent, _ := o.counts(); sent != 2 {
			t.Errorf("got %d sent, want the next process to go on at once", sent)
		}
	})
}

// Fills that nobody has looked at yet become jobs at the end.
func TestCloseKeepsFills(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		l := &line{Records: store}
		l.hang.Store(true)
		o := &outbox{}
		a := open(t, l, o, nil)
		for i := range 10 {
			a.Filled("acme", "login", user(i), window)
		}
		synctest.Wait() // the first hangs
		l.hang.Store(false)
		a.Close()
		open(t, store, o, nil)
		pass(time.Minute)
		if sent, _ := o.counts(); sent < 9 {
			t.Errorf("got %d sent, want all but the one that hung", sent)
		}
	})
}

// Not even a store that heeds no context holds up the end.
func TestCloseWithADeafStore(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		l := &line{Records: store}
		release := make(chan struct{})
		hook := func(string) { <-release }
		l.hook.Store(&hook)
		a := open(t, l, &outbox{}, nil)
		synctest.Wait()
		begin := time.Now()
		a.Close()
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("closing took %s", d)
		}
		close(release)
	})
}

// A process that is killed leaves what waits to others, after a while.
func TestKilledWhileWaiting(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		l := &line{Records: store}
		dead := &outbox{answer: failing(notify.Failure{Cause: "not now"})}
		a := open(t, l, dead, nil)
		a.Filled("acme", "login", user(1), window)
		synctest.Wait()
		l.cut.Store(true) // all that the others see of it
		o := &outbox{}
		open(t, store, o, nil)
		pass(2 * time.Second)
		if sent, _ := o.counts(); sent != 0 {
			t.Error("a job was taken away from an owner who had time left")
		}
		pass(grace + 2*adoptEvery)
		l.cut.Store(false) // it was only asleep
		dead.respond(nil)
		pass(window)
		if got, _ := o.counts(); got != 1 {
			t.Errorf("got %d sent by the other process, want 1", got)
		}
		if got, _ := dead.counts(); got != 0 {
			t.Error("the notice was sent twice")
		}
	})
}

// A process that is killed between sending and entering that sends for nobody else: what may have arrived is not sent again,
// and counts.
func TestKilledWhileSending(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		l := &line{Records: store}
		o := &outbox{arrived: func(notice) { l.cut.Store(true) }}
		a := open(t, l, o, nil)
		a.Filled("acme", "login", user(1), window)
		synctest.Wait()
		b := open(t, store, o, nil)
		pass(time.Minute)
		if n := len(listed(t, store)); n != 1 || b.counted(Unsure) != 0 {
			t.Errorf("got %d jobs, want the owner to have its time", n)
		}
		pass(time.Minute)
		if n := len(listed(t, store)); n != 0 || b.counted(Unsure) != 1 {
			t.Errorf("got %d jobs, %v", n, b.results)
		}
		b.Filled("acme", "login", user(1), window)
		pass(time.Minute)
		if _, tried := o.counts(); tried != 1 {
			t.Errorf("got %d tries, want 1", tried)
		}
		if text := b.log.String(); !strings.Contains(text, "interrupted") || strings.Contains(text, "example.org") {
			t.Errorf("got %s in the log", text)
		}
	})
}

// A store that is out for a moment after sending changes nothing.
func TestStoreOutAfterSending(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		l := &line{Records: store}
		o := &outbox{arrived: func(notice) {
			l.cut.Store(true)
			time.AfterFunc(2*time.Second, func() { l.cut.Store(false) })
		}}
		a := open(t, l, o, nil)
		a.Filled("acme", "login", user(1), window)
		pass(10 * time.Second)
		a.Filled("acme", "login", user(1), window)
		pass(window - 20*time.Second)
		if _, tried := o.counts(); tried != 1 || len(listed(t, store)) != 0 || a.counted(Sent) != 1 || a.counted(Unsure) != 0 {
			t.Errorf("got %d tries, %v", tried, a.results)
		}
	})
}

// A process that falls asleep between looking and changing sends nothing that another has sent meanwhile, whether it was about
// to make the job or to claim it.
func TestAsleep(t *testing.T) {
	for _, at := range []int{1, 2} {
		virtual(t, func(t *testing.T, store *memstore.Store) {
			l := &line{Records: store}
			oa, ob := &outbox{}, &outbox{}
			swaps := 0
			hook := func(call string) {
				if call == "swap" {
					if swaps++; swaps == at {
						time.Sleep(time.Minute)
					}
				}
			}
			l.hook.Store(&hook)
			a, b := open(t, l, oa, nil), open(t, store, ob, nil)
			a.Filled("acme", "login", user(1), window)
			synctest.Wait()
			b.Filled("acme", "login", user(1), window)
			pass(5 * time.Minute)
			sentA, _ := oa.counts()
			sentB, _ := ob.counts()
			if sentA != 0 || sentB != 1 {
				t.Errorf("asleep at change %d: got %d and %d sent, want 0 and 1", at, sentA, sentB)
			}
		})
	}
}

// While the shared store is out a notice is sent from what this process has, and not again when it is back.
func TestOutage(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		shared := storetest.NewFaulty(store)
		f := limits.NewFallback(shared, memstore.New(memstore.Config{}))
		t.Cleanup(func() { f.Close() })
		o := &outbox{answer: func(_ context.Context, n int) error {
			if n == 0 {
				shared.Always(storetest.Before)
				return &notify.Failure{Cause: "not now"}
			}
			return nil
		}}
		a := open(t, f, o, nil)
		a.Filled("acme", "login", user(1), window) // begun before
		pass(10 * time.Second)
		a.Filled("acme", "login", user(2), window) // begun meanwhile
		pass(10 * time.Second)
		if sent, tried := o.counts(); sent != 2 || tried != 3 {
			t.Errorf("got %d sent in %d tries during the outage, want 2 in 3", sent, tried)
		}
		shared.Always(storetest.Works)
		open(t, f, o, nil) // a process that joins
		a.Filled("acme", "login", user(1), window)
		a.Filled("acme", "login", user(2), window)
		pass(window - time.Minute)
		if sent, tried := o.counts(); sent != 2 || tried != 3 {
			t.Errorf("got %d sent in %d tries after it, want no more", sent, tried)
		}
	})
}

// A notice that had to wait for others until its time was over is not sent any more.
func TestTooLate(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		o := &outbox{answer: never}
		a := open(t, store, o, func(c *Config) { c.LinkTTL = time.Minute })
		begin := time.Now()
		for i := range 30 {
			a.Filled("acme", "login", user(i), window)
		}
		pass(time.Hour)
		for _, at := range o.at {
			if at.Sub(begin) > time.Minute {
				t.Errorf("a try began after %s", at.Sub(begin))
			}
		}
		if a.counted(Failed) != 30 || len(listed(t, store)) != 0 {
			t.Errorf("got %v, %d jobs", a.results, len(listed(t, store)))
		}
	})
}

// A store that is out before a try puts it off; one that is out when a bucket fills costs the notice.
func TestStoreOutBeforeSending(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		l := &line{Records: store}
		o := &outbox{}
		a := open(t, l, o, nil)
		l.cut.Store(true)
		a.Filled("acme", "login", user(1), window)
		synctest.Wait()
		if a.counted(Dropped) != 1 {
			t.Errorf("got %v", a.results)
		}
		l.cut.Store(false)
		calls := 0
		hook := func(call string) {
			if calls++; calls == 3 { // load and swap make the job; then it is claimed
				l.cut.Store(true)
				time.AfterFunc(5*time.Second, func() { l.cut.Store(false) })
			}
		}
		l.hook.Store(&hook)
		a.Filled("acme", "login", user(1), window)
		synctest.Wait()
		if sent, _ := o.counts(); sent != 0 {
			t.Error("a notice was sent that nobody claimed")
		}
		pass(20 * time.Second)
		if sent, tried := o.counts(); sent != 1 || tried != 1 {
			t.Errorf("got %d sent in %d tries", sent, tried)
		}
	})
}

// Whatever the store and the way do, nobody waits for the service, and what it holds is bounded.
func TestBounds(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		l := &line{Records: store}
		l.hang.Store(true)
		o := &outbox{answer: never}
		a := open(t, l, o, nil)
		begin := time.Now()
		for i := range 3000 {
			a.Filled("acme", "login", user(i), window)
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("telling took %s", d)
		}
		if got := a.counted(Dropped); got < 3000-maxFills-1 {
			t.Errorf("got %d dropped", got)
		}
		l.hang.Store(false)
		for i := range 2000 {
			a.Filled("acme", "login", user(5000+i), window)
			synctest.Wait()
		}
		pass(5 * time.Second)
		if n := len(listed(t, store)); n != maxJobs || o.most != maxSenders {
			t.Errorf("got %d jobs, %d tries at a time", n, o.most)
		}
		b := open(t, store, o, nil)
		a.Close()
		pass(3 * adoptEvery)
		if n := len(listed(t, store)); n > maxJobs {
			t.Errorf("got %d jobs", n)
		}
		pass(window + lease + time.Minute)
		if n := len(listed(t, store)); n != 0 {
			t.Errorf("got %d jobs long after their time", n)
		}
		_ = b
	})
}

// A job that is not one, or that of another user, is thrown away.
func TestSpoiltJobs(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		j := job{ID: "x", Realm: "acme", Target: user(1), End: time.Now().Add(time.Hour).UnixMilli()}
		for i, text := range []string{"{", "null", "[]", encode(&j)} {
			change := limits.Change{Key: jobKey("acme", user(100+i)), Text: text, TTL: time.Hour, Index: jobsIndex}
			if _, err := store.Swap(context.Background(), nil, change); err != nil {
				t.Fatal(err)
			}
		}
		o := &outbox{}
		open(t, store, o, nil)
		pass(time.Minute)
		if _, tried := o.counts(); tried != 0 || len(listed(t, store)) != 0 {
			t.Errorf("got %d tries, jobs %v", tried, listed(t, store))
		}
	})
}
