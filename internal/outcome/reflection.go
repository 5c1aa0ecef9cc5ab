package outcome

import (
	"encoding/base64"
	"html"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// echoes are the texts that a request may have put into its answer: every value that it carries, in the forms in which a
// backend that decodes once more or once less would write it, in lower case. The zero value supplies nothing.
type echoes struct {
	texts    []string
	path     string // the request's own, one of texts
	bytes    int
	overflow bool // there were too many to tell: everything counts as supplied
}

// Bounds of what is compared; a request beyond them is no login.
const (
	maxEchoes      = 512
	manyEchoes     = 64 // beyond, they are worth sorting out
	maxEchoBytes   = 256 << 10
	maxEchoedPath  = 8 << 10
	maxOccurrences = 8 // of a text in an answer, or of a value in a text
	maxDecodings   = 2 // how often a value may be decoded again: once by a proxy, once by the backend
)

// negotiation are headers in which the client speaks of formats and connections, whose values appear in answers of their
// own right and lead nowhere.
func negotiation(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Language", "Connection", "Content-Length", "Content-Type", "Host", "Origin", "Te", "Transfer-Encoding":
		return true
	}
	return false
}

// collectEchoes reads all values of a request. The path and the Referer are among them, since "back to where you came from" is
// an answer that the request writes.
func collectEchoes(req RequestView) *echoes {
	e := &echoes{path: lower(req.Path()), texts: make([]string, 0, 24)}
	e.add(req.Path(), maxDecodings)
	for name, lines := range req.Header() {
		if negotiation(name) {
			continue
		}
		for _, line := range lines {
			e.addHeader(name, line)
		}
	}
	req.Values(func(value string) bool {
		e.add(value, maxDecodings)
		return !e.overflow
	})
	if len(e.texts) > manyEchoes {
		slices.Sort(e.texts)
		e.texts = slices.Compact(e.texts)
	}
	return e
}

func (e *echoes) addHeader(name, line string) {
	switch name {
	case "Cookie":
		if cookies, err := http.ParseCookie(line); err == nil {
			for _, c := range cookies {
				e.add(c.Value, maxDecodings)
			}
			return
		}
	case "Authorization", "Proxy-Authorization":
		scheme, credentials, _ := strings.Cut(line, " ")
		if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials)); err == nil && strings.EqualFold(scheme, "Basic") {
			user, password, _ := strings.Cut(string(decoded), ":")
			e.add(user, maxDecodings)
			e.add(password, maxDecodings)
		}
	}
	e.add(line, maxDecodings)
}

// add notes a value and what it becomes when it is decoded again.
func (e *echoes) add(value string, again int) {
	value = strings.TrimSpace(value)
	if value == "" || e.overflow {
		return
	}
	if e.bytes += len(value); e.bytes > maxEchoBytes || len(e.texts) == maxEchoes {
		e.overflow = true
		return
	}
	is := traitsOf(value)
	if is.upper || is.odd {
		e.texts = append(e.texts, lower(value))
	} else {
		e.texts = append(e.texts, value)
	}
	if again == 0 {
		return
	}
	again--
	if is.escaped {
		e.addOther(value, formDecode(value), again)
		e.addOther(value, html.UnescapeString(value), again)
		e.addOther(value, unquote([]byte(value)), again)
	}
	if is.odd {
		e.addOther(value, cleaned(value), again)
	}
}

func (e *echoes) addOther(value, other string, again int) {
	if other != value {
		e.add(other, again)
	}
}

// traits say what a value must be read for; almost every value has none.
type traits struct {
	upper   bool // has upper case letters
	escaped bool // may be escaped for a URL, HTML or JSON
	odd     bool // a backend that cleans names might change it
}

func traitsOf(value string) traits {
	var is traits
	for i := range len(value) {
		switch c := value[i]; {
		case 'a' <= c && c <= 'z':
		case 'A' <= c && c <= 'Z':
			is.upper = true
		case c == '%' || c == '+' || c == '&' || c == '\\':
			is.escaped = true
		case c < ' ' || c > '~' || c == '<':
			is.odd = true
		}
	}
	return is
}

// cleaned is a value without tags, controls and broken characters, with compatibility forms of letters made plain.
func cleaned(value string) string {
	var out strings.Builder
	for value != "" {
		text, rest, _ := strings.Cut(value, "<")
		out.WriteString(text)
		if _, after, ok := strings.Cut(rest, ">"); ok {
			value = after
		} else {
			value = rest
		}
	}
	drop := func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}
	return norm.NFKC.String(strings.Map(drop, out.String()))
}

// lower is a text in lower case, in which bytes that are no UTF-8 stay as they are.
func lower(text string) string {
	if utf8.ValidString(text) {
		return strings.ToLower(text)
	}
	out := make([]byte, 0, len(text))
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			out = append(out, text[0])
		} else {
			out = utf8.AppendRune(out, unicode.ToLower(r))
		}
		text = text[n:]
	}
	return string(out)
}

// contain says that some value holds the text, in lower case.
func (e *echoes) contain(text string) bool {
	return e.overflow || slices.ContainsFunc(e.texts, func(v string) bool { return strings.Contains(v, text) })
}

// write says that some value, echoed whole, makes up more than half of the bytes of the spans of a text in lower case. Half, and
// not any byte: "login" in "Too many failed login attempts" comes from the backend, even if the request said action=login.
// The request's own path is not the client's to choose, so that "/login/2fa" is no echo of "/login".
func (e *echoes) write(text string, spans []span) bool {
	total := 0
	for _, s := range spans {
		total += s.end - s.start
	}
	if e.overflow || total == 0 {
		return e.overflow
	}
	for _, v := range e.texts {
		if v == e.path || 2*len(v) <= total {
			continue
		}
		// Only an echo that touches the spans matters; the window keeps the search short in a long text.
		low := max(0, spans[0].start-len(v)+1)
		high := min(len(text), spans[len(spans)-1].end+len(v)-1)
		if echoesOver(text[:high], low, v, spans, total) {
			return true
		}
	}
	return false
}

// echoesOver says that an occurrence of v from low on makes up more than half of the total bytes of the spans. So many occurrences
// that they overlap are not the backend's.
func echoesOver(text string, low int, v string, spans []span, total int) bool {
	for range maxOccurrences {
		i := strings.Index(text[low:], v)
		if i < 0 {
			return false
		}
		low += i
		if 2*overlap(spans, low, low+len(v)) > total {
			return true
		}
		low++
	}
	return true
}

func overlap(spans []span, start, end int) int {
	n := 0
	for _, s := range spans {
		n += max(0, min(s.end, end)-max(s.start, start))
	}
	return n
}

// lead says that some value leads to the path, in lower case: it is a reference to it, or it holds the path up to a byte that
// ends one.
func (e *echoes) lead(path, base string) bool {
	if e.overflow || len(path) > maxEchoedPath {
		return true
	}
	// Whatever else is cut out of a reference, the last segment of its path stands in it as it is.
	last := strings.TrimSuffix(path, "/")
	last = last[strings.LastIndexByte(last, '/')+1:]
	return slices.ContainsFunc(e.texts, func(v string) bool {
		if !strings.Contains(v, last) {
			return false
		}
		return path != "/" && holdsPath(v, path) || strings.ContainsAny(v, "/:;?") && parseLocation(v, base).path == path
	})
}

func holdsPath(v, path string) bool {
	for {
		i := strings.Index(v, path)
		if i < 0 {
			return false
		}
		v = v[i+len(path):]
		if v == "" || !continuesPath(v[0]) {
			return true
		}
	}
}

func continuesPath(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c >= 0x80 || strings.IndexByte("/-._~%+", c) >= 0
}

// pad says that some value makes up so much of a text in lower case that it may have pushed the rest out of sight. It is
// recognised by four samples, since a backend may have changed it at either end.
func (e *echoes) pad(text string, limit int) bool {
	const sample, share = 32, 16
	if e.overflow {
		return true
	}
	plain := ""
	for _, v := range e.texts {
		if len(v) < max(limit/share, 4*sample) {
			continue
		}
		if plain == "" {
			plain = html.UnescapeString(text)
		}
		for i := range 4 {
			at := i * len(v) / 4
			if probe := v[at : at+sample]; strings.Contains(text, probe) || strings.Contains(plain, probe) {
				return true
			}
		}
	}
	return false
}

// asciiLower lowers ASCII letters only, so that every byte stays where it is.
func asciiLower(text []byte) string {
	out := make([]byte, len(text))
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		out[i] = c
	}
	return string(out)
}
