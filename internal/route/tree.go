package route

import "strings"

// tree holds the canonical paths of all routes, a node for each segment.
type tree struct {
	nodes []node
	// longest is the length of the longest name of a segment, in bytes.
	longest int
}

// root is the index of the node of the empty path.
const root = 0

// none stands for a node that is not there.
const none = -1

type node struct {
	parent   int
	children map[string]int
	// param is the child for a segment of any name, or none.
	param int
	// twin is a childless copy of this node for a last segment with a format suffix, or none.
	twin int
	// exact are the routes whose path ends here.
	exact []int
	// below are the routes that cover this node and everything below it.
	below []int
}

func newTree() tree {
	return tree{nodes: []node{{parent: root, param: none, twin: none}}}
}

// insert adds a route with its path and returns the nodes of its parameters, in order.
func (t *tree) insert(route int, p pattern) (params []int) {
	at := root
	for _, name := range p.names {
		at = t.child(at, name)
		if name == "" {
			params = append(params, at)
		}
	}
	if p.below {
		t.nodes[at].below = append(t.nodes[at].below, route)
		return params
	}
	t.nodes[at].exact = append(t.nodes[at].exact, route)
	if len(p.names) == 0 {
		return params
	}
	last := p.names[len(p.names)-1]
	if scriptExtension(last[strings.LastIndexByte(last, '.')+1:]) {
		t.nodes[at].below = append(t.nodes[at].below, route)
	}
	if last != "" && t.nodes[at].twin == none {
		t.nodes[at].twin = t.add(t.nodes[at].parent)
	}
	return params
}

// child returns the node below at for a name, or for a parameter if the name is empty, and makes it if
// need be.
func (t *tree) child(at int, name string) int {
	if name == "" {
		if t.nodes[at].param == none {
			child := t.add(at)
			t.nodes[at].param = child
		}
		return t.nodes[at].param
	}
	child, ok := t.nodes[at].children[name]
	if !ok {
		child = t.add(at)
		if t.nodes[at].children == nil {
			t.nodes[at].children = make(map[string]int)
		}
		t.nodes[at].children[name] = child
		t.longest = max(t.longest, len(name))
	}
	return child
}

func (t *tree) add(parent int) int {
	t.nodes = append(t.nodes, node{parent: parent, param: none, twin: none})
	return len(t.nodes) - 1
}

// finish hands routes down to where they also count. Nothing is inserted afterwards.
func (t *tree) finish() {
	for i := range t.nodes {
		n := &t.nodes[i]
		if i != root {
			// A parent comes before its children, so its list is complete.
			n.below = append(n.below[:len(n.below):len(n.below)], t.nodes[n.parent].below...)
		}
		if n.twin != none {
			t.nodes[n.twin].exact = n.exact
		}
	}
}
