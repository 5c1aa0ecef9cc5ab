package limits_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/limits/storetest"
)

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
