package config

import (
	"fmt"
	"reflect"
	"strings"

	"authgate/clientip"

	"gopkg.in/yaml.v3"
)

// addresses decodes a list of addresses and CIDRs. Each item is held against the list's grammar by itself, so that
// every mistake and every warning has its own position.
func (d *decoder) addresses(n *yaml.Node, v reflect.Value, path string, f field) {
	var entries []string
	d.list(n, reflect.ValueOf(&entries).Elem(), path, f)
	kind := v.Interface()
	parse := func(entries []string) (any, []string, error) {
		if _, ok := kind.(clientip.TrustList); ok {
			return wrap(clientip.ParseTrustList(entries))
		}
		if f.everyone {
			return wrap(clientip.ParseAllow(entries))
		}
		return wrap(clientip.ParsePrefixes(entries))
	}
	sound := true
	for i, entry := range entries {
		at := fmt.Sprintf("%s[%d]", path, i)
		if _, ok := d.origins[at]; !ok || n.Kind != yaml.SequenceNode {
			at = path
		}
		_, warnings, err := parse([]string{entry})
		if err != nil {
			sound = false
			d.errorf(at, "%v", err)
		}
		for _, w := range warnings {
			d.warnf(at, "%s", w)
		}
	}
	if !sound {
		return
	}
	if len(entries) == 0 {
		v.SetZero() // an empty list and none at all are the same
		return
	}
	if set, _, err := parse(entries); err == nil {
		v.Set(reflect.ValueOf(set))
	}
}

func wrap[T any](set T, warnings []string, err error) (any, []string, error) {
	return set, warnings, err
}

// splitReference gives the items of a list that one reference stands for, separated by commas or line ends. ok is
// false for everything else, which is decoded as usual.
func (d *decoder) splitReference(n *yaml.Node, path string, f field) (items []string, ok bool) {
	if !f.ref || n.Kind != yaml.ScalarNode || !isReference(n.Value) {
		return nil, false
	}
	text, err := d.text(n, path, true, true)
	if err != nil {
		d.badNode(n, path, "%v", err)
		return nil, true
	}
	for _, item := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items, true
}
