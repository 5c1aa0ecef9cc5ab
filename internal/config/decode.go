package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"authgate/clientip"

	"gopkg.in/yaml.v3"
)

// decoder lays one YAML document over a struct that already holds defaults and earlier documents: mappings
// are merged key by key, lists and scalars are replaced, null leaves what is there. It reports everything that it
// cannot take and goes on, so that one run finds every problem.
type decoder struct {
	*report
	source  Origin // of this document; its Line is filled in for every key
	options Options
	fields  map[reflect.Type][]field
}

// custom is a type that decodes itself.
type custom interface {
	decode(d *decoder, n *yaml.Node, path string)
}

// keyedMap is a mapping whose keys the file chooses.
type keyedMap interface {
	entry(key string) any // pointer to the value, made with its defaults if the key is new
	reset(key string)     // gives the value of a key its defaults again
}

// defaulter is a struct that has other defaults than zeros wherever a list or a mapping makes a new one.
type defaulter interface {
	setDefaults()
}

// at is the document's origin with the node's line.
func (d *decoder) at(n *yaml.Node) Origin {
	o := d.source
	o.Line = max(n.Line, 1)
	return o
}

func (d *decoder) badNode(n *yaml.Node, path, format string, args ...any) {
	d.errorAt(d.at(n), path, format, args...)
}

// value decodes n over v, which must be addressable.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, f field) {
	if isNull(n) {
		return
	}
	if n.Kind == yaml.AliasNode {
		d.badNode(n, path, "is an alias; aliases are not supported, write the value out")
		return
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.badNode(n, path, "has the tag %s; leave tags out", printable(n.Tag))
		return
	}
	if c, ok := v.Addr().Interface().(custom); ok {
		c.decode(d, n, path)
		return
	}
	if m, ok := v.Addr().Interface().(keyedMap); ok {
		d.keyed(n, m, path)
		return
	}
	switch v.Interface().(type) {
	case clientip.PrefixSet, clientip.TrustList:
		d.addresses(n, v, path, f)
		return
	case *url.URL:
		d.scalar(n, v, path, f)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		d.pointer(n, v, path, f)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Slice:
		d.list(n, v, path, f)
	case reflect.Map:
		d.predicates(n, v, path)
	default:
		d.scalar(n, v, path, f)
	}
}

// pointer decodes what may be absent: the empty text leaves it so.
func (d *decoder) pointer(n *yaml.Node, v reflect.Value, path string, f field) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == "" {
		v.SetZero()
		return
	}
	fresh := reflect.New(v.Type().Elem())
	d.value(n, fresh.Elem(), path, f)
	v.Set(fresh)
}

// structure decodes a mapping whose keys are the fields of v.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	fields := d.fieldsOf(v.Type())
	given := make(map[string]bool, len(fields))
	d.mapping(n, path, func(key, value *yaml.Node, at string) {
		i := indexOf(fields, key.Value)
		if i < 0 {
			if !d.full() {
				d.badNode(key, at, "is no key%s", hint(key.Value, names(fields, d.options.later)))
			}
			return
		}
		f := fields[i]
		if f.later && !d.options.later {
			d.badNode(key, at, "is not supported by this version; leave it out")
			return
		}
		given[f.name] = !isNull(value)
		if given[f.name] {
			d.enter(key, at, v.Field(f.index))
			d.value(value, v.Field(f.index), at, f)
		}
	})
	if n.Kind != yaml.MappingNode {
		return
	}
	for _, f := range fields {
		if f.required && !given[f.name] {
			d.errorAt(d.keyOrigin(n, path), join(path, f.name), "is missing; it has no default")
		}
	}
}

// keyOrigin is the place of the key that holds n, or else of n.
func (d *decoder) keyOrigin(n *yaml.Node, path string) Origin {
	if o, ok := d.origins[path]; ok {
		return o
	}
	return d.at(n)
}

// keyed decodes a mapping whose keys are names that the file chooses. What two presets name, they mean for two backends, so
// that the later one replaces the other's whole.
func (d *decoder) keyed(n *yaml.Node, m keyedMap, path string) {
	d.mapping(n, path, func(key, value *yaml.Node, at string) {
		if err := checkName(key.Value); err != nil {
			d.badNode(key, at, "%v", err)
			return
		}
		if old := d.origins[at]; old.Preset != "" && d.source.Preset != "" {
			d.warnf("presets", "both %s and %s define %s; that of %s holds", old.Preset, d.source.Preset, at, d.source.Preset)
			d.forget(at)
			m.reset(key.Value)
		}
		d.origins[at] = d.at(key)
		d.value(value, reflect.ValueOf(m.entry(key.Value)).Elem(), at, field{})
	})
}

// maxPredicates bounds the conditions of one mapping; each is looked at in every request.
const maxPredicates = 100

// predicates decodes a mapping from any names to texts. It replaces what was there, since dropping one
// of several conditions cannot be written otherwise.
func (d *decoder) predicates(n *yaml.Node, v reflect.Value, path string) {
	if len(n.Content) > 2*maxPredicates {
		d.badNode(n, path, "holds %d keys; use at most %d", len(n.Content)/2, maxPredicates)
		return
	}
	v.SetZero()
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		return // an empty one and none at all are the same
	}
	fresh := reflect.MakeMap(v.Type())
	d.mapping(n, path, func(key, value *yaml.Node, at string) {
		if isNull(value) {
			d.badNode(value, at, "is empty; use a text")
			return
		}
		d.origins[at] = d.at(key)
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(value, elem, at, field{spelled: true})
		fresh.SetMapIndex(reflect.ValueOf(key.Value), elem)
	})
	v.Set(fresh)
}

// list decodes a list over v; where its items are scalars, one of them may stand without brackets.
func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, f field) {
	items := []*yaml.Node{n}
	isList := n.Kind == yaml.SequenceNode
	if isList {
		items = n.Content
	} else if k := v.Type().Elem().Kind(); k == reflect.Struct || n.Kind == yaml.MappingNode {
		d.badNode(n, path, "is %s; use a list", describe(n))
		return
	}
	if f.items > 0 && len(items) > f.items {
		d.badNode(n, path, "holds %d items; use at most %d", len(items), f.items)
		return
	}
	v.SetZero()
	if len(items) == 0 {
		return // an empty one and none at all are the same
	}
	f.spelled = true
	out := reflect.MakeSlice(v.Type(), 0, len(items))
	for i, item := range items {
		at := path
		if isList {
			at = fmt.Sprintf("%s[%d]", path, i)
			if isNull(item) {
				d.badNode(item, at, "is empty; write a value, or leave the item out")
				continue
			}
			d.origins[at] = d.at(item)
		}
		if texts, ok := d.splitReference(item, at, f); ok {
			for _, text := range texts {
				out = reflect.Append(out, reflect.ValueOf(text).Convert(v.Type().Elem()))
			}
			continue
		}
		elem := reflect.New(v.Type().Elem())
		if def, ok := elem.Interface().(defaulter); ok {
			def.setDefaults()
		}
		d.value(item, elem.Elem(), at, f)
		out = reflect.Append(out, elem.Elem())
	}
	v.Set(out)
}

// mapping calls each for every pair of a mapping with sound keys, with the path of its value.
func (d *decoder) mapping(n *yaml.Node, path string, each func(key, value *yaml.Node, at string)) {
	if n.Kind != yaml.MappingNode {
		d.badNode(n, path, "is %s; use a mapping (key: value)", describe(n))
		return
	}
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			d.badNode(key, path, "has a merge key <<; merge keys are not supported, write the keys out")
			continue
		}
		if key.Kind != yaml.ScalarNode {
			d.badNode(key, path, "has a key that is %s; use a plain word", describe(key))
			continue
		}
		at := join(path, printable(key.Value))
		if line, twice := lines[key.Value]; twice {
			d.badNode(key, at, "is there twice; line %d has it already, keep one", line)
			continue
		}
		lines[key.Value] = key.Line
		each(key, value, at)
	}
}

// enter records where the value at the path was written. If an earlier document wrote it too, and it is one that
// is replaced whole, nothing is left of the origins inside.
func (d *decoder) enter(key *yaml.Node, path string, v reflect.Value) {
	if _, known := d.origins[path]; known && (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) {
		d.forget(path)
	}
	d.origins[path] = d.at(key)
}

// forget drops the origins of everything inside the value at the path. It looks at all origins, so it is only for
// what an earlier document, a preset, has written.
func (d *decoder) forget(path string) {
	for p := range d.origins {
		if len(p) > len(path) && strings.HasPrefix(p, path) && (p[len(path)] == '.' || p[len(path)] == '[') {
			delete(d.origins, p)
		}
	}
}

func (d *decoder) fieldsOf(t reflect.Type) []field {
	fields, ok := d.fields[t]
	if !ok {
		fields = fieldsOf(t)
		d.fields[t] = fields
	}
	return fields
}

func indexOf(fields []field, name string) int {
	for i, f := range fields {
		if f.name == name {
			return i
		}
	}
	return -1
}

func names(fields []field, later bool) []string {
	var out []string
	for _, f := range fields {
		if later || !f.later {
			out = append(out, f.name)
		}
	}
	return out
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// describe says what a node is; scalars by their text.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!str":
		return "the text " + quote(n.Value)
	case "!!int", "!!float":
		return "the number " + printable(n.Value)
	case "!!bool":
		return n.Value
	case "!!null":
		return "empty"
	}
	return "a value of type " + printable(n.Tag)
}

// quote shows a text of the file in a message, cut where it gets long.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "..."
	}
	return strconv.Quote(s)
}

// printable is a key as it stands in a path: in quotes if it could be mistaken, so that no file writes to the terminal.
func printable(s string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == unicode.ReplacementChar }
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, odd) {
		return quote(s)
	}
	return s
}
