package config

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"authgate/limits"

	"gopkg.in/yaml.v3"
)

// cell is what a policy says about one dimension of one class: nothing (the zero value), off, or rules. It is the
// unit in which documents override each other [M2].
type cell struct {
	set   bool // some document names it
	off   bool
	rules []ruleNode

	sealed bool       // a preset has set it
	preset []ruleNode // what the preset says
}

// ruleNode is a rule as the file writes it. A new rule replaces limit, window, burst and lockout of an earlier document
// whole; what is nil (or "") of the others is inherited.
type ruleNode struct {
	Limit    int           `yaml:"limit" required:"true"`
	Window   time.Duration `yaml:"window" required:"true"`
	Burst    int           `yaml:"burst" min:"1"`
	Lockout  *lockoutNode  `yaml:"lockout"`
	Signal   *bool         `yaml:"signal"`
	Refuse   string        `yaml:"refuse" enum:"429|uniform|silent"`
	PrefixV4 *int          `yaml:"prefix_v4" min:"0" max:"32"`
	PrefixV6 *int          `yaml:"prefix_v6" min:"0" max:"128"`
}

type lockoutNode struct {
	Base time.Duration `yaml:"base" required:"true"`
	Max  time.Duration `yaml:"max" required:"true"`
}

// The dimensions of each class, in the order of package limits.
type (
	requestCells struct {
		Source       cell `yaml:"source"`
		Subnet       cell `yaml:"subnet"`
		Target       cell `yaml:"target"`
		TargetSource cell `yaml:"target_source"`
		Client       cell `yaml:"client"`
		App          cell `yaml:"app"`
		Signups      cell `yaml:"signups"`
	}
	failureCells struct {
		Source       cell `yaml:"source"`
		Subnet       cell `yaml:"subnet"`
		Target       cell `yaml:"target"`
		TargetSource cell `yaml:"target_source"`
		Client       cell `yaml:"client"`
		Device       cell `yaml:"device"`
	}
	factorCells struct {
		Source       cell `yaml:"source"`
		Subnet       cell `yaml:"subnet"`
		Target       cell `yaml:"target"`
		TargetSource cell `yaml:"target_source"`
	}
)

// maxRules bounds the list of one dimension: a request asks for a bucket of each.
const maxRules = 10

const cellForm = "use a rule {limit: 5, window: 15m}, a list of rules, or off"

// decode replaces the cell by what the node says.
func (c *cell) decode(d *decoder, n *yaml.Node, path string) {
	next := cell{set: true, sealed: c.sealed, preset: c.preset}
	keep := c.takeOrigins(d, path)
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "off":
		next.off = true
	case n.Kind == yaml.ScalarNode:
		d.badNode(n, path, "is %s; %s", describe(n), cellForm)
		return
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		d.badNode(n, path, "is an empty list; %s", cellForm)
		return
	case n.Kind == yaml.SequenceNode && len(n.Content) > maxRules:
		d.badNode(n, path, "holds %d rules; use at most %d", len(n.Content), maxRules)
		return
	case n.Kind == yaml.SequenceNode:
		next.rules = make([]ruleNode, len(n.Content))
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			if isNull(item) {
				d.badNode(item, at, "is empty; write a rule, or leave the item out")
				continue
			}
			d.origins[at] = d.at(item)
			d.value(item, reflect.ValueOf(&next.rules[i]).Elem(), at, field{})
		}
	default:
		next.rules = make([]ruleNode, 1)
		d.value(n, reflect.ValueOf(&next.rules[0]).Elem(), path, field{})
	}
	for i := range next.rules {
		if len(keep) == 0 {
			break
		}
		for key, o := range keep[min(i, len(keep)-1)] {
			at := join(next.path(path, i), key)
			if _, named := d.origins[at]; !named {
				d.origins[at] = o
			}
		}
	}
	*c = next.over(*c)
}

// takeOrigins forgets where the parts of an earlier document's cell were written, and gives those that a new rule
// inherits, by rule and key.
func (c *cell) takeOrigins(d *decoder, path string) []map[string]Origin {
	if !c.set {
		return nil
	}
	var out []map[string]Origin
	for i := range c.rules {
		inherited := map[string]Origin{}
		for _, key := range []string{"refuse", "signal", "prefix_v4", "prefix_v6"} {
			if o, ok := d.origins[join(c.path(path, i), key)]; ok {
				inherited[key] = o
			}
		}
		out = append(out, inherited)
	}
	d.forget(path)
	return out
}

// over is the cell on top of an earlier one: how it refuses, what an address is masked to and whether it is a mere
// signal stay as they were, unless the new rule names them.
func (c cell) over(base cell) cell {
	if len(base.rules) == 0 {
		return c
	}
	c.rules = slices.Clone(c.rules)
	for i := range c.rules {
		r, from := &c.rules[i], base.rules[min(i, len(base.rules)-1)]
		if r.Refuse == "" {
			r.Refuse = from.Refuse
		}
		if r.Signal == nil {
			r.Signal = from.Signal
		}
		if r.PrefixV4 == nil {
			r.PrefixV4 = from.PrefixV4
		}
		if r.PrefixV6 == nil {
			r.PrefixV6 = from.PrefixV6
		}
	}
	return c
}

// path is where rule i of the cell stands.
func (c *cell) path(cellPath string, i int) string {
	if len(c.rules) == 1 {
		return cellPath
	}
	return fmt.Sprintf("%s[%d]", cellPath, i)
}

// rule is the rule for the limiter. Addresses are masked to what one holder has, unless the rule says
// otherwise: a host (IPv4 /32, IPv6 /64), or for a subnet /24 and /56.
func (r *ruleNode) rule(policy string, class limits.Class, dim limits.Dimension, index int) limits.Rule {
	out := limits.Rule{
		Policy: policy, Class: class, Dimension: dim, Index: index,
		Limit: r.Limit, Window: r.Window, Burst: r.Burst,
		Signal: r.signal(),
	}
	if r.Lockout != nil {
		out.Lockout = limits.Lockout{Base: r.Lockout.Base, Max: r.Lockout.Max}
	}
	if r.Refuse != "" {
		out.Refuse, _ = limits.ParseRefuse(r.Refuse) // an enum of the same words
	}
	switch dim {
	case limits.Source, limits.TargetSource, limits.Signups:
		out.PrefixV4, out.PrefixV6 = 32, 64
	case limits.Subnet:
		out.PrefixV4, out.PrefixV6 = 24, 56
	}
	if r.PrefixV4 != nil {
		out.PrefixV4 = *r.PrefixV4
	}
	if r.PrefixV6 != nil {
		out.PrefixV6 = *r.PrefixV6
	}
	return out
}

func (r *ruleNode) signal() bool { return r.Signal != nil && *r.Signal }

// slot is one cell with its place.
type slot struct {
	class limits.Class
	dim   limits.Dimension
	path  string
	cell  *cell
}

// classCells are the cells of a policy, or of what a realm says about one.
type classCells struct {
	path     string
	requests *requestCells
	failures *failureCells
	factors  *factorCells
}

// slots lists all cells, request rules first, in tie order within a class; the same places for any cells.
func (c classCells) slots() []slot {
	const numCells = 17
	out := make([]slot, 0, numCells)
	class, path := limits.Requests, ""
	begin := func(c limits.Class, policy string) { class, path = c, policy+"."+c.String()+"." }
	add := func(dim limits.Dimension, c *cell) { out = append(out, slot{class, dim, path + dim.String(), c}) }

	begin(limits.Requests, c.path)
	add(limits.Source, &c.requests.Source)
	add(limits.Subnet, &c.requests.Subnet)
	add(limits.Target, &c.requests.Target)
	add(limits.TargetSource, &c.requests.TargetSource)
	add(limits.Client, &c.requests.Client)
	add(limits.App, &c.requests.App)
	add(limits.Signups, &c.requests.Signups)
	begin(limits.Failures, c.path)
	add(limits.Source, &c.failures.Source)
	add(limits.Subnet, &c.failures.Subnet)
	add(limits.Target, &c.failures.Target)
	add(limits.TargetSource, &c.failures.TargetSource)
	add(limits.Client, &c.failures.Client)
	add(limits.Device, &c.failures.Device)
	begin(limits.Factors, c.path)
	add(limits.Source, &c.factors.Source)
	add(limits.Subnet, &c.factors.Subnet)
	add(limits.Target, &c.factors.Target)
	add(limits.TargetSource, &c.factors.TargetSource)
	return out
}
