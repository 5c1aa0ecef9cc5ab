package selector

// Each yields every decoded value that the request carries in its query, its path's placeholders and its body, at any
// depth, and the names beside them, for which name is true and which a client chooses as freely; until yield returns
// false. An answer that repeats one of them may be repeating the client's own words [V3]. A body that cannot be taken
// apart is yielded whole.
func (in *Input) Each(yield func(text string, name bool) bool) {
	for _, p := range in.Params {
		if value, _ := unpercent([]byte(p.Value), false); !yield(string(value), false) {
			return
		}
	}
	if in.RawQuery != "" && !in.fieldsOfQuery().each(yield) {
		return
	}
	b := in.Body
	if b == nil {
		return
	}
	if b.fault() != "" {
		yield(string(b.doc), false)
		return
	}
	for _, f := range []*fields{&b.form, &b.parts} {
		if !f.each(yield) {
			return
		}
	}
	if b.json.each(yield) && b.operations.each(yield) {
		b.xml.each(yield)
	}
}

func (f *fields) each(yield func(string, bool) bool) bool {
	for i := range f.list {
		e := &f.list[i]
		if value, other := e.decode(); !yield(string(e.name), true) || !yield(string(value), false) || (other != nil && !yield(string(other), false)) {
			return false
		}
	}
	return true
}

func (d *jsonDoc) each(yield func(string, bool) bool) bool {
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.keyEnd > n.key {
			key := d.text[n.key:n.keyEnd]
			if n.keyOdd {
				key, _ = unescape(key)
			}
			if !yield(string(key), true) {
				return false
			}
		}
		if n.kind == '{' || n.kind == '[' {
			continue
		}
		value := d.text[n.start:n.end]
		if n.escaped {
			value, _ = unescape(value)
		}
		if !yield(string(value), false) {
			return false
		}
	}
	return true
}

func (d *xmlDoc) each(yield func(string, bool) bool) {
	for i := range d.nodes {
		if t := d.nodes[i].text; t != "" && !yield(t, false) {
			return
		}
	}
}
