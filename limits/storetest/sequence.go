package storetest

import (
	"context"
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
	known   map[limits.Fact]bool
	ceiling map[string]int // the highest limit that the bucket's rule ever had, by key
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
	facts   = []limits.Fact{"one", "two", "three", "four", "five"}
	secrets = []string{"old", "older", "wrong", "typo", "unread"}
)

func newSequence(e *Env, seed uint64) *sequence {
	s := &sequence{
		env: e, ctx: context.Background(), seed: seed, rng: rand.New(rand.NewPCG(seed, 0)),
		names: map[string]string{}, known: map[limits.Fact]bool{}, live: map[string]map[uint64]limits.Millis{}, ceiling: map[string]int{},
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
		{2, s.learn},
		{1, s.forget},
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
	if s.rng.IntN(3) == 0 {
		for _, n := range s.rng.Perm(len(facts))[:1+s.rng.IntN(4)] {
			a.Facts = append(a.Facts, facts[n])
		}
	}
	for _, n := range s.rng.Perm(len(s.rules))[:1+s.rng.IntN(5)] {
		r, value := s.rules[n], pick(s.rng, values)
		c := limits.Charge{Rule: r, Key: limits.NewScope(r, "realm").Key(value), LogOnly: s.rng.IntN(6) == 0}
		if len(a.Facts) > 0 {
			c.If, c.Unless = s.randomSet(len(a.Facts)), s.randomSet(len(a.Facts))
		}
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

// randomSet is mostly empty.
func (s *sequence) randomSet(facts int) uint32 {
	if s.rng.IntN(2) == 0 {
		return 0
	}
	return s.rng.Uint32N(1 << facts)
}

// ask decides an attempt and judges the answer.
func (s *sequence) ask(a *attempt) (limits.Decision, error) {
	before := s.snapshot()
	d, err := s.env.Store.Decide(s.ctx, &a.Attempt)
	if err != nil {
		return d, err
	}
	s.note("%d decide #%x %v lenient=%t: %s", s.now, a.ID, a.names, a.Lenient, answer(a, &d))
	for i, f := range a.Facts {
		if d.Knew(i) != s.known[f] {
			return d, fmt.Errorf("fact %s: known %t, but learned %t", f, d.Knew(i), s.known[f])
		}
	}
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
		if c.Rule.Kind() != limits.KindFailures || full || !c.Applies(d.Known) {
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
