package outcome

import (
	"path"
	"strings"
)

// location is where an answer sends the client. The zero value: nowhere.
type location struct {
	path  string // absolute, decoded, without ;parameters
	query string // as received, without the question mark
}

// parseLocation reads a reference as loosely as a browser would: whatever a backend was made to put there, it must not
// escape the rules by being malformed. A relative one is resolved against base, an absolute path.
func parseLocation(raw, base string) location {
	rest, _, _ := strings.Cut(strings.TrimSpace(raw), "#")
	rest, query, _ := strings.Cut(rest, "?")
	p := percentDecode(cutParameters(cutAuthority(rest)))
	switch {
	case p == "":
		p = base
	case p[0] != '/':
		p = base[:strings.LastIndexByte(base, '/')+1] + p
	}
	return location{cleanPath(p), query}
}

// cutAuthority drops `scheme:` and `//host`.
func cutAuthority(s string) string {
	if i := strings.IndexAny(s, ":/"); i > 0 && s[i] == ':' {
		s = s[i+1:]
	}
	if !strings.HasPrefix(s, "//") {
		return s
	}
	i := strings.IndexByte(s[2:], '/')
	if i < 0 {
		return "/"
	}
	return s[2+i:]
}

// cutParameters drops `;parameters` from every segment: servlet containers write the session id there for a client that
// sends no cookie.
func cutParameters(p string) string {
	if strings.IndexByte(p, ';') < 0 {
		return p
	}
	var out strings.Builder
	for segment := range strings.SplitAfterSeq(p, "/") {
		name, _, cut := strings.Cut(segment, ";")
		out.WriteString(name)
		if cut && strings.HasSuffix(segment, "/") {
			out.WriteByte('/')
		}
	}
	return out.String()
}

// cleanPath resolves dots and doubled slashes and keeps a slash at the end.
func cleanPath(p string) string {
	if p == "" {
		return "/"
	}
	clean := path.Clean("/" + p)
	if clean != "/" && p[len(p)-1] == '/' {
		return clean + "/"
	}
	return clean
}

// param is the first value of a query parameter, decoded.
func (l location) param(name string) (string, bool) {
	for query := l.query; query != ""; {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		if key == name || formDecode(key) == name {
			return formDecode(value), true
		}
	}
	return "", false
}

// formDecode decodes percent escapes and plus signs.
func formDecode(s string) string {
	if strings.IndexByte(s, '+') >= 0 {
		s = strings.ReplaceAll(s, "+", " ")
	}
	return percentDecode(s)
}

// percentDecode decodes the sound escapes of s and leaves the others as they are.
func percentDecode(s string) string {
	first := strings.IndexByte(s, '%')
	if first < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	out = append(out, s[:first]...)
	for i := first; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			out = append(out, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
