package route

import "slices"

// question is one request as the routes on its path ask about it. Hosts and query are read only once a
// route asks.
type question struct {
	table *Table
	in    Request
	path  string
	query string
	// authority is that of a target that is a whole address.
	authority string
	overrides overrides
	// methods are those that the request may be taken for, by its line and its headers.
	methods methodSet
	// queryMethods are those by a "_method" in the query.
	queryMethods methodSet
	queryRead    bool
	hosts        [2]string
	hostsRead    bool
	// anyHost is set when the request may be for any host.
	anyHost bool
}

// ask tells whether a route on the path of the request covers it.
func (q *question) ask(w *walker, route int) (Hit, bool) {
	r := &q.table.routes[route]
	hit := Hit{Route: route, Policy: r.Policy}
	switch {
	case r.Match.Strict:
		if !r.matches(q.path) || len(r.Match.Methods) > 0 && !slices.Contains(r.spelled, q.in.Method) {
			return hit, false
		}
	case r.methods&q.methods != 0:
	case r.methods&q.readQueries(w) != 0:
	case q.in.Body && (q.methods|q.queryMethods)&methodPOST != 0:
		hit.IfMethod = true
	default:
		return hit, false
	}
	if !q.hosted(r.hosts) || !q.meets(w, r.query) {
		return hit, false
	}
	hit.Params = r.values(w)
	hit.Unclear = w.overfull && len(r.params) > 0
	return hit, true
}

// readQueries reads the queries if that has not happened, and returns the methods that they ask for.
func (q *question) readQueries(w *walker) methodSet {
	if q.queryRead {
		return q.queryMethods
	}
	q.queryRead = true
	q.queryMethods = q.table.predicates.read(&w.buffer, q.query, w.met)
	for _, target := range q.overrides.targets {
		_, query, _ := splitTarget(target)
		q.queryMethods |= q.table.predicates.read(&w.buffer, query, w.met)
	}
	return q.queryMethods
}

// meets tells whether the query satisfies all of a route's conditions.
func (q *question) meets(w *walker, conditions []int) bool {
	if len(conditions) == 0 {
		return true
	}
	q.readQueries(w)
	for _, index := range conditions {
		if w.met[index/64]&(1<<(index%64)) == 0 {
			return false
		}
	}
	return true
}

// hosted tells whether the request may be for one of the hosts; none given means all.
func (q *question) hosted(hosts []string) bool {
	if len(hosts) == 0 {
		return true
	}
	if !q.hostsRead {
		q.hostsRead = true
		name, ok := CanonicalHost(q.in.Host)
		q.hosts[0], q.anyHost = name, !ok
		if q.authority != "" {
			name, ok = CanonicalHost(q.authority)
			q.hosts[1], q.anyHost = name, q.anyHost || !ok
		}
	}
	return q.anyHost || slices.Contains(hosts, q.hosts[0]) || slices.Contains(hosts, q.hosts[1])
}

// values gives the parameters of the route their values.
func (c *compiled) values(w *walker) []Param {
	if len(c.params) == 0 {
		return nil
	}
	params := make([]Param, 0, len(c.params))
	for i, node := range c.paramNodes {
		for _, b := range w.bindings {
			if b.param == node {
				params = append(params, Param{Name: c.params[i], Value: b.value})
			}
		}
	}
	return params
}
