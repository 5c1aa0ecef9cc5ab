package limits_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

// rule is a failure rule of a policy "login".
func rule(d limits.Dimension, limit int, edit ...func(*limits.Rule)) *limits.Rule {
	r := &limits.Rule{Policy: "login", Class: limits.Failures, Dimension: d, Limit: limit, Window: time.Hour, PrefixV4: 32, PrefixV6: 64}
	for _, e := range edit {
		e(r)
	}
	return r
}

func locking(r *limits.Rule) { r.Lockout = limits.Lockout{Base: time.Minute, Max: time.Hour} }

func windowed(d time.Duration) func(*limits.Rule) { return func(r *limits.Rule) { r.Window = d } }

func requestRule(limit int) *limits.Rule {
	return &limits.Rule{Policy: "login", Dimension: limits.Source, Limit: limit, Window: time.Hour}
}

func key(r *limits.Rule, value string) string { return limits.NewScope(r, "default").Key(value) }

// attempt is one that touches the buckets of one value.
func attempt(value string, rules ...*limits.Rule) *limits.Attempt {
	a := &limits.Attempt{}
	for _, r := range rules {
		a.Charges = append(a.Charges, limits.Charge{Rule: r, Key: key(r, value)})
	}
	return a
}

// verdict closes every bucket of an attempt in the same way.
func verdict(a *limits.Attempt, do limits.Action) *limits.Settlement {
	s := &limits.Settlement{}
	for _, c := range a.Charges {
		s.Closings = append(s.Closings, limits.Closing{Rule: c.Rule, Key: c.Key, Do: do})
	}
	return s
}

// inBubble runs a test in virtual time with a limiter over a store in memory.
func inBubble(t *testing.T, test func(*testing.T, *limits.Limiter, *memstore.Store)) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{MaxEntries: 100_000})
		defer store.Close()
		test(t, limits.NewLimiter(store), store)
	})
}

// admit decides an attempt that must be admitted.
func admit(t *testing.T, l *limits.Limiter, a *limits.Attempt) *limits.Reservation {
	t.Helper()
	d, r, err := l.Decide(t.Context(), a, 0)
	if err != nil || !d.Admitted {
		t.Fatalf("got %+v, %v; want admission", d, err)
	}
	return r
}

func TestReservation(t *testing.T) {
	inBubble(t, func(t *testing.T, l *limits.Limiter, _ *memstore.Store) {
		r := rule(limits.Target, 1)
		a := attempt("bob", r, requestRule(10))
		reservation := admit(t, l, a)
		if a.ID == 0 || reservation.Attempt() != a {
			t.Error("the attempt has no id, or the reservation another attempt")
		}
		if d, none, _ := l.Decide(t.Context(), attempt("bob", r), 0); d.Admitted || none != nil || d.Refusals[0].Cause != limits.Held {
			t.Errorf("got %+v beside a reservation, want it held", d)
		}
		reservation.Release()
		reservation.Release() // once counts
		if err := l.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		reservation = admit(t, l, attempt("bob", r))
		var told []limits.Settled
		reservation.Settle(verdict(reservation.Attempt(), limits.Count), func(s limits.Settled) { told = append(told, s) })
		reservation.Settle(verdict(reservation.Attempt(), limits.Clear), func(s limits.Settled) { told = append(told, s) })
		reservation.Release()
		if len(told) != 1 || !told[0].Effects[0].Counted {
			t.Errorf("got %+v told, want one failure", told)
		}
		if d, _, _ := l.Decide(t.Context(), attempt("bob", r), 0); d.Admitted || d.Refusals[0].Cause != limits.Full {
			t.Errorf("got %+v after a failure, want it full", d)
		}
		if d, none, err := l.Decide(t.Context(), attempt("bob", requestRule(10)), 0); err != nil || !d.Admitted || none != nil {
			t.Errorf("got %+v, %v, %v without failure rules, want admission without a reservation", d, none, err)
		}
		var nobody *limits.Reservation // what a caller holds who has nothing to settle
		nobody.Settle(&limits.Settlement{}, nil)
		nobody.SettleLater(&limits.Settlement{}, nil)
		nobody.Release()
		if nobody.Attempt() != nil {
			t.Error("nobody's attempt is not nil")
		}
	})
}

// The lease of an attempt in flight is renewed as long as that takes, and not longer [L6].
func TestRenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, l *limits.Limiter, store *memstore.Store) {
		short, long := rule(limits.Target, 1, windowed(time.Second)), rule(limits.Source, 1) // leases of 5 and 60 s
		reservation := admit(t, l, attempt("bob", short, long))
		held := func(r *limits.Rule) bool {
			d, _ := store.Decide(t.Context(), &limits.Attempt{Charges: attempt("bob", r).Charges})
			return !d.Admitted && d.Refusals[0].Cause == limits.Held
		}
		for range 100 {
			time.Sleep(3 * time.Second)
			if !held(short) || !held(long) {
				t.Fatal("a reservation in flight has lost its slot")
			}
		}
		reservation.Settle(verdict(reservation.Attempt(), limits.Count), nil)
		time.Sleep(time.Second) // the window of the failure
		if held(short) || held(long) {
			t.Error("a settled reservation holds a slot")
		}
	})
}

// asking counts what a store is asked.
type asking struct {
	*memstore.Store
	decided, renewed atomic.Int32
	fail             atomic.Bool
}

func (s *asking) Decide(ctx context.Context, a *limits.Attempt) (limits.Decision, error) {
	s.decided.Add(1)
	if s.fail.Load() {
		return limits.Decision{}, limits.ErrUnavailable
	}
	return s.Store.Decide(ctx, a)
}

func (s *asking) Renew(ctx context.Context, a *limits.Attempt) error {
	s.renewed.Add(1)
	if s.fail.Load() {
		return limits.ErrUnavailable
	}
	return s.Store.Renew(ctx, a)
}

// A renewal that fails is tried again, and none is made once the verdict is there.
func TestRenewalThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &asking{Store: memstore.New(memstore.Config{})}
		defer store.Close()
		l := limits.NewLimiter(store)
		reservation := admit(t, l, attempt("bob", rule(limits.Target, 1)))
		store.fail.Store(true)
		time.Sleep(40 * time.Second) // two renewals are lost
		store.fail.Store(false)
		time.Sleep(45 * time.Second)
		if d, _, _ := l.Decide(t.Context(), attempt("bob", rule(limits.Target, 1)), 0); d.Admitted {
			t.Error("the slot was lost with two renewals")
		}
		reservation.Release()
		n := store.renewed.Load()
		time.Sleep(time.Hour)
		if got := store.renewed.Load(); got != n || n < 4 {
			t.Errorf("got %d renewals, and %d after the end", n, got-n)
		}
	})
}

// Waiting asks again when a verdict is settled here, or after a pause; it holds nothing meanwhile, and not for ever [L8].
func TestWaiting(t *testing.T) {
	const wait = 2 * time.Second
	for _, test := range []struct {
		name     string
		settle   limits.Action // of the attempt in the way, after 100 ms
		rule     *limits.Rule
		admitted bool
		cause    limits.Cause
		took     time.Duration
	}{
		{"a slot that is given back", limits.Free, rule(limits.Target, 1), true, limits.Room, 100 * time.Millisecond},
		{"a failure", limits.Count, rule(limits.Target, 1), false, limits.Full, 100 * time.Millisecond},
		{"a lock", limits.Count, rule(limits.Target, 1, locking), false, limits.Locked, 100 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *limits.Limiter, _ *memstore.Store) {
				first := admit(t, l, attempt("bob", test.rule))
				time.AfterFunc(100*time.Millisecond, func() { first.Settle(verdict(first.Attempt(), test.settle), nil) })
				began := time.Now()
				d, r, err := l.Decide(t.Context(), attempt("bob", test.rule), wait)
				if err != nil || d.Admitted != test.admitted || time.Since(began) != test.took {
					t.Errorf("got %+v, %v after %v; want %v after %v", d, err, time.Since(began), test.admitted, test.took)
				}
				if !test.admitted && (d.Refusals[0].Cause != test.cause || r != nil) {
					t.Errorf("got %+v, want %v", d.Refusals, test.cause)
				}
			})
		})
	}
	t.Run("another instance settles", func(t *testing.T) {
		inBubble(t, func(t *testing.T, l *limits.Limiter, store *memstore.Store) {
			r := rule(limits.Target, 1)
			other := limits.NewLimiter(store) // whose settlements wake nobody here
			reservation := admit(t, other, attempt("bob", r))
			time.AfterFunc(time.Second, reservation.Release)
			began := time.Now()
			d, _, _ := l.Decide(t.Context(), attempt("bob", r), wait)
			if took := time.Since(began); !d.Admitted || took < time.Second || took > time.Second+250*time.Millisecond {
				t.Errorf("got %+v after %v, want admission within 250ms of the release", d, took)
			}
		})
	})
	t.Run("a failure that leaves the bucket held", func(t *testing.T) {
		inBubble(t, func(t *testing.T, l *limits.Limiter, _ *memstore.Store) {
			r := rule(limits.Target, 2)
			admit(t, l, attempt("bob", r))
			second := admit(t, l, attempt("bob", r))
			time.AfterFunc(100*time.Millisecond, func() { second.Settle(verdict(second.Attempt(), limits.Count), nil) })
			began := time.Now()
			d, _, _ := l.Decide(t.Context(), attempt("bob", r), wait)
			if d.Admitted || d.Refusals[0].Cause != limits.Held || time.Since(began) != wait {
				t.Errorf("got %+v after %v, want it held to the end", d, time.Since(began))
			}
		})
	})
	t.Run("no time to wait", func(t *testing.T) {
		inBubble(t, func(t *testing.T, l *limits.Limiter, _ *memstore.Store) {
			r := rule(limits.Target, 1)
			admit(t, l, attempt("bob", r))
			began := time.Now()
			if d, _, _ := l.Decide(t.Context(), attempt("bob", r), 0); d.Admitted || time.Since(began) != 0 {
				t.Errorf("got %+v after %v", d, time.Since(began))
			}
		})
	})
	t.Run("not only reservations are in the way", func(t *testing.T) {
		inBubble(t, func(t *testing.T, l *limits.Limiter, _ *memstore.Store) {
			r, full := rule(limits.Target, 1), requestRule(1)
			admit(t, l, attempt("bob", r, full))
			began := time.Now()
			if d, _, _ := l.Decide(t.Context(), attempt("bob", r, full), wait); d.Admitted || time.Since(began) != 0 {
				t.Errorf("got %+v after %v", d, time.Since(began))
			}
		})
	})
	t.Run("a bucket in log-only is not waited for", func(t *testing.T) {
		inBubble(t, func(t *testing.T, l *limits.Limiter, _ *memstore.Store) {
			r, quiet := rule(limits.Target, 1), rule(limits.Source, 1)
			quiet.Policy = "quiet"
			admit(t, l, attempt("bob", quiet))
			reservation := admit(t, l, attempt("bob", r))
			time.AfterFunc(100*time.Millisecond, reservation.Release)
			a := attempt("bob", quiet, r)
			a.Charges[0].LogOnly = true
			began := time.Now()
			if d, _, _ := l.Decide(t.Context(), a, wait); !d.Admitted || time.Since(began) != 100*time.Millisecond {
				t.Errorf("got %+v after %v, want admission at the release", d, time.Since(began))
			}
		})
	})
	t.Run("the store fails meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &asking{Store: memstore.New(memstore.Config{})}
			defer store.Close()
			l := limits.NewLimiter(store)
			r := rule(limits.Target, 1)
			admit(t, l, attempt("bob", r))
			time.AfterFunc(time.Second, func() { store.fail.Store(true) })
			if _, _, err := l.Decide(t.Context(), attempt("bob", r), wait); !errors.Is(err, limits.ErrUnavailable) {
				t.Errorf("got %v, want the store's error", err)
			}
			if n := store.decided.Load(); n < 5 || n > 40 { // 25 ms at first, 250 ms at the most
				t.Errorf("the store was asked %d times in a second", n)
			}
		})
	})
}

// The waiting room is bounded: 64 a bucket, 1024 in all [L8].
func TestWaitingRoomIsBounded(t *testing.T) {
	for _, test := range []struct {
		name             string
		buckets, waiting int // so many buckets, and so many who wait for each
		stay             int
	}{
		{"one bucket", 1, 64, 64},
		{"one too many for a bucket", 1, 65, 64},
		{"sixteen buckets", 16, 64, 1024},
		{"one too many for the room", 17, 61, 1024},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *limits.Limiter, _ *memstore.Store) {
				r := rule(limits.Target, 1)
				var done sync.WaitGroup
				var stayed, turned atomic.Int32
				for b := range test.buckets {
					name := fmt.Sprint("u", b)
					admit(t, l, attempt(name, r))
					for range test.waiting {
						done.Go(func() {
							began := time.Now()
							if d, _, _ := l.Decide(t.Context(), attempt(name, r), 10*time.Millisecond); d.Admitted || d.Refusals[0].RetryAfter() != 1 {
								t.Errorf("got %+v", d)
							}
							if time.Since(began) == 0 {
								turned.Add(1)
							} else {
								stayed.Add(1)
							}
						})
					}
				}
				done.Wait()
				if all := test.buckets * test.waiting; int(stayed.Load()) != test.stay || int(turned.Load()) != all-test.stay {
					t.Errorf("%d waited and %d were turned away of %d, want %d to wait", stayed.Load(), turned.Load(), all, test.stay)
				}
			})
		})
	}
}

// Who hangs up while waiting leaves nothing behind: neither a place in the room nor a charge.
func TestWaitingIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, l *limits.Limiter, store *memstore.Store) {
		r := rule(limits.Target, 1)
		first := admit(t, l, attempt("bob", r))
		for range 17 { // more than the room holds
			ctx, hangUp := context.WithCancel(t.Context())
			var done sync.WaitGroup
			for range 64 { // all places of the bucket
				done.Go(func() {
					came := time.Now()
					d, reservation, err := l.Decide(ctx, attempt("bob", r), time.Hour)
					if d.Admitted || reservation != nil || err != nil || time.Since(came) != time.Second {
						t.Errorf("got %+v, %v after %v; want it given up after a second", d, err, time.Since(came))
					}
				})
			}
			time.Sleep(time.Second)
			began := time.Now()
			hangUp()
			done.Wait()
			if took := time.Since(began); took != 0 {
				t.Errorf("giving up took %v", took)
			}
		}
		first.Release()
		_ = l.Wait(t.Context())
		if n := store.Stats().Pinned; n != 0 {
			t.Errorf("got %d buckets with reservations, want none", n)
		}
		admit(t, l, attempt("bob", r))
	})
}

// Who has hung up is not let in by the slot that becomes free in the same moment.
func TestWaitingIsGivenUpTooLate(t *testing.T) {
	for range 20 {
		inBubble(t, func(t *testing.T, l *limits.Limiter, _ *memstore.Store) {
			r := rule(limits.Target, 1)
			first := admit(t, l, attempt("bob", r))
			ctx, hangUp := context.WithCancel(t.Context())
			var done sync.WaitGroup
			done.Go(func() {
				if d, _, _ := l.Decide(ctx, attempt("bob", r), time.Hour); d.Admitted {
					t.Error("somebody who has hung up was let in")
				}
			})
			synctest.Wait()
			hangUp()
			first.Settle(verdict(first.Attempt(), limits.Free), nil)
			done.Wait()
		})
	}
}

// Wait ends with the last settlement, or with the caller's patience.
func TestWaitForSettlements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: memstore.New(memstore.Config{})}
		defer store.Close()
		l := limits.NewLimiter(store)
		if err := l.Wait(t.Context()); err != nil {
			t.Errorf("got %v with nothing to wait for", err)
		}
		reservation := admit(t, l, attempt("bob", rule(limits.Target, 1)))
		reservation.SettleLater(verdict(reservation.Attempt(), limits.Count), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want it to give up", err)
		}
		began := time.Now()
		if err := l.Wait(t.Context()); err != nil || time.Since(began) != 9*time.Second {
			t.Errorf("got %v after %v, want the settlement's end", err, time.Since(began))
		}
	})
}

// slow takes ten seconds to settle.
type slow struct{ *memstore.Store }

func (s *slow) Settle(ctx context.Context, st *limits.Settlement) (limits.Settled, error) {
	time.Sleep(10 * time.Second)
	return s.Store.Settle(ctx, st)
}

func TestKillSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k limits.KillSwitch
		if k.LogOnlyFor() != 0 {
			t.Error("the zero value is on")
		}
		_ = k.SetLogOnly(t.Context(), time.Minute)
		time.Sleep(20 * time.Second)
		if got := k.LogOnlyFor(); got != 40*time.Second {
			t.Errorf("got %v left, want 40s", got)
		}
		time.Sleep(time.Minute)
		if got := k.LogOnlyFor(); got != 0 {
			t.Errorf("got %v left, want it over", got)
		}
		_ = k.SetLogOnly(t.Context(), time.Minute)
		_ = k.SetLogOnly(t.Context(), 0)
		if got := k.LogOnlyFor(); got != 0 {
			t.Errorf("got %v left, want it off", got)
		}
	})
}
