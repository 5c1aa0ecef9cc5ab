package proxy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/limits"
	"authgate/proxy"
)

// received is what a backend got of a request.
type received struct {
	mu     sync.Mutex
	method string
	uri    string
	host   string
	header http.Header
	length int64
	coding []string
	body   []byte
	n      int
}

// ServeHTTP keeps the request and answers 200.
func (r *received) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	body, _ := io.ReadAll(in.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.method, r.uri, r.host, r.header = in.Method, in.RequestURI, in.Host, in.Header
	r.length, r.coding, r.body = in.ContentLength, in.TransferEncoding, body
	r.n++
}

func (r *received) last() received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return received{method: r.method, uri: r.uri, host: r.host, header: r.header, length: r.length, coding: r.coding, body: r.body, n: r.n}
}

// backend starts a real backend.
func backend(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.DisableGeneralOptionsHandler = true
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

// named is a policy that reads the body, with room for so many requests per name.
func named(limit int, edit func(*proxy.Policy)) policy {
	return policy{name: "login", target: []string{"json:/user", "form:user"}, rules: []limits.Rule{requests(limits.Target, limit, time.Hour)}, edit: edit}
}

// A body that a policy reads reaches the backend byte for byte, with its length.
func TestBodyIsReplayed(t *testing.T) {
	const doc = "\ufeff{ \"user\" :\t\"b\\u006fb\",\r\n \"x\": [1e3, \"\u00fc\"] }\n"
	for _, test := range []struct {
		name, header, body string
	}{
		{"JSON", "Content-Type: application/json", doc},
		{"a form", "Content-Type: application/x-www-form-urlencoded", "user=b%6fb&&x=%20+&"},
		{"gzip", "Content-Encoding: gzip", gzipped(doc)},
		{"as large as may be", "Content-Type: application/json", `{"user":"bob"}` + strings.Repeat(" ", 64<<10-14)},
		{"nothing", "Content-Type: application/json", ""},
	} {
		for _, transfer := range []string{"length", "chunked"} {
			t.Run(test.name+" by "+transfer, func(t *testing.T) {
				var got received
				g := newGate(t, setup{url: backend(t, &got).URL, policies: []policy{named(1, nil)}})
				c := dial(t, g.serve())
				c.write("POST /login HTTP/1.1\r\nHost: auth.test\r\n" + test.header + "\r\n")
				if transfer == "length" {
					c.write(fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(test.body), test.body))
				} else {
					c.write("Transfer-Encoding: chunked\r\n\r\n")
					for rest := test.body; rest != ""; {
						n := min(len(rest), 1000)
						c.write(fmt.Sprintf("%x\r\n%s\r\n", n, rest[:n]))
						rest = rest[n:]
					}
					c.write("0\r\n\r\n")
				}
				if res, body := c.read(); res.StatusCode != 200 {
					t.Fatalf("got %d %q", res.StatusCode, body)
				}
				in := got.last()
				if string(in.body) != test.body || in.length != int64(len(test.body)) || in.coding != nil {
					t.Errorf("the backend got %d bytes %.60q by %v, length %d; want %d bytes %.60q", len(in.body), in.body, in.coding, in.length, len(test.body), test.body)
				}
				if test.body == "" {
					return
				}
				// The name was read out of every spelling: its bucket is full.
				if w := g.ask(post("/login", `{"user":"bob"}`)); w.Code != 429 {
					t.Errorf("got %d for the same name, want 429", w.Code)
				}
			})
		}
	}
}

// What a policy cannot read is refused before it counts, and says why in JSON.
func TestUnreadableBodies(t *testing.T) {
	var got received
	url := backend(t, &got).URL
	large := `{"user":"bob"}` + strings.Repeat(" ", 64<<10)
	for _, test := range []struct {
		name, header, rest string
		code               int
		word               string
		half               bool // the client then says no more
	}{
		{"too large by its length", fmt.Sprintf("Content-Length: %d", len(large)), large, 413, "body_too_large", false},
		{"too large in chunks", "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(large), large), 413, "body_too_large", false},
		{"too large once it is decoded", fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d", len(gzipped(large))), gzipped(large), 415, "unreadable_body", false},
		{"an unknown encoding", "Content-Encoding: lzma\r\nContent-Length: 3", "abc", 415, "unreadable_body", false},
		{"no gzip", "Content-Encoding: gzip\r\nContent-Length: 3", "abc", 415, "unreadable_body", false},
		{"an unknown character set", "Content-Type: application/json; charset=ebcdic\r\nContent-Length: 3", "abc", 415, "unreadable_body", false},
		{"a broken chunk", "Transfer-Encoding: chunked", "zz\r\n", 400, "broken_body", false},
		{"too slow", "Content-Length: 100", `{"user":`, 408, "body_timeout", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGate(t, setup{url: url, policies: []policy{named(1, nil)}, bodyTime: 100 * time.Millisecond})
			c := dial(t, g.serve())
			began := time.Now()
			c.write("POST /login HTTP/1.1\r\nHost: x\r\n" + test.header + "\r\n\r\n" + test.rest)
			res, body := c.read()
			if want := fmt.Sprintf(`{"error":"%s"}`, test.word); res.StatusCode != test.code || body != want || res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("got %d %s, want %d %s", res.StatusCode, body, test.code, want)
			}
			if test.half {
				if _, err := c.in.ReadByte(); err != io.EOF || time.Since(began) > time.Second {
					t.Errorf("got %v after %v, want the connection closed soon", err, time.Since(began))
				}
			}
			if w := g.ask(post("/login", `{"user":"bob"}`)); w.Code != 200 {
				t.Errorf("got %d for the same name, want room left", w.Code)
			}
		})
	}
	if n := got.last().n; n != 8 {
		t.Errorf("the backend got %d requests, want only the 8 readable ones", n)
	}
}

// While a policy is in log-only it refuses no body either: what it cannot read goes on as it came [L11].
func TestUnreadableBodiesInLogOnly(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 20_000)
	logOnly := func(p *proxy.Policy) { p.LogOnly = true }
	for _, test := range []struct {
		name, header, body string
		policies           []policy
		kill               bool // the kill switch is on
		code               int
	}{
		{"large", "", large, []policy{named(1, logOnly)}, false, 200},
		{"large, kill switch", "", large, []policy{named(1, nil)}, true, 200},
		{"an unknown encoding", "Content-Encoding: lzma\r\n", "abcdef", []policy{named(1, logOnly)}, false, 200},
		{"large, a policy that asks for a field", "", large, []policy{{name: "login", form: map[string]string{"grant_type": "password"}, rules: []limits.Rule{requests(limits.Source, 1, time.Hour)}, edit: logOnly}}, false, 200},
		{"another policy enforces", "", large, []policy{named(1, logOnly), {name: "other", match: allOf("/login"), target: []string{"json:/user"}, edit: func(p *proxy.Policy) { p.MaxBody = 1000 }}}, false, 413},
	} {
		for _, transfer := range []string{"length", "chunked"} {
			t.Run(test.name+" by "+transfer, func(t *testing.T) {
				var got received
				g := newGate(t, setup{url: backend(t, &got).URL, policies: test.policies})
				if test.kill {
					_ = g.mode.SetLogOnly(t.Context(), time.Minute)
				}
				c := dial(t, g.serve())
				for range 2 { // the second would have been refused
					c.write("POST /login HTTP/1.1\r\nHost: x\r\n" + test.header)
					if transfer == "length" {
						c.write(fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(test.body), test.body))
					} else {
						c.write(fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(test.body), test.body))
					}
					if res, body := c.read(); res.StatusCode != test.code {
						t.Fatalf("got %d %q, want %d", res.StatusCode, body, test.code)
					}
				}
				if test.code != 200 {
					return
				}
				if in := got.last(); string(in.body) != test.body || in.n != 2 {
					t.Errorf("the backend got %d bytes in request %d, want %d bytes in the second", len(in.body), in.n, len(test.body))
				}
				dimension := test.policies[0].rules[0].Dimension
				if n := g.events.count(fmt.Sprintf("rejected login %s log-only default", dimension)); n != 1 {
					t.Errorf("got %v, want one refusal told", g.events)
				}
			})
		}
	}
}

// The buffer of a body serves the next request once this one is over, so a transport that reads on must not see it.
func TestBodyIsTakenAway(t *testing.T) {
	type reading struct {
		text string
		err  error
	}
	late, read := make(chan io.ReadCloser, 1), make(chan reading, 1)
	hasty := roundTripper(func(r *http.Request) (*http.Response, error) {
		late <- r.Body
		return answer(r, 200, "early"), nil
	})
	g := newGate(t, setup{backend: hasty, policies: []policy{named(1, nil)}})
	g.ask(post("/login", `{"user":"bob","password":"hunter2"}`))
	body := <-late
	go func() {
		text, err := io.ReadAll(body)
		read <- reading{string(text), err}
	}()
	if got := <-read; got.err == nil || got.text != "" {
		t.Errorf("got %q, %v after the exchange; want an error and nothing else", got.text, got.err)
	}
}

// roundTripper does not even close the body.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
