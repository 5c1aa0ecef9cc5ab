package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"authgate/limits"
)

// What a random sequence does besides deciding and settling: time, leases, changes, and what operators do.

func (s *sequence) renew() error {
	if len(s.attempts) == 0 {
		return nil
	}
	a := pick(s.rng, s.attempts)
	if err := s.env.Store.Renew(s.ctx, &a.Attempt); err != nil {
		return err
	}
	s.note("%d renew #%x", s.now, a.ID)
	for i := range a.Charges {
		if c := &a.Charges[i]; s.alive(c.Key, a.ID) {
			s.live[c.Key][a.ID] = s.now + c.Rule.Lease().Milliseconds()
		}
	}
	return nil
}

// advance lets time go by, mostly to where something is about to end.
func (s *sequence) advance() error {
	r := pick(s.rng, s.rules)
	marks := []time.Duration{
		time.Millisecond, time.Duration(1+s.rng.IntN(3000)) * time.Millisecond, r.Window, r.Lease(),
		time.Duration(1+s.rng.Int64N(r.Window.Milliseconds())) * time.Millisecond,
	}
	if r.Lockout.Base > 0 {
		marks = append(marks, r.Lockout.Base, r.Lockout.Max)
	}
	d := pick(s.rng, marks) + time.Duration(s.rng.IntN(3)-1)*time.Millisecond
	if len(s.trace) < opening {
		d = time.Duration(1+s.rng.IntN(40)) * time.Millisecond
	}
	s.pass(d)
	return nil
}

// opening is how many steps a sequence has before anything may end. What has ended a store forgets when it likes, so two
// of them agree on a clock that is set back in the opening only.
const opening = 120

// ended is whether something may have ended: no window and no lease is shorter.
func (s *sequence) ended() bool { return s.latest >= time.Second.Milliseconds() }

func (s *sequence) pass(d time.Duration) {
	if d <= 0 {
		return
	}
	s.env.Advance(d)
	s.now += d.Milliseconds()
	s.latest = max(s.latest, s.now)
	s.note("%d", s.now)
}

// waitOut waits for exactly as long as a refusal said: a millisecond earlier that bucket still refuses, then it does not.
func (s *sequence) waitOut() error {
	w := s.waiting
	if w == nil || len(s.trace) < opening || s.now < s.latest { // what is stored of the future counts as now, so its wait begins anew all the time
		return nil
	}
	s.waiting = nil
	c := &w.attempt.Charges[w.refusal.Charge]
	alone := &attempt{Attempt: limits.Attempt{ID: s.rng.Uint64() | 1, Charges: []limits.Charge{{Rule: c.Rule, Key: c.Key}}}}
	alone.names = []string{s.names[c.Key]}
	d, err := s.ask(alone) // how long it is now, since other things happened in between
	if err != nil || d.Admitted {
		return err
	}
	wait := time.Duration(d.Refusals[0].Wait) * time.Millisecond
	s.pass(wait - time.Millisecond)
	if d, err = s.ask(alone); err != nil {
		return err
	}
	if d.Admitted {
		return fmt.Errorf("admitted a millisecond too early: the wait was %s", wait)
	}
	s.pass(time.Millisecond)
	if d, err = s.ask(alone); err != nil {
		return err
	}
	if !d.Admitted {
		return fmt.Errorf("refused after waiting exactly %s", wait)
	}
	return nil
}

func (s *sequence) list() error {
	entries, err := allEntries(s.ctx, s.env.Store, 1+s.rng.IntN(5))
	s.note("%d list: %s", s.now, listed(entries, s.names))
	return err
}

// change gives a rule another limit. Token buckets keep theirs: how soon one may be forgotten depends on it, so stores may
// differ for a while.
func (s *sequence) change() error {
	n := s.rng.IntN(len(s.rules))
	r := *s.rules[n]
	if r.Kind() == limits.KindTokens {
		return nil
	}
	r.Limit = 1 + s.rng.IntN(8)
	s.rules[n] = &r
	for key, name := range s.names {
		if strings.HasPrefix(name, fmt.Sprintf("%d@", n)) {
			s.ceiling[key] = max(s.ceiling[key], r.Limit)
		}
	}
	s.note("%d rule %d: limit %d", s.now, n, r.Limit)
	return nil
}

// forgetEnded looks no more at attempts that hold a reservation which has ended. When the clock is set back it is alive
// again, unless the store has dropped it meanwhile; it may do either.
func (s *sequence) forgetEnded() {
	for _, live := range s.live {
		for id, end := range live {
			if s.now >= end {
				delete(live, id)
				s.attempts = slices.DeleteFunc(s.attempts, func(a *attempt) bool { return a.ID == id })
			}
		}
	}
}

// back sets the clock back.
func (s *sequence) back() error {
	d := time.Duration(1+s.rng.IntN(20_000)) * time.Millisecond
	if !s.ended() {
		d /= 20
	} else if !s.thorough {
		return nil
	}
	s.forgetEnded()
	s.env.SetBack(d)
	s.now -= d.Milliseconds()
	s.waiting = nil
	s.note("%d back", s.now)
	return nil
}

func (s *sequence) learn() error {
	f := pick(s.rng, facts)
	s.known[f] = true
	s.note("%d learn %s", s.now, f)
	_, err := s.env.Store.Swap(s.ctx, nil, limits.Change{Key: string(f), Text: "known", TTL: always})
	return err
}

// forget has the store know a fact no more.
func (s *sequence) forget() error {
	f := pick(s.rng, facts)
	delete(s.known, f)
	s.note("%d forget %s", s.now, f)
	_, err := s.env.Store.Swap(s.ctx, nil, limits.Change{Key: string(f)})
	return err
}

func (s *sequence) release() error {
	if len(s.names) == 0 {
		return nil
	}
	key := pick(s.rng, slices.Sorted(maps.Keys(s.names)))
	found, err := s.env.Store.Release(s.ctx, key)
	s.note("%d release %s: %t", s.now, s.names[key], found)
	s.forgetEnded()
	delete(s.live, key)
	return err
}

func (s *sequence) clear() error {
	if s.rng.IntN(3) > 0 {
		return nil
	}
	n, err := s.env.Store.Clear(s.ctx)
	s.note("%d clear: %d", s.now, n)
	s.forgetEnded()
	clear(s.live)
	return err
}
