package outcome

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// evidence is one answer while it is judged: what is known of it, and what has been read out of it so far. It lives on the
// stack of one call.
type evidence struct {
	c      *Classifier
	status int
	header http.Header
	req    RequestView // may be nil
	prefix []byte
	body   bodyState

	location  location
	located   bool
	text      []byte // decompressed
	textWhole bool
	decoded   bool
	found     []jsonValue
	jsonWhole bool
	scanned   bool
	echoed    *echoes
}

// bodyState is how much of the body prefix holds.
type bodyState uint8

const (
	unseen  bodyState = iota // nothing has been read yet
	partial                  // more will be read
	cut                      // there is more, which will not be read
	whole
)

func (e *evidence) method() string {
	if e.req == nil {
		return ""
	}
	return e.req.Method()
}

// match judges all conditions of a rule but its status.
func (e *evidence) match(r *rule) match {
	asked := e.asked(r.request)
	if asked == miss || !e.headerMatches(r) {
		return miss
	}
	result := hit
	if r.readsBody() {
		result = e.bodyMatches(r)
		if result == miss || result == later {
			return e.beyondSight(r, result)
		}
	}
	switch {
	case r.verdict == Failure:
		return hit
	case result != doubtful && asked != doubtful && !e.reflected(r):
		return hit
	case e.body == partial && r.readsBody():
		return later // the backend's own words may yet come
	default:
		return doubtful
	}
}

// asked judges the predicate on the request. It is doubtful if a name has several values of which not all match.
func (e *evidence) asked(r *requestRule) match {
	if r == nil {
		return hit
	}
	if e.req == nil {
		return miss
	}
	if len(r.method) > 0 && !slices.Contains(r.method, strings.ToUpper(e.req.Method())) {
		return miss
	}
	if len(r.path) > 0 {
		path := strings.ToLower(e.req.Path())
		if !slices.ContainsFunc(r.path, func(g glob) bool { return g.match(path) }) {
			return miss
		}
	}
	result := hit
	for i := range r.fields {
		f := &r.fields[i]
		var values []string
		switch f.from {
		case fromHeader:
			values = e.req.Header()[f.name]
		case fromQuery:
			values = e.req.Query(f.name)
		case fromForm:
			values = e.req.Form(f.name)
		case fromJSON:
			values = e.req.JSON(f.name)
		}
		switch some, all := tally(values, f.want); {
		case !some:
			return miss
		case !all:
			result = doubtful
		}
	}
	return result
}

// tally says whether some and whether all of the values match the lower case pattern.
func tally(values []string, want glob) (some, all bool) {
	if len(values) == 0 {
		return want.absent(), true
	}
	all = true
	for _, v := range values {
		if want.match(strings.ToLower(v)) {
			some = true
		} else {
			all = false
		}
	}
	return some, all
}

// headerMatches judges the conditions on the answer's header.
func (e *evidence) headerMatches(r *rule) bool {
	for i := range r.header {
		if f := &r.header[i]; !anyMatches(e.header[f.name], f.want) {
			return false
		}
	}
	cookies := e.header["Set-Cookie"]
	if !hasAnyCookie(cookies, r.cookieSet, false) || !hasAnyCookie(cookies, r.cookieDeleted, true) {
		return false
	}
	if len(r.location) == 0 && len(r.locationQuery) == 0 {
		return true
	}
	if len(e.header["Location"]) == 0 {
		return false
	}
	to := e.leadsTo()
	if len(r.location) > 0 && !slices.ContainsFunc(r.location, func(g glob) bool { return g.match(to.path) }) {
		return false
	}
	for i := range r.locationQuery {
		if !e.paramMatches(to, &r.locationQuery[i]) {
			return false
		}
	}
	return true
}

func anyMatches(values []string, want glob) bool {
	if len(values) == 0 {
		return want.absent()
	}
	return slices.ContainsFunc(values, want.match)
}

func hasAnyCookie(lines []string, names []glob, deleted bool) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name glob) bool { return hasCookie(lines, name, deleted) })
}

// leadsTo is where the answer's first Location leads.
func (e *evidence) leadsTo() location {
	if !e.located {
		e.located = true
		e.location = parseLocation(e.header["Location"][0], e.base())
	}
	return e.location
}

// base is what a relative Location is resolved against.
func (e *evidence) base() string {
	if e.req == nil || !strings.HasPrefix(e.req.Path(), "/") {
		return "/"
	}
	return e.req.Path()
}

func (e *evidence) paramMatches(to location, f *field) bool {
	value, ok := to.param(f.name)
	switch {
	case !ok:
		return f.want.absent()
	case f.same:
		return e.req != nil && slices.Contains(e.req.Query(f.name), value)
	default:
		return f.want.match(value)
	}
}

// bodyMatches judges the conditions on the body. It is doubtful if a member was there several times and not always matched.
func (e *evidence) bodyMatches(r *rule) match {
	if e.body == unseen {
		return later
	}
	if !e.decoded {
		e.decoded = true
		e.text, e.textWhole = e.c.decoders.text(e.prefix, e.header, e.c.inspectBytes)
		e.textWhole = e.textWhole && e.body == whole
	}
	if len(r.text) > 0 && !slices.ContainsFunc(r.text, func(n needle) bool { return bytes.Contains(e.text, n.text) }) {
		if e.body == partial {
			return later
		}
		return miss
	}
	if len(r.json) == 0 {
		return hit
	}
	if e.body == partial {
		return later // a member may yet be repeated, and the text is scanned once
	}
	if !e.scanned {
		e.scanned = true
		e.found, e.jsonWhole = scanJSON(e.text, e.c.pointers)
	}
	result := hit
	for i := range r.json {
		m := e.memberMatches(&r.json[i])
		if m == miss {
			return miss
		}
		result = max(result, m)
	}
	return result
}

func (e *evidence) memberMatches(f *jsonField) match {
	some, all := false, true
	for i := range e.found {
		v := &e.found[i]
		if v.pointer != f.pointer {
			continue
		}
		if v.meets(f.want) {
			some = true
		} else {
			all = false
		}
	}
	switch {
	case !some && all && f.want.absent() && e.jsonWhole:
		return hit // it is not there at all
	case !some:
		return miss
	case !all && !f.wild:
		return doubtful
	default:
		return hit
	}
}

// beyondSight turns a miss into doubt where the request wrote so much into the answer that what the rule looks for may have been
// pushed behind the part that is looked at.
func (e *evidence) beyondSight(r *rule, result match) match {
	if result != miss || e.textWhole || e.body == unseen || e.req == nil || max(len(e.text), len(e.prefix)) < e.c.inspectBytes {
		return result
	}
	if e.echoes().pad(asciiLower(e.text), e.c.inspectBytes) {
		return doubtful
	}
	return miss
}

func (e *evidence) echoes() *echoes {
	if e.echoed == nil {
		e.echoed = collectEchoes(e.req)
	}
	return e.echoed
}

// JSONText is the scalar that a JSON pointer leads to in the body of an answer, as text: who signed in, say. It is false if
// there is none in the part that is looked at, or if several members of that name disagree.
func (c *Classifier) JSONText(a Answer, pointerText string) (string, bool) {
	p, err := parsePointer(pointerText)
	if err != nil {
		return "", false
	}
	text, _ := c.decoders.text(a.Prefix, a.Header, c.inspectBytes)
	found, _ := scanJSON(text, []pointer{p})
	value, ok := "", false
	for i, v := range found {
		s, scalar := v.text()
		if !scalar || i > 0 && s != value {
			return "", false
		}
		value, ok = s, true
	}
	return value, ok
}
