package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"time"

	"authgate/clientip"
)

// view is a value of the configuration as it may be shown: in the file's own words and order, without secrets.
// It marshals to JSON.
type view struct {
	scalar any // string, int or bool; nil in a mapping or list
	isList bool
	keys   []string // of a mapping, as long as items
	items  []*view

	origin  string // where it was written; empty where the items say it themselves
	compact bool   // a mapping that stands on one line
}

// MarshalJSON keeps the order of the file.
func (v *view) MarshalJSON() ([]byte, error) {
	if v.scalar != nil {
		return json.Marshal(v.scalar)
	}
	opening, closing := byte('{'), byte('}')
	if v.isList {
		opening, closing = '[', ']'
	}
	var b bytes.Buffer
	b.WriteByte(opening)
	for i, item := range v.items {
		if i > 0 {
			b.WriteByte(',')
		}
		if !v.isList {
			key, err := json.Marshal(v.keys[i])
			if err != nil {
				return nil, err
			}
			b.Write(key)
			b.WriteByte(':')
		}
		value, err := item.MarshalJSON()
		if err != nil {
			return nil, err
		}
		b.Write(value)
	}
	b.WriteByte(closing)
	return b.Bytes(), nil
}

// viewer makes views of a document.
type viewer struct {
	*report
	later bool // show what this version does not support
}

// value views v, which stands at the path. In compact values, zeros are left out.
func (w *viewer) value(v reflect.Value, path string, compact bool) *view {
	out := &view{origin: w.origins[path].String(), compact: compact}
	if via := w.origins[path].Via; via != "" {
		out.origin += ", from " + via
	}
	switch x := v.Interface().(type) {
	case cell:
		return w.cell(&x, path)
	case time.Duration:
		out.scalar = formatDuration(x)
	case Size:
		out.scalar = x.String()
	case Secret:
		out.scalar = x.String()
	case *url.URL:
		out.scalar = x.String()
	case clientip.PrefixSet:
		out.list(x.Entries())
	case clientip.TrustList:
		out.list(x.Entries())
	case viewable:
		out.origin = ""
		for _, key := range x.order() {
			out.keys = append(out.keys, key)
			out.items = append(out.items, w.value(x.at(key), join(path, key), false))
		}
	default:
		w.plain(out, v, path)
	}
	return out
}

// viewable is what a keyed mapping lets a viewer see.
type viewable interface {
	order() []string
	at(key string) reflect.Value
	sample() reflect.Value // a new value
}

func (k keyed[T]) order() []string { return k.names }

func (k keyed[T]) at(key string) reflect.Value { return reflect.ValueOf(k.values[key]).Elem() }

func (k keyed[T]) sample() reflect.Value { return sample(reflect.TypeFor[T]()) }

func (w *viewer) plain(out *view, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			out.scalar = ""
			return
		}
		origin := out.origin
		*out = *w.value(v.Elem(), path, out.compact)
		out.origin = origin
	case reflect.Struct:
		w.structure(out, v, path)
	case reflect.Slice:
		out.isList = true
		for i := range v.Len() {
			out.items = append(out.items, w.value(v.Index(i), fmt.Sprintf("%s[%d]", path, i), true))
		}
	case reflect.Map:
		values := v.Interface().(map[string]string)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			out.keys = append(out.keys, key)
			out.items = append(out.items, &view{scalar: values[key]})
		}
		out.compact = true
	case reflect.String:
		out.scalar = v.String()
	case reflect.Bool:
		out.scalar = v.Bool()
	default:
		out.scalar = int(v.Int())
	}
}

func (w *viewer) structure(out *view, v reflect.Value, path string) {
	if v.IsZero() {
		out.compact = true // nothing but what this version does not support, or nothing at all
		return
	}
	for _, f := range fieldsOf(v.Type()) {
		x := v.Field(f.index)
		if c, ok := x.Interface().(cell); f.later && !w.later || ok && !c.set || out.compact && x.IsZero() {
			continue
		}
		out.keys = append(out.keys, f.name)
		out.items = append(out.items, w.value(x, join(path, f.name), out.compact))
	}
}

func (w *viewer) cell(c *cell, path string) *view {
	out := &view{origin: w.origins[path].String()}
	switch {
	case c.off:
		out.scalar = "off"
	case len(c.rules) == 1:
		return w.value(reflect.ValueOf(c.rules[0]), path, true)
	default:
		w.plain(out, reflect.ValueOf(c.rules), path)
	}
	return out
}

func (v *view) list(entries []string) {
	v.isList = true
	for _, e := range entries {
		v.items = append(v.items, &view{scalar: e})
	}
}

// Redacted is the effective configuration without its secrets, to be marshalled as JSON: the keys, words and order
// of the file.
func (c *Config) Redacted() any { return c.shown }

func showDocument(r *report, doc *document, later bool) *view {
	w := viewer{report: r, later: later}
	return w.value(reflect.ValueOf(*doc), "", false)
}

// text is the scalar as YAML spells it, and whether it is a text.
func (v *view) text() (text string, isText bool) {
	switch x := v.scalar.(type) {
	case int:
		return strconv.Itoa(x), false
	case bool:
		return strconv.FormatBool(x), false
	default:
		return fmt.Sprint(x), true
	}
}
