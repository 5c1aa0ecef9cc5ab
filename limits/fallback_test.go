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

// What the shared store does not take is kept with all that it says, and with what comes after it.
func TestMergingLater(t *testing.T) {
	for _, test := range []struct {
		name string
		rule *limits.Rule
		want func(limits.Record) bool
	}{
		{"failures", rule(limits.Target, 3), func(r limits.Record) bool {
			return slices.Equal(r.Ages, []limits.Millis{30_000, 20_000, 0}) && r.Level == 0 && r.LockedFor == 0
		}},
		{"more failures than count", rule(limits.Target, 2), func(r limits.Record) bool {
			return slices.Equal(r.Ages, []limits.Millis{20_000, 0})
		}},
		{"a lock", rule(limits.Target, 2, locking), func(r limits.Record) bool {
			return len(r.Ages) == 0 && r.Level == 1 && r.LockCount == 2 && r.LockAge == 20_000 && r.LockedFor == 40_000
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inPair(t, func(t *testing.T, p *pair) {
				p.shared.Always(storetest.Before)
				for range 2 {
					p.fail(t, "bob", test.rule)
					time.Sleep(10 * time.Second)
					p.Merge(t.Context())
				}
				time.Sleep(10 * time.Second)
				p.Merge(t.Context())
				if test.name == "more failures than count" {
					_, _ = p.local.Clear(t.Context()) // or there would be no room for another one
				}
				if test.name != "a lock" {
					p.fail(t, "bob", test.rule)
				}
				p.shared.Always(storetest.Works)
				p.Merge(t.Context())
				p.Merge(t.Context())
				if got := p.shared.Merged(); len(got) != 1 || !test.want(got[0]) {
					t.Errorf("got %+v merged", got)
				}
			})
		})
	}
}

// What is recorded while a merge is under way is added to what that gives back, within the bound of the rule.
func TestRecordingWhileMerging(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		r := rule(limits.Target, 2)
		p.shared.Always(storetest.Before)
		p.fail(t, "bob", r)
		time.Sleep(time.Second)
		p.fail(t, "bob", r)
		time.Sleep(time.Second)
		_, _ = p.local.Clear(t.Context()) // room for one more
		p.shared.Next(storetest.Hang)
		ctx, giveUp := context.WithCancel(t.Context())
		go p.Merge(ctx)
		synctest.Wait()
		p.fail(t, "bob", r)
		p.Merge(t.Context()) // one at a time
		if n := p.shared.Calls("merge"); n != 1 {
			t.Errorf("got %d merges at once, want 1", n)
		}
		giveUp()
		synctest.Wait()
		p.shared.Always(storetest.Works)
		p.Merge(t.Context())
		if got := p.shared.Merged(); len(got) != 1 || !slices.Equal(got[0].Ages, []limits.Millis{1000, 0}) {
			t.Errorf("got %+v merged, want the last two failures", got)
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

// What was recorded alone is merged with its ages, once, and kept as long as the shared store does not take it [S5].
func TestMerging(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		open, locks := rule(limits.Target, 5), rule(limits.Source, 2, locking)
		p.fail(t, "bob", open) // known to the shared store, so none of the journal's business

		p.shared.Always(storetest.Before)
		p.fail(t, "bob", open)
		time.Sleep(10 * time.Second)
		p.fail(t, "bob", open)
		p.fail(t, "eve", locks)
		p.fail(t, "eve", locks)
		p.fail(t, "counted by requests alone", open, requestRule(5))
		time.Sleep(20 * time.Second)

		p.shared.Always(storetest.Works)
		p.shared.Next(storetest.Works, storetest.Before) // one is taken, then the server is out again
		p.Merge(t.Context())
		if n := len(p.shared.Merged()); n != 1 {
			t.Fatalf("got %d records merged, want 1", n)
		}
		time.Sleep(5 * time.Second)
		p.try(t, attempt("anybody", requestRule(5))) // the next decision finds the server back
		synctest.Wait()
		time.Sleep(time.Second)
		p.Merge(t.Context())

		got := map[string]limits.Record{}
		for _, r := range p.shared.Merged() {
			if _, twice := got[r.Key]; twice {
				t.Errorf("%s was merged twice", r.Key)
			}
			got[r.Key] = r
		}
		late := int64(0) // for those that were not taken first
		want := func(value string, r *limits.Rule, check func(limits.Record) bool) {
			t.Helper()
			if rec, ok := got[key(r, value)]; !ok || rec.Rule != r || !check(rec) {
				t.Errorf("%s: got %+v", value, rec)
			}
		}
		shift := func(ms, want int64) bool { return ms == want || ms == want+5000 }
		want("bob", open, func(r limits.Record) bool {
			return len(r.Ages) == 2 && shift(r.Ages[0], 30_000+late) && shift(r.Ages[1], 20_000+late) && r.Level == 0 && r.LockedFor == 0
		})
		want("eve", locks, func(r limits.Record) bool {
			return len(r.Ages) == 0 && r.Level == 1 && r.LockCount == 2 && shift(r.LockAge, 20_000) && (r.LockedFor == 40_000 || r.LockedFor == 35_000)
		})
		want("counted by requests alone", open, func(r limits.Record) bool { return len(r.Ages) == 1 })
		if len(got) != 3 {
			t.Errorf("got %d records, want 3: %v", len(got), got)
		}
	})
}

// A settlement that the shared store did not confirm is taken down as well, whoever decided the attempt.
func TestUnconfirmedSettlement(t *testing.T) {
	for _, fault := range []storetest.Fault{storetest.Before, storetest.After} {
		inPair(t, func(t *testing.T, p *pair) {
			r := rule(limits.Target, 5)
			p.shared.Next(storetest.Works, fault)
			p.fail(t, "bob", r)
			p.Merge(t.Context())
			if got := p.shared.Merged(); len(got) != 1 || len(got[0].Ages) != 1 {
				t.Errorf("got %+v merged, want the failure", got)
			}
		})
	}
	t.Run("nothing to take down", func(t *testing.T) {
		inPair(t, func(t *testing.T, p *pair) {
			a := attempt("bob", rule(limits.Target, 5))
			p.try(t, a)
			p.shared.Always(storetest.Before)
			s := verdict(a, limits.Free)
			s.ID = a.ID
			if _, err := p.Settle(t.Context(), s); err != nil {
				t.Errorf("got %v", err)
			}
			p.shared.Always(storetest.Works)
			p.Merge(t.Context())
			if got := p.shared.Merged(); len(got) != 0 {
				t.Errorf("got %+v merged, want nothing", got)
			}
		})
	})
}

// An attempt that was decided alone is never told to the shared store, which would take its id for another's.
func TestSettledAlone(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		p.shared.Next(storetest.Before)
		p.fail(t, "bob", rule(limits.Target, 5))
		if n := p.shared.Calls("settle"); n != 0 {
			t.Errorf("the shared store was asked to settle %d times", n)
		}
	})
}

// The journal is bounded: so many buckets, and no more failures in each than its limit.
func TestJournalIsBounded(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		p.shared.Always(storetest.Before)
		r := rule(limits.Target, 3, windowed(time.Minute))
		for range 5 {
			p.fail(t, "bob", r)
			time.Sleep(30 * time.Second)
		}
		for i := range 10_000 {
			p.fail(t, fmt.Sprint("u", i), r)
		}
		p.shared.Always(storetest.Works)
		p.Merge(t.Context())
		merged := p.shared.Merged()
		if len(merged) != 10_000 {
			t.Errorf("got %d records, want 10000", len(merged))
		}
		for _, m := range merged {
			if m.Key == key(r, "bob") && len(m.Ages) != 3 {
				t.Errorf("got %d failures of one bucket, want the last 3", len(m.Ages))
			}
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

// Notes are kept in both stores, so that a second step finds the first across the beginning and the end of an outage.
func TestNotesAcrossAnOutage(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		noted := func(key, want string) {
			t.Helper()
			if got, err := p.Noted(t.Context(), key); err != nil || got != want {
				t.Errorf("got %q, %v under %s; want %q", got, err, key, want)
			}
		}
		_ = p.Note(t.Context(), "before", "bob", time.Hour)
		p.shared.Always(storetest.Before)
		noted("before", "bob")
		if err := p.Note(t.Context(), "during", "eve", time.Hour); err != nil {
			t.Errorf("got %v, want the local store to be enough", err)
		}
		noted("during", "eve")
		p.shared.Always(storetest.Works)
		noted("during", "eve")
		noted("never", "")
		_ = p.Forget(t.Context(), "before")
		_ = p.Forget(t.Context(), "during")
		noted("before", "")
		noted("during", "")
	})
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
