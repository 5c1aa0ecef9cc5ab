package selector

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// fields are the fields of a query, a form body or a multipart body.
type fields struct {
	list  []field
	latin bool // a Latin code page was declared
	fault Reason
}

// field is one field with the name under which it is looked for. One that backends may call by several names stands here
// several times.
type field struct {
	name     []byte // canonical, but for the case of ASCII letters
	value    []byte // as received
	base     int    // with brackets: how much of the name stands before the first
	list     bool   // with brackets that are empty at the end: an array
	led      bool   // a dot or a bracket stands before the name, of which PHP makes a "_"
	verbatim bool   // the value is not percent-encoded
	odd      Reason // why a backend may not find it under this name; empty in the usual case
	bad      Reason // why its value is none
}

// maxFields bounds the fields of one request, for many backends drop or refuse what lies beyond (PHP, qs and Django 1000).
const maxFields = 1000

// parse splits a query or a form body. Backends split at "&"; some old ones at ";" too, so what stands between those
// counts as well.
func (f *fields) parse(text []byte) {
	for len(text) > 0 {
		var pair []byte
		pair, text = cut(text, '&')
		if len(pair) == 0 {
			continue
		}
		if len(f.list) >= maxFields {
			f.fault = Many
			return
		}
		f.addPair(pair, "")
		if bytes.IndexByte(pair, ';') < 0 {
			continue
		}
		for piece := range bytes.SplitSeq(pair, []byte(";")) {
			if len(f.list) < maxFields {
				f.addPair(piece, Separator)
			}
		}
	}
}

// parseQuery splits a query. Some backends cut off what follows a "#", which no honest client sends, and others do not.
func (f *fields) parseQuery(query []byte) {
	before, _, found := bytes.Cut(query, []byte("#"))
	if !found {
		f.parse(query)
		return
	}
	start := bytes.LastIndexByte(before, '&') + 1
	f.parse(query[:start])
	sure := len(f.list)
	f.parse(before[start:])
	f.parse(query[start:])
	for i := range f.list[sure:] {
		f.list[sure+i].odd = Separator
	}
}

// cut splits at the first c; without one all is before it.
func cut(b []byte, c byte) (before, after []byte) {
	if at := bytes.IndexByte(b, c); at >= 0 {
		return b[:at], b[at+1:]
	}
	return b, nil
}

// addPair adds name=value under every name that it may be decoded to.
func (f *fields) addPair(pair []byte, odd Reason) {
	name, value := cut(pair, '=')
	if isPlain(name) {
		f.list = append(f.list, field{name: name, value: value, odd: odd})
		return
	}
	decoded, other := unpercent(name, true)
	f.addNamed(decoded, field{value: value, odd: odd})
	if other != nil {
		f.addNamed(other, field{value: value, odd: Escape})
	}
}

// isPlain holds for a name that is its own canonical form, but for the case of its letters.
func isPlain(name []byte) bool {
	for _, c := range name {
		if !isAlphanumeric(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// addNamed adds a field under the canonical forms of its decoded name.
func (f *fields) addNamed(name []byte, e field) {
	if !utf8.Valid(name) {
		e.odd = Encoding
		for _, s := range spellings(name) {
			f.addCanonical(s, e)
		}
		return
	}
	f.addCanonical(string(name), e)
}

func (f *fields) addCanonical(name string, e field) {
	if before, _, nul := strings.Cut(name, "\x00"); nul { // strings of C end here
		e.bad = NUL
		name = before
	}
	if strings.HasPrefix(name, "!") || strings.HasPrefix(name, "?") {
		// Spring takes !name for the value if there is no other; URLSearchParams passes over a first question mark.
		e.odd = Spelling
		name = name[1:]
	}
	whole := canonicalField(name)
	f.list = append(f.list, whole.of(e))
	// PHP passes over what stands between a closing bracket and the end.
	if at := strings.LastIndexByte(name, ']'); at >= 0 && at < len(name)-1 {
		e.odd = Spelling
		f.list = append(f.list, canonicalField(name[:at+1]).of(e))
	}
}

// canonical is a field's name as the most lenient backend sees it.
type canonical struct {
	name string
	base int // with brackets: the length of what stands before them
	list bool
	led  bool
}

func (c canonical) of(e field) field {
	e.name, e.base, e.list, e.led = []byte(c.name), c.base, c.list, c.led
	return e
}

// canonicalField folds a decoded name, and joins its parts by "_": PHP makes that of dots, blanks and a lone bracket, and
// user[login], user['login'], user.login and [user][login] name the same in one framework or another.
func canonicalField(name string) canonical {
	name = nameForm.Apply(name)
	var out strings.Builder
	inner, closed := strings.CutSuffix(name, "]")
	c := canonical{list: closed && strings.HasSuffix(strings.TrimRight(inner, " "), "[")}
	gap := false
	for i := 0; i < len(name); i++ {
		switch b := name[i]; b {
		case '.', ' ', '[', ']', '\'', '"':
			if b == '[' && c.base == 0 && strings.IndexByte(name[i:], ']') > 0 {
				c.base = out.Len()
			}
			gap = out.Len() > 0
			c.led = c.led || (out.Len() == 0 && (b == '.' || b == '['))
		default:
			if gap {
				out.WriteByte('_')
				gap = false
			}
			out.WriteByte(b)
		}
	}
	c.name = out.String()
	return c
}

// called reports whether the field goes by a canonical name.
func (e *field) called(name string) bool {
	if e.led && strings.HasPrefix(name, "_") && equalFold(e.name, name[1:]) {
		return true
	}
	return equalFold(e.name, name)
}

// within reports whether the field's brackets make an object or a list of what goes by a canonical name.
func (e *field) within(name string) bool {
	return e.base > 0 && e.base <= len(name) && len(e.name) > len(name)+1 && e.name[len(name)] == '_' && hasPrefixFold(e.name, name)
}

// decode returns the value, and a second one in a case where decoders differ.
func (e *field) decode() (value, other []byte) {
	if e.verbatim {
		return e.value, nil
	}
	return unpercent(e.value, true)
}

// read looks for one selector. inQuery: the fields are those of the query, where it only might stand.
func (f *fields) read(w *wanted, inQuery bool, g *gather) {
	if f.fault != "" {
		g.refuse(f.fault)
	}
	hidden, named := false, g.named
	g.named = false
	for i := range f.list {
		switch e := &f.list[i]; {
		case e.called(w.field):
			e.read(w, f.latin, g)
		case e.called("_charset_"):
			if !e.keepsASCII() {
				g.refuse(Charset)
			}
		case e.within(w.field):
			if next := e.name[len(w.field)+1]; !w.inner || next >= '0' && next <= '9' {
				g.refuse(Type)
			}
		case len(w.bases) > 0 && e.base == 0 && !w.outer:
			hidden = hidden || slices.ContainsFunc(w.bases, e.called)
		}
	}
	g.hidden = g.hidden || hidden
	if hidden && g.named && !inQuery {
		g.unsure(Type)
	}
	g.named = g.named || named
}

// keepsASCII holds for a field _charset_ (HTML 4.10.21.3) that names a character set in which ASCII is ASCII.
func (e *field) keepsASCII() bool {
	value, _ := e.decode()
	name := nameForm.Apply(string(value))
	family := charsetFamily(name)
	return name == "" || family == charsetUTF8 || family == charsetLatin
}

// read takes the value of a field that is the one looked for.
func (e *field) read(w *wanted, latin bool, g *gather) {
	switch {
	case e.bad != "":
		g.refuse(e.bad)
		return
	case e.list:
		g.refuse(Type)
		return
	}
	value, other := e.decode()
	if len(value) == 0 {
		g.void(Empty)
		return
	}
	g.text(value, latin, e.odd)
	if !e.verbatim && mixed(e.value) {
		g.unsure(Escape)
	}
	if other != nil {
		g.text(other, latin, Escape)
		g.unsure(Escape)
	}
	// A mailbox holds no blank: a plus in one was meant, by a client and by decoders that know no other meaning.
	if !e.verbatim && bytes.IndexByte(e.value, '+') >= 0 && bytes.IndexByte(value, '@') >= 0 {
		value, _ = unpercent(e.value, false)
		g.text(value, latin, Escape)
	}
}

// mixed reports whether some bytes above ASCII are escaped and others are not, as no browser sends them. Decoders that undo
// escapes before the character set make one character of both, the others two.
func mixed(b []byte) bool {
	if bytes.IndexByte(b, '%') < 0 {
		return false
	}
	plain, escaped := false, false
	for i, c := range b {
		plain = plain || c >= 0x80
		escaped = escaped || c == '%' && i+2 < len(b) && unhex(b[i+1]) >= 8 && unhex(b[i+2]) >= 0
	}
	return plain && escaped
}

// parseLoosely finds the fields of a text that is no form, as a reader would that takes it for one. It passes over the
// first, in front of which nothing stands that would divide fields, and over names that are not written in ASCII. Semicolons
// divide too where the form of the text gives them no meaning of their own.
func (f *fields) parseLoosely(text []byte, semicolons bool) {
	f.parseBehind('&', text)
	if semicolons && bytes.IndexByte(text, ';') >= 0 {
		for piece := range bytes.SplitSeq(text, []byte("&")) {
			f.parseBehind(';', piece)
		}
	}
}

// parseBehind finds the fields that begin and end at a divider.
func (f *fields) parseBehind(divider byte, text []byte) {
	for at := bytes.IndexByte(text, divider); at >= 0; at = bytes.IndexByte(text, divider) {
		text = text[at+1:]
		pair, _ := cut(text, divider)
		name, _ := cut(pair, '=')
		// A percent-encoded character takes three bytes.
		if len(name) == len(pair) || len(name) > 3*maxSelector || bytes.ContainsFunc(name, notPrintable) {
			continue
		}
		if len(f.list) >= maxFields {
			f.fault = Many
			return
		}
		f.addPair(pair, Mismatch)
	}
}

func notPrintable(r rune) bool { return r < ' ' || r > '~' }

// readLoosely takes a value from fields that only some backend would find, and nothing else.
func (f *fields) readLoosely(w *wanted, g *gather) {
	if f.fault == Many {
		g.refuse(Many)
	}
	for i := range f.list {
		if e := &f.list[i]; e.called(w.field) && e.bad == "" && !e.list {
			value, _ := e.decode()
			if len(value) > 0 {
				g.text(value, false, Mismatch)
			}
		}
	}
}

// unpercent decodes percent escapes, and "+" if plus. Where an escape is broken, decoders differ: text keeps it as it
// stands, other reads %u0041 as some do and drops what else is broken. other is nil where all agree.
func unpercent(b []byte, plus bool) (text, other []byte) {
	if bytes.IndexByte(b, '%') < 0 && (!plus || bytes.IndexByte(b, '+') < 0) {
		return b, nil
	}
	text = make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '+' && plus:
			c = ' '
		case c == '%' && i+2 < len(b) && unhex(b[i+1]) >= 0 && unhex(b[i+2]) >= 0:
			c = byte(unhex(b[i+1])<<4 | unhex(b[i+2]))
			i += 2
		case c == '%':
			if other == nil {
				other = append(make([]byte, 0, len(b)), text...)
			}
			text = append(text, c)
			if r := unicodeEscape(b[i+1:]); r >= 0 {
				text = append(text, b[i+1:i+6]...)
				other = utf8.AppendRune(other, r)
				i += 5
			}
			continue
		}
		text = append(text, c)
		if other != nil {
			other = append(other, c)
		}
	}
	return text, other
}

// unicodeEscape reads the u0041 of %u0041, or returns -1.
func unicodeEscape(b []byte) rune {
	if len(b) < 5 || b[0]|0x20 != 'u' {
		return -1
	}
	return hex4(b[1:])
}
