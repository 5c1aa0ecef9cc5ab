package route

import (
	"slices"
	"strings"
)

// walker follows all readings of a path through the tree at once. It belongs to one Lookup at a time.
type walker struct {
	tree *tree
	// places is where the readings are at the separator before the segment that comes next.
	places, next places
	// ended is where readings are that stopped inside the path.
	ended places
	// inside is where readings were before a segment that began earlier in what is read, since they take
	// an encoded separator literally; ignoring is where readings are that skip to the next real one.
	inside, ignoring places

	reader reader
	buffer buffer
	// name holds a clean segment in lower case.
	name []byte
	// quiet says that the request only fetches something (see withoutFormat).
	quiet bool
	// steps is how much work is left.
	steps int

	// routes has a bit for each route reached, met one for each condition on the query that is met.
	routes, met []uint64
	// touched are the parameters to which the segment being read may be the value.
	touched []int
	// bindings are the values of parameters.
	bindings []binding
	// overfull is set when a parameter may have more values than are kept.
	overfull bool
}

// binding is a value that a parameter may have.
type binding struct {
	param int // the node
	value string
}

const (
	// maxSteps bounds the work of one Lookup, in moves of one place by one segment: about a millisecond. A
	// path of 64 KiB has at most 32768 segments that are not empty, so every clean one fits.
	maxSteps = 40_000
	// maxValues bounds the values that are kept of one parameter. Honest requests have one.
	maxValues = 8
)

func newWalker(t *tree, routes, conditions int) *walker {
	w := &walker{tree: t, routes: make([]uint64, (routes+63)/64), met: make([]uint64, (conditions+63)/64)}
	for _, p := range []*places{&w.places, &w.next, &w.ended, &w.inside, &w.ignoring} {
		p.beyond = make([]uint64, len(t.nodes))
	}
	return w
}

// reset forgets the last request. It keeps no text of it alive.
func (w *walker) reset(quiet bool) {
	clear(w.routes)
	clear(w.met)
	clear(w.bindings)
	w.bindings = w.bindings[:0]
	w.overfull, w.quiet, w.steps = false, quiet, maxSteps
}

// walk adds the routes that the path may be for. The path ends where a query begins.
func (w *walker) walk(path string) {
	for _, p := range []*places{&w.places, &w.next, &w.ended, &w.inside, &w.ignoring} {
		p.clear()
	}
	w.places.add(root, 1)
	path, _ = strings.CutPrefix(path, "/")
	// started is set once a segment had a name, slashed once a slash came before it besides the first one.
	started, slashed := false, false
	for more := true; more; {
		segment := path
		end := strings.IndexByte(path, '/') // half the time of strings.Cut
		if more = end >= 0; more {
			segment, path = path[:end], path[end+1:]
		}
		switch {
		case segment == "":
			w.skip()
			slashed = true
		case clean(segment) && (started || !slashed):
			w.step(segment)
			started = true
		default:
			named := w.read(segment, !started, slashed)
			started, slashed = started || named, true
		}
		if w.steps < 0 {
			w.giveUp()
			return
		}
	}
	w.accept(&w.places)
	w.accept(&w.ended)
}

// step takes a clean segment, which is a name and nothing else.
func (w *walker) step(segment string) {
	w.name = append(w.name[:0], segment...)
	lower(w.name)
	w.push(&w.places, &w.next, w.name, false)
	w.bind(segment)
	w.advance()
}

// skip takes an empty segment: it is nothing, or a name that no route has.
func (w *walker) skip() {
	w.move(&w.places, &w.next, take{kind: drop})
	w.junk(&w.places, &w.next, false)
	w.advance()
}

// read takes a segment that may be read in several ways. The first one, if another slash than that of every
// path comes before it, may be none, but the host of an address without scheme. named tells whether it has any name.
func (w *walker) read(segment string, first, slashed bool) (named bool) {
	subs, cost := w.reader.split(segment)
	w.steps -= cost
	if first && (slashed || len(subs) > 1 && len(subs[0]) == 0) {
		w.ignoring.merge(&w.places)
	}
	for i, sub := range subs {
		named = named || len(sub) > 0
		ways := w.reader.ways(sub)
		w.take(&w.places, &w.next, &ways)
		if i > 0 && len(sub) > 1 && sub[0] == '.' && isFormat(sub[1:], w.quiet) {
			w.next.merge(&w.places) // to who cuts it off first, the encoded separator before it was a part of the name
		}
		w.junk(&w.inside, &w.next, true)
		w.next.merge(&w.ignoring)
		if ways.ends {
			w.move(&w.places, &w.ended, ways.end)
			if ways.vanishes {
				w.ended.merge(&w.places)
			}
			if ways.end.kind == push { // a name that no route has, or the value of a parameter
				w.junk(&w.places, &w.ended, true)
			}
			if ways.hasParams {
				w.move(&w.places, &w.ended, ways.params)
			}
			w.junk(&w.inside, &w.ended, true)
		}
		if i < len(subs)-1 {
			if ways.hasParams {
				w.move(&w.places, &w.ignoring, ways.params)
			}
			w.inside.merge(&w.places)
		}
		w.steps -= len(w.places.nodes) + len(w.inside.nodes) + len(w.ignoring.nodes)
		w.advance()
		if w.steps < 0 {
			break
		}
	}
	w.inside.clear()
	w.ignoring.clear()
	w.bind(segment)
	return named
}

// take moves all places in all the ways of a segment.
func (w *walker) take(from, to *places, ways *ways) {
	w.move(from, to, ways.whole)
	if ways.hasParams {
		w.move(from, to, ways.params)
	}
	if ways.ends {
		w.move(from, to, ways.end)
	}
	if ways.vanishes {
		to.merge(from)
	}
	w.junk(from, to, ways.literal)
}

// move moves all places in one way.
func (w *walker) move(from, to *places, t take) {
	w.steps -= len(from.nodes)
	switch t.kind {
	case push:
		w.push(from, to, t.name, true)
	case drop:
		to.merge(from)
		if len(t.name) > 0 { // a script that may also be asked for by its name
			w.push(from, to, t.name, true)
		}
	case pop:
		for _, at := range from.nodes {
			beyond := from.beyond[at]
			if beyond&1 != 0 {
				to.add(w.tree.nodes[at].parent, 1)
			}
			to.add(at, beyond&^1>>1|beyond&farthest)
		}
	}
}

// push moves all places down to a name. open says that other ways of the segment are taken beside this one, so that a place
// with nothing of that name below it need not be kept.
func (w *walker) push(from, to *places, name []byte, open bool) {
	w.steps -= len(from.nodes)
	for _, at := range from.nodes {
		beyond := from.beyond[at]
		n := &w.tree.nodes[at]
		found := false
		if beyond&1 != 0 {
			found = w.pushChild(n, to, name, open)
			if n.param != none && !open {
				to.add(n.param, 1)
				w.touch(n.param)
				found = true
			}
		}
		switch {
		case open:
		case found:
			to.add(at, deeper(beyond&^1))
		default:
			to.add(at, deeper(beyond))
		}
	}
}

// pushChild adds the children of a node that a name may mean.
func (w *walker) pushChild(n *node, to *places, name []byte, open bool) bool {
	found := false
	if len(name) <= w.tree.longest {
		if child, ok := n.children[string(name)]; ok {
			to.add(child, 1)
			found = true
		}
	}
	if !open {
		return found
	}
	if base, ok := withoutFormat(name, w.quiet); ok && len(base) <= w.tree.longest {
		if child, ok := n.children[string(base)]; ok && w.tree.nodes[child].twin != none {
			to.add(w.tree.nodes[child].twin, 1)
		}
	}
	return found
}

// junk moves all places by a segment taken literally, which no route names; a parameter takes it if it may.
func (w *walker) junk(from, to *places, param bool) {
	w.steps -= len(from.nodes)
	for _, at := range from.nodes {
		beyond := from.beyond[at]
		to.add(at, deeper(beyond))
		if n := &w.tree.nodes[at]; param && beyond&1 != 0 && n.param != none {
			to.add(n.param, 1)
			w.touch(n.param)
		}
	}
}

// advance makes next the places, after one segment.
func (w *walker) advance() {
	w.places, w.next = w.next, w.places
	w.next.clear()
}

// accept adds the routes at the places.
func (w *walker) accept(p *places) {
	for _, at := range p.nodes {
		n := &w.tree.nodes[at]
		if p.beyond[at]&1 != 0 {
			w.reach(n.exact)
		}
		w.reach(n.below)
	}
}

func (w *walker) reach(routes []int) {
	for _, route := range routes {
		w.routes[route/64] |= 1 << (route % 64)
	}
}

// giveUp takes the path for that of every route.
func (w *walker) giveUp() {
	for i := range w.routes {
		w.routes[i] = ^uint64(0)
	}
	w.overfull = true
}

// touch notes that the segment being read may be the value of a parameter.
func (w *walker) touch(param int) {
	if !slices.Contains(w.touched, param) {
		w.touched = append(w.touched, param)
	}
}

// bind gives the parameters touched by a segment their values.
func (w *walker) bind(segment string) {
	if len(w.touched) == 0 || w.overfull {
		w.touched = w.touched[:0]
		return
	}
	list := values(segment)
	for _, param := range w.touched {
		for _, value := range list {
			w.bindOne(binding{param, value})
		}
	}
	w.touched = w.touched[:0]
}

func (w *walker) bindOne(b binding) {
	kept := 0
	for _, have := range w.bindings {
		if have == b {
			return
		}
		if have.param == b.param {
			kept++
		}
	}
	if kept == maxValues {
		w.overfull = true
		return
	}
	w.bindings = append(w.bindings, b)
}

// places is a set of places in the tree.
type places struct {
	// beyond has, for each node, bit n if n unmatched segments below that node is a place.
	beyond []uint64
	// nodes are those with any bit.
	nodes []int
}

// farthest is the bit that stands for 63 unmatched segments or more.
const farthest = 1 << 63

// deeper is beyond after one more unmatched segment.
func deeper(beyond uint64) uint64 { return beyond<<1 | beyond&farthest }

func (p *places) add(at int, beyond uint64) {
	if beyond == 0 {
		return
	}
	if p.beyond[at] == 0 {
		p.nodes = append(p.nodes, at)
	}
	p.beyond[at] |= beyond
}

func (p *places) merge(other *places) {
	for _, at := range other.nodes {
		p.add(at, other.beyond[at])
	}
}

func (p *places) clear() {
	for _, at := range p.nodes {
		p.beyond[at] = 0
	}
	p.nodes = p.nodes[:0]
}
