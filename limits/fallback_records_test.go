package limits_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"authgate/limits"
	"authgate/limits/storetest"
)

func text(key, text string) limits.Change {
	return limits.Change{Key: key, Text: text, TTL: time.Hour, Index: "all"}
}

func swapped(t *testing.T, s limits.Records, was []limits.Kept, changes ...limits.Change) bool {
	t.Helper()
	done, err := s.Swap(t.Context(), was, changes...)
	if err != nil {
		t.Fatalf("swapping: %v", err)
	}
	return done
}

func wantText(t *testing.T, s limits.Records, key, want string) {
	t.Helper()
	if got, err := s.Load(t.Context(), key); err != nil || got[0] != want {
		t.Errorf("got %q, %v under %s; want %q", got, err, key, want)
	}
}

// Records are kept in both stores, so that a second step finds the first across the beginning and the end of an outage.
func TestRecordsAcrossAnOutage(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		swapped(t, p, nil, text("before", "bob"), text("gone", "x"))
		swapped(t, p, []limits.Kept{{Key: "gone", Text: "x"}}, text("gone", ""))
		p.shared.Always(storetest.Before)
		wantText(t, p, "before", "bob")
		wantText(t, p, "gone", "")
		swapped(t, p, nil, text("during", "eve"), text("before", ""))
		wantText(t, p, "during", "eve")
		wantText(t, p, "before", "")
		if _, _, err := p.List(t.Context(), "all", "", 9); !errors.Is(err, limits.ErrUnavailable) {
			t.Errorf("got %v for a list during an outage, want it told", err)
		}
		p.shared.Always(storetest.Works)
		wantText(t, p, "during", "eve")
		wantText(t, p, "before", "") // used up alone is used up
		wantText(t, p, "never", "")
		if keys, _, err := p.List(t.Context(), "all", "", 9); err != nil || !slices.Equal(keys, []string{"before"}) {
			t.Errorf("got %v %v, want what the shared store has", keys, err)
		}
	})
}

// While the shared store answers, its word on records is final, whatever the local one has.
func TestSharedRecordsAreFinal(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		swapped(t, p, nil, text("k", "old"))
		swapped(t, p.inside, nil, text("k", "new")) // by another instance
		wantText(t, p, "k", "new")
		if swapped(t, p, []limits.Kept{{Key: "k", Text: "old"}}, text("k", "mine")) {
			t.Error("a swap was made by what only the local store has")
		}
		wantText(t, p.local, "k", "old")
		if !swapped(t, p, []limits.Kept{{Key: "k", Text: "new"}}, text("k", "mine")) {
			t.Error("a swap was not made because of what the local store has")
		}
		wantText(t, p.local, "k", "mine")
		swapped(t, p.inside, nil, text("k", ""))
		wantText(t, p, "k", "")

		p.shared.Always(storetest.Before)
		swapped(t, p, nil, text("k", "alone"))
		p.shared.Always(storetest.Works)
		swapped(t, p.inside, nil, text("k", "there"))
		wantText(t, p, "k", "there") // what is there goes before what was kept alone
	})
}

// Whoever changes a record that only the outage knew learns the truth by that, and then changes it.
func TestSwapAfterAnOutage(t *testing.T) {
	for name, alone := range map[string]limits.Change{"kept": text("k", "alone"), "forgotten": text("k", "")} {
		t.Run(name, func(t *testing.T) {
			inPair(t, func(t *testing.T, p *pair) {
				if alone.Text == "" {
					swapped(t, p, nil, text("k", "before"))
				}
				p.shared.Always(storetest.Before)
				swapped(t, p, nil, alone)
				p.shared.Always(storetest.Works)
				for n := range 3 {
					texts, err := p.Load(t.Context(), "k")
					if err != nil {
						t.Fatal(err)
					}
					done := swapped(t, p, []limits.Kept{{Key: "k", Text: texts[0]}}, text("k", "after"))
					if done != (n > 0) {
						t.Fatalf("try %d: got %t", n, done)
					}
					if done {
						break
					}
				}
				wantText(t, p, "k", "after")
				wantText(t, p.inside, "k", "after")
				wantText(t, p.local, "k", "after")
				swapped(t, p.inside, nil, text("k", ""))
				wantText(t, p, "k", "") // the outage is forgotten
			})
		})
	}
}

// The conditions of a swap are looked at anew as well, and a swap that was not made alone leaves nothing behind.
func TestConditionsAfterAnOutage(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		swapped(t, p, nil, text("there", "x"))
		p.shared.Always(storetest.Before)
		swapped(t, p, nil, text("k", "alone"))
		if swapped(t, p, []limits.Kept{{Key: "k", Text: "other"}}, text("there", "")) {
			t.Error("a swap was made alone whose condition does not hold")
		}
		p.shared.Always(storetest.Works)
		wantText(t, p, "there", "x")
		if swapped(t, p, []limits.Kept{{Key: "k", Text: "alone"}}, text("other", "x")) {
			t.Error("a swap was made by what only the local store has")
		}
		wantText(t, p, "k", "")
	})
}

// A change without conditions ends what an outage left behind, too.
func TestChangeAfterAnOutage(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		p.shared.Always(storetest.Before)
		swapped(t, p, nil, text("k", "alone"), text("f", ""))
		p.shared.Always(storetest.Works)
		swapped(t, p, nil, text("k", "after"), text("f", "after"))
		swapped(t, p.inside, nil, text("k", ""))
		wantText(t, p, "k", "")
		wantText(t, p, "f", "after")
	})
}

// What was changed alone is remembered for as long as it means something, and not without bounds.
func TestAloneRecordsEnd(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		swapped(t, p, nil, limits.Change{Key: "f", Text: "x", TTL: 100 * time.Hour})
		p.shared.Always(storetest.Before)
		swapped(t, p, nil, text("k", "alone"), text("f", ""))
		p.shared.Always(storetest.Works)
		time.Sleep(24*time.Hour - time.Millisecond)
		wantText(t, p, "k", "")
		wantText(t, p, "f", "")
		time.Sleep(time.Millisecond)
		wantText(t, p, "f", "x")

		p.shared.Always(storetest.Before)
		const many = 10_500
		for i := range many {
			swapped(t, p, nil, text(fmt.Sprint(i), "alone"))
		}
		p.shared.Always(storetest.Works)
		found := 0
		for i := range many {
			if got, err := p.Load(t.Context(), fmt.Sprint(i)); err == nil && got[0] != "" {
				found++
			}
		}
		if found != 10_000 {
			t.Errorf("got %d records of the outage, want 10000", found)
		}
		time.Sleep(time.Hour) // all of them end, and make room
		p.shared.Always(storetest.Before)
		swapped(t, p, nil, text("next", "alone"))
		p.shared.Always(storetest.Works)
		wantText(t, p, "next", "alone")
	})
}

// What no store would do is no outage.
func TestRefusedSwapIsNoOutage(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		if done, err := p.Swap(t.Context(), nil, limits.Change{Key: "k", Text: "x"}); done || err == nil || errors.Is(err, limits.ErrUnavailable) {
			t.Errorf("got %t, %v", done, err)
		}
		if n := p.shared.Calls("swap"); n != 0 {
			t.Errorf("the shared store was asked %d times", n)
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		p.shared.Always(storetest.Hang)
		if _, err := p.Load(ctx, "k"); err == nil {
			t.Error("whoever has left was answered by the local store")
		}
		if _, err := p.Swap(ctx, nil, text("k", "x")); err == nil {
			t.Error("whoever has left has changed the local store")
		}
		p.shared.Always(storetest.Works)
		wantText(t, p, "k", "")
	})
}

// The local store knows the devices lately seen, and no longer than the shared one does [S4].
func TestFactsAcrossAnOutage(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		ask := func() *limits.Attempt {
			pool, device := rule(limits.Target, 1), rule(limits.Device, 1)
			a := attempt("bob", pool, device)
			a.Facts = []limits.Fact{"trusted", "revoked", "elsewhere"}
			a.Charges[0].Unless, a.Charges[1].If = 0b111, 0b111
			return a
		}
		swapped(t, p, nil, text("trusted", "x"), text("revoked", "x"))
		swapped(t, p.inside, nil, text("revoked", ""), text("elsewhere", "x"))
		if d := p.try(t, ask()); d.Known != 0b101 || d.Alone {
			t.Fatalf("got %+v, want two known", d)
		}
		wantText(t, p.local, "revoked", "")
		wantText(t, p.local, "trusted", "x")
		wantText(t, p.local, "elsewhere", limits.Seen)

		p.shared.Always(storetest.Before)
		a := ask()
		d := p.try(t, a)
		if d.Admitted || !d.Alone || d.Known != 0b101 || a.Charges[d.Refusals[0].Charge].Rule.Dimension != limits.Device {
			t.Errorf("got %+v, want the device's own bucket held by the attempt before", d)
		}
		a = ask()
		a.Facts = []limits.Fact{"a", "b", "c"}
		if d := p.try(t, a); !d.Admitted || d.Known != 0 {
			t.Errorf("got %+v, want room for whom nobody knows, in the pool of the target", d)
		}
		if d := p.try(t, a); d.Admitted || a.Charges[d.Refusals[0].Charge].Rule.Dimension != limits.Target {
			t.Errorf("got %+v, want the pool of the target used up", d)
		}
	})
}

// An unknown target is only reported while the shared store is out; an unknown device is untrusted [S4].
func TestDoubt(t *testing.T) {
	for _, doubt := range []bool{false, true} {
		t.Run(fmt.Sprint(doubt), func(t *testing.T) {
			inPair(t, func(t *testing.T, p *pair) {
				a := attempt("x", requestRule(1))
				a.Facts = []limits.Fact{"known"}
				a.Charges[0].Unless, a.Charges[0].Doubt = 1, doubt
				p.try(t, a)
				if d := p.try(t, a); d.Admitted {
					t.Errorf("got %+v, want a refusal while the shared store is sure", d)
				}
				p.shared.Always(storetest.Before)
				if d := p.try(t, a); d.Admitted != doubt || len(d.Refusals) != 1 {
					t.Errorf("got %+v, want it reported, and admitted: %t", d, doubt)
				}
				if a.Charges[0].LogOnly {
					t.Error("the caller's attempt was changed")
				}
			})
		})
	}
}

// Only charges that took part are settled, released and renewed.
func TestReservationIsOfWhatApplies(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		l := limits.NewLimiter(p)
		spray := rule(limits.Source, 1)
		spray.Signal = true
		pool, device := rule(limits.Target, 5), rule(limits.Device, 5)
		ask := func(fact limits.Fact) *limits.Attempt {
			a := attempt("bob", pool, device, spray)
			a.Facts = []limits.Fact{fact}
			a.Charges[0].Unless, a.Charges[1].If, a.Charges[2].Unless = 1, 1, 1
			return a
		}
		swapped(t, p, nil, text("device", "x"))
		settle := func(fact limits.Fact) (got []string) {
			r := admit(t, l, ask(fact))
			if known := fact == "device"; r.Known() == 1 != known {
				t.Errorf("got %b known of %s", r.Known(), fact)
			}
			s := verdict(r.Attempt(), limits.Count)
			r.Settle(s, func(out limits.Settled) {
				for i, e := range out.Effects {
					if e.Counted {
						got = append(got, s.Closings[i].Rule.Dimension.String())
					}
				}
			})
			return got
		}
		for fact, want := range map[limits.Fact][]string{"device": {"device"}, "none": {"target", "source"}} {
			if got := settle(fact); !slices.Equal(got, want) {
				t.Errorf("%s: got %v counted, want %v", fact, got, want)
			}
		}
		r := admit(t, l, ask("device"))
		if n := len(r.Attempt().Release().Closings); n != 1 {
			t.Errorf("got %d buckets released, want the device's", n)
		}
		r.Release()
		if err := l.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}

		only := attempt("bob", device)
		only.Facts, only.Charges[0].If = []limits.Fact{"none"}, 1
		if r := admit(t, l, only); r != nil || r.Known() != 0 {
			t.Error("there is a reservation of nothing")
		}
	})
}

func TestChargeApplies(t *testing.T) {
	for _, test := range []struct {
		one, none, known uint32
		want             bool
	}{
		{0, 0, 0, true},
		{0, 0, 7, true},
		{1, 0, 0, false},
		{1, 0, 2, false},
		{3, 0, 2, true},
		{0, 3, 4, true},
		{0, 3, 6, false},
		{1, 2, 1, true},
		{1, 2, 3, false},
		{1, 1, 1, false},
		{1 << 31, 0, 1 << 31, true},
		{0, 1 << 31, 1 << 31, false},
	} {
		c := limits.Charge{If: test.one, Unless: test.none}
		if got := c.Applies(test.known); got != test.want {
			t.Errorf("one of %b, none of %b, known %b: got %t", test.one, test.none, test.known, got)
		}
	}
}
