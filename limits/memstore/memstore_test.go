package memstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

var (
	window  = &limits.Rule{Policy: "w", Dimension: limits.Source, Limit: 3, Window: time.Hour}
	tokens  = &limits.Rule{Policy: "t", Dimension: limits.Client, Limit: 60, Window: time.Hour, Burst: 3}
	failing = &limits.Rule{Policy: "f", Class: limits.Failures, Dimension: limits.Target, Limit: 3, Window: time.Hour}
	locking = &limits.Rule{
		Policy: "l", Class: limits.Failures, Dimension: limits.TargetSource, Limit: 1, Window: time.Hour,
		Lockout: limits.Lockout{Base: time.Hour, Max: time.Hour},
	}
)

// ids of attempts in this package's tests.
var ids atomic.Uint64

// attempt is an attempt on one bucket of each rule, for one value.
func attempt(value string, rules ...*limits.Rule) *limits.Attempt {
	a := &limits.Attempt{ID: ids.Add(1)}
	for _, r := range rules {
		a.Charges = append(a.Charges, limits.Charge{Rule: r, Key: limits.NewScope(r, "realm").Key(value)})
	}
	return a
}

func decide(t testing.TB, s *memstore.Store, a *limits.Attempt) limits.Decision {
	t.Helper()
	d, err := s.Decide(context.Background(), a)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// settle closes all failure buckets of an attempt in one way.
func settle(t testing.TB, s *memstore.Store, a *limits.Attempt, do limits.Action) limits.Settled {
	t.Helper()
	st := a.Release()
	for i := range st.Closings {
		st.Closings[i].Do = do
	}
	out, err := s.Settle(context.Background(), st)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fail makes an attempt fail and reports whether it was admitted.
func fail(t testing.TB, s *memstore.Store, value string, rules ...*limits.Rule) bool {
	t.Helper()
	a := attempt(value, rules...)
	if !decide(t, s, a).Admitted {
		return false
	}
	settle(t, s, a, limits.Count)
	return true
}

func bubble(t *testing.T, entries int, test func(*testing.T, *memstore.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Config{MaxEntries: entries})
		defer s.Close()
		test(t, s)
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	})
}

func TestBound(t *testing.T) {
	const most = 2048
	for _, tt := range []struct {
		rule    *limits.Rule
		inserts int
	}{{window, 100_000}, {tokens, 10_000}, {failing, 10_000}} {
		t.Run(tt.rule.Policy, func(t *testing.T) {
			bubble(t, most, func(t *testing.T, s *memstore.Store) {
				for i := range tt.inserts {
					if !fail(t, s, fmt.Sprint(i), tt.rule) {
						t.Fatalf("value %d was refused", i)
					}
				}
				if st := s.Stats(); st.Entries > most || st.Entries < most/2 || st.Coarse != 0 {
					t.Errorf("got %+v, want nearly %d entries", st, most)
				}
			})
		})
	}
}

func TestBoundIsRaisedToTheLeast(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *memstore.Store) {
		for i := range 3 * memstore.MinEntries {
			decide(t, s, attempt(fmt.Sprint(i), window))
		}
		if got := s.Stats().Entries; got != memstore.MinEntries {
			t.Errorf("got %d entries, want %d", got, memstore.MinEntries)
		}
	})
}

// Logs weigh: few buckets with many failures reach the bound as well.
func TestBoundWeighsLogs(t *testing.T) {
	rule := &limits.Rule{Policy: "big", Class: limits.Failures, Dimension: limits.Source, Limit: 100, Window: time.Hour}
	bubble(t, memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
		for i := range 400 {
			for range 100 {
				fail(t, s, fmt.Sprint(i), rule)
			}
			if weight, limit := s.Weight(); weight > limit {
				t.Fatalf("after %d buckets: they weigh %d, want at most %d", i+1, weight, limit)
			}
		}
		// One bucket weighs 1 + 100/8.
		if got, want := s.Stats().Entries, int64(memstore.MinEntries/13); got > want || got < want-2 {
			t.Errorf("got %d entries, want about %d", got, want)
		}
	})
}

func TestReservationsWeigh(t *testing.T) {
	rule := &limits.Rule{Policy: "big", Class: limits.Failures, Dimension: limits.Source, Limit: 1000, Window: time.Hour}
	bubble(t, memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
		for range 1000 {
			decide(t, s, attempt("x", rule))
		}
		if got, _ := s.Weight(); got != 1+1000/4 {
			t.Errorf("1000 reservations weigh %d, want %d", got, 1+1000/4)
		}
	})
}

func TestLocksAndReservationsOutliveAFlood(t *testing.T) {
	bubble(t, 2048, func(t *testing.T, s *memstore.Store) {
		const n = 100
		var open []*limits.Attempt
		for i := range n {
			fail(t, s, fmt.Sprint("locked", i), locking)
			a := attempt(fmt.Sprint("open", i), failing)
			decide(t, s, a)
			open = append(open, a)
		}
		for i := range 100_000 {
			decide(t, s, attempt(fmt.Sprint(i), window))
		}
		for i := range n {
			if decide(t, s, attempt(fmt.Sprint("locked", i), locking)).Admitted {
				t.Errorf("lock %d was dropped", i)
			}
			if out := settle(t, s, open[i], limits.Count); !out.Effects[0].Counted {
				t.Errorf("reservation %d was dropped", i)
			}
		}
		if got := s.Stats(); got.Coarse != 0 || got.Pinned < n {
			t.Errorf("got %+v, want no coarse bucket and %d locks", got, n)
		}
	})
}

// fill fills every shard of a store with locks.
func fill(t *testing.T, s *memstore.Store) {
	t.Helper()
	_, limit := s.Weight()
	for i := range 3 * limit {
		fail(t, s, fmt.Sprint("lock", i), locking)
	}
	if got := s.Stats(); got.Coarse == 0 || got.Pinned != int64(limit) {
		t.Fatalf("got %+v, want %d locks and not one more", got, limit)
	}
}

func TestNewcomersShareWhenAllIsLocked(t *testing.T) {
	const shards, coarse = 2, 16
	for _, rule := range []*limits.Rule{window, tokens, failing} {
		t.Run(rule.Policy, func(t *testing.T) {
			bubble(t, shards*memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
				fill(t, s)
				before := s.Stats()
				admitted := 0
				for i := range 10_000 {
					if fail(t, s, fmt.Sprint("newcomer", i), rule) {
						admitted++
					}
				}
				// Each shared bucket has the room of one.
				if want := shards * coarse * 3; admitted != want {
					t.Errorf("got %d admitted, want %d", admitted, want)
				}
				after := s.Stats()
				if got := after.Coarse - before.Coarse; got < int64(admitted) {
					t.Errorf("got %d charges to coarse buckets, want at least %d", got, admitted)
				}
				if got := after.Entries - before.Entries; got > shards*coarse {
					t.Errorf("got %d buckets more, want at most %d", got, shards*coarse)
				}
			})
		})
	}
}

func TestNewcomersShareRoomAndVerdicts(t *testing.T) {
	bubble(t, memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
		fill(t, s)
		a := attempt("newcomer", failing)
		decide(t, s, a)
		if err := s.Renew(context.Background(), a); err != nil {
			t.Fatal(err)
		}
		if out := settle(t, s, a, limits.Count); !out.Effects[0].Counted {
			t.Errorf("got %+v, want a failure counted in the shared bucket", out.Effects[0])
		}
		if out := settle(t, s, a, limits.Count); out.Effects[0] != (limits.Effect{}) {
			t.Errorf("settled again: got %+v, want nothing", out.Effects[0])
		}
		q := attempt("asker", window)
		q.Quotas = true
		first := decide(t, s, q).Quotas[0].Remaining
		if second := decide(t, s, q).Quotas[0].Remaining; first != 2 || second != 1 {
			t.Errorf("got %d and then %d left, want 2 and 1", first, second)
		}
	})
}

// A reservation in a shared bucket is found although its own bucket was made meanwhile.
func TestVerdictOfASharedBucketFindsIt(t *testing.T) {
	short := *locking
	short.Lockout = limits.Lockout{Base: time.Second, Max: time.Second}
	bubble(t, memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
		for i := 0; s.Stats().Coarse == 0; i++ {
			fail(t, s, fmt.Sprint("lock", i), &short)
		}
		shared := attempt("newcomer", failing)
		decide(t, s, shared)
		time.Sleep(2 * time.Second) // all locks have ended
		own := attempt("newcomer", failing)
		decide(t, s, own)
		for _, a := range []*limits.Attempt{shared, own} {
			if out := settle(t, s, a, limits.Count); !out.Effects[0].Counted {
				t.Errorf("attempt %d: got %+v, want it counted", a.ID, out.Effects[0])
			}
		}
	})
}

// With the same password tried on many targets, a shared memory of wrong secrets would free every guess but the first.
func TestRepetitionsAreNotShared(t *testing.T) {
	bubble(t, memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
		fill(t, s)
		wide := *failing
		wide.Limit = 1000
		for i := range 100 {
			a := attempt(fmt.Sprint("newcomer", i), &wide)
			decide(t, s, a)
			st := a.Release()
			st.Closings[0].Do, st.Closings[0].Repeat = limits.Count, 1
			st.Repeats = []limits.RepeatCheck{{Key: "s" + a.Charges[0].Key, Sum: 42, Window: time.Hour}}
			out, err := s.Settle(context.Background(), st)
			if err != nil {
				t.Fatal(err)
			}
			if out.Repeated[0] || !out.Effects[0].Counted {
				t.Fatalf("newcomer %d: got %+v, want the failure counted", i, out)
			}
		}
	})
}

func TestLocksAreNotAdoptedIntoSharedBuckets(t *testing.T) {
	bubble(t, memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
		fill(t, s)
		for i := range 100 {
			s.Adopt(failing, limits.NewScope(failing, "realm").Key(fmt.Sprint("elsewhere", i)), 60_000, 1)
		}
		for i := range 100 {
			a := attempt(fmt.Sprint("newcomer", i), failing)
			if !decide(t, s, a).Admitted {
				t.Fatalf("newcomer %d is locked out for somebody else", i)
			}
			settle(t, s, a, limits.Free)
		}
	})
}

func TestCloseTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // panics if the sweeper is left behind
		s := memstore.New(memstore.Config{})
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Of many attempts at once on the same buckets, named in different orders, exactly as many are admitted as there is room.
func TestExactlyTheLimitInParallel(t *testing.T) {
	const parallel = 1000
	limited := func(policy string, limit int, change func(*limits.Rule)) *limits.Rule {
		r := &limits.Rule{Policy: policy, Dimension: limits.Target, Limit: limit, Window: time.Hour}
		change(r)
		return r
	}
	tests := []struct {
		name  string
		rules []*limits.Rule
		want  int
	}{
		{"windows", []*limits.Rule{limited("a", 100, func(*limits.Rule) {}), limited("b", 70, func(*limits.Rule) {}), limited("c", 500, func(*limits.Rule) {})}, 70},
		{"tokens", []*limits.Rule{limited("a", 1, func(r *limits.Rule) { r.Burst = 60 }), limited("b", 70, func(*limits.Rule) {})}, 60},
		{"failures", []*limits.Rule{limited("a", 50, func(r *limits.Rule) { r.Class = limits.Failures }), limited("b", 60, func(*limits.Rule) {})}, 50},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := memstore.New(memstore.Config{MaxEntries: 1 << 16})
			defer s.Close()
			var admitted atomic.Int64
			var all sync.WaitGroup
			start := make(chan struct{})
			for i := range parallel {
				a := attempt("x", tt.rules...)
				for n := range a.Charges { // in another order
					other := (n + i) % len(a.Charges)
					a.Charges[n], a.Charges[other] = a.Charges[other], a.Charges[n]
				}
				all.Go(func() {
					<-start
					if d, err := s.Decide(context.Background(), a); err == nil && d.Admitted {
						admitted.Add(1)
					}
					_ = s.Renew(context.Background(), a)
					if i%2 == 0 {
						_, _ = s.Settle(context.Background(), &limits.Settlement{ID: a.ID, Closings: nil})
					}
					_, _, _ = s.Entries(context.Background(), "", 10)
				})
			}
			close(start)
			all.Wait()
			if got := admitted.Load(); got != int64(tt.want) {
				t.Errorf("got %d admitted, want %d", got, tt.want)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Everything at once, at the bound, for the race detector and the lists' sake.
func TestAllAtOnceAtTheBound(t *testing.T) {
	s := memstore.New(memstore.Config{MaxEntries: 2 * memstore.MinEntries})
	defer s.Close()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 2000 {
				a := attempt(fmt.Sprint(i*(g%3+1)), window, tokens, failing, locking)
				d := decide(t, s, a)
				if i%7 == 0 {
					_ = s.Renew(context.Background(), a)
				}
				if d.Admitted && i%3 > 0 {
					settle(t, s, a, limits.Action(i%5))
				}
				switch i % 500 {
				case 100:
					_, _, _ = s.Entries(context.Background(), "", 100)
				case 200:
					_, _ = s.Release(context.Background(), a.Charges[3].Key)
				case 300:
					_, _ = s.Clear(context.Background())
				case 400:
					s.Stats()
				}
			}
		})
	}
	all.Wait()
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if st := s.Stats(); st.Entries > 2*memstore.MinEntries+16*8 {
		t.Errorf("got %+v, want a bounded number of entries", st)
	}
}
