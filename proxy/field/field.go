// Package field reads the fields of HTTP/1.1 messages, for both sides of the gateway.
package field

import (
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Parse reads header or trailer fields, each a line of block with CRLF at its end. It is false if one of them is no field by RFC 9110,
// section 5; a line that continues another is none, since it begins with a blank, which no name does. All values are parts of
// block, which is kept as long as one of them is.
func Parse(block string) (http.Header, bool) {
	n := strings.Count(block, "\n")
	h := make(http.Header, n)
	values := make([]string, n) // the lists of most fields, which have one value
	for block != "" {
		end := strings.IndexByte(block, '\n')
		if end < 1 || block[end-1] != '\r' {
			return nil, false
		}
		name, value, ok := strings.Cut(block[:end-1], ":")
		block = block[end+1:]
		value = strings.Trim(value, " \t")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, false
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		if vv, ok := h[name]; ok {
			h[name] = append(vv, value)
			continue
		}
		values[0] = value
		h[name], values = values[:1:1], values[1:]
	}
	return h, true
}
