package transport

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

// FuzzAnswer lets both transports read the same bytes: what this one accepts, the standard library's accepts and
// reads the same.
func FuzzAnswer(f *testing.F) {
	for _, tt := range accepted {
		f.Add(tt.method == http.MethodHead, []byte(tt.raw[:min(len(tt.raw), 1000)]), uint8(0))
	}
	for _, tt := range refused {
		f.Add(tt.method == http.MethodHead, []byte(tt.raw[:min(len(tt.raw), 1000)]), uint8(3))
	}
	f.Add(false, []byte("HTTP/1.1 200 OK\r\nPragma: no-cache\r\nTrailer: a, Te\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\nx\r\n0\r\nA: 1\r\nTe: 2\r\n\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, head bool, answer []byte, step uint8) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		compare(t, method, string(answer), int(step))
	})
}

// compare checks one answer against http.Transport. That it may take what we do not is seen to by TestAnswersRefused.
func compare(t *testing.T, method, answer string, step int) {
	t.Helper()
	s := newScript(answer, step)
	tr := New(Config{Dial: dialling(s), MaxIdle: 1})
	defer tr.CloseIdleConnections()
	res, body, err := fetch(tr, request(method, "", 0))
	if kept := tr.waiting() == 1; kept && (err != nil || step == 0 && len(s.rest) > 0 && len(answer) < bufferBytes) {
		t.Errorf("kept the connection after %v with %d bytes unread", err, len(s.rest))
	}
	if err != nil {
		return
	}
	std, stdBody, err := fetch(standard(newScript(answer, step)), request(method, "", 0))
	if err != nil {
		t.Fatalf("accepted %+v, http.Transport: %v", outcomeOf(res, body), err)
	}
	got, want := outcomeOf(res, body), outcomeOf(std, stdBody)

	// What package documentation lists as differences.
	delete(got.Header, "Connection")
	delete(want.Header, "Connection")
	if _, ok := got.Header["Cache-Control"]; !ok && len(got.Header["Pragma"]) > 0 {
		delete(want.Header, "Cache-Control")
	}
	for name := range want.Trailer {
		if !safeTrailer(name) || !validToken(name) {
			delete(want.Trailer, name)
		}
	}
	if len(want.Trailer) == 0 {
		want.Trailer = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// FuzzRequest reads with the standard library's server side what was written: it is what was asked for, and nothing else.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/a%2fb", "c=d", "example.com", "X-Name", "value", "body", false)
	f.Add("GET", "/", "", "example.com:80", "content-length", "5", "", true)
	f.Add("GET", "/ HTTP/1.1\r\nX: y", "", "a\r\nb", "A\r\nB", "c\r\nd", "e", true)
	f.Add("GET", "*", "a b", "[::1%25en0]:80", "Transfer-encoding", "chunked", "0\r\n\r\n", false)
	f.Add("G T", "//host/path", "#", "", "TRAILER", "a\x00", strings.Repeat("x", 20_000), false)
	f.Add("BREW", "", "ä", "h", "Connection", "close, upgrade", "0\r\n\r\nGET / HTTP/1.1\r\n\r\n", true)
	f.Fuzz(func(t *testing.T, method, path, query, host, name, value, body string, unknown bool) {
		req := &http.Request{
			Method: method, Host: host, Header: http.Header{name: {value}},
			URL: &url.URL{Scheme: "http", Host: "upstream.test", Path: path, RawQuery: query},
		}
		if strings.HasPrefix(path, "/") && len(query)%2 == 1 {
			req.URL.Path, req.URL.Opaque = "", path
		}
		req.Body, req.ContentLength = plain{strings.NewReader(body)}, int64(len(body))
		if body == "" {
			req.Body = http.NoBody
		} else if unknown {
			req.ContentLength = -1
		}
		s := newScript(okAnswer, 0)
		tr := New(Config{Dial: dialling(s)})
		_, _, err := fetch(tr, req)
		heard := s.said()
		if heard == "" {
			if err == nil {
				t.Fatal("no error, and nothing was sent")
			}
			return
		}
		checkRequest(t, req, heard, body, unknown && body != "")
	})
}

func checkRequest(t *testing.T, req *http.Request, heard, body string, unknown bool) {
	t.Helper()
	head, rest, _ := strings.Cut(heard, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	if strings.Count(lines[0], " ") != 2 || strings.ContainsAny(strings.Join(lines, ""), "\r\n\x00") {
		t.Fatalf("sent %q", head)
	}
	if !unknown && rest != body && len(body) <= maxSmallBody {
		t.Fatalf("sent body %q, want %q", rest, body)
	}
	r := bufio.NewReader(strings.NewReader(heard))
	got, err := http.ReadRequest(r)
	if err != nil {
		return // a target that is no URL, or a host; but one request
	}
	if target := req.URL.RequestURI(); got.RequestURI != target {
		t.Errorf("target %q, want %q", got.RequestURI, target)
	}
	if method := req.Method; got.Method != method && method != "" {
		t.Errorf("method %q, want %q", got.Method, method)
	}
	if unknown != (got.ContentLength == -1) || !unknown && got.ContentLength != int64(len(body)) {
		t.Errorf("length %d of %d, unknown: %v", got.ContentLength, len(body), unknown)
	}
	for name, vv := range req.Header {
		if canonical := http.CanonicalHeaderKey(name); !reserved(name) && got.Header.Get(canonical) != strings.Trim(vv[0], " \t") {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(canonical), vv[0])
		}
	}
	if len(got.Header) > 2 { // Content-Length and the one
		t.Errorf("header %v", got.Header)
	}
	gotBody, err := io.ReadAll(got.Body)
	switch {
	case err != nil:
		// The answer came first, and the body was not sent to its end. Then nothing can follow.
		if len(body) <= maxSmallBody && !unknown {
			t.Errorf("body: %v", err)
		}
	case string(gotBody) != body:
		t.Errorf("body %q, want %q", gotBody, body)
	}
	if left, _ := io.ReadAll(r); len(bytes.TrimSpace(left)) > 0 {
		t.Errorf("%q follows", left)
	}
}
