package selector

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// jsonDoc is one JSON text as a flat list of its values, each before what it holds. It is parsed strictly by RFC 8259:
// what only some parsers accept is a fault, for then the others read something else or nothing.
type jsonDoc struct {
	text  []byte // nil: nothing was parsed
	nodes []jsonNode
	odd   map[uint32]oddName // by node
	fault Reason
}

// jsonNode is one value. Offsets are into the text; strings are without their quotes.
type jsonNode struct {
	kind        byte // the first character of the value: { [ " t f n, and 0 for a number
	escaped     bool // the string has a backslash
	keyOdd      bool // the member's name has a backslash, a blank or a byte beyond ASCII
	key, keyEnd uint32
	start, end  uint32
	after       uint32 // index of the node behind this one and all that it holds
}

// maxDepth bounds the nesting of a body: parsers refuse beyond 64 (.NET), 100 (Ruby), 128 (serde); a login needs a handful.
const maxDepth = 100

// parse reads the whole text and returns what is wrong with it, if anything.
func (d *jsonDoc) parse(text []byte) Reason {
	s := jsonScanner{doc: d, text: text, pos: len(text) - len(trimStart(text))}
	// Only blanks and one mark may stand in front; a control character is no JSON.
	for _, c := range bytes.TrimPrefix(text[:s.pos], []byte("\ufeff")) {
		if !isJSONBlank(c) {
			d.fault = Syntax
		}
	}
	d.text, d.nodes = text, d.nodes[:0]
	if d.fault == "" && s.value(jsonNode{}, 0) {
		if s.skipBlanks(); s.pos < len(text) {
			d.fault = Trailing
		} else if s.wide && !utf8.Valid(text) {
			d.fault = Encoding
		}
	} else if d.fault == "" {
		d.fault = Syntax
	}
	return d.fault
}

// batch returns how many values a top-level array holds.
func (d *jsonDoc) batch() (n int, ok bool) {
	if d.fault != "" || len(d.nodes) == 0 || d.nodes[0].kind != '[' {
		return 0, false
	}
	for at := uint32(1); at < d.nodes[0].after; at = d.nodes[at].after {
		n++
	}
	return n, true
}

type jsonScanner struct {
	doc  *jsonDoc
	text []byte
	pos  int
	wide bool // there is a byte beyond ASCII
}

func isJSONBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func (s *jsonScanner) skipBlanks() {
	for s.pos < len(s.text) && isJSONBlank(s.text[s.pos]) {
		s.pos++
	}
}

// peek is the character at hand, or 0 at the end.
func (s *jsonScanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// value scans one value into a node that knows its key.
func (s *jsonScanner) value(n jsonNode, depth int) bool {
	if depth > maxDepth {
		s.doc.fault = Depth
		return false
	}
	at := len(s.doc.nodes)
	n.kind, n.start = s.peek(), uint32(s.pos)
	s.doc.nodes = append(s.doc.nodes, n)
	ok := false
	switch n.kind {
	case '"':
		n.escaped, _, ok = s.str()
		n.start, n.end = n.start+1, uint32(s.pos-1)
	case '{', '[':
		ok = s.container(n.kind, depth)
	case 't':
		ok = s.word("true")
	case 'f':
		ok = s.word("false")
	case 'n':
		ok = s.word("null")
	default:
		n.kind = 0
		ok = s.number()
	}
	if n.kind != '"' {
		n.end = uint32(s.pos)
	}
	n.after = uint32(len(s.doc.nodes))
	s.doc.nodes[at] = n
	return ok
}

// container scans an object or an array, from its opening on.
func (s *jsonScanner) container(kind byte, depth int) bool {
	s.pos++
	end := kind + 2 // } follows { by two in ASCII, and ] follows [
	if s.skipBlanks(); s.peek() == end {
		s.pos++
		return true
	}
	for {
		var n jsonNode
		s.skipBlanks()
		if kind == '{' && !s.key(&n) {
			return false
		}
		if !s.value(n, depth+1) {
			return false
		}
		s.skipBlanks()
		c := s.peek()
		s.pos++
		if c == end {
			return true
		}
		if c != ',' {
			return false
		}
	}
}

// key scans the name of a member and the colon.
func (s *jsonScanner) key(n *jsonNode) bool {
	if s.peek() != '"' {
		return false
	}
	n.key = uint32(s.pos + 1)
	escaped, odd, ok := s.str()
	if !ok {
		return false
	}
	n.keyEnd, n.keyOdd = uint32(s.pos-1), escaped || odd
	if s.skipBlanks(); s.peek() != ':' {
		return false
	}
	s.pos++
	s.skipBlanks()
	return true
}

// str scans a string from its opening quote to behind the closing one. odd says that it holds other characters than the
// printable ones of ASCII.
func (s *jsonScanner) str() (escaped, odd, ok bool) {
	text := s.text
	for i := s.pos + 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			s.pos = i + 1
			return escaped, odd, true
		case c == '\\':
			escaped = true
			i++
			if i >= len(text) || strings.IndexByte(`"\/bfnrtu`, text[i]) < 0 || text[i] == 'u' && hex4(text[i+1:]) < 0 {
				return escaped, odd, false
			}
		case c < ' ':
			return escaped, odd, false
		case c == ' ' || c == 0x7f:
			odd = true
		case c >= utf8.RuneSelf:
			odd, s.wide = true, true
		}
	}
	return escaped, odd, false
}

func (s *jsonScanner) word(word string) bool {
	if end := s.pos + len(word); end <= len(s.text) && string(s.text[s.pos:end]) == word {
		s.pos = end
		return true
	}
	return false
}

func (s *jsonScanner) number() bool {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return false
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return false
		}
	}
	if s.peek()|0x20 == 'e' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		return s.digits()
	}
	return true
}

func (s *jsonScanner) digits() bool {
	from := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > from
}

// hex4 is the value of four hex digits, or -1.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		d := unhex(c)
		if d < 0 {
			return -1
		}
		r = r<<4 | rune(d)
	}
	return r
}
