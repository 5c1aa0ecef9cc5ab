package clientip

import "strings"

// walker yields the non-blank elements of a list header, from the right end of the last line leftwards. It reads no further
// than it is asked to, so nothing that a sender put on the left can change what the hops on the right wrote.
type walker struct {
	lines  []string // not begun yet
	rest   string   // what is left of the line in hand
	quotes bool     // commas inside quoted strings do not separate (Forwarded)
}

// next returns the next element, trimmed and never empty; false when there is none.
func (w *walker) next() (string, bool) {
	for {
		line := trimEnd(w.rest)
		if line == "" {
			if len(w.lines) == 0 {
				return "", false
			}
			last := len(w.lines) - 1
			w.rest, w.lines = w.lines[last], w.lines[:last]
			continue
		}
		comma := w.lastComma(line)
		w.rest = line[:max(comma, 0)]
		return trimBlanks(line[comma+1:]), true
	}
}

// lastComma returns the place of the comma that ends the element left of the last one, or -1.
func (w *walker) lastComma(line string) int {
	if !w.quotes {
		return strings.LastIndexByte(line, ',')
	}
	return lastUnquotedComma(line)
}

// lastUnquotedComma is lastComma for text with quoted strings. Going leftwards, a quote toggles the state; inside, one that
// follows an odd run of backslashes is escaped. A quote that a sender leaves open on the left therefore swallows nothing on
// the right, as it would when reading from the left. Each backslash is passed over once, which keeps the time linear.
func lastUnquotedComma(line string) int {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch line[i] {
		case ',':
			if !quoted {
				return i
			}
		case '"':
			if !quoted {
				quoted = true
				continue
			}
			run := i
			for run > 0 && line[run-1] == '\\' {
				run--
			}
			quoted = (i-run)%2 == 1
			i = run
		}
	}
	return -1
}

// trimEnd cuts blanks and commas, that is whole blank elements, from the right: they are never hops.
func trimEnd(s string) string {
	end := len(s)
	for end > 0 && (s[end-1] == ',' || isBlank(s[end-1])) {
		end--
	}
	return s[:end]
}

// trimBlanks cuts the optional white space of RFC 9110, which is SP and HTAB and nothing else, from both ends.
func trimBlanks(s string) string {
	for len(s) > 0 && isBlank(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }
