package mimic

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// echo is an answer in which values of the request are looked for. It is used once.
type echo struct {
	texts     []string // lower case, as received and unescaped
	skeletons []string // the same, letters and digits only
	words     []string // body and Location in lower case, the only parts in which a short value tells something
	inQuotes  string   // of a JSON body what is in its strings, "" of any other
	values    int
	bytes     int
}

// From how many bytes on a value counts wherever it stands (a shorter one only as a whole word), and its letters and digits do.
// A long value is looked for in pieces, since a backend may show a part of it.
const (
	wordBytes     = 3
	skeletonBytes = 4
	pieceRunes    = 12
)

// A request that carries more than this is no login; what it may have written is not looked into.
const (
	maxValues     = 1000
	maxValueBytes = 16 << 10
)

// echoes reports whether the answer may hold something that the request carried, whatever the backend did to it on the way
// [R2] [V3].
func (s *Sample) echoes(head http.Header, body string, p *policy) bool {
	e := newEcho(head, body)
	left := slices.Clone(p.constants)
	for text, name := range s.Values {
		if name && (len(text) < wordBytes || slices.ContainsFunc(p.fields, func(f string) bool { return strings.EqualFold(f, text) })) {
			continue // a name that every request has by the configuration
		}
		if i := slices.Index(left, text); !name && i >= 0 {
			left = slices.Delete(left, i, i+1) // likewise, but only as often as the configuration says
			continue
		}
		if e.of(text) {
			return true
		}
	}
	return e.ofHeader(s)
}

func newEcho(head http.Header, body string) *echo {
	e := &echo{}
	lines := []string{body}
	for name, vv := range head {
		if name != "Content-Length" {
			lines = append(lines, vv...)
		}
	}
	for _, text := range undone(strings.Join(lines, "\n")) {
		e.texts = append(e.texts, strings.ToLower(text))
		e.skeletons = append(e.skeletons, skeleton(text))
	}
	for _, text := range undone(body + "\n" + strings.Join(head["Location"], "\n")) {
		e.words = append(e.words, strings.ToLower(text))
	}
	if json.Valid([]byte(body)) {
		e.inQuotes = strings.ToLower(quoted(body))
	}
	return e
}

// of reports whether the value may be in the answer.
func (e *echo) of(value string) bool {
	e.values++
	if e.bytes += len(value); e.values > maxValues || e.bytes > maxValueBytes {
		return true
	}
	return slices.ContainsFunc(undone(value), func(v string) bool {
		return e.holds(v) || strings.Contains(v, "<") && e.holds(untagged(v)) || e.holdsMailbox(v)
	})
}

// holdsMailbox looks for the halves of a mailbox by themselves.
func (e *echo) holdsMailbox(value string) bool {
	local, domain, ok := strings.Cut(value, "@")
	return ok && (e.holds(local) || e.holds(domain))
}

func (e *echo) holds(value string) bool {
	value = strings.ToLower(strings.TrimSpace(value))
	switch value {
	case "":
		return false
	case "true", "false", "null":
		if e.inQuotes != "" { // outside of strings they are JSON's own words
			return strings.Contains(e.inQuotes, value)
		}
	}
	if len(value) < wordBytes {
		return slices.ContainsFunc(e.words, func(text string) bool { return holdsWord(text, value) })
	}
	if contained(e.texts, value) {
		return true
	}
	bare := skeleton(value)
	runes := []rune(bare)
	if len(runes) < 2*pieceRunes {
		return len(bare) >= skeletonBytes && contained(e.skeletons, bare)
	}
	// Whatever is shown of a long value, if it is nearly two pieces long, then one piece stands in it whole.
	for ; len(runes) >= pieceRunes; runes = runes[pieceRunes:] {
		if contained(e.skeletons, string(runes[:pieceRunes])) {
			return true
		}
	}
	return false
}

// ofHeader looks for the values of the request's header.
func (e *echo) ofHeader(s *Sample) bool {
	for name, lines := range s.Header {
		if negotiates(name) {
			continue
		}
		for _, line := range lines {
			if e.ofLine(name, line, s) {
				return true
			}
		}
	}
	return false
}

func (e *echo) ofLine(name, line string, s *Sample) bool {
	switch name {
	case "X-Forwarded-Host":
		if strings.EqualFold(line, s.Host) {
			return false // said once already
		}
	case "Cookie":
		return e.ofCookies(line)
	case "Origin", "Referer":
		line = foreign(line, s)
	case "Authorization":
		if e.ofBasic(line) {
			return true
		}
	}
	return len(line) >= wordBytes && e.of(line)
}

func (e *echo) ofCookies(line string) bool {
	for pair := range strings.SplitSeq(line, ";") {
		_, value, _ := strings.Cut(pair, "=")
		if e.of(strings.Trim(strings.TrimSpace(value), `"`)) {
			return true
		}
	}
	return false
}

func (e *echo) ofBasic(line string) bool {
	scheme, credentials, _ := strings.Cut(line, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return false
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials))
	if err != nil {
		return false
	}
	user, password, _ := strings.Cut(string(plain), ":")
	return e.of(user) || e.of(password)
}

// foreign is what a client chose of the address in an Origin or Referer. The backend's own name is none of it, nor is the page
// that a form posts to itself from; a redirect "back" leads anywhere else that the client likes.
func foreign(line string, s *Sample) string {
	u, err := url.Parse(line)
	switch {
	case err != nil || s.Host == "" || !strings.EqualFold(u.Host, s.Host) || u.User != nil:
		return line
	case u.Path == s.Path && u.RawQuery == "" && u.Fragment == "":
		return ""
	}
	return strings.TrimPrefix(line, u.Scheme+"://"+u.Host)
}

func contained(texts []string, value string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, value) })
}
