package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"authgate/limits"
)

// What a case does with records, and with the facts that they are.

// always is longer than any case lasts.
const always = 100_000 * time.Hour

// conditions splits RULE@VALUE?FACT!FACT: of the facts after a question mark one must be known, of those after an
// exclamation mark none.
func conditions(word string) (bucket string, one, none []string) {
	end := strings.IndexAny(word, "?!")
	if end < 0 {
		return word, nil, nil
	}
	bucket = word[:end]
	for rest := word[end:]; rest != ""; {
		next := strings.IndexAny(rest[1:], "?!") + 1
		if next == 0 {
			next = len(rest)
		}
		if fact := rest[1:next]; rest[0] == '?' {
			one = append(one, fact)
		} else {
			none = append(none, fact)
		}
		rest = rest[next:]
	}
	return bucket, one, none
}

// set is the set of those facts among the ones asked for.
func (p *player) set(facts []string) (bits uint32, err error) {
	for _, f := range facts {
		i := slices.Index(p.facts, limits.Fact(f))
		if i < 0 {
			return 0, fmt.Errorf("nobody asks for the fact %s", f)
		}
		bits |= 1 << i
	}
	return bits, nil
}

func (p *player) swapped(was []limits.Kept, changes []limits.Change) (string, error) {
	done, err := p.env.Store.Swap(p.ctx, was, changes...)
	return yesNo(done), err
}

// must is a swap without conditions.
func (p *player) must(changes []limits.Change) (string, error) {
	done, err := p.swapped(nil, changes)
	if err == nil && done != "yes" {
		err = fmt.Errorf("a swap without conditions was not made")
	}
	return "", err
}

func (p *player) learn(s *step) (string, error) {
	var changes []limits.Change
	for _, f := range s.args {
		changes = append(changes, limits.Change{Key: f, Text: "known", TTL: always})
	}
	return p.must(changes)
}

func (p *player) keep(s *step) (string, error) {
	if len(s.args) == 0 {
		return "", fmt.Errorf("use keep TIME KEY=TEXT[@LIST], and more")
	}
	ttl, err := time.ParseDuration(s.args[0])
	if err != nil {
		return "", err
	}
	changes, err := asChanges(s.args[1:], ttl)
	if err != nil {
		return "", err
	}
	return p.must(changes)
}

func (p *player) forget(s *step) (string, error) {
	var changes []limits.Change
	for _, key := range s.args {
		changes = append(changes, limits.Change{Key: key})
	}
	return p.must(changes)
}

// swap reads "KEY=TEXT... then KEY=TEXT[@LIST]...".
func (p *player) swap(s *step) (string, error) {
	then := slices.Index(s.args, "then")
	if then < 0 {
		return "", fmt.Errorf("use swap KEY=TEXT then KEY=TEXT[@LIST], any number of each")
	}
	var was []limits.Kept
	for _, w := range s.args[:then] {
		key, text, ok := strings.Cut(w, "=")
		if !ok {
			return "", fmt.Errorf("%q: use KEY=TEXT", w)
		}
		was = append(was, limits.Kept{Key: key, Text: text})
	}
	changes, err := asChanges(s.args[then+1:], always)
	if err != nil {
		return "", err
	}
	before := p.env.Snapshot()
	out, err := p.swapped(was, changes)
	if err == nil && out == "no" && difference(before, p.env.Snapshot()) != "" {
		err = fmt.Errorf("a swap that was not made changed something:\n%s", difference(before, p.env.Snapshot()))
	}
	return out, err
}

func asChanges(words []string, ttl time.Duration) ([]limits.Change, error) {
	var changes []limits.Change
	for _, w := range words {
		key, text, ok := strings.Cut(w, "=")
		if !ok {
			return nil, fmt.Errorf("%q: use KEY=TEXT", w)
		}
		c := limits.Change{Key: key, TTL: ttl}
		c.Text, c.Index, _ = strings.Cut(text, "@")
		changes = append(changes, c)
	}
	return changes, nil
}

func (p *player) load(s *step) (string, error) {
	texts, err := p.env.Store.Load(p.ctx, s.args...)
	if err != nil {
		return "", err
	}
	var words []string
	for i, text := range texts {
		words = append(words, s.args[i]+"="+text)
	}
	return strings.Join(words, " "), nil
}

// keys reads a whole list, a page of two at a time.
func (p *player) keys(s *step) (string, error) {
	if len(s.args) != 1 {
		return "", fmt.Errorf("use keys LIST")
	}
	keys, err := allKeys(p.ctx, p.env.Store, s.args[0], 2)
	if len(keys) == 0 {
		return "none", err
	}
	return strings.Join(keys, " "), err
}
