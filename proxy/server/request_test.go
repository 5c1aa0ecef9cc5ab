package server

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// read parses what is one plain request at most.
func read(b []byte) (*exchange, verdict) {
	x := &exchange{}
	return x, x.parse(b, 0)
}

// readSlowly parses it byte after byte, as it may arrive, until it is known what it is.
func readSlowly(b []byte) (*exchange, verdict) {
	x := &exchange{}
	for n := range b {
		if v := x.parse(b[:n], 0); v != partial {
			return x, v
		}
	}
	return x, x.parse(b, 0)
}

func TestParse(t *testing.T) {
	const get = "GET /a HTTP/1.1\r\nHost: a.test\r\n"
	for _, c := range []struct {
		name, in string
		want     verdict
	}{
		{"the least", get + "\r\n", complete},
		{"with fields", get + "Accept: */*\r\nCookie: a=b\r\nCookie: c=d\r\nX: \r\n\r\n", complete},
		{"a query", "GET /a/../%41?b=c&d#e HTTP/1.1\r\nHost: a.test:80\r\n\r\n", complete},
		{"another method", "M-SEARCH /a HTTP/1.1\r\nHost: a.test\r\n\r\n", complete},
		{"a body", "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc", complete},
		{"a body and more", "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabcGET /", complete},
		{"no body", "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n", complete},
		{"the last request", get + "Connection: close\r\n\r\n", complete},
		{"not the last", get + "Connection: Keep-Alive\r\n\r\n", complete},
		{"bytes above ASCII", get + "X: \xff\xe4\r\n\r\n", complete},

		{"nothing", "", partial},
		{"half a line", "GET /a HT", partial},
		{"half a header", get, partial},
		{"half a line end", get + "\r", partial},
		{"half a body", "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nab", partial},

		{"HTTP/1.0", "GET /a HTTP/1.0\r\nHost: a.test\r\n\r\n", other},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", other},
		{"its beginning by this version", "PRI /a HTTP/1.1\r\nHost: a.test\r\n\r\n", other},
		{"a tunnel", "CONNECT /a HTTP/1.1\r\nHost: a.test\r\n\r\n", other},
		{"an absolute target", "GET http://a.test/a HTTP/1.1\r\nHost: a.test\r\n\r\n", other},
		{"an asterisk", "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", other},
		{"two blanks", "GET  /a HTTP/1.1\r\nHost: a.test\r\n\r\n", other},
		{"a blank in the target", "GET /a b HTTP/1.1\r\nHost: a.test\r\n\r\n", other},
		{"a bad escape", "GET /a%zz HTTP/1.1\r\nHost: a.test\r\n\r\n", other},
		{"a control in the target", "GET /a\x01 HTTP/1.1\r\nHost: a.test\r\n\r\n", other},
		{"a bad method", "G(T /a HTTP/1.1\r\nHost: a.test\r\n\r\n", other},
		{"no host", "GET /a HTTP/1.1\r\nAccept: */*\r\n\r\n", other},
		{"an empty host", "GET /a HTTP/1.1\r\nHost:\r\n\r\n", other},
		{"two hosts", get + "Host: b.test\r\n\r\n", other},
		{"a bad host", "GET /a HTTP/1.1\r\nHost: a.test/b\r\n\r\n", other},
		{"a field without a colon", get + "Accept\r\n\r\n", other},
		{"a field without a name", get + ": a\r\n\r\n", other},
		{"a blank before the colon", get + "Accept : a\r\n\r\n", other},
		{"a folded line", get + "Accept: a,\r\n b\r\n\r\n", other},
		{"a bare LF", get + "Accept: a\nX: b\r\n\r\n", other},
		{"a bare CR", get + "Accept: a\rX: b\r\n\r\n", other},
		{"a NUL", get + "Accept: a\x00\r\n\r\n", other},
		{"chunks", get + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", other},
		{"chunks and a length", get + "Content-Length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", other},
		{"two lengths", get + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", other},
		{"a list of lengths", get + "Content-Length: 3, 3\r\n\r\nabc", other},
		{"no length", get + "Content-Length:\r\n\r\n", other},
		{"a sign", get + "Content-Length: +3\r\n\r\nabc", other},
		{"another base", get + "Content-Length: 0x3\r\n\r\nabc", other},
		{"a body that does not fit", get + "Content-Length: 8192\r\n\r\nabc", other},
		{"a huge body", get + "Content-Length: 99999999999999999999\r\n\r\nabc", other},
		{"an expectation", get + "Expect: 100-continue\r\n\r\n", other},
		{"an upgrade", get + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", other},
		{"an upgrade that nothing nominates", get + "Upgrade: websocket\r\n\r\n", other},
		{"trailers", get + "Trailer: A\r\n\r\n", other},
		{"a nominated field", get + "Connection: close, x-a\r\n\r\n", other},
		{"two fields of the connection", get + "Connection: close\r\nConnection: close\r\n\r\n", other},
		{"no cache", get + "Pragma: no-cache\r\n\r\n", other},
		{"TLS", "\x16\x03\x01\x02\x00\x01\r\n\r\n", other},
	} {
		x, got := read([]byte(c.in))
		if got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
		slowly, v := readSlowly([]byte(c.in))
		if v != got {
			t.Errorf("%s: got %d of the whole, %d byte after byte", c.name, got, v)
		}
		if got == complete {
			agree(t, x, []byte(c.in))
			agree(t, slowly, []byte(c.in))
		}
	}
	if got := (&exchange{}).parse([]byte(get+"\r\n"), 20); got != other {
		t.Errorf("a head above the limit: got %d", got)
	}
}

// agree compares what was parsed with what the standard library reads.
func agree(t *testing.T, x *exchange, in []byte) {
	t.Helper()
	b := bufio.NewReader(bytes.NewReader(in))
	want, err := http.ReadRequest(b)
	if err != nil {
		t.Fatalf("%q was taken for a request, which is %v", in, err)
	}
	body, err := io.ReadAll(want.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := &x.req
	ours, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	if string(ours) != string(body) {
		t.Errorf("%q: body %q, want %q", in, ours, body)
	}
	if rest := len(in) - b.Buffered(); x.size != rest {
		t.Errorf("%q: takes %d bytes, want %d", in, x.size, rest)
	}
	if (got.Body == http.NoBody) != (want.Body == http.NoBody) {
		t.Errorf("%q: there is a body, or is none", in)
	}
	if !maps.EqualFunc(got.Header, want.Header, func(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }) {
		t.Errorf("%q: header %q, want %q", in, got.Header, want.Header)
	}
	g, w := *got, *want
	for _, r := range []*http.Request{&g, &w} {
		r.Body, r.Header = nil, nil
	}
	if !reflect.DeepEqual(&g, &w) {
		t.Errorf("%q: got %+v, want %+v", in, g, w)
	}
}

// FuzzParse: what is taken for a request is one, and the same, for the standard library.
func FuzzParse(f *testing.F) {
	for _, in := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /a%20b/../c;d?e=f&g HTTP/1.1\r\nhost: a.test:8080\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
		"POST //a HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 0\r\nX-A: 1\r\nx-a:  2 \r\n\r\nGET / HTTP/1.1",
		"GET /? HTTP/1.1\r\nHost: a\r\nAccept:\t*/* \r\n\r\n",
		"GET /#a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		x, v := read(in)
		slowly, same := readSlowly(in)
		if same != v {
			t.Errorf("%q: got %d of the whole, %d byte after byte", in, v, same)
		}
		if v == complete {
			agree(t, x, in)
			agree(t, slowly, in)
		}
	})
}
