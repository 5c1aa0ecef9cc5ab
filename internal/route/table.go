package route

import (
	"fmt"
	"math/bits"
	"net/http"
	"strings"
	"sync"
)

// Table finds the routes that cover a request. It is safe for use by several goroutines, and holds no more than its
// routes need, whatever is asked.
type Table struct {
	tree       tree
	routes     []compiled
	predicates predicates
	walkers    sync.Pool
}

// Request is what Lookup needs to know of a request.
type Request struct {
	// Method is the method as the request line spells it.
	Method string
	// Target is the request target as it came (http.Request.RequestURI): a path with or without a query, or a whole address,
	// whose host then counts besides Host.
	Target string
	// Host is the Host header.
	Host string
	// Header is only read. Its keys may have any case.
	Header http.Header
	// Body says whether a body comes with the request, or may come.
	Body bool
}

// Hit is a route that covers a request, or may.
type Hit struct {
	// Route is the index of the route among those compiled, Policy what that route says.
	Route, Policy int
	// Params are the values of the route's parameters, in the order of the path. A name that could be read
	// in several ways occurs once for each value; there are at most eight.
	Params []Param
	// Unclear is set when parameters may have values that Params does not list. No honest request has that.
	Unclear bool
	// IfMethod is set when the route covers the request only if a field "_method" of the body, form or JSON,
	// holds a method that MethodCounts accepts.
	IfMethod bool
}

// Param is the value of a {name} segment.
type Param struct {
	Name, Value string
}

// compiled is a route made ready.
type compiled struct {
	Route
	pattern
	methods    methodSet // closed under GET and HEAD; everyMethod if all count
	spelled    []string  // the methods in upper case
	paramNodes []int
	hosts      []string // canonical
	query      []int    // indices of predicates, all of which must be met
}

// Compile builds a table. The order of routes is that of hits. The error joins what Match.Validate says of
// each, headed by its index.
func Compile(routes []Route) (*Table, error) {
	t := &Table{tree: newTree(), routes: make([]compiled, 0, len(routes))}
	for i, r := range routes {
		if err := r.Match.Validate(); err != nil {
			return nil, fmt.Errorf("compiling route %d: %w", i, err)
		}
		p, _ := parsePath(r.Match.Path)
		c := compiled{Route: r, pattern: p, methods: everyMethod, paramNodes: t.tree.insert(i, p)}
		if len(r.Match.Methods) > 0 {
			c.methods = 0
		}
		for _, method := range r.Match.Methods {
			c.spelled = append(c.spelled, strings.ToUpper(method))
			c.methods |= methodsOf(method)
		}
		for _, host := range r.Match.Hosts {
			name, _ := CanonicalHost(host)
			c.hosts = append(c.hosts, name)
		}
		for name, value := range r.Match.Query {
			c.query = append(c.query, t.predicates.add(name, value))
		}
		t.routes = append(t.routes, c)
	}
	t.tree.finish()
	t.walkers.New = func() any { return newWalker(&t.tree, len(t.routes), t.predicates.count) }
	return t, nil
}

// MethodCounts tells whether a route counts requests of a method, as a "_method" field names it. It is false for a
// strict route, which knows no overrides. It panics if there is no such route.
func (t *Table) MethodCounts(route int, method string) bool {
	r := &t.routes[route]
	return !r.Match.Strict && r.methods&methodsOf(method) != 0
}

// Lookup appends to dst the routes that cover the request, or may, in their order, and returns the
// extended slice. A CORS preflight is covered by none. It allocates only for parameters, for paths that are not plain, and
// to extend dst. The values in the hits share memory with the request's target.
func (t *Table) Lookup(dst []Hit, in Request) []Hit {
	if len(t.routes) == 0 {
		return dst
	}
	q := question{table: t, in: in}
	q.overrides.add(in.Header)
	q.path, q.query, q.authority = splitTarget(in.Target)
	w := t.walkers.Get().(*walker)
	defer t.walkers.Put(w)
	q.methods = methodsOf(in.Method) | q.overrides.methods
	w.reset(q.methods.readOnly())
	if preflight(in, &q.overrides) && q.readQueries(w) == 0 {
		return dst
	}
	w.walk(q.path)
	for _, target := range q.overrides.targets {
		path, _, _ := splitTarget(target)
		w.walk(path)
	}
	for i, set := range w.routes {
		for ; set != 0; set &= set - 1 {
			route := i*64 + bits.TrailingZeros64(set)
			if route >= len(t.routes) {
				break
			}
			if hit, ok := q.ask(w, route); ok {
				dst = append(dst, hit)
			}
		}
	}
	return dst
}
