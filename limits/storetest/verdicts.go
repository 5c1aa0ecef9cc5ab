package storetest

import (
	"errors"
	"fmt"
	"strings"

	"authgate/limits"
)

// What a random sequence does when attempts end, and how the model judges it.

func (s *sequence) settle() error {
	if len(s.attempts) == 0 {
		return nil
	}
	a := pick(s.rng, s.attempts)
	st, reserves := s.randomSettlement(a)
	if len(st.Closings) == 0 || !reserves && s.rng.IntN(4) > 0 {
		return nil
	}
	before := s.snapshot()
	out, err := s.env.Store.Settle(s.ctx, st)
	if err != nil {
		return err
	}
	s.note("%d settle #%x %s: %s", s.now, a.ID, verdict(st), effects(a, &out))
	if err := s.judge(st, &out, reserves, before); err != nil || !reserves {
		return err
	}
	if s.rng.IntN(3) > 0 {
		return s.bounded()
	}
	before = s.snapshot() // settling twice is settling once
	if out, err = s.env.Store.Settle(s.ctx, st); err != nil {
		return err
	}
	if !idle(&out) {
		return fmt.Errorf("settling again did something: %s", effects(a, &out))
	}
	return s.unchanged(before)
}

// verdict is what a settlement asks for, in words.
func verdict(st *limits.Settlement) string {
	var b strings.Builder
	for _, c := range st.Closings {
		b.WriteString([]string{"free ", "count ", "clear ", "neutral ", "pending "}[c.Do])
	}
	for _, r := range st.Repeats {
		fmt.Fprintf(&b, "secret %x ", r.Sum)
	}
	return b.String()
}

func (s *sequence) randomSettlement(a *attempt) (st *limits.Settlement, reserves bool) {
	st = &limits.Settlement{ID: a.ID}
	likely := []limits.Action{limits.Count, limits.Count, limits.Count, limits.Free, limits.Clear, limits.ShadowNeutral, limits.ShadowPending}
	secret := s.rng.IntN(3) == 0
	for i := range a.Charges {
		c := &a.Charges[i]
		kind := c.Rule.Kind()
		if kind != limits.KindFailures && kind != limits.KindSignal {
			continue
		}
		reserves = reserves || kind == limits.KindFailures
		cl := limits.Closing{Rule: c.Rule, Key: c.Key, Do: pick(s.rng, likely)}
		if secret {
			if len(st.Repeats) == 0 {
				st.Repeats = []limits.RepeatCheck{{Key: "s" + c.Key, Sum: sum(pick(s.rng, secrets)), Window: c.Rule.Window}}
			}
			cl.Repeat = s.rng.IntN(2)
		}
		st.Closings = append(st.Closings, cl)
	}
	return st, reserves
}

// judge checks that a settlement closed exactly the reservations that the model knows to be alive.
func (s *sequence) judge(st *limits.Settlement, out *limits.Settled, reserves bool, before map[string]string) error {
	any := false
	for i, c := range st.Closings {
		if c.Rule.Kind() != limits.KindFailures {
			continue
		}
		alive := s.alive(c.Key, st.ID)
		any = any || alive
		if out.Effects[i].Done != alive {
			return fmt.Errorf("%s: the reservation is alive: %t, but it was closed: %t", s.names[c.Key], alive, out.Effects[i].Done)
		}
		if alive { // one that has ended is remembered: a clock set back may revive it
			delete(s.live[c.Key], st.ID)
		}
	}
	if reserves && !any {
		if !idle(out) {
			return errors.New("a settlement without a live reservation did something")
		}
		return s.unchanged(before)
	}
	return nil
}
