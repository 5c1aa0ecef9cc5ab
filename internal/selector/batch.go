package selector

import "bytes"

// Multi reports whether the request is of a form that carries several calls, each with credentials of its own, and how
// many it carries [I7]: a JSON array (JSON-RPC, GraphQL batch), system.multicall of XML-RPC, a GraphQL document that
// calls more than one field with arguments at its top. ok with n below 2 is a batch of one or none. A batch hides names
// from selectors, so Read refuses it, unless a pointer begins with an array index and n is 1.
func (in *Input) Multi() (n int, ok bool) {
	if !in.counted {
		in.calls, in.batch = in.count()
		in.counted = true
	}
	return in.calls, in.batch
}

func (in *Input) count() (n int, ok bool) {
	if in.RawQuery != "" {
		if n, ok = in.fieldsOfQuery().graphQL(); ok {
			return n, ok
		}
	}
	b := in.Body
	if b == nil || b.fault() != "" {
		return 0, false
	}
	if b.is(XML) {
		return b.xml.multicall()
	}
	for _, doc := range [...]*jsonDoc{&b.json, &b.operations} {
		if n, ok = doc.batch(); ok {
			return n, ok
		}
		if n = countRootFields(doc.top("query")); n > 1 {
			return n, true
		}
	}
	if n, ok = b.form.graphQL(); ok {
		return n, ok
	}
	if b.media.kind == 0 { // application/graphql, and whatever else may be one
		n = countRootFields(b.doc)
	}
	return n, n > 1
}

// graphQL looks at a document in the field "query", as GET requests carry it.
func (f *fields) graphQL() (n int, ok bool) {
	for i := range f.list {
		if e := &f.list[i]; e.called("query") && e.bad == "" {
			value, _ := e.decode()
			if n = countRootFields(value); n > 1 {
				return n, true
			}
		}
	}
	return 0, false
}

// graphQLCounter walks a GraphQL document just far enough to count what it calls.
type graphQLCounter struct {
	text      []byte
	fragments map[string]graphQLSet
	budget    int // selections still to be looked at
}

// graphQLSet is what one selection set asks for at its top, through inline fragments.
type graphQLSet struct {
	calls   []string     // fields with arguments, by name
	spreads []string     // fragments
	within  []graphQLSet // what fields without arguments ask for, which some schemas group their mutations by
}

const (
	// maxSelections bounds the work of counting; a document with more in it is no login.
	maxSelections = 1000
	// maxInline bounds inline fragments and groups within each other.
	maxInline = 32
)

// countRootFields returns how many credentials a GraphQL document may carry: the fields with arguments at the top of a
// mutation, or the most that have one name within a group of these, or of a query the most at its top that have one name. A text that is no such document gives 0 or 1.
func countRootFields(text []byte) int {
	if bytes.IndexByte(text, '{') < 0 {
		return 0
	}
	c := graphQLCounter{text: text, fragments: map[string]graphQLSet{}, budget: maxSelections}
	type operation struct {
		set      graphQLSet
		mutation bool
	}
	var operations []operation
	for token := c.next(); token != ""; token = c.next() {
		name := ""
		if token == "fragment" {
			name = c.next()
		}
		word := token
		for token != "{" && token != "" {
			if token == "(" {
				c.skip("(", ")")
			}
			token = c.next()
		}
		set := c.set(0)
		if word == "fragment" {
			c.fragments[name] = set
		} else {
			operations = append(operations, operation{set, word == "mutation"})
		}
	}
	most := 0
	for _, op := range operations {
		calls := map[string]int{}
		if total := c.count(op.set, op.mutation, calls, map[string]bool{}); op.mutation {
			most = max(most, total)
		}
		for _, n := range calls {
			most = max(most, n)
		}
	}
	if c.budget < 0 {
		return maxSelections // in doubt
	}
	return most
}

// count adds up the calls of a set and of the fragments that it spreads, each once. calls gets how many there are of each name;
// deep: in groups, too.
func (c *graphQLCounter) count(set graphQLSet, deep bool, calls map[string]int, seen map[string]bool) int {
	total := len(set.calls)
	for _, name := range set.calls {
		calls[name]++
	}
	for _, name := range set.spreads {
		if !seen[name] {
			seen[name] = true
			total += c.count(c.fragments[name], deep, calls, seen)
		}
	}
	for i := 0; deep && i < len(set.within); i++ {
		c.count(set.within[i], deep, calls, seen)
	}
	return total
}

// set reads a selection set from behind its opening brace to its end.
func (c *graphQLCounter) set(depth int) (s graphQLSet) {
	token := c.next()
	for token != "}" && token != "" {
		if c.budget--; c.budget < 0 || depth > maxInline {
			c.budget = -1
			c.text = nil
			return s
		}
		if token == "..." {
			token = c.fragment(&s, depth)
			continue
		}
		name := token
		if token = c.next(); token == ":" { // an alias
			name = c.next()
			token = c.next()
		}
		called := token == "("
		if called {
			s.calls = append(s.calls, name)
			c.skip("(", ")")
			token = c.next()
		}
		if token = c.directives(token); token == "{" {
			if called {
				c.skip("{", "}")
			} else {
				s.within = append(s.within, c.set(depth+1))
			}
			token = c.next()
		}
	}
	return s
}

// fragment reads what follows "...", and returns the token behind it.
func (c *graphQLCounter) fragment(s *graphQLSet, depth int) string {
	token := c.next()
	if token == "on" {
		c.next()
		token = c.next()
	} else if token != "@" && token != "{" {
		s.spreads = append(s.spreads, token)
		return c.directives(c.next())
	}
	if token = c.directives(token); token == "{" {
		inner := c.set(depth + 1)
		s.calls = append(s.calls, inner.calls...)
		s.spreads = append(s.spreads, inner.spreads...)
		s.within = append(s.within, inner.within...)
		token = c.next()
	}
	return token
}

// directives passes over @name(arguments) and returns the token behind them.
func (c *graphQLCounter) directives(token string) string {
	for token == "@" {
		c.next()
		if token = c.next(); token == "(" {
			c.skip("(", ")")
			token = c.next()
		}
	}
	return token
}

// skip passes over all up to the closing token that belongs to one already read.
func (c *graphQLCounter) skip(open, shut string) {
	for depth := 1; depth > 0; {
		switch c.next() {
		case open:
			depth++
		case shut:
			depth--
		case "":
			return
		}
	}
}

// next returns the next token: a name or number, "...", a punctuator, or `"` for a string; "" at the end.
func (c *graphQLCounter) next() string {
	for len(c.text) > 0 {
		b := c.text[0]
		switch {
		case b == '#':
			if at := bytes.IndexAny(c.text, "\r\n"); at >= 0 {
				c.text = c.text[at:]
			} else {
				c.text = nil
			}
		case b <= ' ' || b == ',':
			c.text = c.text[1:]
		case bytes.HasPrefix(c.text, []byte("\ufeff")):
			c.text = c.text[3:]
		case b == '"':
			c.text = c.text[stringLength(c.text):]
			return `"`
		case bytes.HasPrefix(c.text, []byte("...")):
			c.text = c.text[3:]
			return "..."
		default:
			n := 0
			for n < len(c.text) && (isAlphanumeric(c.text[n]) || c.text[n] == '_') {
				n++
			}
			token := string(c.text[:max(n, 1)])
			c.text = c.text[len(token):]
			return token
		}
	}
	return ""
}

// stringLength is the length of the string or block string that a text begins with.
func stringLength(text []byte) int {
	quote := []byte(`"`)
	if bytes.HasPrefix(text, []byte(`"""`)) {
		quote = []byte(`"""`)
	}
	for i := len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\' && len(quote) == 1:
			i++
		case text[i] == '\\' && bytes.HasPrefix(text[i+1:], quote):
			i += len(quote)
		case len(quote) == 1 && text[i] == '\n':
			return i
		case bytes.HasPrefix(text[i:], quote):
			return i + len(quote)
		}
	}
	return len(text)
}
