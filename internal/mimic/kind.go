package mimic

import (
	"net/http"
	"strconv"
	"strings"
)

// Kind is what a request says of the answer that it would like: what it accepts, what it sent, and whether a page is loaded or
// a script asks. Backends choose between a page, a redirect and data by these. There are 48 kinds, whatever clients send. The
// zero value is a request that says nothing.
type Kind uint8

// The parts of a kind, of two bits each: what is accepted, what was sent, and how.
const (
	acceptAny = iota // absent, or everything alike
	acceptHTML
	acceptJSON
	acceptOther
)

const (
	sentNothing = iota
	sentForm
	sentJSON
	sentOther
)

const (
	modeUnknown = iota // a program, or an old browser
	modeNavigate
	modeScript
)

const kinds = modeScript<<4 + 16

// KindOf tells the kind of a request from Accept, Content-Type, Sec-Fetch-Mode and X-Requested-With.
func KindOf(r *http.Request) Kind {
	return Kind(accepted(r.Header["Accept"]) | sent(r.Header["Content-Type"])<<2 | mode(r.Header)<<4)
}

// String names the parts, such as `html form navigate`.
func (k Kind) String() string {
	if k >= kinds {
		return "unknown"
	}
	return [...]string{"any", "html", "json", "other"}[k&3] + " " +
		[...]string{"none", "form", "json", "other"}[k>>2&3] + " " +
		[...]string{"unknown", "navigate", "script"}[k>>4]
}

// accepted is what is preferred of a page and data: by quality, then by order. Anything else only counts where neither is.
func accepted(lines []string) int {
	best, found := 0.0, acceptAny
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(part, ";")
			switch kind := mediaOf(media); kind {
			case acceptAny:
			case acceptOther:
				if found == acceptAny {
					found = acceptOther
				}
			default:
				if q := quality(params); q > best {
					best, found = q, kind
				}
			}
		}
	}
	return found
}

func mediaOf(media string) int {
	media = strings.TrimSpace(media)
	switch {
	case media == "" || media == "*/*":
		return acceptAny
	case strings.EqualFold(media, "text/html") || strings.EqualFold(media, "application/xhtml+xml"):
		return acceptHTML
	case isJSON(media):
		return acceptJSON
	}
	return acceptOther
}

func isJSON(media string) bool {
	const suffix = "+json"
	return strings.EqualFold(media, "application/json") || strings.EqualFold(media, "text/json") ||
		len(media) > len(suffix) && strings.EqualFold(media[len(media)-len(suffix):], suffix)
}

func quality(params string) float64 {
	for params != "" {
		var p string
		p, params, _ = strings.Cut(params, ";")
		if key, value, _ := strings.Cut(p, "="); strings.EqualFold(strings.TrimSpace(key), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || q < 0 || q > 1 {
				return 0
			}
			return q
		}
	}
	return 1
}

func sent(lines []string) int {
	if len(lines) == 0 {
		return sentNothing
	}
	media, _, _ := strings.Cut(lines[0], ";")
	media = strings.TrimSpace(media)
	switch {
	case media == "":
		return sentNothing
	case strings.EqualFold(media, "application/x-www-form-urlencoded") || strings.EqualFold(media, "multipart/form-data"):
		return sentForm
	case isJSON(media):
		return sentJSON
	}
	return sentOther
}

func mode(h http.Header) int {
	switch m := h["Sec-Fetch-Mode"]; {
	case len(m) > 0 && strings.EqualFold(m[0], "navigate"):
		return modeNavigate
	case len(m) > 0 || len(h["X-Requested-With"]) > 0:
		return modeScript
	}
	return modeUnknown
}

// methodOf keeps the methods to a closed set, since clients may invent some.
func methodOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
