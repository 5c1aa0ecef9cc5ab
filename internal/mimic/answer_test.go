package mimic

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestNewAnswer(t *testing.T) {
	for _, tc := range []struct {
		name    string
		form    Form
		status  int
		headers map[string]string
		body    string
		want    string // as the wire has it, or the error
	}{
		{"nothing but a body", Failure, 0, nil, `{"a":1}`, "401 Content-Length: 7 Content-Type: application/json"},
		{"a success", Success, 0, nil, "[]", "200 Content-Length: 2 Content-Type: application/json"},
		{"a page", Failure, 200, nil, "\n<p>", "200 Content-Length: 4 Content-Type: text/html; charset=utf-8"},
		{"a text", Failure, 403, nil, "no", "403 Content-Length: 2 Content-Type: text/plain; charset=utf-8"},
		{"its own type", Failure, 400, map[string]string{"content-type": "text/x"}, "no", "400 Content-Length: 2 Content-Type: text/x"},
		{"a redirect", Failure, 302, map[string]string{"Location": "/login?error"}, "", "302 Content-Length: 0 Location: /login?error"},
		{"no content", Success, 204, nil, "", "204"},
		{"no content, and some", Success, 204, nil, "x", "body: an answer of status 204 has none"},
		{"no status", Failure, 99, nil, "", "status: 99 is no status of an answer; use 200 to 599"},
		{"no name", Failure, 0, map[string]string{"a b": "c"}, "", `headers: "a b" is no header name`},
		{"no value", Failure, 0, map[string]string{"a": "c\nd: e"}, "", "headers: the value of A cannot stand in a header"},
		{"twice", Failure, 0, map[string]string{"x-a": "1", "X-A": "2"}, "", "headers: X-A is there twice"},
		{
			"what cannot be the same", Failure, 0,
			map[string]string{"Set-Cookie": "a=b", "Retry-After": "1", "Date": "now", "Connection": "close", "Content-Length": "7"},
			"",
			"headers: Connection cannot be the same in every answer\nheaders: Content-Length cannot be the same in every answer\n" +
				"headers: Date cannot be the same in every answer\nheaders: Retry-After cannot be the same in every answer\n" +
				"headers: Set-Cookie cannot be the same in every answer",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := NewAnswer(tc.form, tc.status, tc.headers, tc.body)
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint(a.Status)
				for _, name := range sortedNames(a.Header) {
					got += " " + name + ": " + a.Header.Get(name)
				}
				if string(a.Body) != tc.body {
					t.Errorf("got body %q, want %q", a.Body, tc.body)
				}
			} else if a.Status != 0 {
				t.Errorf("got an answer along with the error: %+v", a)
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// exchanged is what goes over the wire in answer to one request, but for the Date.
func exchanged(t *testing.T, method string, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", method)
	var out strings.Builder
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "Date: ") {
			fmt.Fprintln(&out, lines.Text())
		}
	}
	return out.String()
}

// What a refusal sends is what a proxy would have sent for the answer that it was learned from, byte for byte.
func TestSend(t *testing.T) {
	for _, tc := range []struct {
		name, method string
		real         http.HandlerFunc // as the proxy passes it on
	}{
		{"with a length", "POST", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Header()["Content-Length"] = []string{"2"}
			w.WriteHeader(401)
			_, _ = io.WriteString(w, "{}")
		}},
		{"in chunks", "POST", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{"text/html"}
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "<p>no</p>")
		}},
		{"without a type", "POST", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			w.Header()["Content-Length"] = []string{"9"}
			w.Header()["X-B"] = []string{"1", "2"}
			w.WriteHeader(403)
			_, _ = io.WriteString(w, "<p>no</p>")
		}},
		{"without a body", "POST", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			w.WriteHeader(204)
		}},
		{"to HEAD", "HEAD", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{"text/html"}
			w.Header()["Content-Length"] = []string{"900"}
			w.WriteHeader(401)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			recorded := httptest.NewRecorder()
			tc.real(recorded, nil)
			a := Answer{Status: recorded.Code, Header: recorded.Header().Clone(), Body: recorded.Body.Bytes()}
			if a.Header["Content-Type"] == nil {
				delete(a.Header, "Content-Type")
			}
			b := learning(t, Config{})
			k := key
			k.Method = tc.method
			b.Observe(k, login(a, 1, 1))
			b.Observe(k, login(a, 2, 1))
			if state(t, b).Shows != Learned {
				t.Fatalf("got %+v, want it learned", state(t, b))
			}
			got := exchanged(t, tc.method, func(w http.ResponseWriter, r *http.Request) {
				if err := b.Answer(k).Send(w, r.Method); err != nil {
					t.Error(err)
				}
			})
			if want := exchanged(t, tc.method, tc.real); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	base := "401\nContent-Type: text/html\nSet-Cookie: s=1; Path=/\nDate: today\n\nno"
	for _, tc := range []struct {
		name, real, refused string
		want                []string
	}{
		{"the same", base, base, nil},
		{"another day, another session", base, "401\nContent-Type: text/html\nSet-Cookie: s=2\nDate: tomorrow\nX-Request-Id: 5\n\nno", nil},
		{"status", base, "403\nContent-Type: text/html\nSet-Cookie: s=1\n\nno", []string{"status: really 401, refused 403"}},
		{"a header too few", "401\nX-A: 1\n\nno", "401\n\nno", []string{"header X-A: only the real answer has it"}},
		{"a header too many", "401\n\nno", "401\nRetry-After: 1\n\nno", []string{"header Retry-After: only the refusal has it"}},
		{"a header of another value", "401\nX-A: 1\n\nno", "401\nX-A: 2\n\nno", []string{"header X-A: another value"}},
		{"cookies", base, "401\nContent-Type: text/html\nSet-Cookie: t=1\nSet-Cookie: a=\n\nno", []string{"cookies: really s, refused a t"}},
		{"body", "401\n\nno", "401\n\nyes", []string{"body: really 2 bytes, refused 3"}},
		{"body of the same length", "401\n\nno", "401\n\non", []string{"body: another text of the same length"}},
		{"of this connection", "401\nConnection: X-Hop\nX-Hop: 1\nKeep-Alive: 5\n\nno", "401\n\nno", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Compare(raw(tc.real), raw(tc.refused)); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	chunked := raw(base)
	delete(chunked.Header, "Content-Length")
	if got, want := Compare(chunked, raw(base)), []string{"header Content-Length: only the refusal has it"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKindOf(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, tc := range []struct {
		name, header, want string
	}{
		{"nothing", "", "any none unknown"},
		{"a browser's form", "Accept: " + browser + "\nContent-Type: application/x-www-form-urlencoded\nSec-Fetch-Mode: navigate", "html form navigate"},
		{"an upload", "Accept: */*\nContent-Type: multipart/form-data; boundary=x", "any form unknown"},
		{"a script", "Accept: application/json, text/plain, */*\nContent-Type: application/json; charset=utf-8\nSec-Fetch-Mode: cors", "json json script"},
		{"an old script", "Accept: text/html\nX-Requested-With: XMLHttpRequest", "html none script"},
		{"a dialect of JSON", "Accept: application/problem+json\nContent-Type: application/vnd.api+json", "json json unknown"},
		{"by quality", "Accept: text/html;q=0.5, application/json;q=0.9", "json none unknown"},
		{"by order", "Accept: application/json, text/html", "json none unknown"},
		{"refused", "Accept: text/html;q=0, application/json;level=1;q=0.1", "json none unknown"},
		{"several lines", "Accept: image/png\nAccept: text/html", "html none unknown"},
		{"something else", "Accept: image/png\nContent-Type: text/xml", "other other unknown"},
		{"nonsense", "Accept: text/html;q=x,,;\nContent-Type: ;", "any none unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &http.Request{Header: raw("200\n" + tc.header + "\n\n").Header}
			if got := KindOf(r).String(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	names := make(map[string]bool)
	for k := range Kind(kinds) {
		names[k.String()] = true
	}
	if len(names) != kinds || Kind(kinds).String() != "unknown" {
		t.Errorf("got %d names, want %d different ones", len(names), kinds)
	}
}

func TestCapture(t *testing.T) {
	long := strings.Repeat("x", MaxBody)
	for _, tc := range []struct {
		name   string
		body   string
		header http.Header
		read   int // bytes; -1: to the end
		want   bool
	}{
		{"all of it", "no", nil, -1, true},
		{"empty", "", nil, -1, true},
		{"with a length", "no", http.Header{"Content-Length": {"2"}}, -1, true},
		{"with a length, the end not read", "no", http.Header{"Content-Length": {"2"}}, 2, true},
		{"the end not read", "no", nil, 2, false},
		{"a part", "no", http.Header{"Content-Length": {"2"}}, 1, false},
		{"as long as may be", long, nil, -1, true},
		{"too long", long + "x", nil, -1, false},
		{"too long by its length", "no", http.Header{"Content-Length": {"65537"}}, -1, false},
		{"compressed", "no", http.Header{"Content-Encoding": {"gzip"}}, -1, false},
		{"not compressed", "no", http.Header{"Content-Encoding": {"identity"}}, -1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ends := 0
			var c *Capture
			c = NewCapture(io.NopCloser(iotest.OneByteReader(strings.NewReader(tc.body))), tc.header, func() {
				ends++
				if body, whole := c.Body(); whole != tc.want || whole && string(body) != tc.body {
					t.Errorf("got %d bytes, whole: %v, want %v", len(body), whole, tc.want)
				}
			})
			var got []byte
			if tc.read < 0 {
				got, _ = io.ReadAll(c)
			} else {
				got = make([]byte, tc.read)
				_, _ = io.ReadFull(c, got)
			}
			if want := tc.body[:len(got)]; string(got) != want || tc.read < 0 && len(got) != len(tc.body) {
				t.Errorf("got %d bytes on their way, want %d", len(got), len(tc.body))
			}
			_ = c.Close()
			_ = c.Close()
			if ends != 1 {
				t.Errorf("got %d ends, want 1", ends)
			}
		})
	}

	c := NewCapture(io.NopCloser(strings.NewReader("no")), nil, nil)
	c.Discard()
	if rest, err := io.ReadAll(c); string(rest) != "no" || err != nil {
		t.Errorf("got %q %v, want the body all the same", rest, err)
	}
	if body, whole := c.Body(); body != nil || whole {
		t.Errorf("got %q %v of a discarded copy, want nothing", body, whole)
	}
}
