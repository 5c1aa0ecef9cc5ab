package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"authgate/internal/preset"

	"gopkg.in/yaml.v3"
)

// layer is one YAML document, to be laid over the ones before it.
type layer struct {
	source Origin     // without a line
	root   *yaml.Node // nil: empty
}

func (l layer) decode(r *report, doc *document, opts Options) {
	if l.root == nil {
		return
	}
	d := &decoder{report: r, source: l.source, options: opts, fields: map[reflect.Type][]field{}}
	d.value(l.root, reflect.ValueOf(doc).Elem(), "", field{})
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// parseYAML reads exactly one document; nil if it is empty or cannot be read, which is then reported.
func parseYAML(r *report, source Origin, text io.Reader) *yaml.Node {
	source.Line = 1
	dec := yaml.NewDecoder(text)
	bad := func(err error) {
		text, o := strings.TrimPrefix(err.Error(), "yaml: "), source
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			o.Line, _ = strconv.Atoi(m[1])
			text = text[len(m[0]):]
		}
		r.errorAt(o, "", "is no YAML: %s; look for a tab, an open bracket or quote, or a wrong indentation", text)
	}
	var doc, second yaml.Node
	if err := decodeNode(dec, &doc); err != nil {
		if !errors.Is(err, io.EOF) {
			bad(err)
		}
		return nil
	}
	switch err := decodeNode(dec, &second); {
	case err == nil:
		source.Line = max(second.Line, 1)
		r.errorAt(source, "", "a second document starts here; a configuration is one document, remove the --- line")
	case !errors.Is(err, io.EOF):
		bad(err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || isNull(doc.Content[0]) {
		return nil
	}
	if root := doc.Content[0]; root.Kind != yaml.MappingNode {
		source.Line = max(root.Line, 1)
		r.errorAt(source, "", "is %s; use a mapping (key: value)", describe(root))
		return nil
	}
	return doc.Content[0]
}

// decodeNode turns a panic into an error: the parser is no longer maintained, some inputs are reported to bring it down,
// and a bad file on reload must not end a gateway that serves.
func decodeNode(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up on it (%v)", p)
		}
	}()
	return dec.Decode(n)
}

// presetLayers finds the presets that the document asks for. The list itself is decoded, and its mistakes are
// reported, with the rest of the document.
func presetLayers(r *report, root *yaml.Node) []layer {
	node := child(root, "presets")
	if node == nil {
		return nil
	}
	r.origins["presets"] = Origin{File: r.name, Line: node.Line}
	items := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		items = node.Content
	}
	var out []layer
	var seen []string
	for i, item := range items {
		if item.Kind != yaml.ScalarNode || isNull(item) {
			continue
		}
		at := "presets"
		if node.Kind == yaml.SequenceNode {
			at = fmt.Sprintf("presets[%d]", i)
		}
		o := Origin{File: r.name, Line: item.Line}
		text, ok := preset.Load(item.Value)
		switch {
		case !ok:
			r.errorAt(o, at, "%s is no preset%s", quote(item.Value), hint(item.Value, preset.Names()))
		case slices.Contains(seen, item.Value):
			r.errorAt(o, at, "%s is there twice; keep one", item.Value)
		default:
			seen = append(seen, item.Value)
			source := Origin{Preset: item.Value}
			out = append(out, layer{source: source, root: parseYAML(r, source, bytes.NewReader(text))})
		}
	}
	return out
}

// child is the value of a key in a mapping node, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// seal marks what presets have said, once all of them are laid down and before the file is.
func (doc *document) seal(r *report) {
	for name, p := range doc.Policies.all {
		p.preset = r.origins[join("policies", name)].Preset
		for _, s := range p.cells(join("policies", name)).slots() {
			s.cell.sealed, s.cell.preset = s.cell.set, s.cell.rules
		}
	}
}

func (p *policyNode) cells(path string) classCells {
	return classCells{path, &p.Requests, &p.Failures, &p.Factors}
}

func (o *overrideNode) cells(path string) classCells {
	return classCells{path, &o.Requests, &o.Failures, &o.Factors}
}

// builtinText is a file that says no more than where the backend is.
func builtinText(upstreamURL string) ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"upstream": map[string]string{"url": upstreamURL},
		"presets":  []string{"generic"},
	})
}
