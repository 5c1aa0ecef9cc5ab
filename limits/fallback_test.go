package limits_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
	"authgate/limits/storetest"
)

// pair is a shared store that fails on request, with a local one as its net.
type pair struct {
	*limits.Fallback
	shared *storetest.Faulty
	inside *memstore.Store // of shared
	local  *memstore.Store
}

func inPair(t *testing.T, test func(*testing.T, *pair)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{inside: memstore.New(memstore.Config{MaxEntries: 100_000}), local: memstore.New(memstore.Config{MaxEntries: 100_000})}
		p.shared = storetest.NewFaulty(p.inside)
		p.Fallback = limits.NewFallback(p.shared, p.local)
		defer func() {
			if err := p.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		}()
		test(t, p)
	})
}

var nextID uint64 = 1 << 63

// try decides an attempt as a request of its own.
func (p *pair) try(t *testing.T, a *limits.Attempt) limits.Decision {
	t.Helper()
	nextID++
	a.ID = nextID
	d, err := p.Decide(t.Context(), a)
	if err != nil {
		t.Fatalf("deciding: %v", err)
	}
	return d
}

// fail lets an attempt in and settles it as a failure.
func (p *pair) fail(t *testing.T, value string, rules ...*limits.Rule) limits.Settled {
	t.Helper()
	a := attempt(value, rules...)
	d := p.try(t, a)
	if !d.Admitted {
		t.Fatalf("got %+v, want admission", d)
	}
	s := verdict(a, limits.Count)
	s.ID, s.Alone = a.ID, d.Alone
	out, err := p.Settle(t.Context(), s)
	if err != nil {
		t.Fatalf("settling: %v", err)
	}
	return out
}

// While the shared store answers, its word is final, whatever the local one remembers [S4].
func TestSharedIsFinal(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		r := rule(limits.Target, 2, locking)
		p.fail(t, "bob", r)
		p.fail(t, "bob", r)
		if d := p.try(t, attempt("bob", r)); d.Admitted || d.Alone {
			t.Fatalf("got %+v, want the lock", d)
		}
		if _, err := p.inside.Release(t.Context(), key(r, "bob")); err != nil { // by another instance
			t.Fatal(err)
		}
		if d := p.try(t, attempt("bob", r)); !d.Admitted || d.Alone {
			t.Errorf("got %+v after a release elsewhere, want admission", d)
		}
		p.fail(t, "eve", r)
		if _, err := p.local.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.fail(t, "eve", r)
		if d := p.try(t, attempt("eve", r)); d.Admitted {
			t.Errorf("got %+v, want the shared store's lock", d)
		}
	})
}

// The local store keeps the account of what the shared one lets in, also where its own view would not.
func TestLocalFollows(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		full, open := requestRule(1), rule(limits.Target, 2)
		_, _ = p.local.Decide(t.Context(), attempt("bob", full))
		p.fail(t, "bob", full, open)
		p.shared.Always(storetest.Before)
		p.fail(t, "bob", open)
		if d := p.try(t, attempt("bob", open)); d.Admitted {
			t.Errorf("got %+v, want the failure from before to count", d)
		}
	})
}

// The local store ran alongside all the time: it knows what this instance let in, and the locks that it has heard of.
func TestLocalKnowsAsMuch(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		requests, failing, locks := requestRule(2), rule(limits.Target, 2), rule(limits.Source, 2, locking)
		p.try(t, attempt("counted", requests))
		p.fail(t, "failed", failing)
		p.fail(t, "locked here", locks)
		p.fail(t, "locked here", locks)

		elsewhere := func(value string) { // another instance lets an attempt fail
			nextID++
			a := attempt(value, locks)
			a.ID = nextID
			_, _ = p.inside.Decide(t.Context(), a)
			s := verdict(a, limits.Count)
			s.ID = a.ID
			_, _ = p.inside.Settle(t.Context(), s)
		}
		elsewhere("locked by both")
		p.fail(t, "locked by both", locks)
		elsewhere("locked there") // and heard of by a refusal
		elsewhere("locked there")
		time.Sleep(20 * time.Second)
		if d := p.try(t, attempt("locked there", locks)); d.Admitted {
			t.Fatalf("got %+v, want the lock", d)
		}

		p.shared.Always(storetest.Before)
		for _, test := range []struct {
			value string
			rule  *limits.Rule
			room  int
			cause limits.Cause
			wait  time.Duration
		}{
			{"counted", requests, 1, limits.Full, time.Hour - 20*time.Second},
			{"failed", failing, 1, limits.Full, time.Hour - 20*time.Second},
			{"locked here", locks, 0, limits.Locked, 40 * time.Second},
			{"locked by both", locks, 0, limits.Locked, 40 * time.Second},
			{"locked there", locks, 0, limits.Locked, 40 * time.Second},
			{"new", requests, 2, limits.Full, time.Hour},
		} {
			for range test.room {
				if test.rule.Class == limits.Failures {
					p.fail(t, test.value, test.rule)
				} else if d := p.try(t, attempt(test.value, test.rule)); !d.Admitted || !d.Alone {
					t.Errorf("%s: got %+v, want room", test.value, d)
				}
			}
			d := p.try(t, attempt(test.value, test.rule))
			if d.Admitted || !d.Alone || d.Refusals[0].Cause != test.cause || d.Refusals[0].Wait != test.wait.Milliseconds() {
				t.Errorf("%s: got %+v, want %v for %v, alone", test.value, d, test.cause, test.wait)
			}
		}
	})
}

// What a policy does without the shared store, several on one request included [S4].
func TestOnOutage(t *testing.T) {
	type charge struct {
		outage  limits.Outage
		full    bool // in the local store
		logOnly bool
	}
	const local, allow, deny = limits.OutageLocal, limits.OutageAllow, limits.OutageDeny
	for _, test := range []struct {
		name     string
		charges  []charge
		lenient  bool
		err      bool
		admitted bool
		refusals []int
	}{
		{"local with room", []charge{{outage: local}}, false, false, true, nil},
		{"local without", []charge{{outage: local, full: true}}, false, false, false, []int{0}},
		{"allow", []charge{{outage: allow, full: true}}, false, false, true, nil},
		{"deny", []charge{{outage: deny}}, false, true, false, nil},
		{"deny in log-only", []charge{{outage: deny, logOnly: true}}, false, false, true, nil},
		{"deny with the kill switch", []charge{{outage: deny}}, true, false, true, nil},
		{"local in log-only", []charge{{outage: local, full: true, logOnly: true}}, false, false, true, []int{0}},
		{"allow and local", []charge{{outage: allow, full: true}, {outage: local, full: true}}, false, false, false, []int{1}},
		{"local and allow", []charge{{outage: local}, {outage: allow, full: true}}, false, false, true, nil},
		{"local and deny", []charge{{outage: local}, {outage: deny}}, false, true, false, nil},
		{"allow and deny", []charge{{outage: allow}, {outage: deny}}, false, true, false, nil},
		{"nothing", nil, false, false, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			inPair(t, func(t *testing.T, p *pair) {
				a := &limits.Attempt{Lenient: test.lenient}
				for i, c := range test.charges {
					r := requestRule(1)
					r.Policy = fmt.Sprint("p", i)
					if c.full {
						_, _ = p.local.Decide(t.Context(), attempt("x", r))
					}
					a.Charges = append(a.Charges, limits.Charge{Rule: r, Key: key(r, "x"), LogOnly: c.logOnly, Outage: c.outage})
				}
				p.shared.Always(storetest.Before)
				d, err := p.Decide(t.Context(), a)
				if (err != nil) != test.err || test.err && !errors.Is(err, limits.ErrUnavailable) {
					t.Fatalf("got %+v, %v", d, err)
				}
				if test.err {
					return
				}
				var refusals []int
				for _, r := range d.Refusals {
					refusals = append(refusals, r.Charge)
				}
				if d.Admitted != test.admitted || !d.Alone || !slices.Equal(refusals, test.refusals) {
					t.Errorf("got %+v, want admitted %v with refusals %v, alone", d, test.admitted, test.refusals)
				}
			})
		})
	}
	t.Run("what is left is told of the right bucket", func(t *testing.T) {
		inPair(t, func(t *testing.T, p *pair) {
			first, second := requestRule(5), requestRule(7)
			second.Policy = "second"
			a := attempt("x", first, second)
			a.Charges[0].Outage, a.Quotas = allow, true
			p.shared.Always(storetest.Before)
			if d := p.try(t, a); len(d.Quotas) != 1 || d.Quotas[0].Charge != 1 || d.Quotas[0].Remaining != 6 {
				t.Errorf("got %+v, want 6 left of the second", d.Quotas)
			}
		})
	})
}

// Who has left is decided nothing for: that the call ended says nothing of the shared store.
func TestCallerHasLeft(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		ctx, leave := context.WithCancel(t.Context())
		p.shared.Always(storetest.Hang)
		time.AfterFunc(time.Second, leave)
		a := attempt("bob", rule(limits.Target, 1))
		a.ID = 1
		if d, err := p.Decide(ctx, a); err == nil || d.Alone {
			t.Errorf("got %+v, %v, want the error alone", d, err)
		}
		if n := p.local.Stats().Entries; n != 0 {
			t.Errorf("got %d buckets in the local store, want none", n)
		}
	})
}

// A release is made in both stores or in none, and takes what waits to be merged with it [A4].
func TestReleaseInBoth(t *testing.T) {
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprint("all ", all), func(t *testing.T) {
			inPair(t, func(t *testing.T, p *pair) {
				r := rule(limits.Target, 1, locking)
				release := func() error {
					if all {
						_, err := p.Clear(t.Context())
						return err
					}
					_, err := p.Release(t.Context(), key(r, "bob"))
					return err
				}
				p.shared.Always(storetest.Before)
				p.fail(t, "bob", r)
				if err := release(); !errors.Is(err, limits.ErrUnavailable) {
					t.Errorf("got %v during an outage, want it told", err)
				}
				if d := p.try(t, attempt("bob", r)); d.Admitted {
					t.Error("the local store has released what the shared one has not")
				}
				if _, _, err := p.Entries(t.Context(), "", 10); !errors.Is(err, limits.ErrUnavailable) {
					t.Errorf("got %v for the list during an outage, want it told", err)
				}
				p.shared.Always(storetest.Works)
				if err := release(); err != nil {
					t.Fatal(err)
				}
				p.Merge(t.Context())
				if got := p.shared.Merged(); len(got) != 0 {
					t.Errorf("got %+v merged after the release, want nothing", got)
				}
				p.shared.Always(storetest.Before)
				if d := p.try(t, attempt("bob", r)); !d.Admitted {
					t.Errorf("got %+v, want the local store released too", d)
				}
			})
		})
	}
}

// Both stores keep the slots of an attempt in flight.
func TestRenewInBoth(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		r := rule(limits.Target, 1)
		a := attempt("bob", r)
		p.try(t, a)
		for range 3 {
			time.Sleep(40 * time.Second)
			if err := p.Renew(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		if d := p.try(t, attempt("bob", r)); d.Admitted {
			t.Error("the shared store has lost the slot")
		}
		p.shared.Always(storetest.Before)
		if d := p.try(t, attempt("bob", r)); d.Admitted {
			t.Error("the local store has lost the slot")
		}
		if err := p.Renew(t.Context(), a); !errors.Is(err, limits.ErrUnavailable) {
			t.Errorf("got %v, want the failure told", err)
		}
	})
}
