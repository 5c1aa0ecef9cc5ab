package outcome

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Lint warns of rules that are sound one by one and still look wrong: a success that rests on next to nothing, rules that can
// never match, successes and failures that cannot be told apart [V2]. A config that [Compile] refuses has no warnings.
func Lint(cfg Config) []Problem {
	c, problems := Compile(cfg)
	if len(problems) > 0 {
		return nil
	}
	l := linter{rules: c.rules}
	for i := range c.rules {
		l.index = i
		l.weak()
		l.contradictory()
		if l.shadowed() {
			continue
		}
		l.overlapping()
	}
	return l.warnings
}

type linter struct {
	rules    []rule
	index    int // of the rule at hand
	warnings []Problem
}

func (l *linter) warn(field, format string, args ...any) {
	l.warnings = append(l.warnings, Problem{l.index, field, fmt.Sprintf(format, args...)})
}

// weak warns of evidence that a wrong password may produce as well.
func (l *linter) weak() {
	r := &l.rules[l.index]
	switch {
	case r.verdict == Neutral && !r.answers():
		l.warn("request", "neutral by the request alone: whoever sends a request like that is never counted")
	case r.verdict != Success || !r.onlyStrongText():
	case len(r.text) > 0:
		l.warn("body", "success by status and text: the text of a page changes with its language and its version; a cookie, header, Location or JSON member is firmer")
	case r.status.meetsRange(200, 399):
		l.warn("status", "success by status alone: many servers answer a wrong password with 2xx or 3xx; add a cookie, header, Location or JSON member")
	}
}

// onlyStrongText is onlyText, where a Location that may lead anywhere is no condition.
func (r *rule) onlyStrongText() bool {
	bare := *r
	if len(r.location) > 0 && slices.ContainsFunc(r.location, func(g glob) bool { return strings.Trim(g.String(), "*/") == "" && !g.exact() }) {
		bare.location = nil
	}
	return bare.onlyText()
}

// contradictory warns of conditions that no answer meets together.
func (l *linter) contradictory() {
	r := &l.rules[l.index]
	empty := statusSet{}
	empty.addAll(100, 199)
	empty.add(http.StatusNoContent)
	empty.add(http.StatusNotModified)
	moves := statusSet{}
	moves.add(http.StatusCreated)
	moves.add(http.StatusAccepted)
	moves.addAll(300, 399)
	switch {
	case r.readsBody() && empty.contains(&r.status):
		l.warn("status", "can never match: an answer of this status has no body")
	case (len(r.location) > 0 || len(r.locationQuery) > 0) && !r.anyStatus && !r.status.meets(&moves):
		l.warn("status", "can hardly match: only 201, 202 and 3xx come with a Location")
	case len(r.cookieSet) > 0 && slices.ContainsFunc(r.cookieDeleted, func(d glob) bool {
		return d.exact() && len(r.cookieDeleted) == 1 && len(r.cookieSet) == 1 && r.cookieSet[0].String() == d.String()
	}):
		l.warn("cookie_deleted", "can hardly match: the same cookie is to be set and deleted")
	case len(r.json) > 0 && slices.ContainsFunc(r.header, func(f field) bool { return f.name == "Content-Type" && otherThanJSON(f.want) }):
		l.warn("json", "can hardly match: the content type is not JSON")
	}
	l.contradictoryMembers(r)
}

// otherThanJSON says that a pattern for a content type begins with one that is not JSON's.
func otherThanJSON(want glob) bool {
	_, subtype, _ := strings.Cut(want[0], "/")
	return subtype != "" && !strings.Contains(want.String(), "json")
}

// contradictoryMembers warns of a member that is to be a text, or absent, and to have members of its own.
func (l *linter) contradictoryMembers(r *rule) {
	for _, f := range r.json {
		for _, g := range r.json {
			if !f.want.any() && strings.HasPrefix(g.path, f.path+"/") && !g.want.absent() {
				l.warn("json", "can never match: %s cannot be %q and have the member %s", f.path, f.want, g.path)
			}
		}
	}
}

// shadowed warns of a rule all of whose answers an earlier rule takes.
func (l *linter) shadowed() bool {
	r := &l.rules[l.index]
	for i := range l.index {
		if l.rules[i].covers(r) {
			l.warn("is", "can never match: every answer that it matches is taken by outcome[%d] (%s)", i, l.rules[i].verdict)
			return true
		}
	}
	return false
}

// overlapping warns of an earlier rule that says the opposite about answers that this one matches, too.
func (l *linter) overlapping() {
	r := &l.rules[l.index]
	for i := range l.index {
		earlier := &l.rules[i]
		pair := [2]Verdict{earlier.verdict, r.verdict}
		switch {
		case pair != [2]Verdict{Success, Failure} && pair != [2]Verdict{Failure, Success}:
		case r.verdict == Success && r.covers(earlier):
			l.warn("is", "overlaps outcome[%d] (failure): whatever that rule does not recognise becomes a success; state what only a success shows", i)
		case earlier.sameKinds(r) && earlier.meets(r) && !r.covers(earlier):
			l.warn("is", "overlaps outcome[%d] (%s): an answer can match both, and the order decides", i, earlier.verdict)
		}
	}
}
