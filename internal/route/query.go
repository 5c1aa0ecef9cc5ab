package route

import (
	"bytes"
	"strings"
)

// predicates are the conditions that routes put on the query, each with an index.
type predicates struct {
	count  int
	byName map[string]*predicate
}

// predicate is what is asked about one name.
type predicate struct {
	present int            // the index of "is there", or none
	equal   map[string]int // canonical value to index
}

// anyValue is the value of Match.Query that asks for presence.
const anyValue = "*"

// add returns the index of a condition, a new one or that of the same condition of another route.
func (p *predicates) add(name, value string) int {
	var b buffer
	name = fieldName(name)
	if p.byName == nil {
		p.byName = make(map[string]*predicate)
	}
	of := p.byName[name]
	if of == nil {
		of = &predicate{present: none, equal: make(map[string]int)}
		p.byName[name] = of
	}
	if value == anyValue {
		if of.present == none {
			of.present = p.next()
		}
		return of.present
	}
	// The configured value is written plainly: a "+" in it is a plus.
	value = string(b.value(strings.ReplaceAll(value, "+", "%2B")))
	index, ok := of.equal[value]
	if !ok {
		index = p.next()
		of.equal[value] = index
	}
	return index
}

func (p *predicates) next() int {
	p.count++
	return p.count - 1
}

// read sets the bit in met of each condition that a raw query may satisfy, and returns what the query asks
// to be taken for in place of the method. If a name occurs several times, any of them counts.
func (p *predicates) read(b *buffer, query string, met []uint64) (methods methodSet) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		methods |= p.readPair(b, pair, met)
		if before, _, found := strings.Cut(pair, "#"); found { // once the end of an address
			methods |= p.readPair(b, before, met)
		}
		if strings.Contains(pair, ";") { // once a separator too
			for part := range strings.SplitSeq(pair, ";") {
				methods |= p.readPair(b, part, met)
			}
		}
	}
	return methods
}

// MethodField is the field of a query or a form that overrides the method in many frameworks, MethodHeaderField what ASP.NET reads beside the
// header of that name.
const (
	MethodField       = "_method"
	MethodHeaderField = "x-http-method-override"
)

func (p *predicates) readPair(b *buffer, pair string, met []uint64) methodSet {
	name, value, _ := strings.Cut(pair, "=")
	key := b.name(name)
	if string(key) == MethodField || string(key) == MethodHeaderField {
		return methodsOf(string(b.value(value)))
	}
	of := p.byName[string(key)]
	if of == nil {
		return 0
	}
	meet := func(index int, ok bool) {
		if ok {
			met[index/64] |= 1 << (index % 64)
		}
	}
	meet(of.present, of.present != none)
	if len(of.equal) == 0 {
		return 0
	}
	text := b.value(value)
	index, ok := of.equal[string(text)]
	meet(index, ok)
	if cut, _, found := bytes.Cut(b.decoded, []byte{0}); found {
		index, ok = of.equal[string(trimBlanks(cut))]
		meet(index, ok)
	}
	return 0
}

// buffer holds the canonical text of a name or a value while it is compared.
type buffer struct {
	decoded, visible []byte
}

// value is canonical text: decoded, in lower case as far as it is ASCII, without control characters and outer
// blanks. It is valid until the next call.
func (b *buffer) value(raw string) []byte {
	b.decoded = decoded(b.decoded[:0], raw, ' ')
	lower(b.decoded)
	b.visible = appendVisible(b.visible[:0], b.decoded)
	return trimBlanks(b.visible)
}

// name is the canonical name of a field. PHP puts an underscore for dots, blanks and a first bracket, and drops blanks before
// the name; what follows a bracket names an element of the field.
func (b *buffer) name(raw string) []byte {
	name := b.value(raw)
	for i, c := range name {
		switch {
		case c == '.', c == ' ', c == '[' && i == 0:
			name[i] = '_'
		case c == '[':
			return name[:i]
		}
	}
	return name
}

// fieldName is the canonical name of a configured field.
func fieldName(name string) string {
	var b buffer
	return string(b.name(name))
}
