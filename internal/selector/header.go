package selector

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// readHeader reads every line of a header, and every element of a list in it. Backends that pass headers on as
// environment variables (CGI, WSGI, PHP) cannot tell an underscore from a dash: both spellings count.
func readHeader(header http.Header, name string, g *gather) {
	for key, lines := range header {
		if !sameHeader(key, name) {
			continue
		}
		for _, line := range lines {
			found := false
			for element := range strings.SplitSeq(line, ",") {
				if element = trimBlanks(element); element != "" {
					found = true
					g.text([]byte(element), false, "")
				}
			}
			if !found {
				g.void(Empty)
			}
		}
	}
}

func sameHeader(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i++ {
		if headerByte(a[i]) != headerByte(b[i]) {
			return false
		}
	}
	return true
}

func headerByte(c byte) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return c + 'a' - 'A'
	case c == '_':
		return '-'
	}
	return c
}

// readCookie reads every cookie of a name, as RFC 6265 splits them.
func readCookie(header http.Header, name string, g *gather) {
	wantName := canonicalField(name).name
	for _, line := range header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			key, value, _ := strings.Cut(pair, "=")
			if key = trimBlanks(key); key != name {
				decoded, _ := unpercent([]byte(key), false) // PHP did, before 7.2.34
				if canonicalField(string(decoded)).name != wantName {
					continue
				}
			}
			cookieValue(value, g)
		}
	}
}

// cookieValue reads a cookie as all backends may: they differ in whether they take off quotes and percent escapes, so a
// session that is spelled with them must give the same digest as one without.
func cookieValue(value string, g *gather) {
	value = trimBlanks(value)
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	text, _ := unpercent([]byte(value), false)
	switch {
	case len(text) == 0:
		g.void(Empty)
	case bytes.IndexByte(text, 0) >= 0:
		g.refuse(NUL)
	default:
		g.name(string(text), "")
	}
}

// readSetCookie reads the cookie that a browser keeps: of several with one name, the last.
func readSetCookie(header http.Header, name string, g *gather) {
	value, set := "", false
	for _, line := range header["Set-Cookie"] {
		c, err := http.ParseSetCookie(line)
		if err != nil || c.Name != name {
			continue
		}
		// Deleted by a date long past, which needs no clock to tell.
		gone := c.MaxAge < 0 || !c.Expires.IsZero() && c.Expires.Year() < 2020
		value, set = c.Value, !gone
	}
	if set {
		cookieValue(value, g)
	}
}

// readParam reads a segment of the path. Some containers cut off what follows a semicolon.
func readParam(params []Param, name string, g *gather) {
	for _, p := range params {
		if p.Name != name {
			continue
		}
		before, _, matrix := strings.Cut(p.Value, ";")
		for i, value := range []string{p.Value, before} {
			if i > 0 && !matrix {
				break
			}
			text, other := unpercent([]byte(value), false)
			if len(text) == 0 {
				g.void(Empty)
				continue
			}
			g.text(text, false, "")
			if other != nil {
				g.text(other, false, Escape)
				g.unsure(Escape)
			}
		}
	}
}

// readBasic reads Basic credentials out of every Authorization line. Many backends do not look at the scheme, or find it
// anywhere in the line: whatever word of another scheme decodes to readable user:password counts too.
func readBasic(header http.Header, part BasicPart, g *gather) {
	for _, line := range header["Authorization"] {
		scheme, rest, _ := strings.Cut(strings.TrimLeft(strings.ReplaceAll(line, "\t", " "), " "), " ")
		rest = strings.Trim(rest, " ")
		switch {
		case !strings.EqualFold(scheme, "basic"):
			if containsFold([]byte(scheme), "basic") || containsFold([]byte(line), "basic ") {
				g.refuse(Basics)
			}
			for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ',' || isBlank(r) }) {
				credentials, ok := decodeBase64(word)
				if ok && readable(credentials) && bytes.IndexByte(credentials, ':') >= 0 {
					basicPart(credentials, part, g)
				}
			}
		case rest == "":
			g.void(Empty)
		default:
			credentials, ok := decodeBase64(rest)
			if !ok || bytes.IndexByte(credentials, ':') < 0 {
				g.refuse(Basics)
				continue
			}
			basicPart(credentials, part, g)
		}
	}
}

// basicPart splits at the first colon: a password may hold others (RFC 7617, 2).
func basicPart(credentials []byte, part BasicPart, g *gather) {
	value, password := cut(credentials, ':')
	switch part {
	case BasicPassword:
		value = password
	case BasicClient:
		decoded, other := unpercent(value, true)
		if other != nil {
			g.text(other, false, Escape)
		}
		value = decoded
	}
	if len(value) == 0 {
		g.void(Empty)
		return
	}
	g.text(value, false, "")
}

// decodeBase64 takes the usual alphabet or that for URLs, with or without padding, and nothing else: what decoders pass
// over is not one of these.
func decodeBase64(s string) ([]byte, bool) {
	bare := strings.TrimRight(s, "=")
	padding := len(s) - len(bare)
	if padding > 0 && len(s)%4 != 0 || padding > 2 {
		return nil, false
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(bare, "-_") {
		encoding = base64.RawURLEncoding
	}
	out, err := encoding.DecodeString(bare)
	return out, err == nil && len(out) > 0
}

// readable holds for text that a person could have typed: a random token is none, but once in billions.
func readable(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexFunc(b, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
