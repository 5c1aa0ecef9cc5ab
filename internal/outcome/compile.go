package outcome

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// rule is a compiled [Rule].
type rule struct {
	verdict        Verdict
	status         statusSet
	anyStatus      bool
	header         []field
	location       []glob
	foldedLocation []glob
	locationQuery  []field
	cookieSet      []glob
	cookieDeleted  []glob
	json           []jsonField
	text           []needle
	request        *requestRule // nil: none
}

// field is a condition on what stands under a name.
type field struct {
	name   string
	want   glob
	folded glob // want in lower case
	same   bool // instead: the same as in the request's query
}

// jsonField is a condition on what a pointer leads to.
type jsonField struct {
	pointer    int // index into Classifier.pointers
	wild       bool
	want       glob
	folded     glob
	path       string // the pointer as written
	quotedName string // its last segment as it stands in a document, in lower case
}

// needle is a text to be found.
type needle struct {
	text   []byte
	folded []string // how it would read in a request, in lower case; nothing if it is so short that it stands in many by chance
}

// requestRule is a compiled [Request].
type requestRule struct {
	method []string
	path   []glob // in lower case
	fields []requestField
}

type requestField struct {
	from source
	name string
	want glob // in lower case
}

// source is a part of a request that has named values.
type source uint8

const (
	fromHeader source = iota
	fromQuery
	fromForm
	fromJSON
)

func (r *rule) readsBody() bool { return len(r.text) > 0 || len(r.json) > 0 }

// readsText says that a condition rests on text that a request might supply.
func (r *rule) readsText() bool {
	return r.readsBody() || len(r.header) > 0 || len(r.location) > 0 || len(r.locationQuery) > 0
}

// answers says that a condition on the answer is stated.
func (r *rule) answers() bool {
	return !r.anyStatus || r.readsText() || len(r.cookieSet) > 0 || len(r.cookieDeleted) > 0
}

// Defaults and bounds of InspectBytes [V1].
const (
	defaultInspectBytes = 16 << 10
	maxInspectBytes     = 1 << 20
)

// Compile makes a classifier of the rules. If there are problems, all are returned and the classifier is nil.
func Compile(cfg Config) (*Classifier, []Problem) {
	c := compiler{rules: make([]rule, len(cfg.Rules)), inspectBytes: cfg.InspectBytes}
	if c.inspectBytes == 0 {
		c.inspectBytes = defaultInspectBytes
	}
	if c.inspectBytes < 0 || c.inspectBytes > maxInspectBytes {
		c.policy("inspect_bytes", "%d is out of bounds, use 1 to %d bytes", cfg.InspectBytes, maxInspectBytes)
	}
	unknownAs := cfg.UnknownAs
	switch unknownAs {
	case Unknown:
		unknownAs = Neutral
	case Neutral, Failure, Success:
	default:
		c.policy("unknown_as", "%s cannot stand in for unknown, use neutral, failure or success", unknownAs)
	}
	for i := range cfg.Rules {
		c.index = i
		c.rules[i] = c.rule(&cfg.Rules[i])
	}
	if cfg.Required {
		c.requireBoth()
	}
	pins := c.pins(cfg.PinHeaders)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	return &Classifier{rules: c.rules, pointers: c.pointers, unknownAs: unknownAs, inspectBytes: c.inspectBytes, pins: pins}, nil
}

// compiler collects what is wrong on the way.
type compiler struct {
	rules        []rule
	pointers     []pointer
	inspectBytes int
	index        int // of the rule at hand
	problems     []Problem
}

func (c *compiler) policy(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{-1, field, fmt.Sprintf(format, args...)})
}

func (c *compiler) problem(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{c.index, field, fmt.Sprintf(format, args...)})
}

// requireBoth demands that success and failure are both stated: nothing is assumed from a status [V2].
func (c *compiler) requireBoth() {
	success, failure := false, false
	for i := range c.rules {
		switch c.rules[i].verdict {
		case Success:
			success = true
		case Failure, FactorFailure, ClientFailure:
			failure = true
		}
	}
	if !success {
		c.policy("outcome", "no rule says what a success looks like; state at least one with `is: success`")
	}
	if !failure {
		c.policy("outcome", "no rule says what a failure looks like; state at least one with `is: failure`")
	}
}

func (c *compiler) rule(in *Rule) rule {
	r := rule{anyStatus: len(in.Status) == 0}
	verdict, err := ParseVerdict(in.Is)
	switch {
	case err != nil:
		c.problem("is", "%q is no verdict, use one of %s", in.Is, strings.Join(verdictWords[1:], ", "))
	case verdict == Unknown:
		c.problem("is", "unknown is what no rule says; leave the rule out")
	}
	r.verdict = verdict
	if r.anyStatus {
		r.status.addAll(minStatus, maxStatus)
	}
	for _, text := range in.Status {
		if err := r.status.addText(strings.TrimSpace(text)); err != nil {
			c.problem("status", "%v", err)
		}
	}
	r.header = c.header(in.Header)
	r.location = c.location(in.Location)
	for _, g := range r.location {
		r.foldedLocation = append(r.foldedLocation, g.fold())
	}
	r.locationQuery = c.locationQuery(in.LocationQuery, verdict)
	r.cookieSet = c.cookies("cookie_set", in.CookieSet)
	r.cookieDeleted = c.cookies("cookie_deleted", in.CookieDeleted)
	r.json = c.json(in.JSON)
	r.text = c.text(in.Body)
	r.request = c.request(&in.Request)
	c.evidence(&r)
	return r
}

// evidence demands that a rule rests on something, and on what can bear its verdict.
func (c *compiler) evidence(r *rule) {
	switch {
	case !r.answers() && r.request == nil:
		c.problem("is", "the rule states no condition and would match every answer; use unknown_as for what the other rules leave")
	case !r.answers() && r.verdict != Neutral && r.verdict != Failure:
		c.problem("is", "%s is stated by the request alone, which anyone can send; add a condition on the answer", r.verdict)
	case r.verdict == Success && r.anyStatus && len(r.text) > 0 && r.onlyText():
		c.problem("body", "text alone never makes a success, since a request may have put it there; add a status, cookie, header or JSON condition")
	}
}

// onlyText says that no condition on the answer but status and text is stated.
func (r *rule) onlyText() bool {
	return len(r.header) == 0 && len(r.location) == 0 && len(r.locationQuery) == 0 && len(r.cookieSet) == 0 &&
		len(r.cookieDeleted) == 0 && len(r.json) == 0
}

func (c *compiler) header(in map[string]string) []field {
	var out []field
	for _, name := range slices.Sorted(maps.Keys(in)) {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			c.problem("header", "%q is no header name", name)
		case canonical == "Location":
			c.problem("header", "Location has keys of its own, location and location_query")
		case canonical == "Set-Cookie":
			c.problem("header", "Set-Cookie has keys of its own, cookie_set and cookie_deleted")
		default:
			out = append(out, newField(canonical, in[name]))
		}
	}
	return out
}

func newField(name, pattern string) field {
	want := parseGlob(pattern)
	return field{name: name, want: want, folded: want.fold()}
}

func (c *compiler) location(in []string) []glob {
	var out []glob
	for _, pattern := range in {
		switch {
		case pattern == "":
			c.problem("location", "an empty path matches nothing, use * for any")
		case strings.Contains(pattern, "?"):
			c.problem("location", "%q has a query, put it into location_query", pattern)
		case strings.Contains(pattern, "://"), strings.HasPrefix(pattern, "//"):
			c.problem("location", "%q has a host; only the path is compared", pattern)
		case pattern[0] != '/' && pattern[0] != '*':
			out = append(out, parseGlob("*/"+pattern))
		default:
			out = append(out, parseGlob(pattern))
		}
	}
	return out
}

func (c *compiler) locationQuery(in map[string]string, verdict Verdict) []field {
	var out []field
	for _, name := range slices.Sorted(maps.Keys(in)) {
		f := newField(name, in[name])
		if in[name] == "=" {
			f.same = true
			if verdict != Failure && verdict != FactorFailure && verdict != ClientFailure {
				c.problem("location_query", "= compares with what the request says, which only a failure may rest on")
			}
		}
		if name == "" {
			c.problem("location_query", "a parameter has an empty name")
		}
		out = append(out, f)
	}
	return out
}

func (c *compiler) cookies(key string, in []string) []glob {
	var out []glob
	for _, name := range in {
		if name == "" || strings.ContainsAny(name, " =;,") {
			c.problem(key, "%q is no cookie name", name)
			continue
		}
		out = append(out, parseGlob(name))
	}
	return out
}

func (c *compiler) json(in map[string]string) []jsonField {
	var out []jsonField
	for _, text := range slices.Sorted(maps.Keys(in)) {
		p, err := parsePointer(text)
		if err != nil {
			c.problem("json", "%v", err)
			continue
		}
		i := slices.IndexFunc(c.pointers, func(q pointer) bool { return slices.Equal(p, q) })
		if i < 0 {
			i = len(c.pointers)
			if i == maxPointers {
				c.problem("json", "more than %d different pointers in one policy", maxPointers)
				continue
			}
			c.pointers = append(c.pointers, p)
		}
		f := newField(p[len(p)-1], in[text])
		out = append(out, jsonField{i, slices.Contains(p, "*"), f.want, f.folded, text, strings.ToLower(`"` + f.name + `"`)})
	}
	return out
}

func (c *compiler) text(in []string) []needle {
	var out []needle
	for _, text := range in {
		switch {
		case text == "":
			c.problem("body", "an empty text is in every body")
		case len(text) > c.inspectBytes:
			c.problem("body", "a text of %d bytes can never be within the inspected %d", len(text), c.inspectBytes)
		default:
			out = append(out, needle{[]byte(text), spellings(text)})
		}
	}
	return out
}

// spellings is a text of an answer as it may stand in a request, in lower case: as it is, and unescaped, unless next to nothing is
// left of it.
func spellings(text string) []string {
	out := []string{lower(strings.TrimSpace(text))}
	for _, other := range [...]string{formDecode(text), html.UnescapeString(text), unquote([]byte(text))} {
		if other = lower(strings.TrimSpace(other)); 2*len(other) >= len(text) && !slices.Contains(out, other) {
			out = append(out, other)
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return len(s) < shortText })
}

func (c *compiler) request(in *Request) *requestRule {
	r := requestRule{}
	for _, method := range in.Method {
		if !httpguts.ValidHeaderFieldName(method) { // both are tokens
			c.problem("request.method", "%q is no method", method)
		}
		r.method = append(r.method, strings.ToUpper(method))
	}
	for _, path := range in.Path {
		if path == "" || path[0] != '/' && path[0] != '*' {
			c.problem("request.path", "%q is no path, it must start with / or *", path)
		}
		r.path = append(r.path, parseGlob(strings.ToLower(path)))
	}
	for _, part := range [...]struct {
		from   source
		key    string
		values map[string]string
	}{
		{fromHeader, "header", in.Header},
		{fromQuery, "query", in.Query},
		{fromForm, "form", in.Form},
		{fromJSON, "json", in.JSON},
	} {
		for _, name := range slices.Sorted(maps.Keys(part.values)) {
			pattern := part.values[name]
			switch part.from {
			case fromHeader:
				name = http.CanonicalHeaderKey(name)
				if !httpguts.ValidHeaderFieldName(name) {
					c.problem("request.header", "%q is no header name", name)
				}
			case fromJSON:
				if _, err := parsePointer(name); err != nil {
					c.problem("request.json", "%v", err)
				}
			}
			r.fields = append(r.fields, requestField{part.from, name, parseGlob(strings.ToLower(pattern))})
		}
	}
	if len(r.method) == 0 && len(r.path) == 0 && len(r.fields) == 0 {
		return nil
	}
	return &r
}
