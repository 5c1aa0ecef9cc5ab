package server

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"authgate/proxy/field"
)

// verdict is what bytes are, as far as they have come.
type verdict uint8

const (
	partial  verdict = iota // perhaps the beginning of a plain request
	complete                // a plain request, whole
	other                   // anything else
)

// version ends the first line of a plain request.
const version = " HTTP/1.1"

// parse looks for a plain request at the beginning of b and, if it is there whole, makes x.req of it, as [http.ReadRequest]
// would. maxHeader bounds its head, in bytes, unless it is 0.
func (x *exchange) parse(b []byte, maxHeader int) verdict {
	x.req, x.url = http.Request{}, url.URL{} // a part of it may have been read before
	end := bytes.Index(b, []byte("\r\n\r\n"))
	switch {
	case end < 0:
		return partial
	case maxHeader > 0 && end > maxHeader:
		return other
	}
	head := string(b[:end+2]) // all of the request's text is a part of it
	line, fields, _ := strings.Cut(head, "\r\n")
	if !x.parseLine(line) || !x.parseFields(fields) {
		return other
	}
	size := end + 4 + int(x.req.ContentLength)
	switch {
	case x.req.ContentLength > bufferBytes || size > bufferBytes:
		return other
	case size > len(b):
		return partial
	}
	x.size = size
	x.body.rest = b[end+4 : size]
	return complete
}

// parseLine reads the first line of a request.
func (x *exchange) parseLine(line string) bool {
	method, rest, ok := strings.Cut(line, " ")
	target, found := strings.CutSuffix(rest, version)
	if !ok || !found || !strings.HasPrefix(target, "/") || !httpguts.ValidHeaderFieldName(method) || method == http.MethodConnect || method == "PRI" {
		return false
	}
	if plainPath(target) {
		x.url.Path = target
	} else {
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.IndexByte(target, ' ') >= 0 {
			return false
		}
		x.url = *u
	}
	x.req.Method, x.req.RequestURI, x.req.URL = method, target, &x.url
	x.req.Proto, x.req.ProtoMajor, x.req.ProtoMinor = version[1:], 1, 1
	return true
}

// plainPath reports whether a target is a path that is written as it is meant.
func plainPath(target string) bool {
	for i := range len(target) {
		c := target[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '-' || c > '9') && c != '_' { // between - and 9 are digits, dot and slash
			return false
		}
	}
	return true
}

// parseFields reads the header. Fields that tell of framing, of the connection, or of what the client waits for are only
// plain in their usual form.
func (x *exchange) parseFields(block string) bool {
	h, ok := field.Parse(block)
	if !ok {
		return false
	}
	x.req.Header = h
	return x.takeHost() && x.takeLength() && x.takeConnection()
}

func (x *exchange) takeHost() bool {
	hosts := x.req.Header["Host"]
	if len(hosts) != 1 || hosts[0] == "" || !httpguts.ValidHostHeader(hosts[0]) {
		return false
	}
	x.req.Host = hosts[0]
	delete(x.req.Header, "Host")
	return true
}

// takeLength reads where the body ends.
func (x *exchange) takeLength() bool {
	h := x.req.Header
	x.req.Body = http.NoBody
	lengths, ok := h["Content-Length"]
	if _, coded := h["Transfer-Encoding"]; coded || len(lengths) > 1 {
		return false
	}
	if !ok {
		return true
	}
	if lengths[0] == "" || len(lengths[0]) > 6 { // more would not be plain anyway
		return false
	}
	for _, c := range []byte(lengths[0]) {
		if c < '0' || c > '9' {
			return false
		}
		x.req.ContentLength = 10*x.req.ContentLength + int64(c-'0')
	}
	if x.req.ContentLength > 0 {
		x.req.Body = &x.body
	}
	return true
}

// takeConnection reads whether there may be another request.
func (x *exchange) takeConnection() bool {
	h := x.req.Header
	for _, name := range [...]string{"Expect", "Upgrade", "Trailer", "Http2-Settings"} {
		if _, ok := h[name]; ok {
			return false
		}
	}
	if _, ok := h["Pragma"]; ok { // which net/http answers with a field of its own
		return false
	}
	options, ok := h["Connection"]
	switch {
	case !ok:
	case len(options) > 1:
		return false
	case strings.EqualFold(options[0], "close"):
		x.req.Close = true
	case !strings.EqualFold(options[0], "keep-alive"):
		return false
	}
	return true
}

// content is a body that has arrived whole. It is in the connection's buffer, so it can only be read until the handler has
// returned: whoever reads on after that gets an error, and not the next request.
type content struct {
	mu   sync.Mutex
	rest []byte
	gone bool
}

// Read implements [io.Reader].
func (b *content) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Close implements [io.Closer].
func (b *content) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.gone = nil, true
	return nil
}
