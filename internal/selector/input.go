package selector

import "net/http"

// Input is one request, as far as selectors look at it. It remembers what it has parsed, so pass the same one to every
// Spec and Predicate of the request. It is not safe for concurrent use.
type Input struct {
	// Header is the header of the request.
	Header http.Header
	// RawQuery is the query as it was received, without "?".
	RawQuery string
	// Params are the segments of the path that the route names, still percent-encoded.
	Params []Param
	// Body is the buffered body. nil: there is none, or nothing that needs it asked for it. Set it before anything that does.
	Body *Body

	query   fields
	parsed  bool // the query
	calls   int
	batch   bool
	counted bool // calls and batch
}

// Param is one named segment of the path, as received.
type Param struct{ Name, Value string }

// fieldsOfQuery parses the query at most once.
func (in *Input) fieldsOfQuery() *fields {
	if !in.parsed {
		in.parsed = true
		if in.RawQuery != "" {
			in.query.parseQuery([]byte(in.RawQuery))
		}
	}
	return &in.query
}

// refuse records what is wrong with the body as a whole, for a Spec that reads it.
func (in *Input) refuse(s *Spec, g *gather) {
	if why := in.Body.fault(); why != "" {
		g.refuse(why)
	}
	if n, ok := in.Multi(); ok && (n > 1 || !s.indexed()) {
		g.refuse(Batch)
	}
}

// readField reads one selector of the query or the body wherever its name may stand.
func (in *Input) readField(w *wanted, g *gather) {
	if in.RawQuery != "" {
		in.fieldsOfQuery().read(w, w.kind != Query, g)
	}
	if in.Body != nil && (w.kind != Query || g.spec.body) {
		in.Body.read(w, g)
	}
}

// indexed holds if a pointer of the list begins with the index of an array: then a single call in an array is expected.
func (s *Spec) indexed() bool {
	for i := range s.from {
		if w := &s.from[i]; w.kind == JSON && isIndex(w.members[0]) {
			return true
		}
	}
	return false
}

// isIndex holds for an array index of RFC 6901.
func isIndex(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s == "0" || s != "" && s[0] != '0' && len(s) < 10
}
