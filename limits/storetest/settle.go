package storetest

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strings"

	"authgate/limits"
)

// actions are the words for what a verdict does to one bucket.
var actions = map[string]limits.Action{
	"free": limits.Free, "count": limits.Count, "clear": limits.Clear,
	"shadow-neutral": limits.ShadowNeutral, "shadow-pending": limits.ShadowPending,
}

// atOnce makes an attempt, which must be admitted, and settles it.
func (p *player) atOnce(s *step) (string, error) {
	a, out, err := p.settled(s)
	if err != nil || out == nil {
		return answer(a, &p.answer), err
	}
	return effects(a, out), nil
}

// settled is what came of an attempt and its verdict; out is nil when it was refused.
func (p *player) settled(s *step) (a *attempt, out *limits.Settled, err error) {
	if a, err = p.attempt(nil); err != nil {
		return a, nil, err
	}
	d, err := p.decide(a)
	if err != nil || !d.Admitted {
		return a, nil, err
	}
	return p.settle(a, append([]string{s.verb}, s.args...))
}

// end settles an attempt that was begun: end ID VERDICT, or end ID BUCKET=ACTION...
func (p *player) end(s *step) (string, error) {
	if len(s.args) < 2 || p.begun[s.args[0]] == nil {
		return "", fmt.Errorf("use end ID VERDICT")
	}
	a, out, err := p.settle(p.begun[s.args[0]], s.args[1:])
	if err != nil {
		return "", err
	}
	return effects(a, out), nil
}

// settle closes the attempt with a verdict, and checks that a settlement which reports nothing did nothing.
func (p *player) settle(a *attempt, verdict []string) (*attempt, *limits.Settled, error) {
	st, err := settlement(a, verdict)
	if err != nil {
		return a, nil, err
	}
	before := p.env.Snapshot()
	out, err := p.env.Store.Settle(p.ctx, st)
	if err != nil {
		return a, nil, err
	}
	if len(out.Effects) != len(st.Closings) || len(out.Repeated) != len(st.Repeats) {
		return a, nil, fmt.Errorf("%d effects and %d answers for %d closings and %d checks",
			len(out.Effects), len(out.Repeated), len(st.Closings), len(st.Repeats))
	}
	if idle(&out) && !maps.Equal(before, p.env.Snapshot()) {
		return a, nil, fmt.Errorf("a settlement without effect changed something:\n%s", difference(before, p.env.Snapshot()))
	}
	return a, &out, nil
}

// settlement is what the words of a verdict mean for the buckets of an attempt.
func settlement(a *attempt, verdict []string) (*limits.Settlement, error) {
	st := &limits.Settlement{ID: a.ID}
	secret, words := "", verdict
	if n := len(words); n > 2 && words[n-2] == "secret" {
		secret, words = words[n-1], words[:n-2]
	}
	for i := range a.Charges {
		c := &a.Charges[i]
		if k := c.Rule.Kind(); k != limits.KindFailures && k != limits.KindSignal {
			continue
		}
		do, err := action(words, a.names[i], c.Rule)
		if err != nil {
			return nil, err
		}
		cl := limits.Closing{Rule: c.Rule, Key: c.Key, Do: do}
		if secret != "" {
			cl.Repeat = 1
		}
		st.Closings = append(st.Closings, cl)
		if d := c.Rule.Dimension; secret != "" && len(st.Repeats) == 0 && (d == limits.TargetSource || d == limits.Device) {
			st.Repeats = []limits.RepeatCheck{{Key: "s" + c.Key, Sum: sum(secret), Window: c.Rule.Window}}
		}
	}
	if secret != "" && len(st.Repeats) == 0 {
		return nil, fmt.Errorf("a secret is remembered by target_source or device, and neither is in use")
	}
	return st, nil
}

// action is what a verdict does to a bucket of rule r.
func action(words []string, name string, r *limits.Rule) (limits.Action, error) {
	if strings.Contains(words[0], "=") {
		for _, w := range words {
			if bucket, do, _ := strings.Cut(w, "="); bucket == name {
				a, ok := actions[do]
				if !ok {
					return 0, fmt.Errorf("no action %q", do)
				}
				return a, nil
			}
		}
		return 0, fmt.Errorf("what becomes of %s?", name)
	}
	if len(words) != 1 {
		return 0, fmt.Errorf("one verdict, not %q", words)
	}
	counts := map[string]limits.Class{"fail": limits.Failures, "factor": limits.Factors}
	switch class, failed := counts[words[0]]; {
	case failed && r.Class == class:
		return limits.Count, nil
	case words[0] == "succeed" && (r.Dimension == limits.TargetSource || r.Dimension == limits.Device):
		return limits.Clear, nil
	case words[0] == "neutral" && r.Shadowed():
		return limits.ShadowNeutral, nil
	case words[0] == "pending" && r.Shadowed():
		return limits.ShadowPending, nil
	case failed, words[0] == "succeed", words[0] == "neutral", words[0] == "pending", words[0] == "free":
		return limits.Free, nil
	}
	return 0, fmt.Errorf("no verdict %q", words[0])
}

// sum stands for the keyed digest of a secret; "unread" is one that could not be read.
func sum(secret string) uint64 {
	if secret == "unread" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(secret))
	return h.Sum64()
}
