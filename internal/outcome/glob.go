package outcome

import "strings"

// glob is a pattern in which `*` stands for any run of bytes. It is the literal texts between the stars, so it always has at
// least one part, and a pattern without a star has exactly one.
type glob []string

func parseGlob(pattern string) glob { return strings.Split(pattern, "*") }

// String is the pattern as written.
func (g glob) String() string { return strings.Join(g, "*") }

// exact says that the pattern has no star.
func (g glob) exact() bool { return len(g) == 1 }

// any says that the pattern is stars alone: "present".
func (g glob) any() bool { return len(g) > 1 && g.literals() == 0 }

// absent says that the pattern asks for nothing to be there.
func (g glob) absent() bool { return len(g) == 1 && g[0] == "" }

// literals is the number of bytes that the pattern spells out.
func (g glob) literals() int {
	n := 0
	for _, part := range g {
		n += len(part)
	}
	return n
}

func (g glob) match(s string) bool {
	if len(g) == 1 {
		return s == g[0]
	}
	last := g[len(g)-1]
	if !strings.HasPrefix(s, g[0]) || len(s) < len(g[0])+len(last) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(g[0]) : len(s)-len(last)]
	for _, part := range g[1 : len(g)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// span is a run of bytes, from start up to end.
type span struct{ start, end int }

// spans is where the literals of a pattern stand in a text that it matches.
func (g glob) spans(s string) []span {
	out := make([]span, 0, len(g))
	at := 0
	for i, part := range g {
		switch {
		case i > 0 && i == len(g)-1:
			at = len(s) - len(part)
		default:
			at += max(strings.Index(s[at:], part), 0)
		}
		if part != "" {
			out = append(out, span{at, at + len(part)})
		}
		at += len(part)
	}
	return out
}

// fold is the pattern in lower case.
func (g glob) fold() glob {
	out := make(glob, len(g))
	for i, part := range g {
		out[i] = strings.ToLower(part)
	}
	return out
}

// covers says that every text that other matches is matched by g, too. The stars of other stand for themselves: no literal holds
// one, so only a star of g can match them.
func (g glob) covers(other glob) bool {
	return g.absent() == other.absent() && g.match(other.String())
}

// meets says that some text is matched by both.
func (g glob) meets(other glob) bool {
	return g.absent() == other.absent() && meet(g.String(), other.String())
}

// meet walks both patterns at once: reach[j] says that what a has consumed so far can be what b[:j] has consumed.
func meet(a, b string) bool {
	reach := make([]bool, len(b)+1)
	reach[0] = true
	spread(reach, b)
	for i := range len(a) {
		next := make([]bool, len(b)+1)
		for j := range reach {
			switch {
			case !reach[j]:
			case a[i] == '*':
				for k := j; k <= len(b); k++ {
					next[k] = true
				}
			case j < len(b) && b[j] == '*':
				next[j] = true // the star of b takes the byte of a
			case j < len(b) && a[i] == b[j]:
				next[j+1] = true
			}
		}
		reach = next
		spread(reach, b)
	}
	return reach[len(b)]
}

// spread lets every star of b match nothing.
func spread(reach []bool, b string) {
	for j := range len(b) {
		if reach[j] && b[j] == '*' {
			reach[j+1] = true
		}
	}
}
