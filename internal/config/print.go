package config

import (
	"fmt"
	"io"

	"gopkg.in/yaml.v3"
)

// Print writes the effective configuration as YAML, each value with a comment that says where it was written.
// Parse gives the same configuration for it, once the secrets, which print as `<secret>`, are filled in.
func (c *Config) Print(w io.Writer) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(c.shown.yaml(true)); err != nil {
		return fmt.Errorf("printing configuration: %w", err)
	}
	return enc.Close()
}

// yaml is the view as a node. Whatever stands on one line carries its origin, but not what is inside of such a line.
func (v *view) yaml(comment bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	oneLine := v.scalar != nil || v.compact || len(v.items) == 0 || v.isList && v.scalars()
	switch {
	case v.scalar != nil:
		n.Kind, n.Tag = yaml.ScalarNode, "!!str"
		text, isText := v.text()
		if !isText {
			n.Tag = "" // as it resolves
		}
		n.Value = text
	case v.isList:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	}
	if oneLine {
		n.Style = yaml.FlowStyle
		if comment && v.origin != "" {
			n.LineComment = "# " + v.origin
		}
		comment = false
	}
	for i, item := range v.items {
		if !v.isList {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v.keys[i]})
		}
		n.Content = append(n.Content, item.yaml(comment))
	}
	return n
}

// scalars reports whether the items are scalars all.
func (v *view) scalars() bool {
	for _, item := range v.items {
		if item.scalar == nil {
			return false
		}
	}
	return true
}
