package selector

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// read looks for one selector, through every member that may go by its names.
func (d *jsonDoc) read(w *wanted, latin bool, g *gather) {
	if len(d.nodes) == 0 || d.fault != "" {
		return
	}
	r := jsonReader{doc: d, w: w, latin: latin, g: g}
	r.step(0, w.members)
	if w.flat != "" {
		r.step(0, []string{w.flat})
	}
}

// top returns the text of a string member of the top-level object by its name in lower case.
func (d *jsonDoc) top(name string) []byte {
	if d.fault != "" || len(d.nodes) == 0 || d.nodes[0].kind != '{' {
		return nil
	}
	for at := uint32(1); at < d.nodes[0].after; at = d.nodes[at].after {
		n := &d.nodes[at]
		if n.kind != '"' || n.keyOdd {
			continue
		}
		if equalFold(d.text[n.key:n.keyEnd], name) {
			value := d.text[n.start:n.end]
			if n.escaped {
				value, _ = unescape(value)
			}
			return value
		}
	}
	return nil
}

// jsonReader is the search for one selector in one document.
type jsonReader struct {
	doc   *jsonDoc
	w     *wanted
	latin bool
	g     *gather
}

// step goes from a value towards the one that the rest of the pointer names.
func (r *jsonReader) step(at uint32, rest []string) {
	n := &r.doc.nodes[at]
	switch {
	case len(rest) == 0:
		r.value(n)
	case n.kind == '{':
		twins := 0
		for child := at + 1; child < n.after; child = r.doc.nodes[child].after {
			switch {
			case r.named(child, rest[0]):
				twins++
				r.step(child, rest[1:])
			case r.named(child, "__proto__") && r.doc.nodes[child].kind == '{':
				r.step(child, rest) // what it holds shows through once JavaScript has copied the object
			}
		}
		if twins > 1 && len(rest) > 1 && r.g.named {
			r.g.unsure(Duplicate) // a parser keeps one of them, and that may hold no name
		}
	case n.kind == '[':
		r.element(at, rest)
	case n.kind != 'n' && at != 0 && !r.w.outer:
		// A plain value where an object should be: some backends read a document out of a string.
		r.g.hidden = true
	}
}

// element goes into an array, which only an index names.
func (r *jsonReader) element(at uint32, rest []string) {
	if !isIndex(rest[0]) {
		r.g.refuse(Type)
		return
	}
	index := 0
	for _, c := range []byte(rest[0]) {
		index = index*10 + int(c-'0')
	}
	child, end := at+1, r.doc.nodes[at].after
	for ; index > 0 && child < end; index-- {
		child = r.doc.nodes[child].after
	}
	if child < end {
		r.step(child, rest[1:])
	}
}

// named reports whether a member may go by a name.
func (r *jsonReader) named(at uint32, name string) bool {
	n := &r.doc.nodes[at]
	if !n.keyOdd {
		return equalFold(r.doc.text[n.key:n.keyEnd], name)
	}
	key, fault := r.doc.oddName(at)
	if fault != "" && (fault != NUL || key == name) {
		r.g.refuse(fault)
		return false
	}
	return key == name
}

// oddName returns the folded name of a member that is not plain ASCII, worked out at most once for all selectors. With
// NUL it is what stands before that character, where strings of C end.
func (d *jsonDoc) oddName(at uint32) (name string, fault Reason) {
	if odd, ok := d.odd[at]; ok {
		return odd.name, odd.fault
	}
	if len(d.odd) >= maxFields {
		return "", Many
	}
	if d.odd == nil {
		d.odd = make(map[uint32]oddName)
	}
	n := &d.nodes[at]
	key, ok := unescape(d.text[n.key:n.keyEnd])
	before, _ := cut(key, 0)
	odd := oddName{name: nameForm.Apply(string(before))}
	switch {
	case !ok:
		odd.fault = Surrogate
	case len(before) < len(key):
		odd.fault = NUL
	}
	d.odd[at] = odd
	return odd.name, odd.fault
}

// oddName is what oddName remembers.
type oddName struct {
	name  string
	fault Reason
}

func (r *jsonReader) value(n *jsonNode) {
	text := r.doc.text[n.start:n.end]
	switch n.kind {
	case '"':
		if n.escaped {
			var ok bool
			if text, ok = unescape(text); !ok {
				r.g.refuse(Surrogate)
				return
			}
		}
		if len(text) == 0 {
			r.g.void(Empty)
			return
		}
		r.g.text(text, r.latin, "")
	case 'n':
		r.g.void(Null)
	case 't', 'f':
		r.g.name(string(text), "")
	case 0:
		r.g.number(text)
	default:
		if n.kind == '[' || !r.w.inner {
			r.g.refuse(Type)
		}
	}
}

// unescape resolves the escapes of a string that the scanner accepted. It is not ok if half a surrogate pair stands alone:
// what becomes of that, each language says in its own way.
func unescape(b []byte) (out []byte, ok bool) {
	out, ok = make([]byte, 0, len(b)), true
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out = append(out, b[i])
			continue
		}
		i++
		at := strings.IndexByte("bfnrt", b[i])
		switch {
		case at >= 0:
			out = append(out, "\b\f\n\r\t"[at])
		case b[i] == 'u':
			r := hex4(b[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i+2 < len(b) && b[i+1] == '\\' && b[i+2] == 'u' {
					low = hex4(b[i+3:])
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					ok = false
				} else {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, b[i])
		}
	}
	return out, ok
}
