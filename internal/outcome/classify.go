package outcome

import (
	"context"
	"errors"
	"net/http"
)

// Classifier tells the verdict of answers by the rules of one policy. Make it with [Compile]. It is immutable and safe for
// concurrent use; a nil or zero one is not usable.
type Classifier struct {
	rules        []rule
	pointers     []pointer // of all rules' JSON conditions
	unknownAs    Verdict
	inspectBytes int
	pins         []pin
	decoders     decoders
}

// Answer is what is known of a backend's answer. Nothing of it is changed or kept.
type Answer struct {
	Status int
	// Header is as received, its names in canonical form.
	Header http.Header
	// Prefix is the beginning of the body as received, possibly compressed; what lies beyond InspectBytes is ignored.
	Prefix []byte
	// Truncated says that the body goes on behind Prefix.
	Truncated bool
}

// Result is a verdict and where it comes from.
type Result struct {
	// Verdict is what the answer says; Unknown if no rule matched.
	Verdict Verdict
	// Counts is what the account is settled with: Verdict, or what stands in for Unknown. It is never Unknown.
	Counts Verdict
	// Rule is the index of the rule that matched, or -1.
	Rule int
	// Reflected says that a rule was passed over because the request may have supplied what it looks for [V3].
	Reflected bool
}

// Head tells the verdict from status and header alone. It is false if the answer's body is needed. A nil req is a request of
// which nothing is known: rules with a predicate on it do not match, and nothing is taken for its reflection.
func (c *Classifier) Head(status int, header http.Header, req RequestView) (Result, bool) {
	e := evidence{c: c, status: status, header: header, req: req}
	if bodyless(status, e.method()) {
		e.body = whole
	}
	return e.decide()
}

// NeedsBody says that status and header leave the verdict open, so that the beginning of the body must be seen.
func (c *Classifier) NeedsBody(status int, header http.Header, req RequestView) bool {
	_, decided := c.Head(status, header, req)
	return !decided
}

// Classify tells the verdict of an answer of which no more will be seen than a holds.
func (c *Classifier) Classify(a Answer, req RequestView) Result {
	e := evidence{c: c, status: a.Status, header: a.Header, req: req, prefix: a.Prefix, body: whole}
	if a.Truncated {
		e.body = cut
	}
	result, _ := e.decide()
	return result
}

// Failed is the result of an attempt without an answer. It is judged like the answer that the client gets in its place, an empty
// 504 for a timeout and 502 otherwise, so that a rule may say what these count as, and else neutral; a login can be neither
// complete nor pending by it. An attempt that was cancelled is always neutral [V4].
func (c *Classifier) Failed(err error, req RequestView) Result {
	neutral := Result{Verdict: Neutral, Counts: Neutral, Rule: -1}
	if errors.Is(err, context.Canceled) {
		return neutral
	}
	status := http.StatusBadGateway
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		status = http.StatusGatewayTimeout
	}
	result := c.Classify(Answer{Status: status}, req)
	if result.Verdict == Success || result.Verdict == Pending {
		return neutral
	}
	return result
}

// match is how a rule and an answer go together.
type match uint8

const (
	miss     match = iota
	hit            // all conditions hold
	later          // the body will tell
	doubtful       // all conditions seem to hold, or the one that does not was out of sight, by what the request wrote
)

// decide tries the rules in order. It is false if a rule's conditions on the body cannot be judged yet.
func (e *evidence) decide() (Result, bool) {
	best := Success.grade()
	reflected := false
	for i := range e.c.rules {
		r := &e.c.rules[i]
		if !r.status.has(e.status) || r.verdict.grade() > best {
			continue
		}
		switch e.match(r) {
		case hit:
			return Result{Verdict: r.verdict, Counts: r.verdict, Rule: i, Reflected: reflected}, true
		case later:
			return Result{}, false
		case doubtful:
			// The request must not have gained by what it wrote: no kinder verdict may take this one's place.
			best, reflected = min(best, r.verdict.grade()), true
		case miss:
		}
	}
	if e.status >= 500 && e.status < 600 {
		return Result{Verdict: Neutral, Counts: Neutral, Rule: -1, Reflected: reflected}, true
	}
	counts := e.c.unknownAs
	if reflected && counts == Success {
		counts = Neutral
	}
	return Result{Verdict: Unknown, Counts: counts, Rule: -1, Reflected: reflected}, true
}
