package config

import (
	"slices"
	"strings"

	"authgate/limits"
)

// protectPreset reports what the file may not do to a preset's policy: use a dimension that the policy has not [M1],
// and turn a signal into something else.
func (b *builder) protectPreset(node *policyNode, path string) {
	if node.preset == "" {
		return
	}
	for _, s := range node.cells(path).slots() {
		if s.cell.set && !s.cell.sealed {
			b.wrongDimension(s.path, s.class, s.dim, node.preset)
		}
		if !slices.ContainsFunc(s.cell.preset, func(r ruleNode) bool { return r.signal() }) {
			continue
		}
		if s.cell.off {
			b.wrong(s.path, "is a signal of the preset %s, which cannot be turned off; tune its limit and window instead", node.preset)
		}
		for i, r := range s.cell.rules {
			if !r.signal() {
				b.wrong(s.cell.path(s.path, i)+".signal", "is a signal of the preset %s, which cannot be made to refuse; leave signal out", node.preset)
			}
		}
	}
}

func (b *builder) wrongDimension(path string, class limits.Class, dim limits.Dimension, preset string) {
	b.wrong(path, "does not apply: the preset %s has no %s.%s in this policy, and none can be added; leave it out, or write a policy of your own for the same paths",
		preset, class, dim)
	b.broken[path] = true // what such a rule would need besides is beside the point
}

// rules gives the rules of a policy in tie order, with the cells of later layers on top of those of earlier ones. Only
// the cells of the last layer are checked: the others were when it was their turn.
func (b *builder) rules(policy string, layers ...classCells) (rules []limits.Rule, origins []Origin) {
	slots := layers[0].slots()
	last := 0 // index of the layer that each slot is from
	above := make([][]slot, len(layers)-1)
	for i, l := range layers[1:] {
		above[i] = l.slots()
	}
	for i, s := range slots {
		last = 0
		effective := *s.cell
		for j := range above {
			if over := above[j][i]; over.cell.set {
				effective, s.path, last = over.cell.over(effective), over.path, j+1
			}
		}
		for index := range effective.rules {
			path := effective.path(s.path, index)
			rule := effective.rules[index].rule(policy, s.class, s.dim, index)
			if last == len(layers)-1 {
				b.checkRule(path, &effective.rules[index], &rule)
			}
			rules = append(rules, rule)
			origins = append(origins, b.origins[path])
		}
	}
	return rules, origins
}

// maxDeviceFailures is what other failure rules may have as well [M4]; the limiter takes more, for all devices of a user together.
const maxDeviceFailures = 1000

func (b *builder) checkRule(path string, node *ruleNode, rule *limits.Rule) {
	if b.broken[path] {
		return
	}
	for _, err := range split(rule.Validate()) {
		key, message, ok := strings.Cut(err.Error(), ": ")
		if !ok {
			key, message = "", err.Error()
		}
		b.wrong(strings.TrimSuffix(path+"."+key, "."), "%s", message)
	}
	if rule.Dimension == limits.Device && !rule.Signal && rule.Limit > maxDeviceFailures {
		b.wrong(path+".limit", "%d is out of range; use 1..%d", rule.Limit, maxDeviceFailures)
	}
	if rule.Signal && node.Refuse != "" {
		b.wrong(path+".refuse", "says how to refuse, but a signal never does; leave refuse out")
	}
	switch rule.Dimension {
	case limits.Source, limits.Subnet, limits.TargetSource:
		return
	}
	if node.PrefixV4 != nil {
		b.wrong(path+".prefix_v4", "masks an address, but the rule counts by %s; leave it out", rule.Dimension)
	}
	if node.PrefixV6 != nil {
		b.wrong(path+".prefix_v6", "masks an address, but the rule counts by %s; leave it out", rule.Dimension)
	}
}
