package selector

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// media is what Content-Type says, as far as all backends agree on it.
type media struct {
	kind     Kind // JSON, Form, Multipart, XML; 0: nothing, or nothing that is read
	boundary string
	latin    bool // a Latin code page was declared: bytes from 80 on are read in two ways
	wide     bool // UTF-16 or UTF-32 was declared
	packed   bool // a compressed file, which is what it should be
}

// maxBoundary is RFC 2046's bound, in characters.
const maxBoundary = 70

// parseMedia reads Content-Type. Several that differ, and a character set that is not read, are ErrUnreadable. A type
// that is oddly written (a list, say) is no type: then the body is read in every form.
func parseMedia(header http.Header) (media, error) {
	lines := header["Content-Type"]
	if len(lines) == 0 {
		return media{}, nil
	}
	for _, line := range lines[1:] {
		if strings.TrimSpace(line) != strings.TrimSpace(lines[0]) {
			return media{}, fmt.Errorf("two content types: %w", ErrUnreadable)
		}
	}
	if lines[0] == "application/json" {
		return media{kind: JSON}, nil
	}
	essence, params, _ := strings.Cut(lines[0], ";")
	essence = strings.ToLower(strings.TrimSpace(essence))
	m := media{kind: mediaKind(essence)}
	switch essence {
	case "application/gzip", "application/x-gzip", "application/zstd":
		m.packed = true
	}
	if m.kind == 0 && strings.Contains(strings.ToLower(lines[0]), "multipart") {
		return media{kind: Multipart}, nil // some see through it; without a boundary it is refused
	}
	if params == "" {
		return m, nil
	}
	params = strings.TrimSpace(params)
	var err error
	if m.kind == Multipart {
		m.boundary = boundaryOf(params)
	}
	m.latin, m.wide, err = charsetsOf(strings.ToLower(params))
	if m.wide && (m.kind == Form || m.kind == Multipart) {
		return media{}, fmt.Errorf("a form in UTF-16 or UTF-32: %w", ErrUnreadable)
	}
	return m, err
}

func mediaKind(essence string) Kind {
	major, minor, _ := strings.Cut(essence, "/")
	if !isToken(major) || !isToken(minor) {
		return 0
	}
	switch {
	case essence == "application/x-www-form-urlencoded":
		return Form
	case major == "multipart":
		return Multipart
	case minor == "json" || minor == "x-json" || minor == "json-rpc" || minor == "jsonrequest" || strings.HasSuffix(minor, "+json"):
		return JSON
	case minor == "xml" || strings.HasSuffix(minor, "+xml"):
		return XML
	}
	return 0
}

// charsetsOf reads every charset among the parameters of a type, wherever it hides: some backends take the first, some
// the last, some look within quotes.
func charsetsOf(params string) (latin, wide bool, err error) {
	for {
		at := strings.Index(params, "charset")
		if at < 0 {
			break
		}
		params = strings.TrimLeft(params[at+len("charset"):], " \t")
		value, found := strings.CutPrefix(params, "=")
		value = strings.Trim(value[:endOfParam(value)], " \t\"'")
		switch family := charsetFamily(value); {
		case !found || family == charsetUnread:
			return false, false, fmt.Errorf("character set %q: %w", value, ErrUnreadable)
		case family == charsetLatin:
			latin = true
		case family == charsetWide:
			wide = true
		}
	}
	if latin && wide {
		return false, false, fmt.Errorf("two character sets: %w", ErrUnreadable)
	}
	return latin, wide, nil
}

func endOfParam(s string) int {
	if at := strings.IndexAny(s, ";,"); at >= 0 {
		return at
	}
	return len(s)
}

type charset uint8

const (
	charsetUnread charset = iota // anything else: its bytes below 80 may not be ASCII
	charsetUTF8
	charsetLatin
	charsetWide
)

func charsetFamily(name string) charset {
	switch name {
	case "utf-8", "utf8", "us-ascii", "ascii":
		return charsetUTF8
	case "iso-8859-1", "iso8859-1", "latin1", "iso-8859-15", "windows-1252", "cp1252":
		return charsetLatin
	case "utf-16", "utf-16le", "utf-16be", "utf16", "utf-32", "utf-32le", "utf-32be", "utf32":
		return charsetWide
	}
	return charsetUnread
}

// boundaryOf returns the boundary of a multipart type, or nothing if parsers could disagree about it: some look for the
// word anywhere, so it must be stated exactly once, and hold no character that needs quoting in one place and not in
// another.
func boundaryOf(params string) string {
	const word = "boundary="
	lower := strings.ToLower(params)
	at := strings.Index(lower, "boundary")
	if at < 0 || !strings.HasPrefix(lower[at:], word) || at > 0 && strings.IndexByte("; \t", lower[at-1]) < 0 {
		return ""
	}
	value, rest, safe := params[at+len(word):], "", "'+_.-"
	if quoted, ok := strings.CutPrefix(value, `"`); ok {
		safe = "'()+_./:=?-"
		if value, rest, ok = strings.Cut(quoted, `"`); !ok {
			return ""
		}
		rest = strings.TrimLeft(rest, " \t")
	} else {
		end := endOfParam(value)
		value, rest = strings.TrimRight(value[:end], " \t"), value[end:]
	}
	if rest != "" && (rest[0] != ';' || strings.Contains(strings.ToLower(rest), "boundary")) {
		return ""
	}
	if value == "" || len(value) > maxBoundary {
		return ""
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; !isAlphanumeric(c) && strings.IndexByte(safe, c) < 0 {
			return ""
		}
	}
	return value
}

// containsFold reports whether a text holds an ASCII word in any case. word is in lower case.
func containsFold(text []byte, word string) bool {
	for len(text) >= len(word) {
		at := bytes.IndexAny(text, word[:1]+strings.ToUpper(word[:1]))
		if at < 0 {
			return false
		}
		if hasPrefixFold(text[at:], word) {
			return true
		}
		text = text[at+1:]
	}
	return false
}
