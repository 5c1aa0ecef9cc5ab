package outcome

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// pin is a request header that the policy sets.
type pin struct {
	name   string
	values []string
}

// Prepare changes the header of a watched request, on its way to the backend, so that the answer can be judged [V3]: Range and the
// If-* conditions are dropped, since they would answer with a part or with nothing; Accept-Encoding keeps of the client's
// codings those that can be read while they stream; pinned headers take the place of the client's. Spellings with underscores,
// which some backends take for the same header, are dropped with the others.
//
// zstd is read but not asked for: nothing of one of its blocks of up to 128 KiB can be read before all of it is there.
func (c *Classifier) Prepare(h http.Header) {
	for name := range h {
		if withheld(name) || c.pinned(name) {
			delete(h, name)
		}
	}
	h["Accept-Encoding"] = acceptable(h["Accept-Encoding"])
	for i := range c.pins {
		h[c.pins[i].name] = slices.Clone(c.pins[i].values)
	}
}

// withheld says that a header is dropped on watched routes.
func withheld(name string) bool {
	switch len(name) {
	case 0, 1, 2:
		return false
	case len("Range"):
		if strings.EqualFold(name, "Range") {
			return true
		}
	case len("Accept_Encoding"):
		return strings.EqualFold(name, "Accept_Encoding")
	}
	return name[0]|0x20 == 'i' && name[1]|0x20 == 'f' && (name[2] == '-' || name[2] == '_')
}

func (c *Classifier) pinned(name string) bool {
	for i := range c.pins {
		if sameHeader(name, c.pins[i].name) {
			return true
		}
	}
	return false
}

// sameHeader compares as a CGI-like backend does, to which `-` and `_` are one.
func sameHeader(a, b string) bool {
	return len(a) == len(b) && strings.EqualFold(strings.ReplaceAll(a, "_", "-"), strings.ReplaceAll(b, "_", "-"))
}

// acceptable is the Accept-Encoding for the backend. The body goes to the client as it comes, so nothing may be added to
// what the client accepts; `*` is read as gzip, and nothing at all as what it mostly means, no coding.
func acceptable(lines []string) []string {
	if len(lines) == 1 {
		switch lines[0] { // what nearly everybody sends
		case "gzip", "gzip, deflate", "gzip, deflate, br":
			return lines
		case "gzip, deflate, br, zstd":
			return []string{"gzip, deflate, br"}
		}
	}
	var out []string
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			item = strings.TrimSpace(item)
			coding, weight, _ := strings.Cut(item, ";")
			switch coding := strings.ToLower(strings.TrimSpace(coding)); {
			case coding == "gzip" || coding == "x-gzip" || coding == "deflate" || coding == "br" || coding == "identity":
				out = append(out, item)
			case coding == "*" && !refused(weight):
				out = append(out, "gzip")
			}
		}
	}
	if len(out) == 0 {
		return []string{"identity"}
	}
	return []string{strings.Join(out, ", ")}
}

// refused says that a weight is zero.
func refused(weight string) bool {
	key, q, _ := strings.Cut(weight, "=")
	return strings.EqualFold(strings.TrimSpace(key), "q") && strings.Trim(strings.TrimSpace(q), "0.") == ""
}

// pins checks and compiles the pinned headers. What frames the message, names the sender or is set elsewhere cannot be pinned.
func (c *compiler) pins(in map[string]string) []pin {
	var out []pin
	for _, name := range slices.Sorted(maps.Keys(in)) {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			c.policy("pin_headers", "%q is no header name", name)
		case !httpguts.ValidHeaderFieldValue(in[name]):
			c.policy("pin_headers", "the value of %s cannot stand in a header", canonical)
		case !pinnable(canonical):
			c.policy("pin_headers", "%s cannot be pinned; meant are headers that choose the form of the answer, such as Accept-Language", canonical)
		default:
			out = append(out, pin{canonical, []string{in[name]}})
		}
	}
	return out
}

func pinnable(name string) bool {
	switch name {
	case "Accept-Encoding", "Authorization", "Connection", "Cookie", "Expect", "Forwarded", "Host", "Keep-Alive", "Origin",
		"Range", "Referer", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "X-Real-Ip", "X-Request-Id":
		return false
	}
	return !strings.HasPrefix(name, "Content-") && !strings.HasPrefix(name, "If-") && !strings.HasPrefix(name, "Proxy-") &&
		!strings.HasPrefix(name, "X-Forwarded-")
}
