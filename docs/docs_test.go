// Package docs_test keeps the documentation honest: what it says about keys, defaults, metrics, words and tests is held against
// the program itself.
package docs_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/internal/config"
)

const root = ".."

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// pages are the documents, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, path := range append(paths, filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md")) {
		out[path] = read(t, path)
	}
	return out
}

// source is the text of all Go files in folders of the module, by path; with tests or without.
func source(t *testing.T, tests bool, folders ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && strings.HasSuffix(path, "_test.go") == tests {
				out[path] = read(t, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// all are the distinct first groups of a pattern's matches in the texts, sorted.
func all(pattern string, texts map[string]string) []string {
	re := regexp.MustCompile(pattern)
	var out []string
	for _, text := range texts {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// same reports what one list has and the other has not.
func same(t *testing.T, what string, code, docs []string) {
	t.Helper()
	if len(code) == 0 {
		t.Errorf("%s: none was found in the code, so the test looks in the wrong place", what)
	}
	for _, c := range code {
		if !slices.Contains(docs, c) {
			t.Errorf("%s: %s is not documented", what, c)
		}
	}
	for _, d := range docs {
		if !slices.Contains(code, d) {
			t.Errorf("%s: %s is documented, but does not exist", what, d)
		}
	}
}

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// prose is a page without its fenced blocks.
func prose(page string) string { return fence.ReplaceAllString(page, "") }

// section is the prose below a heading, up to the next one of the same level or above.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(prose(page), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("there is no heading %q", heading)
	}
	level := strings.IndexByte(heading, ' ')
	if end := regexp.MustCompile(fmt.Sprintf(`\n#{1,%d} `, level)).FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

// row is one row of a table; the bars of \| are no divisions.
func row(line string) []string {
	cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|\n "), `\|`, "\x00"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|"))
	}
	return cells
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// spans are the code spans of a text.
func spans(text string) (out []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// property is what the schema, or the reference, says of a key.
type property struct {
	text     string // of the reference: the whole row
	value    string // of the default, as it is written; empty: none
	required bool
	words    []string // of an enum
	bounds   []string
}

// TestConfigKeys holds the tables of the reference against the schema, both ways.
func TestConfigKeys(t *testing.T) {
	b, err := json.Marshal(config.Schema())
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(b, &root); err != nil {
		t.Fatal(err)
	}
	want := map[string]property{}
	root.walk("", false, want)
	root.Defs["rule"].walk("policies.NAME.CLASS.DIMENSION", false, want)
	addTags(want)
	got := documented(t)
	same(t, "configuration key", keys(want), keys(got))
	for key, w := range want {
		g, ok := got[key]
		if !ok {
			continue
		}
		if w.required != g.required {
			t.Errorf("%s: required is %v, but the reference says %v", key, w.required, g.required)
		}
		if w.value != g.value {
			t.Errorf("%s: the default is %q, but the reference says %q", key, w.value, g.value)
		}
		for _, word := range slices.Concat(w.words, w.bounds) {
			if !regexp.MustCompile(`(^|[^0-9A-Za-z])` + regexp.QuoteMeta(word) + `($|[^0-9A-Za-z])`).MatchString(g.text) {
				t.Errorf("%s: the reference does not say %q", key, word)
			}
		}
	}
}

func keys(m map[string]property) []string {
	var out []string
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// documented reads the tables of the reference: the heading's first code span is the path, that of a row the key below it.
func documented(t *testing.T) map[string]property {
	t.Helper()
	part := section(t, read(t, "reference.md"), "## The configuration file")
	part, _, _ = strings.Cut(part, "\n### Selectors\n")
	_, part, _ = strings.Cut(part, "\n### Top level\n")
	out := map[string]property{}
	prefix, hasDefault := "", true
	for line := range strings.Lines(part) {
		cells := row(line)
		switch {
		case strings.HasPrefix(line, "#"):
			prefix = spans(line)[0] + "."
		case strings.HasPrefix(line, "| key"):
			hasDefault = slices.Contains(cells, "default")
		case strings.HasPrefix(line, "| `"):
			p := property{text: line, required: strings.Contains(line, "equired. |")}
			if hasDefault {
				p.required = cells[2] == "required"
				if s := spans(cells[2]); len(s) > 0 {
					p.value = s[0]
				}
			}
			for _, key := range spans(cells[0]) {
				out[prefix+key] = p
			}
		}
	}
	return out
}

// schema is a part of the JSON schema, as far as it is looked at.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Default    any               `json:"default"`
	Enum       []any             `json:"enum"`
	Minimum    *int              `json:"minimum"`
	Maximum    *int              `json:"maximum"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	Additional any               `json:"additionalProperties"`
	Items      *schema           `json:"items"`
	AnyOf      []schema          `json:"anyOf"`
	Defs       map[string]schema `json:"$defs"`
}

// walk notes every key at or below the path that has a value of its own.
func (s schema) walk(path string, required bool, into map[string]property) {
	if path == "realms.NAME.policies" || path == "realms.NAME.apps.NAME.policies" { // the rules are those of policies
		into[path] = property{}
		return
	}
	whole := s
	if len(s.AnyOf) > 0 && s.AnyOf[0].Type != "array" { // a value or nothing
		s = s.AnyOf[0]
	}
	switch more, _ := s.Additional.(map[string]any); {
	case len(s.Properties) > 0:
		for name, p := range s.Properties {
			p.walk(strings.TrimPrefix(path+"."+name, "."), slices.Contains(s.Required, name), into)
		}
		if len(whole.AnyOf) > 0 {
			into[path] = property{}
		}
		return
	case s.Type == "array" && s.Items.Type == "object":
		s.Items.walk(path+"[]", false, into)
		return
	case more["properties"] != nil:
		b, _ := json.Marshal(more)
		var named schema
		_ = json.Unmarshal(b, &named)
		named.walk(path+".NAME", false, into)
		return
	}
	p := property{value: written(whole.Default), required: required}
	for _, w := range s.Enum {
		if w != "" {
			p.words = append(p.words, fmt.Sprint(w))
		}
	}
	for _, n := range []*int{s.Minimum, s.Maximum} {
		if n != nil {
			p.bounds = append(p.bounds, fmt.Sprint(*n))
		}
	}
	if s.Type == "boolean" && p.value == "" {
		p.value = "false"
	}
	switch path {
	case "upstream.url", "policies.NAME.outcome[].is": // have no default, but the schema cannot say so
		p.required = true
	case "policies.NAME.proves", "policies.NAME.trusts_device": // whose defaults follow from the rules
		p.value = ""
	}
	into[path] = p
}

// written spells a default the way the reference does.
func written(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case []any:
		if len(x) == 1 {
			return fmt.Sprint(x[0])
		}
		var items []string
		for _, i := range x {
			items = append(items, fmt.Sprint(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case float64:
		return fmt.Sprint(int(x))
	}
	return fmt.Sprint(v)
}

// addTags adds what the schema leaves out and the exported structs say: bounds of durations and sizes, zeros, and that the
// default may be everyone.
func addTags(want map[string]property) {
	var add func(t reflect.Type, path string)
	add = func(t reflect.Type, path string) {
		for i := range t.NumField() {
			f := t.Field(i)
			key := path + "." + f.Tag.Get("yaml")
			p, ok := want[key]
			if f.Type.Kind() == reflect.Struct && !ok {
				add(f.Type, key)
				continue
			}
			for _, bound := range []string{f.Tag.Get("min"), f.Tag.Get("max")} {
				if ok && bound != "" && !slices.Contains(p.bounds, bound) {
					p.bounds = append(p.bounds, bound)
				}
			}
			switch {
			case !ok:
				continue
			case f.Type.Kind() == reflect.Int && p.value == "":
				p.value = "0"
			case f.Tag.Get("everyone") != "":
				p.value = "*"
			}
			want[key] = p
		}
	}
	add(reflect.TypeFor[config.Server](), "server")
	add(reflect.TypeFor[config.Upstream](), "upstream")
	add(reflect.TypeFor[config.ClientIP](), "client_ip")
	add(reflect.TypeFor[config.Store](), "store")
	add(reflect.TypeFor[config.Signups](), "signups")
	add(reflect.TypeFor[config.Device](), "device")
	add(reflect.TypeFor[config.Unlock](), "unlock")
	add(reflect.TypeFor[config.Admin](), "admin")
	add(reflect.TypeFor[config.Log](), "log")
	add(reflect.TypeFor[config.Audit](), "audit")
}
