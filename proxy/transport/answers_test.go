package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// outcome is all that a caller can tell of an answer.
type outcome struct {
	Status           string
	StatusCode       int
	Proto            string
	Header           http.Header
	Body             string
	ContentLength    int64
	TransferEncoding []string
	Close            bool
	Trailer          http.Header
}

func outcomeOf(res *http.Response, body string) outcome {
	return outcome{
		res.Status, res.StatusCode, res.Proto, res.Header, body, res.ContentLength, res.TransferEncoding, res.Close, res.Trailer,
	}
}

// standard is http.Transport on a connection.
func standard(c net.Conn) *http.Transport {
	return &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return c, nil },
		DisableKeepAlives:  true, // or it logs what follows an answer
		DisableCompression: true,
	}
}

var accepted = []struct {
	name   string
	method string // GET if empty
	raw    string
	status int
	header http.Header
	body   string
	length int64
	keep   bool // the connection
}{
	{
		name: "sized", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\nhello", status: 200,
		header: http.Header{"Content-Length": {"5"}, "A": {"b"}}, body: "hello", length: 5, keep: true,
	},
	{
		name: "empty", raw: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200,
		header: http.Header{"Content-Length": {"0"}}, keep: true,
	},
	{
		name: "no reason", raw: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", status: 200,
		header: http.Header{"Content-Length": {"0"}}, keep: true,
	},
	{
		name: "empty reason", raw: "HTTP/1.1 299 \r\nContent-Length: 0\r\n\r\n", status: 299,
		header: http.Header{"Content-Length": {"0"}}, keep: true,
	},
	{
		name: "a reason in UTF-8", raw: "HTTP/1.1 404 Nö\r\nContent-Length: 0\r\n\r\n", status: 404,
		header: http.Header{"Content-Length": {"0"}}, keep: true,
	},
	{name: "no header", raw: "HTTP/1.1 200 OK\r\n\r\nto the end", status: 200, header: http.Header{}, body: "to the end", length: -1},
	{
		name: "chunked", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\n", status: 200,
		header: http.Header{}, body: "abc0123456789", length: -1, keep: true,
	},
	{
		name: "chunked, spelled otherwise", raw: "HTTP/1.1 200 OK\r\ntransfer-encoding: \t CHUNKED\r\n\r\n3 \r\nabc\r\n0;x=\"y\"\r\n\r\n", status: 200,
		header: http.Header{}, body: "abc", length: -1, keep: true,
	},
	{
		name: "chunked and empty", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 200,
		header: http.Header{}, length: -1, keep: true,
	},
	{
		name: "chunked in single bytes", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", 30_000) + "0\r\n\r\n", status: 200,
		header: http.Header{}, body: strings.Repeat("x", 30_000), length: -1, keep: true,
	},
	{
		name: "equal lengths", raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", status: 200,
		header: http.Header{"Content-Length": {"2"}}, body: "ok", length: 2, keep: true,
	},
	{
		name: "several values", raw: "HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nB: c\r\nSET-COOKIE:\tb=2 \t\r\nEmpty:\r\nContent-Length: 0\r\n\r\n", status: 200,
		header: http.Header{"Set-Cookie": {"a=1", "b=2"}, "B": {"c"}, "Empty": {""}, "Content-Length": {"0"}}, keep: true,
	},
	{
		name: "strange names", raw: "HTTP/1.1 200 OK\r\n!x_y: 1\r\n9: 2\r\nContent-Length: 0\r\n\r\n", status: 200,
		header: http.Header{"!x_y": {"1"}, "9": {"2"}, "Content-Length": {"0"}}, keep: true,
	},
	{
		name: "HEAD with a length", method: "HEAD", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", status: 200,
		header: http.Header{"Content-Length": {"5"}}, length: 5, keep: true,
	},
	{name: "HEAD without", method: "HEAD", raw: "HTTP/1.1 200 OK\r\n\r\n", status: 200, header: http.Header{}, length: -1, keep: true},
	{
		name: "HEAD, chunked", method: "HEAD", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", status: 200,
		header: http.Header{}, length: -1, keep: true,
	},
	{
		name: "HEAD with a body", method: "HEAD", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200,
		header: http.Header{"Content-Length": {"5"}}, length: 5,
	},
	{name: "204", raw: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, header: http.Header{}, keep: true},
	{
		name: "204 that announces a body", raw: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", status: 204,
		header: http.Header{"Content-Length": {"5"}},
	},
	{name: "204 that is chunked", raw: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", status: 204, header: http.Header{}},
	{
		name: "304 with a length", raw: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: 304,
		header: http.Header{"Content-Length": {"5"}}, keep: true,
	},
	{
		name: "connection: close", raw: "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 2\r\n\r\nok", status: 200,
		header: http.Header{"Connection": {"foo, Close"}, "Content-Length": {"2"}}, body: "ok", length: 2,
	},
	{
		name: "1.0 sized", raw: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200,
		header: http.Header{"Content-Length": {"2"}}, body: "ok", length: 2,
	},
	{
		name: "1.0 kept alive", raw: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", status: 200,
		header: http.Header{"Connection": {"keep-alive"}, "Content-Length": {"2"}}, body: "ok", length: 2, keep: true,
	},
	{
		name: "1.0 to the end", raw: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nto the end", status: 200,
		header: http.Header{"Connection": {"keep-alive"}}, body: "to the end", length: -1,
	},
	{
		name: "more than the answer", raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + okAnswer, status: 200,
		header: http.Header{"Content-Length": {"2"}}, body: "ok", length: 2,
	},
	{name: "more than the chunks", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx", status: 200, header: http.Header{}, length: -1},
	{
		name: "after 1xx", raw: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + okAnswer, status: 200,
		header: http.Header{"Content-Length": {"2"}}, body: "ok", length: 2, keep: true,
	},
	{
		name: "a large header", raw: "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 60_000) + "\r\nContent-Length: 2\r\n\r\nok", status: 200,
		header: http.Header{"A": {strings.Repeat("x", 60_000)}, "Content-Length": {"2"}}, body: "ok", length: 2, keep: true,
	},
	{
		name: "a large body", raw: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n%0300000d", 7), status: 200,
		header: http.Header{"Content-Length": {"300000"}}, body: fmt.Sprintf("%0300000d", 7), length: 300_000, keep: true,
	},
	{
		name: "a large chunk", raw: fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n%0300000d\r\n0\r\n\r\n", 7), status: 200,
		header: http.Header{}, body: fmt.Sprintf("%0300000d", 7), length: -1, keep: true,
	},
}

func TestAnswers(t *testing.T) {
	for _, tt := range accepted {
		for _, step := range []int{0, 1, 7} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, step), func(t *testing.T) {
				s := newScript(tt.raw, step)
				tr := New(Config{Dial: dialling(s), MaxIdle: 1})
				defer tr.CloseIdleConnections()
				req := request(tt.method, "", 0)
				res, body, err := fetch(tr, req)
				if err != nil {
					t.Fatal(err)
				}
				if res.StatusCode != tt.status || body != tt.body || !reflect.DeepEqual(res.Header, tt.header) || res.ContentLength != tt.length {
					t.Errorf("got %+v, want %+v", outcomeOf(res, body), tt)
				}
				if res.Request != req {
					t.Error("the response does not know its request")
				}
				// When bytes come one by one, those after an answer are found at the next use.
				unread := tt.name == "HEAD with a body" || strings.HasPrefix(tt.name, "more")
				if kept := tr.waiting() == 1; kept != tt.keep && (step == 0 || !unread) || s.closed == kept {
					t.Errorf("kept: %v, want %v; closed: %v", kept, tt.keep, s.closed)
				}
			})
		}
	}
}

// The same answers over sockets, each from a connection that was used before.
func TestAnswersOverSockets(t *testing.T) {
	for _, tt := range accepted {
		t.Run(tt.name, func(t *testing.T) {
			u := listen(t, Config{MaxIdle: 1}, func(_ int, c net.Conn, r *bufio.Reader) {
				for _, answer := range []string{okAnswer, tt.raw} {
					if _, _, err := hear(r); err != nil {
						return
					}
					say(c, answer)
				}
			})
			mustFetch(t, u, get())
			res, body := mustFetch(t, u, request(tt.method, "", 0))
			if res.StatusCode != tt.status || body != tt.body || !reflect.DeepEqual(res.Header, tt.header) {
				t.Errorf("got %+v, want %+v", outcomeOf(res, body), tt)
			}
			if got := u.accepted(); got != 1 {
				t.Errorf("%d connections, want 1", got)
			}
		})
	}
}

// The standard library's transport says the same of each, or the table is wrong.
func TestAnswersAsStandard(t *testing.T) {
	for _, tt := range accepted {
		t.Run(tt.name, func(t *testing.T) { compare(t, tt.method, tt.raw, 0) })
	}
}

var refused = []struct {
	name     string
	method   string
	raw      string
	standard bool // http.Transport takes it
}{
	{name: "nothing", raw: ""},
	{name: "not HTTP", raw: "220 mail.test ESMTP\r\n\r\n"},
	{name: "an empty line first", raw: "\r\n" + okAnswer},
	{name: "another protocol", raw: "HTTQ/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	{name: "version 1.2", raw: "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "version 2.0", raw: "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "version 0.9", raw: "HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "lower case", raw: "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	{name: "two digits", raw: "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"},
	{name: "four digits", raw: "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"},
	{name: "below 100", raw: "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "below 100, then another", raw: "HTTP/1.1 099 OK\r\n\r\n" + okAnswer, standard: true},
	{name: "signed status", raw: "HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "two blanks", raw: "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "a tab", raw: "HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n"},
	{name: "a tab before the reason", raw: "HTTP/1.1 200\tOK\r\nContent-Length: 0\r\n\r\n"},
	{name: "a control in the reason", raw: "HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "status line only", raw: "HTTP/1.1 200 OK\r\n"},
	{name: "header without an end", raw: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"},
	{name: "101", raw: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", standard: true},

	{name: "LF after the status", raw: "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "LF after a field", raw: "HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n", standard: true},
	{name: "LF at the end", raw: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\n", standard: true},
	{name: "LF instead of a line", raw: "HTTP/1.1 200 OK\r\nA: b\r\n\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "CR in a value", raw: "HTTP/1.1 200 OK\r\nA: b\rc: d\r\nContent-Length: 0\r\n\r\n"},
	{name: "CR CR LF", raw: "HTTP/1.1 200 OK\r\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "NUL in a value", raw: "HTTP/1.1 200 OK\r\nA: b\x00c\r\nContent-Length: 0\r\n\r\n"},
	{name: "DEL in a value", raw: "HTTP/1.1 200 OK\r\nA: b\x7fc\r\nContent-Length: 0\r\n\r\n"},
	{name: "a folded line", raw: "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "a folded first line", raw: "HTTP/1.1 200 OK\r\n A: b\r\nContent-Length: 0\r\n\r\n"},
	{name: "a blank before the colon", raw: "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", standard: true},
	{name: "a blank in a name", raw: "HTTP/1.1 200 OK\r\nA b: c\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "no name", raw: "HTTP/1.1 200 OK\r\n: c\r\nContent-Length: 0\r\n\r\n"},
	{name: "no colon", raw: "HTTP/1.1 200 OK\r\nabc\r\nContent-Length: 0\r\n\r\n"},
	{name: "a name in UTF-8", raw: "HTTP/1.1 200 OK\r\nNäme: c\r\nContent-Length: 0\r\n\r\n"},
	{name: "header beyond the bound", raw: "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 70_000) + "\r\nContent-Length: 0\r\n\r\n", standard: true},
	{name: "a line that does not end", raw: strings.Repeat("x", 200_000)},

	{name: "length and coding", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", standard: true},
	{name: "length and coding, HEAD", method: "HEAD", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", standard: true},
	{name: "different lengths", raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"},
	{name: "differently spelled lengths", raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 02\r\n\r\nok"},
	{name: "list of lengths", raw: "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok"},
	{name: "negative length", raw: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"},
	{name: "signed length", raw: "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok"},
	{name: "hexadecimal length", raw: "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok"},
	{name: "empty length", raw: "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n"},
	{name: "huge length", raw: "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551618\r\n\r\nok"},
	{name: "bad length, 204", raw: "HTTP/1.1 204 No Content\r\nContent-Length: x\r\n\r\n"},
	{name: "bad length, HEAD", method: "HEAD", raw: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"},
	{name: "gzip, chunked", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
	{name: "identity", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok"},
	{name: "chunked twice", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{name: "empty coding", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n"},
	{name: "chunked with a parameter", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked;x\r\n\r\n0\r\n\r\n"},
	{name: "chunked in 1.0", raw: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", standard: true},
	{name: "1xx with a length", raw: "HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\n" + okAnswer, standard: true},
	{name: "1xx that is chunked", raw: "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n" + okAnswer, standard: true},
	{name: "1xx only", raw: "HTTP/1.1 100 Continue\r\n\r\n"},
	{name: "1xx without end", raw: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 1000) + okAnswer, standard: true},

	{name: "short body", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"},
	{name: "no chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
	{name: "no last chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"},
	{name: "no end of trailer", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"},
	{name: "short chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabc\r\n0\r\n\r\n"},
	{name: "long chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n"},
	{name: "no size", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n"},
	{name: "an empty line for a size", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n"},
	{name: "no size but an extension", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;0\r\n\r\n"},
	{name: "size of an extension", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;3\r\nabc\r\n0\r\n\r\n"},
	{name: "signed size", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n"},
	{name: "prefixed size", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n"},
	{name: "blank before the size", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n 3\r\nabc\r\n0\r\n\r\n"},
	{name: "two sizes", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3 3\r\nabc\r\n0\r\n\r\n"},
	{name: "overflowing size", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n"},
	{name: "size of 16 digits", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0000000000000003\r\nabc\r\n0\r\n\r\n", standard: true},
	{name: "LF after a size", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n"},
	{name: "LF after the last size", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00\n\r\n"},
	{name: "other bytes after data", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXY0\r\n\r\n"},
	{name: "CR in an extension", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a\rb\r\nabc\r\n0\r\n\r\n"},
	{name: "control in an extension", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a\x01b\r\nabc\r\n0\r\n\r\n", standard: true},
	{name: "LF after data", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n"},
	{name: "long extension", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;" + strings.Repeat("x", 2000) + "\r\nabc\r\n0\r\n\r\n", standard: true},
	{name: "many extensions", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
		strings.Repeat("3;"+strings.Repeat("x", 500)+"\r\nabc\r\n", 20) + "0\r\n\r\n", standard: true},
	{name: "bad trailer", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nabc\r\n\r\n"},
	{name: "folded trailer", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n c\r\n\r\n", standard: true},
	{name: "LF in a trailer", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n", standard: false},
	{name: "large trailer", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + strings.Repeat("x", 5000) + "\r\n\r\n"},
	{name: "length as trailer, announced", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: content-length\r\n\r\n0\r\n\r\n"},
}

func TestAnswersRefused(t *testing.T) {
	for _, tt := range refused {
		for _, step := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, step), func(t *testing.T) {
				s := newScript(tt.raw, step)
				tr := New(Config{Dial: dialling(s), MaxIdle: 1})
				res, body, err := fetch(tr, request(tt.method, "", 0))
				if err == nil {
					t.Fatalf("got %+v, want an error", outcomeOf(res, body))
				}
				if msg := err.Error(); !strings.HasPrefix(msg, "reading the answer") && tt.raw != "" || strings.Contains(msg, "\n") {
					t.Errorf("the error reads %q", msg)
				}
				if isTimeout(err) {
					t.Errorf("%v is no matter of time", err)
				}
				if tr.waiting() != 0 || !s.closed {
					t.Error("the connection was kept")
				}
			})
		}
		// That the standard library's transport refuses it too, or that we are the stricter one.
		t.Run(tt.name+"/standard", func(t *testing.T) {
			res, err := standard(newScript(tt.raw, 0)).RoundTrip(request(tt.method, "", 0))
			if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
				_, err = io.ReadAll(res.Body)
			}
			if got := err == nil; got != tt.standard {
				t.Errorf("taken by http.Transport: %v (%v), want %v", got, err, tt.standard)
			}
		})
	}
}

// Lines without an end are not waited for.
func TestLinesAreBounded(t *testing.T) {
	for _, start := range []string{
		"HTTP/1.1 200 OK",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ",
	} {
		s := newScript(start+strings.Repeat("1", 1<<20), 1000)
		_, _, err := fetch(New(Config{Dial: dialling(s)}), get())
		if read := 1<<20 - len(s.rest); !errors.Is(err, errTooLarge) || read > 2*defaultMaxHeaderBytes {
			t.Errorf("after %q: got %v after %d bytes", start, err, read)
		}
	}
}

func TestMaxHeaderBytes(t *testing.T) {
	raw := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
	for _, tt := range []struct {
		limit int
		ok    bool
	}{{len(raw), true}, {len(raw) - 1, false}} {
		_, _, err := fetch(New(Config{Dial: dialling(newScript(raw+"ok", 0)), MaxHeaderBytes: tt.limit}), get())
		if ok := err == nil; ok != tt.ok || !ok && !errors.Is(err, errTooLarge) {
			t.Errorf("limit %d: %v, want ok: %v", tt.limit, err, tt.ok)
		}
	}
}

func TestTrailers(t *testing.T) {
	for _, tt := range []struct {
		name      string
		raw       string
		announced http.Header
		want      http.Header
	}{
		{"none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", nil, nil},
		{
			"announced", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum, Other\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n",
			http.Header{"X-Sum": nil, "Other": nil},
			http.Header{"X-Sum": {"1", "2"}, "Other": nil},
		},
		{"not announced", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n", nil, http.Header{"X-Sum": {"1"}}},
		{
			"unsafe", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Set-Cookie, not a name\r\n\r\n" +
				"0\r\nSet-Cookie: a\r\ncontent-length: 5\r\nIf-Match: x\r\nTransfer-Encoding: x\r\nHost: x\r\n\r\n", nil, nil,
		},
	} {
		for _, step := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, step), func(t *testing.T) {
				tr := New(Config{Dial: dialling(newScript(tt.raw, step)), MaxIdle: 1})
				defer tr.CloseIdleConnections()
				res, err := tr.RoundTrip(get())
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(res.Trailer, tt.announced) {
					t.Errorf("announced %v, want %v", res.Trailer, tt.announced)
				}
				if _, ok := res.Header["Trailer"]; ok {
					t.Error("the announcement stayed in the header")
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(res.Trailer, tt.want) {
					t.Errorf("got %v, want %v", res.Trailer, tt.want)
				}
				if tr.waiting() != 1 {
					t.Error("the connection was not kept")
				}
			})
		}
	}
}

// A body's end comes with its last bytes if that is known, so that a copy ends without another read.
func TestEndWithLastBytes(t *testing.T) {
	for _, raw := range []string{okAnswer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"} {
		tr := New(Config{Dial: dialling(newScript(raw, 0)), MaxIdle: 1})
		res, err := tr.RoundTrip(get())
		if err != nil {
			t.Fatal(err)
		}
		n, err := res.Body.Read(make([]byte, 100))
		if n != 2 || err != io.EOF || tr.waiting() != 1 {
			t.Errorf("read %d bytes, %v, with %d connections kept; want 2, EOF, 1", n, err, tr.waiting())
		}
		if n, err := res.Body.Read(make([]byte, 100)); n != 0 || err != io.EOF {
			t.Errorf("then read %d bytes, %v; want 0, EOF", n, err)
		}
		tr.CloseIdleConnections()
	}
}
