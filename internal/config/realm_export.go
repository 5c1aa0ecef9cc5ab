package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// ExportRealm is one realm of the file at the path, as a fragment of such a file that [ImportRealm] takes: what the realm
// says itself, as it was written, so that references stay references. The whole file is checked first; an error
// about its content is of type [Problems].
func ExportRealm(path, realm string) ([]byte, Warnings, error) {
	data, err := readBounded(path, maxFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading configuration: %w", err)
	}
	_, warnings, err := Parse(path, data, Options{})
	if err != nil {
		return nil, warnings, err
	}
	text, err := exportRealm(path, data, realm)
	return text, warnings, err
}

func exportRealm(path string, data []byte, realm string) ([]byte, error) {
	realms := child(parseYAML(newReport(path), Origin{File: path}, bytes.NewReader(data)), "realms")
	value := child(realms, realm)
	if value == nil {
		return nil, fmt.Errorf("exporting a realm: %s has no realm %s; %s", path, quote(realm), listed(keysOf(realms)))
	}
	text, err := block(0, mappingOf("realms", mappingOf(realm, portable(value))))
	if err != nil {
		return nil, fmt.Errorf("exporting a realm: %w", err)
	}
	return text, nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "it has none, so that every host belongs to the realm default as the policies are"
	}
	return "it has " + strings.Join(names, ", ")
}

// keysOf lists the keys of a mapping node; nil has none.
func keysOf(n *yaml.Node) []string {
	var out []string
	if n != nil && n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			out = append(out, n.Content[i].Value)
		}
	}
	return out
}

// mappingOf is a mapping of one key, as a block.
func mappingOf(key string, value *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value,
	}}
}

// portable is the value of a realm as it may stand elsewhere: an empty one is a mapping, and comments that the parser found
// behind something, which may well be about what followed in the file, stay there.
func portable(value *yaml.Node) *yaml.Node {
	if isNull(value) {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
	}
	return withoutFeet(value)
}

func withoutFeet(n *yaml.Node) *yaml.Node {
	out := *n
	out.FootComment = ""
	out.Content = nil
	for _, c := range n.Content {
		out.Content = append(out.Content, withoutFeet(c))
	}
	return &out
}

// block writes a node as YAML, each line indented by that many blanks.
func block(indent int, n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, err
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	if indent == 0 {
		return b.Bytes(), nil
	}
	var out []byte
	for line := range bytes.Lines(b.Bytes()) {
		if len(bytes.TrimSpace(line)) > 0 {
			out = append(out, bytes.Repeat([]byte{' '}, indent)...)
		}
		out = append(out, line...)
	}
	return out, nil
}

// leaf is one value of a realm, as messages show it.
type leaf struct{ path, text string }

// leaves flattens a node: scalars, lists, and mappings without keys.
func leaves(n *yaml.Node, path string, into []leaf) []leaf {
	if n.Kind == yaml.MappingNode && len(n.Content) > 0 {
		for i := 0; i+1 < len(n.Content); i += 2 {
			into = leaves(n.Content[i+1], join(path, printable(n.Content[i].Value)), into)
		}
		return into
	}
	return append(into, leaf{path, oneLine(n)})
}

// oneLine spells a node on one line.
func oneLine(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		brackets := "{}"
		var items []string
		if n.Kind == yaml.SequenceNode {
			brackets = "[]"
			for _, c := range n.Content {
				items = append(items, oneLine(c))
			}
		} else {
			for i := 0; i+1 < len(n.Content); i += 2 {
				items = append(items, printable(n.Content[i].Value)+": "+oneLine(n.Content[i+1]))
			}
		}
		return brackets[:1] + strings.Join(items, ", ") + brackets[1:]
	}
	if isNull(n) {
		return "null"
	}
	return printable(n.Value)
}

// sameNode compares what two nodes say, whatever their style, comments and places.
func sameNode(a, b *yaml.Node) bool {
	if a == nil || b == nil || a.Kind != b.Kind || a.Value != b.Value || (a.Kind == yaml.ScalarNode && a.ShortTag() != b.ShortTag()) {
		return a == b
	}
	return slices.EqualFunc(a.Content, b.Content, sameNode)
}
