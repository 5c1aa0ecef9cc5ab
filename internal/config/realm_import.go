package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"
)

// RealmImport is a configuration file with one realm of it added or replaced, not yet written.
type RealmImport struct {
	Realm   string
	Added   bool         // it is not in the file as it is
	Changes []LeafChange // what is different in the realm, in order; none: Save has nothing to do

	path          string
	before, after []byte
}

// LeafChange is one value that an import changes.
type LeafChange struct {
	Path          string // such as realms.acme.mode
	Before, After string // "" where it is not there
}

// ImportRealm prepares to add the realm of a fragment to the file at the path, or to put it in place of the one of that
// name. Everything else of the file stays as it is, to the byte. source stands for the fragment in messages. The
// fragment must hold one realm and nothing else, and the file that would come of it is checked as a whole: an error
// about the content of either is of type [Problems].
func ImportRealm(path, source string, fragment []byte) (*RealmImport, Warnings, error) {
	before, err := readBounded(path, maxFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading configuration: %w", err)
	}
	return importRealm(path, before, source, fragment)
}

func importRealm(path string, before []byte, source string, fragment []byte) (*RealmImport, Warnings, error) {
	name, value, err := parseFragment(source, fragment)
	if err != nil {
		return nil, nil, err
	}
	r := newReport(path)
	root := parseYAML(r, Origin{File: path}, bytes.NewReader(before))
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	if root == nil {
		return nil, nil, fmt.Errorf("importing a realm: %s is empty; write the rest of the configuration first", path)
	}
	out := &RealmImport{Realm: name, path: path, before: before, after: before}
	old := child(child(root, "realms"), name)
	out.Added = old == nil
	out.compare(old, value)
	if len(out.Changes) > 0 {
		if out.after, err = splice(before, root, name, value); err != nil {
			if _, warnings, err := Parse(path, before, Options{}); err != nil {
				return nil, warnings, err // which says more
			}
			return nil, nil, fmt.Errorf("importing a realm into %s: %w", path, err)
		}
	}
	_, warnings, err := Parse(path, out.after, Options{})
	if err != nil {
		return nil, warnings, err
	}
	return out, warnings, nil
}

// parseFragment reads a fragment that is one realm.
func parseFragment(source string, text []byte) (name string, value *yaml.Node, err error) {
	r := newReport(source)
	if len(text) > maxFile {
		r.errorf("", "is larger than %s; make it smaller", Size(maxFile))
		return "", nil, r.err()
	}
	root := parseYAML(r, Origin{File: source}, bytes.NewReader(text))
	if err := r.err(); err != nil {
		return "", nil, err
	}
	const form = "use what `gateway realm export` prints: realms: {NAME: {...}}"
	realms := child(root, "realms")
	switch {
	case root == nil || len(root.Content) == 0:
		r.errorf("", "is empty; %s", form)
	case realms == nil || len(root.Content) != 2:
		for i := 0; i < len(root.Content); i += 2 {
			if key := root.Content[i]; key.Value != "realms" || realms != root.Content[i+1] {
				r.errorAt(Origin{File: source, Line: key.Line}, printable(key.Value), "is no part of a realm; %s", form)
			}
		}
	case realms.Kind != yaml.MappingNode || len(realms.Content) != 2:
		r.errorAt(Origin{File: source, Line: realms.Line}, "realms", "holds %d realms; a fragment is one: %s", len(realms.Content)/2, form)
	default:
		name, value = realms.Content[0].Value, portable(realms.Content[1])
		if err := checkName(name); err != nil {
			r.errorAt(Origin{File: source, Line: realms.Content[0].Line}, "realms", "%v", err)
		}
		if value.Kind != yaml.MappingNode {
			r.errorAt(Origin{File: source, Line: value.Line}, join("realms", name), "is %s; use a mapping (key: value)", describe(value))
		}
	}
	return name, value, r.err()
}

// compare lists what is different.
func (i *RealmImport) compare(old, value *yaml.Node) {
	path := join("realms", i.Realm)
	before, after := map[string]string{}, map[string]string{}
	var was []leaf
	if old != nil {
		was = leaves(portable(old), path, nil)
	}
	for _, l := range was {
		before[l.path] = l.text
	}
	for _, l := range leaves(value, path, nil) {
		after[l.path] = l.text
		if before[l.path] != l.text {
			i.Changes = append(i.Changes, LeafChange{l.path, before[l.path], l.text})
		}
	}
	for _, l := range was {
		if _, stays := after[l.path]; !stays {
			i.Changes = append(i.Changes, LeafChange{l.path, l.text, ""})
		}
	}
	if len(i.Changes) == 0 && !sameNode(portable(old), value) { // the same values in another order or type
		i.Changes = append(i.Changes, LeafChange{path, oneLine(old), oneLine(value)})
	}
}

// errNotInPlace is what becomes of files that are written in an unusual manner: nothing, rather than a guess.
var errNotInPlace = errors.New("it is not laid out so that a realm can be put in its place; write realms as one indented line below another")

// splice puts the realm into the text. What comes out is read again: it must differ in that realm and in nothing else.
func splice(text []byte, root *yaml.Node, name string, value *yaml.Node) ([]byte, error) {
	if root.Style&yaml.FlowStyle != 0 || len(root.Content) == 0 {
		return nil, errNotInPlace
	}
	lines := slices.Collect(bytes.Lines(text))
	from, to, entry, err := newLines(lines, root, name, value)
	if err != nil {
		return nil, err
	}
	out := bytes.Join(lines[:from], nil)
	ending := []byte("\n")
	if len(lines) > 0 && bytes.HasSuffix(lines[0], []byte("\r\n")) {
		ending = []byte("\r\n")
	}
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, ending...)
	}
	out = append(out, bytes.ReplaceAll(entry, []byte("\n"), ending)...)
	out = append(out, bytes.Join(lines[to:], nil)...)
	again := parseYAML(newReport(""), Origin{}, bytes.NewReader(out))
	if again == nil || !sameBut(root, again, name, value) {
		return nil, errNotInPlace
	}
	return out, nil
}

// newLines are the lines that take the place of those from..to, which are counted from 0.
func newLines(lines [][]byte, root *yaml.Node, name string, value *yaml.Node) (from, to int, entry []byte, err error) {
	end := len(lines)
	for i := root.Content[len(root.Content)-2].Line; i < end; i++ {
		if bytes.HasPrefix(lines[i], []byte("...")) { // the end of the document
			end = i
		}
	}
	outer := root.Content[0].Column - 1
	at := slices.Index(keysOf(root), "realms")
	if at < 0 {
		entry, err = block(outer, mappingOf("realms", mappingOf(name, value)))
		return end, end, entry, err
	}
	after := end // of the whole section
	if 2*at+2 < len(root.Content) {
		after = root.Content[2*at+2].Line - 1
	}
	realms := root.Content[2*at+1]
	if realms.Kind != yaml.MappingNode || realms.Style&yaml.FlowStyle != 0 || len(realms.Content) == 0 {
		entry, err = block(outer, mappingOf("realms", asBlock(realms, name, value)))
		return root.Content[2*at].Line - 1, endOf(lines, after, outer), entry, err
	}
	inner := realms.Content[0].Column - 1
	if entry, err = block(inner, mappingOf(name, value)); err != nil {
		return 0, 0, nil, err
	}
	i := slices.Index(keysOf(realms), name)
	if i < 0 {
		from = endOf(lines, after, inner)
		return from, from, entry, nil
	}
	if 2*i+2 < len(realms.Content) {
		after = realms.Content[2*i+2].Line - 1
	}
	return realms.Content[2*i].Line - 1, endOf(lines, after, inner), entry, nil
}

// asBlock is a section that stood on one line, with the realm, one below the other.
func asBlock(realms *yaml.Node, name string, value *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if realms.Kind == yaml.MappingNode {
		out.Content = slices.Clone(realms.Content)
	}
	if i := slices.Index(keysOf(out), name); i >= 0 {
		out.Content[2*i+1] = value
		return out
	}
	out.Content = append(out.Content, mappingOf(name, value).Content...)
	return out
}

// endOf is the line after the last one of an entry at that indentation, given where the next one starts: blank lines and
// comments before that belong to the next, unless they are indented as deep as what is in the entry.
func endOf(lines [][]byte, next, indent int) int {
	for next > 0 {
		line := lines[next-1]
		trimmed := bytes.TrimLeft(line, " ")
		comment := len(trimmed) > 0 && trimmed[0] == '#' && len(line)-len(trimmed) <= indent
		if len(bytes.TrimSpace(line)) > 0 && !comment {
			break
		}
		next--
	}
	return next
}

// sameBut reports whether two documents differ in nothing but that the second one has the realm as it is given.
func sameBut(a, b *yaml.Node, name string, value *yaml.Node) bool {
	others := func(n *yaml.Node, but string) (out []*yaml.Node) {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value != but {
				out = append(out, n.Content[i], n.Content[i+1])
			}
		}
		return out
	}
	inA, inB := child(a, "realms"), child(b, "realms")
	return sameNode(child(inB, name), value) &&
		slices.EqualFunc(others(a, "realms"), others(b, "realms"), sameNode) &&
		slices.EqualFunc(others(inA, name), others(inB, name), sameNode)
}
