package outcome

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// jsonScan reads the members that pointers name out of a JSON document that may be cut off anywhere. It is a scanner of
// its own because encoding/json gives nothing back for a document without an end, and because reading two members of a
// login's answer must not cost a tree of all of them. It is lenient where no member can be mistaken for another.
type jsonScan struct {
	pointers []pointer
	data     []byte
	at       int
	found    []jsonValue
}

// pointer is a JSON pointer [RFC 6901] by segments, in which the segment `*` stands for any member or element.
type pointer []string

// maxPointers is how many a scan can follow at once: one bit each.
const maxPointers = 64

// maxDepth is how deep a document may nest; nobody's login answers come near it.
const maxDepth = 128

// jsonValue is a value that a pointer led to.
type jsonValue struct {
	pointer int
	kind    byte   // '"', '0' for a number, 't', 'f', 'n' for the literals, '{' or '['
	raw     []byte // as written, without quotes; empty for objects and arrays
}

func parsePointer(text string) (pointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("%q is no JSON pointer, it must start with a slash", text)
	}
	segments := strings.Split(text[1:], "/")
	for i, s := range segments {
		segments[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
	}
	return segments, nil
}

// scanJSON returns what the pointers lead to, in the order of the document, and whether the document was seen up to its end.
// A scalar is only returned if it was seen whole.
func scanJSON(data []byte, pointers []pointer) (found []jsonValue, whole bool) {
	s := jsonScan{pointers: pointers, data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))}
	whole = s.value(^uint64(0)>>(maxPointers-len(pointers)), 0)
	return s.found, whole
}

// value scans one value; live has a bit for each pointer whose first segments led here. It is false where the document is
// malformed or cut off.
func (s *jsonScan) value(live uint64, depth int) bool {
	s.space()
	if s.at == len(s.data) || depth > maxDepth {
		return false
	}
	start, kind := s.at, s.data[s.at]
	switch kind {
	case '{', '[':
		s.record(live, depth, kind, nil)
		s.at++
		return s.members(live, depth, kind)
	case '"':
		text, ok := s.text()
		if ok {
			s.record(live, depth, kind, text)
		}
		return ok
	case 't', 'f', 'n':
		for _, word := range [...]string{"true", "false", "null"} {
			if bytes.HasPrefix(s.data[s.at:], []byte(word)) {
				s.at += len(word)
				s.record(live, depth, kind, s.data[start:s.at])
				return true
			}
		}
		return false
	default:
		for s.at < len(s.data) && strings.IndexByte("+-.0123456789eE", s.data[s.at]) >= 0 {
			s.at++
		}
		// A number that ends with the data may go on behind it; a document that is one number holds no members.
		if s.at == start || s.at == len(s.data) {
			return false
		}
		s.record(live, depth, '0', s.data[start:s.at])
		return true
	}
}

// members scans what stands between the brackets of an object or array.
func (s *jsonScan) members(live uint64, depth int, open byte) bool {
	closing := byte('}')
	if open == '[' {
		closing = ']'
	}
	for index := 0; ; index++ {
		if s.next(closing) {
			return index == 0 // else there was a comma before
		}
		child := uint64(0)
		if open == '{' {
			key, ok := s.text()
			if !ok || !s.next(':') {
				return false
			}
			child = s.follow(live, depth, func(segment string) bool { return keyIs(key, segment) })
		} else {
			child = s.follow(live, depth, func(segment string) bool { return segment == strconv.Itoa(index) })
		}
		if !s.value(child, depth+1) {
			return false
		}
		if s.next(closing) {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

// follow is the pointers of live whose segment at this depth is the child's.
func (s *jsonScan) follow(live uint64, depth int, is func(segment string) bool) uint64 {
	child := uint64(0)
	for i, p := range s.pointers {
		if bit := uint64(1) << i; live&bit != 0 && len(p) > depth && (p[depth] == "*" || is(p[depth])) {
			child |= bit
		}
	}
	return child
}

// record notes the value for every pointer that ends at this depth.
func (s *jsonScan) record(live uint64, depth int, kind byte, raw []byte) {
	for i, p := range s.pointers {
		if live&(1<<i) != 0 && len(p) == depth {
			s.found = append(s.found, jsonValue{i, kind, raw})
		}
	}
}

// text scans a string and returns what stands between its quotes.
func (s *jsonScan) text() ([]byte, bool) {
	if s.at == len(s.data) || s.data[s.at] != '"' {
		return nil, false
	}
	start := s.at + 1
	for i := start; i < len(s.data); i++ {
		switch s.data[i] {
		case '\\':
			i++
		case '"':
			s.at = i + 1
			return s.data[start:i], true
		}
	}
	s.at = len(s.data)
	return nil, false
}

// next skips blanks and, if it comes next, the byte c.
func (s *jsonScan) next(c byte) bool {
	s.space()
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		s.space()
		return true
	}
	return false
}

func (s *jsonScan) space() {
	for s.at < len(s.data) && strings.IndexByte(" \t\r\n", s.data[s.at]) >= 0 {
		s.at++
	}
}

// text is a scalar as text; it is false for objects, arrays and null.
func (v jsonValue) text() (string, bool) {
	switch v.kind {
	case '{', '[', 'n':
		return "", false
	case '"':
		return unquote(v.raw), true
	default:
		return string(v.raw), true
	}
}

// meets says that the value is what a condition wants: null is as good as absent, and anything else is present.
func (v jsonValue) meets(want glob) bool {
	switch {
	case v.kind == 'n':
		return want.absent()
	case want.any():
		return true
	}
	text, scalar := v.text()
	return scalar && want.match(text)
}

func keyIs(raw []byte, segment string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == segment
	}
	return unquote(raw) == segment
}

// unquote resolves the escapes of a JSON string; what is malformed stays as it is.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	quoted := append(append([]byte{'"'}, raw...), '"')
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return string(raw)
	}
	return s
}
