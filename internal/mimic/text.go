package mimic

import (
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxUndone is how often a text is unescaped: once for a template, once for the backend behind it.
const maxUndone = 2

// undone is a text as it stands and, where that is another, as it reads when the escapes of HTML, of URLs and strings in
// code, or of both are undone once and twice. Undoing more than was done would eat a part of the text, so each is tried.
func undone(text string) []string {
	out := []string{text}
	from := 0
	for range maxUndone {
		to := len(out)
		for _, t := range out[from:to] {
			plain := html.UnescapeString(t)
			blanks := strings.ReplaceAll(plain, "+", " ") // as in a query
			for _, next := range [...]string{plain, unescape(t), unescape(plain), unescape(blanks)} {
				if !slices.Contains(out, next) {
					out = append(out, next)
				}
			}
		}
		from = to
	}
	return out
}

// unescape undoes %41, \x41, \u0041 and a backslash before anything else. What is no escape stays.
func unescape(text string) string {
	if !strings.ContainsAny(text, `%\`) {
		return text
	}
	var out strings.Builder
	for text != "" {
		i := strings.IndexAny(text, `%\`)
		if i < 0 {
			break
		}
		out.WriteString(text[:i])
		r, n := escape(text[i:])
		switch {
		case n == 0:
			out.WriteByte(text[i])
			n = 1
		case r < 0:
			out.WriteByte(byte(^r))
		default:
			out.WriteRune(r)
		}
		text = text[i+n:]
	}
	out.WriteString(text)
	return out.String()
}

// escape reads the escape that a text begins with: a character, or the complement of a byte, and its length; 0: it is none.
func escape(text string) (r rune, length int) {
	switch {
	case text[0] == '%':
		if n, ok := number(text[1:], 2); ok {
			return ^n, 3
		}
		return 0, 0
	case len(text) < 2:
		return 0, 0
	}
	switch text[1] {
	case 'x':
		if n, ok := number(text[2:], 2); ok {
			return ^n, 4
		}
	case 'u':
		n, ok := number(text[2:], 4)
		if !ok {
			break
		}
		if utf16.IsSurrogate(n) && strings.HasPrefix(text[6:], `\u`) {
			if low, ok := number(text[8:], 4); ok {
				return utf16.DecodeRune(n, low), 12
			}
		}
		return n, 6
	case 'b', 'f', 'n', 'r', 't':
		return ' ', 2
	}
	r, n := utf8.DecodeRuneInString(text[1:])
	return r, 1 + n
}

// number reads so many hex digits.
func number(text string, digits int) (rune, bool) {
	if len(text) < digits || !hex(text[:digits]) {
		return 0, false
	}
	n, err := strconv.ParseInt(text[:digits], 16, 32)
	return rune(n), err == nil
}

// untagged is a value as a backend shows it that takes tags out.
func untagged(value string) string {
	var out strings.Builder
	for value != "" {
		text, rest, _ := strings.Cut(value, "<")
		out.WriteString(text)
		if _, after, ok := strings.Cut(rest, ">"); ok {
			rest = after
		}
		value = rest
	}
	return out.String()
}

// skeleton is what is left of a text when nothing but its letters and digits count, without case, accents and compatibility
// forms: an echo that was escaped, cleaned or cut into lines has the skeleton of its value.
func skeleton(text string) string {
	if !ascii(text) {
		text = cases.Fold().String(norm.NFKD.String(text))
	}
	var out strings.Builder
	out.Grow(len(text))
	for _, r := range text {
		if alphanumeric(r) {
			out.WriteRune(unicode.ToLower(r))
		}
	}
	return out.String()
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// holdsWord reports whether a value of a byte or two stands in the text by itself.
func holdsWord(text, value string) bool {
	if strings.IndexFunc(value, alphanumeric) < 0 {
		return false // punctuation is everywhere
	}
	for at := 0; ; at += len(value) {
		i := strings.Index(text[at:], value)
		if i < 0 {
			return false
		}
		at += i
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(value):])
		if !alphanumeric(before) && !alphanumeric(after) {
			return true
		}
	}
}

func alphanumeric(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// quoted is what stands in the strings of a JSON text, names of members included.
func quoted(text string) string {
	var out strings.Builder
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inside = !inside
			out.WriteByte(' ')
		case inside && c == '\\' && i+1 < len(text):
			out.WriteString(text[i : i+2])
			i++
		case inside:
			out.WriteByte(c)
		}
	}
	return out.String()
}
