package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"authgate/limits"
)

// sequence is a random run of operations, the same for the same seed as long as the store answers the same. It keeps a model
// of the live reservations, by which it judges every answer of the store.
type sequence struct {
	env      *Env
	ctx      context.Context
	rng      *rand.Rand
	seed     uint64
	thorough bool // compare snapshots: slow

	rules    []*limits.Rule
	names    map[string]string // of buckets, by key
	attempts []*attempt        // the latest ones
	waiting  *waiter

	now     limits.Millis
	latest  limits.Millis                       // that now ever was
	live    map[string]map[uint64]limits.Millis // ends of leases, by key and attempt
	ceiling map[string]int                      // the highest limit that the bucket's rule ever had, by key
	trace   []string
}

// waiter is an attempt that one bucket of a request rule refused, alone and loud.
type waiter struct {
	attempt *attempt
	refusal limits.Refusal
}

var (
	windows = []time.Duration{time.Second, 1500 * time.Millisecond, 7 * time.Second, time.Minute, 61 * time.Second, 10 * time.Minute}
	forms   = []limits.Refuse{limits.Loud, limits.Loud, limits.Uniform, limits.Silent}
	values  = []string{"a", "b", "c"}
	secrets = []string{"old", "older", "wrong", "typo", "unread"}
)

func newSequence(e *Env, seed uint64) *sequence {
	s := &sequence{
		env: e, ctx: context.Background(), seed: seed, rng: rand.New(rand.NewPCG(seed, 0)),
		names: map[string]string{}, live: map[string]map[uint64]limits.Millis{}, ceiling: map[string]int{},
	}
	s.rules = s.randomRules()
	return s
}

func (s *sequence) randomRules() []*limits.Rule {
	var rules []*limits.Rule
	add := func(r limits.Rule) {
		r.Policy, r.Window = fmt.Sprintf("p%d", len(rules)), pick(s.rng, windows)
		r.Refuse = pick(s.rng, forms)
		if r.Limit == 0 {
			r.Limit = 1 + s.rng.IntN(6)
		}
		rules = append(rules, &r)
	}
	for _, d := range []limits.Dimension{limits.Source, limits.Target, limits.App} {
		add(limits.Rule{Dimension: d, Limit: 1 + s.rng.IntN(12)})
	}
	for _, d := range []limits.Dimension{limits.Client, limits.Source} {
		add(limits.Rule{Dimension: d, Limit: 1 + s.rng.IntN(50), Burst: 1 + s.rng.IntN(6)})
	}
	for _, d := range []limits.Dimension{limits.TargetSource, limits.Target, limits.Subnet, limits.Device} {
		r := limits.Rule{Class: limits.Failures, Dimension: d}
		if s.rng.IntN(4) > 0 {
			r.Lockout.Base = pick(s.rng, windows)
			r.Lockout.Max = r.Lockout.Base * time.Duration(1+s.rng.IntN(9))
		}
		add(r)
	}
	add(limits.Rule{Class: limits.Factors, Dimension: limits.Target})
	add(limits.Rule{Class: limits.Failures, Dimension: limits.Source, Signal: true})
	return rules
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// run carries out that many steps and reports the first that broke something.
func (s *sequence) run(steps int) error {
	operations := []struct {
		weight int
		do     func() error
	}{
		{40, s.decide},
		{25, s.settle},
		{8, s.renew},
		{18, s.advance},
		{6, s.waitOut},
		{4, s.list},
		{2, s.change},
		{1, s.back},
		{1, s.release},
		{1, s.clear},
	}
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	for n := range steps {
		at := s.rng.IntN(total)
		for _, o := range operations {
			if at -= o.weight; at >= 0 {
				continue
			}
			err := o.do()
			if err == nil {
				err = s.env.Check()
			}
			if err != nil {
				return fmt.Errorf("seed %d, step %d: %w", s.seed, n, err)
			}
			break
		}
	}
	return nil
}

func (s *sequence) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

func (s *sequence) tail(n int) string { return strings.Join(s.trace[max(0, len(s.trace)-n):], "\n") }

// snapshot is the store's state when the sequence is thorough.
func (s *sequence) snapshot() map[string]string {
	if !s.thorough {
		return nil
	}
	return s.env.Snapshot()
}

func (s *sequence) unchanged(before map[string]string) error {
	if after := s.snapshot(); !maps.Equal(before, after) {
		return fmt.Errorf("something was changed:\n%s", difference(before, after))
	}
	return nil
}

func (s *sequence) decide() error {
	a := &attempt{Attempt: limits.Attempt{ID: s.rng.Uint64() | 1, Lenient: s.rng.IntN(20) == 0, Quotas: s.rng.IntN(5) == 0}}
	for _, n := range s.rng.Perm(len(s.rules))[:1+s.rng.IntN(5)] {
		r, value := s.rules[n], pick(s.rng, values)
		c := limits.Charge{Rule: r, Key: limits.NewScope(r, "realm").Key(value), LogOnly: s.rng.IntN(6) == 0}
		name := fmt.Sprintf("%d@%s", n, value)
		s.names[c.Key] = name
		s.ceiling[c.Key] = max(s.ceiling[c.Key], r.Limit)
		a.Charges, a.names = append(a.Charges, c), append(a.names, name)
	}
	if s.attempts = append(s.attempts, a); len(s.attempts) > 40 {
		s.attempts = s.attempts[1:]
	}
	d, err := s.ask(a)
	if err != nil {
		return err
	}
	if n := len(d.Refusals); !d.Admitted && n == 1 {
		if c := &a.Charges[d.Refusals[0].Charge]; c.Rule.Class == limits.Requests && c.Rule.Refuse == limits.Loud {
			s.waiting = &waiter{a, d.Refusals[0]}
		}
	}
	return nil
}

// ask decides an attempt and judges the answer.
func (s *sequence) ask(a *attempt) (limits.Decision, error) {
	before := s.snapshot()
	d, err := s.env.Store.Decide(s.ctx, &a.Attempt)
	if err != nil {
		return d, err
	}
	s.note("%d decide #%x %v lenient=%t: %s", s.now, a.ID, a.names, a.Lenient, answer(a, &d))
	worst, refused := d.Refused(&a.Attempt)
	if refused == d.Admitted {
		return d, fmt.Errorf("admitted %t, but something stands in the way: %t", d.Admitted, refused)
	}
	if refused {
		if a.Charges[worst.Charge].Rule.Refuse != limits.Silent {
			return d, s.unchanged(before)
		}
		return d, nil
	}
	for i := range a.Charges {
		c := &a.Charges[i]
		full := slices.ContainsFunc(d.Refusals, func(r limits.Refusal) bool { return r.Charge == i })
		if c.Rule.Kind() != limits.KindFailures || full {
			continue
		}
		if s.live[c.Key] == nil {
			s.live[c.Key] = map[uint64]limits.Millis{}
		}
		s.live[c.Key][a.ID] = s.now + c.Rule.Lease().Milliseconds()
	}
	return d, s.bounded()
}

// alive reports whether the model knows a live reservation.
func (s *sequence) alive(key string, id uint64) bool {
	end, ok := s.live[key][id]
	return ok && s.now < end
}

// bounded checks the invariant of [L7] in every bucket.
func (s *sequence) bounded() error {
	entries, err := allEntries(s.ctx, s.env.Store, 1000)
	if err != nil {
		return err
	}
	failures := map[string]int64{}
	for _, e := range entries {
		if e.LockedFor == 0 {
			failures[e.Key] = e.Attempts
		}
	}
	for key, most := range s.ceiling {
		n := failures[key]
		for id := range s.live[key] {
			if s.alive(key, id) {
				n++
			}
		}
		if n > int64(most) {
			return fmt.Errorf("%s holds %d failures and reservations, and its limit was never above %d", s.names[key], n, most)
		}
	}
	return nil
}

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
		delete(s.live[c.Key], st.ID)
	}
	if reserves && !any {
		if !idle(out) {
			return errors.New("a settlement without a live reservation did something")
		}
		return s.unchanged(before)
	}
	return nil
}

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

// back sets the clock back. Reservations that had ended are alive again, unless the store has dropped them meanwhile; as
// it may do either, attempts that hold one are not looked at again.
func (s *sequence) back() error {
	d := time.Duration(1+s.rng.IntN(20_000)) * time.Millisecond
	if !s.ended() {
		d /= 20
	} else if !s.thorough {
		return nil
	}
	for _, live := range s.live {
		for id, end := range live {
			if s.now >= end {
				delete(live, id)
				s.attempts = slices.DeleteFunc(s.attempts, func(a *attempt) bool { return a.ID == id })
			}
		}
	}
	s.env.SetBack(d)
	s.now -= d.Milliseconds()
	s.waiting = nil
	s.note("%d back", s.now)
	return nil
}

func (s *sequence) release() error {
	if len(s.names) == 0 {
		return nil
	}
	key := pick(s.rng, slices.Sorted(maps.Keys(s.names)))
	found, err := s.env.Store.Release(s.ctx, key)
	s.note("%d release %s: %t", s.now, s.names[key], found)
	delete(s.live, key)
	return err
}

func (s *sequence) clear() error {
	if s.rng.IntN(3) > 0 {
		return nil
	}
	n, err := s.env.Store.Clear(s.ctx)
	s.note("%d clear: %d", s.now, n)
	clear(s.live)
	return err
}
