package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var written = []struct {
	name string
	edit func(*http.Request)
	want string
}{
	{"GET", func(*http.Request) {}, "GET /path HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"no method", func(r *http.Request) { r.Method = "" }, "GET /path HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"own method", func(r *http.Request) { r.Method = "BREW" }, "BREW /path HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"a host", func(r *http.Request) { r.Host = "example.com:81" }, "GET /path HTTP/1.1\r\nHost: example.com:81\r\n\r\n"},
	{"a zone", func(r *http.Request) { r.Host = "[fe80::1%eth0]:81" }, "GET /path HTTP/1.1\r\nHost: [fe80::1]:81\r\n\r\n"},
	{"no path", func(r *http.Request) { r.URL.Path = "" }, "GET / HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"query", func(r *http.Request) { r.URL.RawQuery = "a=%20&b" }, "GET /path?a=%20&b HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"empty query", func(r *http.Request) { r.URL.ForceQuery = true }, "GET /path? HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"escaped", func(r *http.Request) { r.URL.Path = "/a b\n" }, "GET /a%20b%0A HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"spelled", func(r *http.Request) { r.URL.Opaque = "/%7e%2F;x" }, "GET /%7e%2F;x HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"two slashes", func(r *http.Request) { r.URL.Path = "//a" }, "GET //a HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"asterisk", func(r *http.Request) { r.Method, r.URL.Opaque = "OPTIONS", "*" }, "OPTIONS * HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{
		"values", func(r *http.Request) { r.Header["X"] = []string{" a\t", "", "b c"} },
		"GET /path HTTP/1.1\r\nHost: upstream.test\r\nX: a\r\nX: \r\nX: b c\r\n\r\n",
	},
	{"no values", func(r *http.Request) { r.Header["User-Agent"] = nil }, "GET /path HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"framing is ours", func(r *http.Request) {
		r.Header = http.Header{
			"Content-Length": {"5"}, "content-length": {"6"}, "Transfer-Encoding": {"chunked"}, "TRANSFER-encoding": {"x"},
			"Host": {"a"}, "hOst": {"b"}, "Trailer": {"c"},
		}
	}, "GET /path HTTP/1.1\r\nHost: upstream.test\r\n\r\n"},
	{"close", func(r *http.Request) { r.Close = true }, "GET /path HTTP/1.1\r\nHost: upstream.test\r\nConnection: close\r\n\r\n"},
	{
		"close already", func(r *http.Request) { r.Close, r.Header["Connection"] = true, []string{"close"} },
		"GET /path HTTP/1.1\r\nHost: upstream.test\r\nConnection: close\r\n\r\n",
	},
	{"POST of nothing", func(r *http.Request) { r.Method = "POST" }, "POST /path HTTP/1.1\r\nHost: upstream.test\r\nContent-Length: 0\r\n\r\n"},
	{
		"PUT of nothing", func(r *http.Request) { r.Method, r.Body, r.ContentLength = "PUT", http.NoBody, -1 },
		"PUT /path HTTP/1.1\r\nHost: upstream.test\r\nContent-Length: 0\r\n\r\n",
	},
	{
		"POST", func(r *http.Request) { r.Method, r.Body, r.ContentLength = "POST", plain{strings.NewReader("abc")}, 3 },
		"POST /path HTTP/1.1\r\nHost: upstream.test\r\nContent-Length: 3\r\n\r\nabc",
	},
	{
		"GET with a body", func(r *http.Request) { r.Body, r.ContentLength = plain{strings.NewReader("abc")}, 3 },
		"GET /path HTTP/1.1\r\nHost: upstream.test\r\nContent-Length: 3\r\n\r\nabc",
	},
	{"trailer without chunks", func(r *http.Request) {
		r.Trailer, r.Body, r.ContentLength = http.Header{"A": {"b"}}, plain{strings.NewReader("abc")}, 3
	}, "GET /path HTTP/1.1\r\nHost: upstream.test\r\nContent-Length: 3\r\n\r\nabc"},
}

func TestRequestBytes(t *testing.T) {
	for _, tt := range written {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(okAnswer, 0)
			req := get()
			tt.edit(req)
			mustFetch(t, New(Config{Dial: dialling(s)}), req)
			if got := s.said(); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestRequestRefused(t *testing.T) {
	noConn := func(context.Context) (net.Conn, error) { return nil, errors.New("dialled") }
	for _, tt := range []struct {
		name string
		edit func(*http.Request)
	}{
		{"method", func(r *http.Request) { r.Method = "GET / HTTP/1.1\r\n" }},
		{"blank in the method", func(r *http.Request) { r.Method = "G T" }},
		{"host with a line end", func(r *http.Request) { r.Host = "a\r\nX: y" }},
		{"host with a blank", func(r *http.Request) { r.Host = "a b" }},
		{"host with a slash", func(r *http.Request) { r.Host = "a/b" }},
		{"host in UTF-8", func(r *http.Request) { r.Host = "ä.test" }},
		{"no host", func(r *http.Request) { r.URL.Host = "" }},
		{"target with a line end", func(r *http.Request) { r.URL.Opaque = "/ HTTP/1.1\r\nX: y" }},
		{"target with a blank", func(r *http.Request) { r.URL.Opaque = "/a b" }},
		{"target without a slash", func(r *http.Request) { r.URL.Opaque = "a" }},
		{"query with a blank", func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1" }},
		{"query with DEL", func(r *http.Request) { r.URL.RawQuery = "a\x7f" }},
		{"name with a line end", func(r *http.Request) { r.Header["X\r\nY"] = []string{"a"} }},
		{"name with a colon", func(r *http.Request) { r.Header["X: y"] = []string{"a"} }},
		{"empty name", func(r *http.Request) { r.Header[""] = []string{"a"} }},
		{"value with CR LF", func(r *http.Request) { r.Header["X"] = []string{"a\r\nY: z"} }},
		{"value with LF", func(r *http.Request) { r.Header["X"] = []string{"ok", "a\nY: z"} }},
		{"value with NUL", func(r *http.Request) { r.Header["X"] = []string{"a\x00"} }},
		{"name of a trailer", func(r *http.Request) {
			r.Trailer, r.Body, r.ContentLength = http.Header{"A\r\nB": nil}, plain{strings.NewReader("abc")}, -1
		}},
		{"body too short", func(r *http.Request) { r.Body, r.ContentLength = plain{strings.NewReader("ab")}, 3 }},
		{"body too long", func(r *http.Request) { r.Body, r.ContentLength = plain{strings.NewReader("abcd")}, 3 }},
		{"length without a body", func(r *http.Request) { r.ContentLength = 3 }},
		{"no URL", func(r *http.Request) { r.URL = nil }},
		{"no header", func(r *http.Request) { r.Header = nil }},
		{"another scheme", func(r *http.Request) { r.URL.Scheme = "https" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := get()
			tt.edit(req)
			body := &closing{Reader: req.Body}
			if req.Body != nil {
				req.Body = body
			}
			_, err := New(Config{Dial: noConn}).RoundTrip(req)
			if err == nil || strings.Contains(err.Error(), "dialled") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want an error before anything is dialled", err)
			}
			if req.Body != nil && !body.closed {
				t.Error("the body was not closed")
			}
		})
	}
}

// closing notes that it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// fallback notes that it was asked.
type fallback struct{ asked, idle int }

func (f *fallback) RoundTrip(*http.Request) (*http.Response, error) {
	f.asked++
	return nil, errors.New("fallback")
}

func (f *fallback) CloseIdleConnections() { f.idle++ }

func TestFallback(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*http.Request)
		want int
	}{
		{"plain", func(*http.Request) {}, 0},
		{"connection", func(r *http.Request) { r.Header["Connection"] = []string{"te, close"} }, 0},
		{"https", func(r *http.Request) { r.URL.Scheme = "https" }, 1},
		{"CONNECT", func(r *http.Request) { r.Method = "CONNECT" }, 1},
		{"upgrade", func(r *http.Request) { r.Header["Upgrade"] = []string{"websocket"} }, 1},
		{"connection upgrade", func(r *http.Request) { r.Header["Connection"] = []string{"te", "x , Upgrade"} }, 1},
		{"expect", func(r *http.Request) { r.Header["Expect"] = []string{"100-continue"} }, 1},
		{"transfer encoding", func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, 1},
		{"an authority", func(r *http.Request) { r.URL.Opaque = "//other.test/" }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f fallback
			req := get()
			tt.edit(req)
			_, err := New(Config{Dial: dialling(newScript(okAnswer, 0)), Fallback: &f}).RoundTrip(req)
			if f.asked != tt.want || (err != nil) != (tt.want > 0) {
				t.Errorf("asked %d times, want %d; %v", f.asked, tt.want, err)
			}
		})
	}
	var f fallback
	if New(Config{Fallback: &f}).CloseIdleConnections(); f.idle != 1 {
		t.Errorf("the fallback's connections were closed %d times, want 1", f.idle)
	}
}

// What a server of the standard library sees is what was asked for.
func TestRequestSeenByServer(t *testing.T) {
	type seen struct {
		Method, Target, Host, Body string
		Header, Trailer            http.Header
		Length                     int64
	}
	got := make(chan seen, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		delete(r.Header, "Content-Length") // is in the length
		got <- seen{r.Method, r.RequestURI, r.Host, string(body), r.Header, r.Trailer, r.ContentLength}
	}))
	defer server.Close()
	tr := New(Config{Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
	}, MaxIdle: 1})
	defer tr.CloseIdleConnections()

	for _, size := range []int{0, 1, maxSmallBody - 1, maxSmallBody, maxSmallBody + 1, pieceBytes, 5*pieceBytes + 17} {
		for _, length := range []int64{int64(size), -1, 0} {
			body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
			req := &http.Request{
				Method: http.MethodPost, Host: "example.com", URL: &url.URL{Scheme: "http", Host: "u", Path: "/a b", RawQuery: "c=d"},
				Header: http.Header{"X-Several": {"a", "b"}, "Content-Type": {"text/plain"}, "X-Taken": {"header"}},
				Body:   plain{strings.NewReader(body)}, ContentLength: length,
				Trailer: http.Header{"X-Sum": nil, "Authorization": nil, "X-Taken": nil},
			}
			want := seen{"POST", "/a%20b?c=d", "example.com", body, req.Header, nil, int64(size)}
			if length != int64(size) || size == 0 { // zero with a body means that nobody knows
				want.Length = -1
				want.Trailer = http.Header{"X-Sum": {"1"}}
				req.Body = &summing{Reader: strings.NewReader(body), trailer: req.Trailer}
			}
			mustFetch(t, tr, req)
			if g := <-got; !reflect.DeepEqual(g, want) {
				g.Body, want.Body = g.Body[:min(20, len(g.Body))], want.Body[:min(20, len(want.Body))]
				t.Errorf("%d bytes as %d: got %+v, want %+v", size, length, g, want)
			}
		}
	}
}

// summing fills in the trailer at the end of the body, as a server's body does.
type summing struct {
	io.Reader
	trailer http.Header
}

func (s *summing) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err == io.EOF {
		s.trailer["X-Sum"] = []string{"1"}
		s.trailer["Authorization"] = []string{"Basic x"}
		s.trailer["X-Taken"] = []string{"trailer"}
	}
	return n, err
}

func (*summing) Close() error { return nil }

// One write carries the request, since each costs as much as the rest.
func TestOneWrite(t *testing.T) {
	s := &counting{script: newScript(okAnswer, 0)}
	mustFetch(t, New(Config{Dial: dialling(s)}), post(strings.Repeat("x", maxSmallBody)))
	if !slices.Equal(s.writes, []int{len(s.said())}) {
		t.Errorf("writes of %v bytes, want one", s.writes)
	}
}

type counting struct {
	*script
	writes []int
}

func (c *counting) Write(p []byte) (int, error) {
	c.writes = append(c.writes, len(p))
	return c.script.Write(p)
}

func TestTrailerValueRefused(t *testing.T) {
	heard := make(chan error, 1)
	u := listen(t, Config{}, func(_ int, c net.Conn, r *bufio.Reader) {
		_, _, err := hear(r)
		heard <- err
	})
	req := request(http.MethodPost, "abc", -1)
	req.Trailer = http.Header{"X-Sum": {"a\r\nb"}}
	if _, _, err := fetch(u, req); err == nil || !strings.Contains(err.Error(), "X-Sum") {
		t.Errorf("got %v, want an error about X-Sum", err)
	}
	if <-heard == nil {
		t.Error("the upstream heard a complete request")
	}
}
