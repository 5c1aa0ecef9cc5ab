package storetest

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"authgate/limits"
)

// testCase is what stands between two lines that begin with "case".
type testCase struct {
	file, name string
	steps      []step
}

// step is one line: what is done, how often, and what must come of it each time.
type step struct {
	line  int
	text  string
	verb  string
	args  []string
	times int
	want  string // "": what the verb takes for usual
}

// maxTimes bounds xN, so that a slip of the pen does not run for an hour.
const maxTimes = 100_000

// parseCases reads one file. Its errors name the file and the line.
func parseCases(file, text string) ([]testCase, error) {
	short := strings.TrimSuffix(path.Base(file), ".txt")
	var cases []testCase
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if name, ok := strings.CutPrefix(line, "case "); ok {
			cases = append(cases, testCase{file: short, name: strings.TrimSpace(name)})
			continue
		}
		if len(cases) == 0 {
			return nil, fmt.Errorf("reading %s:%d: %q stands before the first case", file, n, line)
		}
		s, err := parseStep(line)
		if err != nil {
			return nil, fmt.Errorf("reading %s:%d: %w", file, n, err)
		}
		s.line = n
		c := &cases[len(cases)-1]
		c.steps = append(c.steps, s)
	}
	return cases, nil
}

func parseStep(line string) (step, error) {
	s := step{text: line, times: 1}
	left, want, arrow := strings.Cut(line, "->")
	if arrow {
		if s.want = normal(want); s.want == "" {
			return s, fmt.Errorf("%q: nothing after the arrow", line)
		}
	}
	words := strings.Fields(left)
	if len(words) == 0 {
		return s, fmt.Errorf("%q: nothing before the arrow", line)
	}
	s.verb = words[0]
	if _, ok := verbs[s.verb]; !ok {
		return s, fmt.Errorf("%q: unknown word %q", line, s.verb)
	}
	for _, w := range words[1:] {
		if digits, ok := strings.CutPrefix(w, "x"); ok && digits != "" && strings.Trim(digits, "0123456789") == "" {
			n, err := strconv.Atoi(digits)
			if err != nil || n < 1 || n > maxTimes {
				return s, fmt.Errorf("%q: use x1..x%d", line, maxTimes)
			}
			s.times = n
			continue
		}
		s.args = append(s.args, w)
	}
	return s, nil
}

// normal writes text the one way that answers are written in: single blanks, durations as Go prints them.
func normal(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		bare := strings.TrimRight(w, ",;")
		if bare == "" || strings.Trim(bare[:1], "0123456789.") != "" || strings.Trim(bare[len(bare)-1:], "hms") != "" {
			continue
		}
		if d, err := time.ParseDuration(bare); err == nil {
			words[i] = d.String() + w[len(bare):]
		}
	}
	return strings.Join(words, " ")
}

// parseRule reads what follows "rule NAME". The rule is valid.
func parseRule(name string, words []string) (*limits.Rule, error) {
	r := &limits.Rule{Policy: name, PrefixV4: 32, PrefixV6: 128}
	if len(words) < 3 {
		return nil, fmt.Errorf("rule %s: use CLASS DIMENSION LIMIT/WINDOW", name)
	}
	class := map[string]limits.Class{"requests": limits.Requests, "failures": limits.Failures, "factors": limits.Factors}
	var ok bool
	if r.Class, ok = class[words[0]]; !ok {
		return nil, fmt.Errorf("rule %s: %q is no class", name, words[0])
	}
	var err error
	if r.Dimension, err = limits.ParseDimension(words[1]); err != nil {
		return nil, fmt.Errorf("rule %s: %w", name, err)
	}
	limit, window, _ := strings.Cut(words[2], "/")
	if r.Limit, err = strconv.Atoi(limit); err != nil {
		return nil, fmt.Errorf("rule %s: %w", name, err)
	}
	if r.Window, err = time.ParseDuration(window); err != nil {
		return nil, fmt.Errorf("rule %s: %w", name, err)
	}
	for rest := words[3:]; len(rest) > 0; {
		n, err := parseOption(r, rest)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %s: %w", name, rest[0], err)
		}
		rest = rest[n:]
	}
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("rule %s: %w", name, err)
	}
	return r, nil
}

// parseOption reads one option and reports how many words it took.
func parseOption(r *limits.Rule, words []string) (n int, err error) {
	need := map[string]int{"burst": 2, "index": 2, "policy": 2, "refuse": 2, "lock": 3, "signal": 1}[words[0]]
	if need == 0 {
		return 0, fmt.Errorf("no such option")
	}
	if len(words) < need {
		return 0, fmt.Errorf("needs %d words more", need-1)
	}
	switch words[0] {
	case "burst":
		r.Burst, err = strconv.Atoi(words[1])
	case "index":
		r.Index, err = strconv.Atoi(words[1])
	case "policy":
		r.Policy = words[1]
	case "refuse":
		r.Refuse, err = limits.ParseRefuse(words[1])
	case "signal":
		r.Signal = true
	case "lock":
		if r.Lockout.Base, err = time.ParseDuration(words[1]); err == nil {
			r.Lockout.Max, err = time.ParseDuration(words[2])
		}
	}
	return need, err
}
