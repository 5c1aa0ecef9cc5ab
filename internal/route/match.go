package route

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Match says which requests a route covers: those that satisfy all of its fields. A field that is empty
// restricts nothing, except Path, which is required. Predicates on the body are not part of it: whoever
// has read the body asks them.
type Match struct {
	// Methods are the methods that count, in any case; none means all.
	Methods []string
	// Strict asks for exactly this spelling of Path, and of the methods in upper case: no decoding, no
	// folding, no overrides.
	Strict bool
	// Path starts with a slash. A trailing "/*" covers the path before it and everything below; a segment
	// "{name}" covers any one segment.
	Path string
	// Hosts are host names or addresses without port, in Unicode or ASCII form.
	Hosts []string
	// Query maps names to values that the query must have; the value "*" means present with any value.
	Query map[string]string
}

// Route ties a Match to a policy.
type Route struct {
	// Policy is handed back in each Hit and means nothing here.
	Policy int
	Match  Match
}

// FieldError is a fault in one field of a Match.
type FieldError struct {
	// Field is the name of the field as the configuration spells it: path, methods, hosts, query.
	Field string
	// Value is the text at fault.
	Value string
	// Problem says what is wrong and what would be right.
	Problem string
}

// Error reads `path "login": does not start with a slash; write "/login"`.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Problem)
}

// Validate reports everything that is wrong with m: nil, or an error that joins one *FieldError per fault.
func (m Match) Validate() error {
	var errs []error
	fault := func(field, value, problem string) {
		errs = append(errs, &FieldError{Field: field, Value: value, Problem: problem})
	}
	if _, problem := parsePath(m.Path); problem != "" {
		fault("path", m.Path, problem)
	}
	for _, method := range m.Methods {
		if _, known := methodBit(strings.ToUpper(method)); !known {
			names := methodNames()
			fault("methods", method, "is not a method; write one of "+strings.Join(names[:], ", ")+
				", or leave methods out to count every method")
		}
	}
	for _, host := range m.Hosts {
		if problem := hostProblem(host); problem != "" {
			fault("hosts", host, problem)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Query)) {
		if fieldName(name) == "" {
			fault("query", name, "is empty; write the name of a query parameter")
		}
	}
	return errors.Join(errs...)
}

// pattern is a parsed Match.Path.
type pattern struct {
	// raw are the segments as written, "{name}" for a parameter; a trailing slash adds an empty one.
	raw []string
	// names are the canonical names of the segments, "" for a parameter; a trailing slash adds nothing.
	names []string
	// params are the names of the parameters, in order.
	params []string
	// below is set when the pattern covers everything below it.
	below bool
}

// parsePath parses a Match.Path, or says what is wrong with it.
func parsePath(path string) (p pattern, problem string) {
	switch {
	case path == "":
		return p, `is empty; write the path to cover, such as "/login", or "/*" for all`
	case path[0] != '/':
		return p, fmt.Sprintf("does not start with a slash; write %q", "/"+path)
	case strings.ContainsAny(path, "?#"):
		return p, "has a query or fragment; write the path alone, and query: {name: value} beside it"
	case strings.Contains(path, `\`):
		return p, "has a backslash; write slashes, a backslash in a request counts as one"
	}
	rest, below := strings.CutSuffix(path, "/*")
	p.below = below
	if rest == "" || rest == "/" {
		if !below {
			p.raw = []string{""}
		}
		return p, ""
	}
	p.raw = strings.Split(rest[1:], "/")
	named := p.raw
	if last := len(named) - 1; !below && named[last] == "" {
		named = named[:last]
	}
	for _, segment := range named {
		name, param, problem := parseSegment(segment)
		switch {
		case problem != "":
			return p, problem
		case param == "":
		case slices.Contains(p.params, param):
			return p, fmt.Sprintf("has {%s} twice; give each segment a name of its own", param)
		default:
			p.params = append(p.params, param)
		}
		p.names = append(p.names, name)
	}
	return p, ""
}

// parseSegment gives the canonical name of one segment of a pattern, or the name of its parameter.
func parseSegment(segment string) (name, param, problem string) {
	if inner, ok := strings.CutPrefix(segment, "{"); ok {
		inner, closed := strings.CutSuffix(inner, "}")
		if closed && inner != "" && !strings.ContainsAny(inner, "{}*") {
			return "", inner, ""
		}
	}
	switch {
	case strings.ContainsAny(segment, "{}"):
		return "", "", fmt.Sprintf("has %q; a parameter is a whole segment, such as {name}", segment)
	case strings.Contains(segment, "*"):
		return "", "", `has a * inside; only a trailing "/*" is a pattern, and {name} is one segment`
	}
	var r reader
	subs, _ := r.split(segment)
	if len(subs) > 1 {
		return "", "", fmt.Sprintf("has an encoded slash in %q; write it as a slash", segment)
	}
	canonical := r.canonical(subs[0])
	t := takeOf(canonical)
	if len(t.name) == 0 {
		return "", "", fmt.Sprintf("has %q for a segment; write the path without empty and dot segments", segment)
	}
	return string(t.name), "", ""
}

// matches tells whether a raw path has exactly the spelling of the pattern.
func (p *pattern) matches(path string) bool {
	path, ok := strings.CutPrefix(path, "/")
	if !ok {
		return false
	}
	for i, want := range p.raw {
		segment, rest, more := strings.Cut(path, "/")
		if isParam := want != "" && want[0] == '{'; isParam && segment == "" || !isParam && segment != want {
			return false
		}
		if i == len(p.raw)-1 && !more {
			return true
		}
		if !more {
			return false
		}
		path = rest
	}
	return p.below
}
