package storetest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"authgate/limits"
)

// player carries out the steps of one case.
type player struct {
	env     *Env
	ctx     context.Context
	rules   map[string]*limits.Rule
	scopes  map[string]limits.Scope // by rule; a bucket keeps its key whatever becomes of the rule
	use     []bucket
	facts   []limits.Fact     // asked for
	names   map[string]string // of buckets, by key
	begun   map[string]*attempt
	ids     uint64
	decided *attempt        // the latest, for told and held
	answer  limits.Decision // to it
}

// bucket is one word after "use".
type bucket struct {
	name, rule, value string
	logOnly           bool
	one, none         []string // facts of which one must be known, and none may be
}

// attempt is an attempt with the names of its charges.
type attempt struct {
	limits.Attempt
	names []string
}

// verbs are the words that a line may begin with. Each carries out one step and says what came of it, in the form that
// stands after the arrow.
var verbs = map[string]func(*player, *step) (string, error){
	"rule": (*player).rule, "use": (*player).useBuckets, "after": (*player).after, "back": (*player).back,
	"try": (*player).try, "told": (*player).told, "held": (*player).held,
	"begin": (*player).begin, "end": (*player).end, "renew": (*player).renew,
	"fail": (*player).atOnce, "factor": (*player).atOnce, "succeed": (*player).atOnce, "neutral": (*player).atOnce,
	"pending": (*player).atOnce, "free": (*player).atOnce, "cycle": (*player).cycle,
	"facts": (*player).askFor, "learn": (*player).learn, "keep": (*player).keep, "forget": (*player).forget,
	"swap": (*player).swap, "load": (*player).load, "keys": (*player).keys,
	"release": (*player).release, "clear": (*player).clear, "list": (*player).list, "level": (*player).level,
}

// play runs one case and reports the first step that went wrong.
func play(e *Env, c testCase) error {
	p := &player{
		env: e, ctx: context.Background(), rules: map[string]*limits.Rule{}, scopes: map[string]limits.Scope{},
		names: map[string]string{}, begun: map[string]*attempt{},
	}
	for i := range c.steps {
		s := &c.steps[i]
		for n := range s.times {
			got, err := verbs[s.verb](p, s)
			if err == nil {
				err = e.Check()
			}
			if err != nil {
				return fmt.Errorf("%s.txt:%d: %s: %w", c.file, s.line, s.text, err)
			}
			if want := s.want; got != want && (want != "" || !usual(s.verb, got)) {
				return fmt.Errorf("%s.txt:%d: %s: time %d:\n  got  %s\n  want %s", c.file, s.line, s.text, n+1, got, want)
			}
		}
	}
	return nil
}

// usual reports whether an answer is what a line without an arrow expects: attempts are admitted without a remark, and
// settled in every bucket.
func usual(verb, got string) bool {
	switch verb {
	case "rule", "use", "facts", "learn", "keep", "forget", "after", "back", "renew", "level", "cycle":
		return got == ""
	case "try", "begin":
		return got == "admitted"
	case "fail", "factor", "succeed", "neutral", "pending", "free", "end":
		return !strings.Contains(got, "gone") && !strings.Contains(got, "refused")
	}
	return false
}

func (p *player) rule(s *step) (string, error) {
	if len(s.args) == 0 {
		return "", fmt.Errorf("use rule NAME CLASS DIMENSION LIMIT/WINDOW")
	}
	name := s.args[0]
	r, err := parseRule(name, s.args[1:])
	if err != nil {
		return "", err
	}
	p.rules[name] = r
	if p.scopes[name] == "" {
		p.scopes[name] = limits.NewScope(r, "realm")
	}
	return "", nil
}

func (p *player) useBuckets(s *step) (string, error) {
	p.use = nil
	for _, w := range s.args {
		b, err := p.bucket(w)
		if err != nil {
			return "", err
		}
		p.use = append(p.use, b)
	}
	return "", nil
}

func (p *player) bucket(word string) (bucket, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(word, "("), ")")
	b := bucket{logOnly: bare != word}
	bare, b.one, b.none = conditions(bare)
	name, value, ok := strings.Cut(bare, "@")
	if !ok {
		value = "x"
	}
	b.name, b.rule, b.value = bare, name, value
	if p.rules[name] == nil {
		return b, fmt.Errorf("no rule %q", name)
	}
	p.names[p.key(b)] = bare
	return b, nil
}

func (p *player) key(b bucket) string {
	return p.scopes[b.rule].Key(b.value)
}

func (p *player) askFor(s *step) (string, error) {
	p.facts = asFacts(s.args)
	return "", nil
}

func asFacts(words []string) []limits.Fact {
	facts := make([]limits.Fact, len(words))
	for i, w := range words {
		facts[i] = limits.Fact(w)
	}
	return facts
}

func (p *player) duration(s *step) (time.Duration, error) {
	if len(s.args) != 1 {
		return 0, fmt.Errorf("use %s DURATION", s.verb)
	}
	return time.ParseDuration(s.args[0])
}

func (p *player) after(s *step) (string, error) {
	d, err := p.duration(s)
	if err == nil {
		p.env.Advance(d)
	}
	return "", err
}

func (p *player) back(s *step) (string, error) {
	d, err := p.duration(s)
	if err == nil {
		p.env.SetBack(d)
	}
	return "", err
}

// attempt makes an attempt on the buckets in use.
func (p *player) attempt(options []string) (*attempt, error) {
	p.ids++
	// An id whose bytes resemble those of its neighbours, and of times, is the hardest to find again.
	a := &attempt{Attempt: limits.Attempt{ID: p.ids<<56 | p.ids}}
	for _, o := range options {
		switch o {
		case "lenient":
			a.Lenient = true
		case "quotas":
			a.Quotas = true
		default:
			return nil, fmt.Errorf("no option %q", o)
		}
	}
	a.Facts = p.facts
	for _, b := range p.use {
		c := limits.Charge{Rule: p.rules[b.rule], Key: p.key(b), LogOnly: b.logOnly}
		var err error
		if c.If, err = p.set(b.one); err != nil {
			return nil, err
		}
		if c.Unless, err = p.set(b.none); err != nil {
			return nil, err
		}
		a.Charges = append(a.Charges, c)
		a.names = append(a.names, b.name)
	}
	return a, nil
}

// decide asks the store, and checks that a refusal which is not silent left everything as it was.
func (p *player) decide(a *attempt) (limits.Decision, error) {
	before := p.env.Snapshot()
	d, err := p.env.Store.Decide(p.ctx, &a.Attempt)
	if err != nil {
		return d, err
	}
	p.decided, p.answer = a, d
	if worst, ok := d.Refused(&a.Attempt); ok == d.Admitted {
		return d, fmt.Errorf("admitted %t, but something stands in the way: %t", d.Admitted, ok)
	} else if ok && a.Charges[worst.Charge].Rule.Refuse != limits.Silent && !maps.Equal(before, p.env.Snapshot()) {
		return d, fmt.Errorf("the refusal changed something:\n%s", difference(before, p.env.Snapshot()))
	}
	return d, nil
}

func (p *player) try(s *step) (string, error) {
	a, err := p.attempt(s.args)
	if err != nil {
		return "", err
	}
	d, err := p.decide(a)
	return answer(a, &d), err
}

func (p *player) begin(s *step) (string, error) {
	if len(s.args) != 1 {
		return "", fmt.Errorf("use begin ID")
	}
	a, err := p.attempt(nil)
	if err != nil {
		return "", err
	}
	p.begun[s.args[0]] = a
	d, err := p.decide(a)
	return answer(a, &d), err
}

// told is whom the caller is told about, and for how many seconds.
func (p *player) told(*step) (string, error) {
	if p.decided == nil {
		return "", fmt.Errorf("nothing was decided yet")
	}
	r, ok := p.answer.Refused(&p.decided.Attempt)
	if !ok {
		return "nobody", nil
	}
	return fmt.Sprintf("%s %d", p.decided.names[r.Charge], r.RetryAfter()), nil
}

func (p *player) held(*step) (string, error) {
	if p.decided == nil {
		return "", fmt.Errorf("nothing was decided yet")
	}
	return yesNo(p.answer.HeldOnly(&p.decided.Attempt)), nil
}

func (p *player) renew(s *step) (string, error) {
	if len(s.args) != 1 || p.begun[s.args[0]] == nil {
		return "", fmt.Errorf("use renew ID")
	}
	return "", p.env.Store.Renew(p.ctx, &p.begun[s.args[0]].Attempt)
}

func (p *player) release(s *step) (string, error) {
	if len(s.args) != 1 {
		return "", fmt.Errorf("use release BUCKET")
	}
	b, err := p.bucket(s.args[0])
	if err != nil {
		return "", err
	}
	found, err := p.env.Store.Release(p.ctx, p.key(b))
	return yesNo(found), err
}

func (p *player) clear(*step) (string, error) {
	n, err := p.env.Store.Clear(p.ctx)
	return fmt.Sprint(n), err
}

func (p *player) list(*step) (string, error) {
	entries, err := allEntries(p.ctx, p.env.Store, 2)
	return listed(entries, p.names), err
}

func (p *player) level(s *step) (string, error) {
	if len(s.args) != 2 {
		return "", fmt.Errorf("use level BUCKET N")
	}
	b, err := p.bucket(s.args[0])
	if err != nil {
		return "", err
	}
	var level int64
	if _, err := fmt.Sscan(s.args[1], &level); err != nil {
		return "", err
	}
	p.env.Level(p.rules[b.rule], p.key(b), level)
	return "", nil
}

// cycle fails until the first bucket in use locks, then waits for the end of that lock.
func (p *player) cycle(*step) (string, error) {
	for range limits.MaxFailureLimit {
		a, effects, err := p.settled(&step{verb: "fail"})
		if err != nil {
			return "", err
		}
		if effects == nil {
			return "", fmt.Errorf("%s was refused", a.names[0])
		}
		if d := effects.Effects[0].Locked; d > 0 {
			p.env.Advance(time.Duration(d) * time.Millisecond)
			return "", nil
		}
	}
	return "", fmt.Errorf("no lock after %d failures", limits.MaxFailureLimit)
}
