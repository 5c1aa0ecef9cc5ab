package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// curl is a request as the command line of curl describes it.
type curl struct {
	method  string
	headers []string
	data    []string
	peer    string
	url     string
}

// maxData bounds the body of a request that is described, in bytes.
const maxData = 32 << 20

// request is what a server would be handed for it: it is written down, and then read by the very code that reads requests.
func (q *curl) request(open func(name string) (io.ReadCloser, error)) (*http.Request, error) {
	peer, err := netip.ParseAddr(q.peer)
	if err != nil {
		return nil, usagef("--peer: %q is no IP address", q.peer)
	}
	host, target, err := splitURL(q.url)
	if err != nil {
		return nil, err
	}
	body, err := q.body(open)
	if err != nil {
		return nil, err
	}
	var raw bytes.Buffer
	method := q.method
	if method == "" {
		method = http.MethodGet
		if len(q.data) > 0 {
			method = http.MethodPost
		}
	}
	if !httpguts.ValidHeaderFieldName(method) { // a method is a token as well
		return nil, usagef("-X: %q is no method", method)
	}
	fmt.Fprintf(&raw, "%s %s HTTP/1.1\r\n", method, target)
	if err := q.writeHeader(&raw, host); err != nil {
		return nil, err
	}
	if len(q.data) > 0 {
		fmt.Fprintf(&raw, "Content-Length: %d\r\n", len(body))
	}
	raw.WriteString("\r\n")
	raw.Write(body)
	r, err := http.ReadRequest(bufio.NewReader(&raw))
	if err != nil {
		return nil, usagef("the request is none that a server takes: %s", err)
	}
	r.RemoteAddr = net.JoinHostPort(peer.String(), "0")
	return r, nil
}

// writeHeader writes what curl sends without being asked to, unless a header of that name is given: one without a value takes
// it away, and "Name;" is one with an empty value.
func (q *curl) writeHeader(w io.Writer, host string) error {
	defaults := [][2]string{{"Host", host}, {"User-Agent", "curl"}, {"Accept", "*/*"}}
	if len(q.data) > 0 {
		defaults = append(defaults, [2]string{"Content-Type", "application/x-www-form-urlencoded"})
	}
	given := map[string]bool{}
	var lines strings.Builder
	for _, h := range q.headers {
		name, value, found := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		empty := strings.TrimSuffix(name, ";")
		if !found {
			name = empty
		}
		if (!found && empty == h) || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return usagef("-H: one of them is no header; write 'Name: value'") // which may be a secret, so it is not shown
		}
		canonical := http.CanonicalHeaderKey(name)
		if canonical == "Content-Length" || canonical == "Transfer-Encoding" {
			return usagef("-H: %s follows from the data; leave it out", canonical)
		}
		given[canonical] = true
		if value != "" || !found {
			fmt.Fprintf(&lines, "%s: %s\r\n", name, value)
		}
	}
	for _, d := range defaults {
		if !given[d[0]] {
			fmt.Fprintf(w, "%s: %s\r\n", d[0], d[1])
		}
	}
	_, err := io.WriteString(w, lines.String())
	return err
}

// body joins the data as curl does: with &, and @FILE is what a file holds, without its line ends.
func (q *curl) body(open func(string) (io.ReadCloser, error)) ([]byte, error) {
	var parts [][]byte
	for _, d := range q.data {
		name, isFile := strings.CutPrefix(d, "@")
		if !isFile {
			parts = append(parts, []byte(d))
			continue
		}
		f, err := open(name)
		if err != nil {
			return nil, usagef("-d: %s", err)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxData+1))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if len(b) > maxData {
			return nil, usagef("-d: %s is larger than %d bytes", name, maxData)
		}
		parts = append(parts, slices.DeleteFunc(b, func(c byte) bool { return c == '\r' || c == '\n' || c == 0 }))
	}
	return bytes.Join(parts, []byte("&")), nil
}

// splitURL takes a URL apart and leaves its path as it is spelled, which may be the point of asking.
func splitURL(s string) (host, target string, err error) {
	scheme, rest, found := strings.Cut(s, "://")
	switch {
	case !found:
		rest = s // as curl takes it
	case !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https"):
		return "", "", usagef("%q is no http or https URL", s)
	}
	rest, _, _ = strings.Cut(rest, "#")
	host, target = rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, target = rest[:i], rest[i:]
	}
	if target[0] == '?' {
		target = "/" + target
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	if host == "" || !httpguts.ValidHostHeader(host) {
		return "", "", usagef("the URL names no host; write http://HOST/PATH")
	}
	if strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", "", usagef("the URL has blanks or control characters; write them as %%20 and the like")
	}
	return host, target, nil
}
