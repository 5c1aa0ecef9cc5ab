package route

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// folded appends s to dst as the laxest backend might read it in a path: decoded as deep as it goes and, in letters, as
// one form for all that some comparison takes for the same. cost is the work in steps of a walk, beyond what each
// segment takes anyway.
func folded(dst []byte, s string) (text []byte, cost int) {
	start := len(dst)
	dst = decoded(dst, s, '+')
	if n := len(dst) - start; wide(dst[start:]) {
		if n > maxWide {
			return dst, maxSteps + 1
		}
		cost = wideCost + n*wideCostPerByte
		// Compatibility forms include a wide percent sign, so there may be more to decode afterwards.
		again := string(foldedWide(dst[start:]))
		dst = decoded(dst[:start], again, '+')
	}
	lower(dst[start:])
	return dst, cost
}

const (
	// maxWide is the length in bytes of the longest segment outside ASCII that is folded; file systems have
	// names of up to 255 characters.
	maxWide = 4 << 10
	// wideCost and wideCostPerByte were measured: folding takes about two microseconds, and a step about ten
	// nanoseconds.
	wideCost        = 200
	wideCostPerByte = 6
)

// lower puts ASCII letters in lower case.
func lower(text []byte) {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c | 0x20
		}
	}
}

// decoded appends s to dst with every %XX and %uXXXX decoded, those included that only arise by decoding:
// %2561, %%361 and %61 are all "a". Each byte is looked at once and each decoding shortens the text, so the
// work is linear. A "+" of s itself becomes plus.
func decoded(dst []byte, s string, plus byte) []byte {
	start := len(dst)
	for i := range len(s) {
		c := s[i]
		if c == '+' {
			c = plus
		}
		dst = append(dst, c)
		for {
			shorter, ok := decodedTail(dst, start)
			if !ok {
				break
			}
			dst = shorter
		}
	}
	return dst
}

// decodedTail decodes an escape that ends b, and does not begin before start.
func decodedTail(b []byte, start int) ([]byte, bool) {
	n := len(b)
	if n-start < 3 {
		return b, false
	}
	last, ok := unhex(b[n-1])
	if !ok {
		return b, false
	}
	if b[n-3] == '%' {
		if first, ok := unhex(b[n-2]); ok {
			return append(b[:n-3], first<<4|last), true
		}
	}
	if n-start < 6 || b[n-6] != '%' || b[n-5]|0x20 != 'u' {
		return b, false
	}
	var r rune
	for _, c := range b[n-4:] {
		digit, ok := unhex(c)
		if !ok {
			return b, false
		}
		r = r<<4 | rune(digit)
	}
	return utf8.AppendRune(b[:n-6], r), true
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

func wide(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// foldedWide folds text outside ASCII: overlong forms are read as what they stand for, bytes that are no UTF-8 and
// characters that cannot be seen are dropped, compatibility forms are replaced (NFKC), and each
// letter becomes the lower case of its upper case, as comparisons that ignore case do.
func foldedWide(b []byte) []byte {
	seen := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			r, size = overlong(b)
		}
		if r != utf8.RuneError && !invisible(r) {
			seen = utf8.AppendRune(seen, r)
		}
		b = b[size:]
	}
	return bytes.Map(func(r rune) rune {
		return unicode.ToLower(unicode.ToUpper(r))
	}, norm.NFKC.Bytes(seen))
}

// overlong reads a UTF-8 sequence that is longer than it need be, such as C0 AE for a full stop.
func overlong(b []byte) (r rune, size int) {
	switch {
	case b[0]&0xFE == 0xC0:
		size = 2
	case b[0] == 0xE0:
		size = 3
	case b[0] == 0xF0:
		size = 4
	}
	if size == 0 || len(b) < size {
		return utf8.RuneError, 1
	}
	r = rune(b[0] & 0x01) // the longer forms are overlong only with no bit set in their first byte
	for _, c := range b[1:size] {
		if c&0xC0 != 0x80 {
			return utf8.RuneError, 1
		}
		r = r<<6 | rune(c&0x3F)
	}
	return r, size
}

// invisible tells whether a character shows nothing and is ignored in many comparisons.
func invisible(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
