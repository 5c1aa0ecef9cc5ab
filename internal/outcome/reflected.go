package outcome

import (
	"bytes"
	"slices"
	"strings"
)

// From how many bytes on a request value that merely holds the text of a condition is taken for its source, echoed whole
// or not. Shorter ones, such as "ok", stand in too many cookies by chance. In a header or a JSON member, where the text has a
// place of its own, words like "form" and "error" are common as well.
const (
	shortText   = 4
	longLiteral = 8
)

// reflected says that the request may have supplied what one of a matching rule's conditions rests on [V3].
func (e *evidence) reflected(r *rule) bool {
	if e.req == nil || !r.readsText() {
		return false
	}
	return e.headerReflected(r) || e.locationReflected(r) || e.jsonReflected(r) || e.textReflected(r)
}

func (e *evidence) headerReflected(r *rule) bool {
	return slices.ContainsFunc(r.header, func(f field) bool {
		return !f.want.any() && !slices.ContainsFunc(e.header[f.name], func(v string) bool {
			return f.want.match(v) && !e.supplied(v, f.folded)
		}) && !f.want.absent()
	})
}

// supplied says that the request may have written the literals of a pattern into the text that it matched.
func (e *evidence) supplied(text string, folded glob) bool {
	text = lower(text)
	if !folded.match(text) {
		return true // what cannot be compared proves nothing
	}
	for _, part := range folded {
		if len(part) >= longLiteral && e.echoes().contain(part) {
			return true
		}
	}
	return e.echoes().write(text, folded.spans(text))
}

func (e *evidence) locationReflected(r *rule) bool {
	if len(r.location) > 0 && e.pathReflected(r.foldedLocation) {
		return true
	}
	return slices.ContainsFunc(r.locationQuery, func(f field) bool {
		value, _ := e.location.param(f.name)
		switch {
		case f.want.absent():
			return false
		case f.want.any():
			return e.pairReflected(lower(f.name), lower(value))
		default:
			return e.supplied(value, f.folded)
		}
	})
}

// pathReflected says that the request may have chosen where the Location leads. A pattern that spells out nothing rests on the
// whole path.
func (e *evidence) pathReflected(folded []glob) bool {
	path := lower(e.location.path)
	if e.echoes().lead(path, lower(e.base())) {
		return true
	}
	for _, g := range folded {
		if !g.match(path) {
			continue
		}
		spans := g.spans(path)
		if strings.Trim(g.String(), "*/") == "" {
			spans = []span{{0, len(path)}}
		}
		if !e.echoes().write(path, spans) {
			return false
		}
	}
	return true
}

// pairReflected says that the parameter came out of the request: "/login?expired=1" brings "expired" along.
func (e *evidence) pairReflected(name, value string) bool {
	if value != "" {
		return e.echoes().contain(name + "=" + value)
	}
	return e.echoes().contain("?"+name) || e.echoes().contain("&"+name) || slices.Contains(e.echoes().texts, name)
}

func (e *evidence) jsonReflected(r *rule) bool {
	return slices.ContainsFunc(r.json, func(f jsonField) bool {
		if f.want.absent() {
			return false
		}
		// A backend that pastes a value into JSON without escaping it lets the request write members.
		if e.echoes().contain(f.quotedName) {
			return true
		}
		if f.want.any() {
			return false
		}
		return !e.ownMember(&f)
	})
}

// ownMember says that a member matches by what the backend wrote.
func (e *evidence) ownMember(f *jsonField) bool {
	matches := 0
	for i := range e.found {
		v := &e.found[i]
		if v.pointer != f.pointer {
			continue
		}
		if text, scalar := v.text(); scalar && f.want.match(text) {
			if matches++; matches > maxOccurrences {
				return false
			}
			if v.kind != '"' || !e.supplied(text, f.folded) {
				return true
			}
		}
	}
	return false
}

// textReflected says that every occurrence of every alternative may have come from the request.
func (e *evidence) textReflected(r *rule) bool {
	if len(r.text) == 0 {
		return false
	}
	lower := asciiLower(e.text)
	return !slices.ContainsFunc(r.text, func(n needle) bool {
		return bytes.Contains(e.text, n.text) && !slices.ContainsFunc(n.folded, e.echoes().contain) && e.ownWords(lower, n)
	})
}

// ownWords says that a text occurs somewhere outside of what the request wrote.
func (e *evidence) ownWords(lower string, n needle) bool {
	at := 0
	for range maxOccurrences {
		i := bytes.Index(e.text[at:], n.text)
		if i < 0 {
			return false
		}
		at += i
		if !e.echoes().write(lower, []span{{at, at + len(n.text)}}) {
			return true
		}
		at++
	}
	return false
}
