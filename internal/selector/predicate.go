package selector

import (
	"fmt"
	"slices"
)

// Predicate is one condition of a route on the request: a field, member or query parameter that has a value, or is
// present at all. It is immutable and safe for concurrent use.
type Predicate struct {
	spec *Spec
	want string
	any  bool
}

// anyValue is how the configuration spells "present".
const anyValue = "*"

// NewPredicate compiles `form: {grant_type: password}` and its like: the selector of the field, and the value, "*" for any.
// Only selectors of the body and the query make a predicate.
func NewPredicate(sel Selector, value string) (*Predicate, error) {
	if !sel.NeedsBody() && sel.kind != Query {
		return nil, fmt.Errorf("compiling condition %s: want form, json, xml, multipart or query", sel)
	}
	spec, err := Compile(Config{From: []Selector{sel}, Normalize: nameForm})
	if err != nil {
		return nil, err
	}
	p := &Predicate{spec: spec, want: nameForm.Key(value), any: value == anyValue}
	if p.want == "" {
		return nil, fmt.Errorf(`compiling condition %s: an empty value: want "*" where it need only be present`, sel)
	}
	return p, nil
}

// NeedsBody reports whether Match wants the body of the request.
func (p *Predicate) NeedsBody() bool { return p.spec.NeedsBody() }

// Match reports whether any backend may find the value in the request: every reading of an ambiguous request counts, and
// one that cannot be read at all matches [I6]. Values are compared without regard to case and blanks. Without a body
// that the predicate needs, only the query is looked at.
func (p *Predicate) Match(in *Input) bool {
	r := p.spec.Read(in)
	switch {
	case r.State == Malformed:
		return true
	case p.any:
		return r.State != Missing || r.Reason == Empty || r.Reason == Null
	}
	return slices.Contains(r.Values, p.want)
}
