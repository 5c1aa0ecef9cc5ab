package transport

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// maxSmallBody bounds the bodies that are sent together with the head. It is no more than an upstream's system takes in even
// if the upstream does not read, so that the write does not wait while an early answer does.
const maxSmallBody = 16 << 10

var (
	errMethod     = errors.New("invalid method")
	errHost       = errors.New("invalid host")
	errTarget     = errors.New("invalid target")
	errBodyShort  = errors.New("the body is shorter than its length")
	errBodyLong   = errors.New("the body is longer than its length")
	errLengthOnly = errors.New("it has a length and no body")
)

// bodyLength is the length of a request's body, or -1 if it will be found out by sending it.
func bodyLength(req *http.Request) (int64, error) {
	switch {
	case req.Body == http.NoBody || req.Body == nil && req.ContentLength == 0:
		return 0, nil
	case req.Body == nil:
		return 0, errLengthOnly
	case req.ContentLength == 0:
		return -1, nil // by the definition of the field
	}
	return max(req.ContentLength, -1), nil
}

// appendHead writes the request line and the header. Nothing in it can end a line but this function.
func appendHead(b []byte, req *http.Request, length int64) ([]byte, error) {
	b, err := appendRequestLine(b, req)
	if err != nil {
		return nil, err
	}
	for name, vv := range req.Header {
		if reserved(name) {
			continue
		}
		if b, err = appendField(b, name, vv); err != nil {
			return nil, err
		}
	}
	if req.Close && !hasToken(req.Header["Connection"], "close") {
		b = append(b, "Connection: close\r\n"...)
	}
	switch {
	case length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
		if b, err = appendTrailerNames(b, req); err != nil {
			return nil, err
		}
	case length > 0 || expectsLength(req.Method):
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, length, 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

func appendRequestLine(b []byte, req *http.Request) ([]byte, error) {
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	if !validToken(method) {
		return nil, errMethod
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	host = withoutZone(host)
	if !validHost(host) {
		return nil, errHost
	}
	b = append(append(b, method...), ' ')
	start := len(b)
	b = appendTarget(b, req)
	if !validTarget(b[start:]) {
		return nil, errTarget
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	return append(b, "\r\n"...), nil
}

// appendTarget writes what [net/url.URL.RequestURI] returns.
func appendTarget(b []byte, req *http.Request) []byte {
	u := req.URL
	target := u.Opaque
	if target == "" {
		target = u.EscapedPath()
	}
	if target == "" {
		target = "/"
	}
	b = append(b, target...)
	if u.ForceQuery || u.RawQuery != "" {
		b = append(b, '?')
		b = append(b, u.RawQuery...)
	}
	return b
}

// withoutZone removes the zone of an IPv6 literal, which means something on this machine only (RFC 6874, section 4).
func withoutZone(host string) string {
	end := strings.LastIndexByte(host, ']')
	if zone := strings.IndexByte(host, '%'); host != "" && host[0] == '[' && zone > 0 && zone < end {
		return host[:zone] + host[end:]
	}
	return host
}

func appendField(b []byte, name string, vv []string) ([]byte, error) {
	if !validToken(name) {
		return nil, fmt.Errorf("invalid header field name %q", name)
	}
	for _, v := range vv {
		if !validValue(v) {
			return nil, fmt.Errorf("invalid value of header field %s", name)
		}
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, strings.Trim(v, " \t")...)
		b = append(b, "\r\n"...)
	}
	return b, nil
}

// reserved reports whether a field is one that the transport writes itself, however its name is spelled: a second one
// in another spelling would be the same to the upstream.
func reserved(name string) bool {
	switch len(name) {
	case len("Host"):
		return strings.EqualFold(name, "Host")
	case len("Trailer"):
		return strings.EqualFold(name, "Trailer")
	case len("Content-Length"):
		return strings.EqualFold(name, "Content-Length")
	case len("Transfer-Encoding"):
		return strings.EqualFold(name, "Transfer-Encoding")
	}
	return false
}

// expectsLength reports whether servers ask for a length even if there is no body (RFC 9110, section 8.6).
func expectsLength(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

func appendTrailerNames(b []byte, req *http.Request) ([]byte, error) {
	separator := "Trailer: "
	for name := range req.Trailer {
		if !validToken(name) {
			return nil, fmt.Errorf("invalid trailer field name %q", name)
		}
		if !sendsTrailer(req, name) {
			continue
		}
		b = append(append(b, separator...), name...)
		separator = ", "
	}
	if separator == ", " {
		b = append(b, "\r\n"...)
	}
	return b, nil
}

// sendsTrailer reports whether a trailer field is sent. One that the header has too is not: an upstream may merge
// both, and what the header says was decided by the caller.
func sendsTrailer(req *http.Request, name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	_, taken := req.Header[canonical]
	return !taken && safeTrailer(canonical)
}

// appendBody reads a body of length bytes, no less and no more.
func appendBody(b []byte, body io.Reader, length int64) ([]byte, error) {
	end := len(b) + int(length)
	b = slices.Grow(b, int(length)+1)
	for idle := 0; ; {
		n, err := body.Read(b[len(b) : end+1]) // one byte more, to see that there is none
		b = b[:len(b)+n]
		switch {
		case len(b) > end:
			return nil, errBodyLong
		case err == io.EOF && len(b) < end:
			return nil, errBodyShort
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, fmt.Errorf("reading its body: %w", err)
		}
		if n > 0 {
			idle = 0
		} else if idle++; idle == maxEmptyReads {
			return nil, io.ErrNoProgress
		}
	}
}

// maxEmptyReads is how often a reader may return nothing at all, as in package bufio.
const maxEmptyReads = 100
