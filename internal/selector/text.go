package selector

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// nameForm is how names of members and fields are compared: in doubt they are the same.
var nameForm = Normalizer{stepTrim | stepFold | stepNFKC}

func isASCII[T []byte | string](s T) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// equalFold reports whether an ASCII name equals one that is in lower case already.
func equalFold(name []byte, lower string) bool {
	return len(name) == len(lower) && hasPrefixFold(name, lower)
}

func hasPrefixFold(name []byte, lower string) bool {
	if len(name) < len(lower) {
		return false
	}
	for i := 0; i < len(lower); i++ {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// isBlank takes in all that any language's trim takes away: Java's trims every control character.
func isBlank(r rune) bool {
	return r <= ' ' || r == 0x7f || r > 0x7f && (unicode.IsSpace(r) || unicode.IsControl(r) || r == 0x180e)
}

func trimBlanks(s string) string { return strings.TrimFunc(s, isBlank) }

// collapseBlanks turns each run of blanks within a trimmed text into one space.
func collapseBlanks(s string) string {
	blank, untidy := false, false
	for _, r := range s {
		if isBlank(r) && (blank || r != ' ') {
			untidy = true
			break
		}
		blank = isBlank(r)
	}
	if !untidy {
		return s
	}
	return strings.Join(strings.FieldsFunc(s, isBlank), " ")
}

// ignorable is Unicode's Default_Ignorable_Code_Point: what shows nothing and is dropped by identifier profiles.
func ignorable(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return true
	case r >= 0xfff9 && r <= 0xfffb || r >= 0x13430 && r <= 0x1343f:
		return false
	}
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

func compatible(s string) string {
	s = norm.NFKC.String(strings.ToValidUTF8(s, "\ufffd"))
	if strings.IndexFunc(s, ignorable) < 0 {
		return s
	}
	return norm.NFKC.String(strings.Map(func(r rune) rune {
		if ignorable(r) {
			return -1
		}
		return r
	}, s))
}

func dropMarks(s string) string {
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(s)))
}

// foldCase folds fully. Backends that upper-case names before they compare them take ı for i, and those that lower-case
// them turn İ into i with a dot above: both are i here, lest one account have two keys.
func foldCase(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	s = strings.Map(foldCherokee, cases.Fold().String(s))
	s = strings.ReplaceAll(s, "ı", "i")
	return strings.ReplaceAll(s, "i\u0307", "i")
}

// foldCherokee folds the letters that Unicode folds to capitals, since these were first; x/text leaves them alone.
func foldCherokee(r rune) rune {
	switch {
	case r >= 0xab70 && r <= 0xabbf:
		return r - 0xab70 + 0x13a0
	case r >= 0x13f8 && r <= 0x13fd:
		return r - 8
	}
	return r
}

// spellings returns every text that a backend may make of bytes which are not plain UTF-8, or which were declared to be
// in a Latin code page: as they are, with the faults replaced or dropped, as Windows-1252, with overlong forms accepted.
func spellings(b []byte) []string {
	s := string(b)
	all := []string{string([]rune(s)), strings.ToValidUTF8(s, ""), lenientUTF8(b)}
	if latin, err := charmap.Windows1252.NewDecoder().Bytes(b); err == nil {
		all = append(all, string(latin))
	}
	return all
}

// lenientUTF8 decodes as decoders did that never checked for the shortest form: C1 A1 is a, and surrogate halves pair up.
func lenientUTF8(b []byte) string {
	var out []rune
	for len(b) > 0 {
		size, r := 1, rune(b[0])
		switch c := b[0]; {
		case c >= 0xc0 && c < 0xe0:
			size, r = 2, rune(c&0x1f)
		case c >= 0xe0 && c < 0xf0:
			size, r = 3, rune(c&0x0f)
		case c >= 0xf0:
			size, r = 4, rune(c&0x07)
		}
		for i := 1; i < size; i++ {
			if i >= len(b) || b[i]&0xc0 != 0x80 {
				size, r = 1, utf8.RuneError
				break
			}
			r = r<<6 | rune(b[i]&0x3f)
		}
		if n := len(out); n > 0 && r >= 0xdc00 && r < 0xe000 && out[n-1] >= 0xd800 && out[n-1] < 0xdc00 {
			out[n-1] = (out[n-1]-0xd800)<<10 + (r - 0xdc00) + 0x10000
		} else {
			out = append(out, r)
		}
		b = b[size:]
	}
	return string(out)
}

// unhex is the value of a hex digit, as in %41 and \u0041, or -1.
func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
