package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/proxy"
)

// requests is a request rule: so many in a window.
func requests(d limits.Dimension, limit int, window time.Duration) limits.Rule {
	return limits.Rule{Class: limits.Requests, Dimension: d, Limit: limit, Window: window}
}

// failures is a failure rule.
func failures(d limits.Dimension, limit int, window time.Duration) limits.Rule {
	return limits.Rule{Class: limits.Failures, Dimension: d, Limit: limit, Window: window}
}

// otp is the policy of the contract's example: one mail per mailbox in an hour.
func otp(edit func(*proxy.Policy)) policy {
	return policy{name: "native-otp", target: []string{"json:/email"}, rules: []limits.Rule{requests(limits.Target, 1, time.Hour)}, edit: edit}
}

// refused sends a request that is admitted, waits, and sends a second one that is refused.
func refused(t *testing.T, s setup, second *http.Request) (answer *httptest.ResponseRecorder, g *gate) {
	t.Helper()
	if s.backend == nil {
		s.backend, _ = answering(200, "sent")
	}
	g = newGate(t, s)
	if w := g.ask(post("/native-otp", `{"email":"a@example.org"}`)); w.Code != 200 {
		t.Fatalf("the first request got %d", w.Code)
	}
	time.Sleep(31 * time.Minute)
	return g.ask(second), g
}

// The contract of a refusal, to the byte [R1].
func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, g := refused(t, setup{policies: []policy{otp(nil)}}, post("/native-otp", `{"email":"A@example.org "}`))
		id := w.Header().Get("X-Request-Id")
		want := http.Header{
			"Retry-After":    {"1740"},
			"Content-Type":   {"application/json"},
			"Content-Length": {"92"},
			"Cache-Control":  {"no-store"},
			"X-Request-Id":   {id},
		}
		if len(id) != 32 {
			t.Errorf("got request id %q, want 32 hex digits", id)
		}
		if w.Code != 429 || fmt.Sprint(w.Header()) != fmt.Sprint(want) {
			t.Errorf("got %d %v, want 429 %v", w.Code, w.Header(), want)
		}
		const body = `{"error":"rate_limited","policy":"native-otp","dimension":"target","retryAfterSeconds":1740}`
		if w.Body.String() != body {
			t.Errorf("got  %s\nwant %s", w.Body, body)
		}
		if n := g.events.count("rejected native-otp target enforce default"); n != 1 {
			t.Errorf("got %d rejections told, want 1: %v", n, g.events)
		}
	})
}

func TestRefusalForms(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	origins := func(p *proxy.Policy) { p.CORSOrigins = []string{"https://app.example.org"} }
	everyone := func(p *proxy.Policy) { p.CORSOrigins = []string{"*"} }
	const exposed = "Retry-After, RateLimit, RateLimit-Policy, X-Request-ID"
	for _, test := range []struct {
		name   string
		edit   func(*proxy.Policy)
		header []string
		want   map[string]string // header; "" is absent
		page   bool
	}{
		{"a script", nil, []string{"Accept: application/json", "Sec-Fetch-Mode: cors"}, nil, false},
		{"a browser that navigates", nil, []string{"Accept: " + browser, "Sec-Fetch-Mode: navigate"}, map[string]string{
			"Content-Type": "text/html; charset=utf-8", "Retry-After": "1740", "Cache-Control": "no-store", "Vary": "Accept, Sec-Fetch-Mode",
			"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
		}, true},
		{"a navigation that prefers JSON", nil, []string{"Accept: application/json, text/html;q=0.5", "Sec-Fetch-Mode: navigate"}, nil, false},
		{"HTML from a script", nil, []string{"Accept: " + browser}, nil, false},
		{"HTML declined", nil, []string{"Accept: text/html;q=0, */*", "Sec-Fetch-Mode: navigate"}, nil, false},
		{"the configured origin", origins, []string{"Origin: https://app.example.org"}, map[string]string{
			"Access-Control-Allow-Origin": "https://app.example.org", "Access-Control-Allow-Credentials": "true",
			"Access-Control-Expose-Headers": exposed, "Vary": "Origin",
		}, false},
		{"another origin", origins, []string{"Origin: https://evil.example.org"}, map[string]string{
			"Access-Control-Allow-Origin": "", "Access-Control-Allow-Credentials": "", "Vary": "Origin",
		}, false},
		{"no origin", origins, nil, map[string]string{"Access-Control-Allow-Origin": "", "Vary": "Origin"}, false},
		{"any origin", everyone, []string{"Origin: https://evil.example.org"}, map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "", "Access-Control-Expose-Headers": exposed,
		}, false},
		{"no origin configured", nil, []string{"Origin: https://app.example.org"}, map[string]string{"Access-Control-Allow-Origin": "", "Vary": ""}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := refused(t, setup{policies: []policy{otp(test.edit)}}, post("/native-otp", `{"email":"a@example.org"}`, test.header...))
				if w.Code != 429 {
					t.Fatalf("got %d, want 429", w.Code)
				}
				for name, want := range test.want {
					if got := strings.Join(w.Header().Values(name), " | "); got != want {
						t.Errorf("got %s: %q, want %q", name, got, want)
					}
				}
				if test.page {
					for _, want := range []string{"<html lang=\"en\">", "<title>", "<strong>29 minutes</strong>", "<code>native-otp</code>", "<code>target</code>", w.Header().Get("X-Request-Id")} {
						if !strings.Contains(w.Body.String(), want) {
							t.Errorf("the page lacks %s:\n%s", want, w.Body)
						}
					}
				} else if !strings.HasPrefix(w.Body.String(), `{"error":"rate_limited"`) || w.Header().Get("Content-Type") != "application/json" {
					t.Errorf("got %s %s, want JSON", w.Header().Get("Content-Type"), w.Body)
				}
			})
		})
	}
}

// What is left is told for source and client only, on admissions and refusals, and only if the policy says so.
func TestRateLimitFields(t *testing.T) {
	rules := func() []limits.Rule {
		burst := requests(limits.Client, 60, time.Minute)
		burst.Burst = 10
		second := requests(limits.Source, 100, time.Hour)
		second.Index = 1
		return []limits.Rule{requests(limits.Source, 3, time.Minute), second, requests(limits.Target, 2, time.Minute), burst, requests(limits.App, 50, time.Minute)}
	}
	backend, _ := answering(200, "ok")
	ask := func(g *gate) *httptest.ResponseRecorder {
		return g.ask(post("/token", `{"user":"bob"}`, "Authorization: Basic c2hvcDpzZWNyZXQ="))
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, setup{backend: backend, policies: []policy{{
			name: "token", target: []string{"json:/user"}, client: []string{"basic"}, rules: rules(),
			edit: func(p *proxy.Policy) { p.RateLimitHeaders = true },
		}}})
		const quotas = `"token-source";q=3;w=60, "token-source-1";q=100;w=3600, "token-client";q=10;w=10`
		for i, want := range []string{
			`"token-source";r=2;t=60, "token-source-1";r=99;t=3600, "token-client";r=9;t=1`,
			`"token-source";r=1;t=60, "token-source-1";r=98;t=3600, "token-client";r=8;t=2`,
			`"token-source";r=1;t=60, "token-source-1";r=98;t=3600, "token-client";r=8;t=2`, // refused: nothing was spent
		} {
			w := ask(g)
			if code := []int{200, 200, 429}[i]; w.Code != code {
				t.Errorf("request %d: got %d, want %d", i, w.Code, code)
			}
			if got := w.Header()["Ratelimit-Policy"]; len(got) != 1 || got[0] != quotas {
				t.Errorf("request %d: got RateLimit-Policy %q, want %q", i, got, quotas)
			}
			if got := w.Header()["Ratelimit"]; len(got) != 1 || got[0] != want {
				t.Errorf("request %d: got RateLimit %q, want %q", i, got, want)
			}
		}
	})
	g := newGate(t, setup{backend: backend, policies: []policy{{name: "token", target: []string{"json:/user"}, client: []string{"basic"}, rules: rules()}}})
	if w := ask(g); w.Header()["Ratelimit"] != nil || w.Header()["Ratelimit-Policy"] != nil {
		t.Errorf("got %v, want no RateLimit fields that nobody asked for", w.Header())
	}
}

// Among several refusals the one with the longest wait is told; ties go to the first policy, then to the dimensions' order [L10].
func TestWhichRefusalIsTold(t *testing.T) {
	everything := []string{"json:/user"}
	match := func(name string, rules ...limits.Rule) policy {
		p := policy{name: name, target: everything, rules: rules}
		p.match = append(p.match, loginRoute)
		return p
	}
	for _, test := range []struct {
		name     string
		policies []policy
		want     string
	}{
		{"the longest wait", []policy{match("a", requests(limits.Source, 1, time.Minute)), match("b", requests(limits.App, 1, time.Hour))}, `"policy":"b","dimension":"app","retryAfterSeconds":3600`},
		{"ties: the first policy", []policy{match("a", requests(limits.App, 1, time.Minute)), match("b", requests(limits.Source, 1, time.Minute))}, `"policy":"a","dimension":"app","retryAfterSeconds":60`},
		{"ties: the first dimension", []policy{match("a", requests(limits.Source, 1, time.Minute), requests(limits.Target, 1, time.Minute))}, `"policy":"a","dimension":"source","retryAfterSeconds":60`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend, sent := answering(200, "ok")
				g := newGate(t, setup{backend: backend, policies: test.policies})
				g.ask(post("/login", `{"user":"bob"}`))
				w := g.ask(post("/login", `{"user":"bob"}`))
				if !strings.Contains(w.Body.String(), test.want) || w.Code != 429 {
					t.Errorf("got %d %s, want 429 with %s", w.Code, w.Body, test.want)
				}
				if sent.count() != 1 {
					t.Errorf("the backend got %d requests, want 1", sent.count())
				}
			})
		})
	}
}

func TestRefusalOfHead(t *testing.T) {
	backend, _ := answering(200, "")
	g := newGate(t, setup{backend: backend, policies: []policy{{name: "list", match: allOf("/list"), rules: []limits.Rule{requests(limits.Source, 1, time.Hour)}}}})
	g.ask(httptest.NewRequest("GET", "/list", nil))
	addr := g.serve()
	c := dial(t, addr)
	for range 2 { // the second shows that nothing was left over on the connection
		c.write("HEAD /list HTTP/1.1\r\nHost: x\r\n\r\n")
		c.request = &http.Request{Method: "HEAD"}
		res, body := c.read()
		if res.StatusCode != 200 && res.StatusCode != 429 || body != "" || res.ContentLength <= 0 && res.StatusCode == 429 {
			t.Errorf("got %d, length %d, %q", res.StatusCode, res.ContentLength, body)
		}
	}
	if g.events.count("served list 429") != 1 {
		t.Errorf("got %v, want one refused HEAD", g.events)
	}
}

// A client that sends all of a large upload before it reads gets its refusal all the same, and the connection stays usable.
func TestRefusalOfAnUpload(t *testing.T) {
	const size = 20 << 20
	chunk := strings.Repeat("x", 1<<20)
	backend, sent := answering(200, "")
	for _, test := range []struct {
		name   string
		header string
		send   func(w io.Writer) error
		close  bool // the connection is not kept
	}{
		{"content length", fmt.Sprintf("Content-Length: %d\r\n", size), func(w io.Writer) error { return repeat(w, chunk, 20) }, false},
		{"chunked", "Transfer-Encoding: chunked\r\n", chunked(chunk, 20), false},
		{"content length, not waiting for 100", fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n", size), func(w io.Writer) error { return repeat(w, chunk, 20) }, true},
		{"chunked, not waiting for 100", "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", chunked(chunk, 20), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGate(t, setup{backend: backend, policies: []policy{{name: "upload", rules: []limits.Rule{requests(limits.Source, 1, time.Hour)}}}})
			g.ask(from("127.0.0.1", post("/upload", "")))
			c := dial(t, g.serve())
			c.write("POST /upload HTTP/1.1\r\nHost: x\r\n" + test.header + "\r\n")
			if err := test.send(c.Conn); err != nil {
				t.Fatalf("the upload broke off: %v", err)
			}
			res, body := c.read()
			if res.StatusCode != 429 || !strings.HasPrefix(body, `{"error":"rate_limited","policy":"upload","dimension":"source"`) {
				t.Fatalf("got %d %q, want the refusal", res.StatusCode, body)
			}
			if res.Close != test.close {
				t.Errorf("got close %v, want %v", res.Close, test.close)
			}
			if test.close {
				return
			}
			c.write("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
			if res, _ := c.read(); res.StatusCode != 429 {
				t.Errorf("got %d on the same connection, want 429", res.StatusCode)
			}
		})
	}
	if sent.count() != 4 { // those that filled the buckets
		t.Errorf("the backend got %d requests, want 4", sent.count())
	}
}

// A client that waits for 100 (Continue) is told no at once, and does not hold the gateway up for long.
func TestRefusalInPlaceOfContinue(t *testing.T) {
	backend, _ := answering(200, "")
	g := newGate(t, setup{backend: backend, policies: []policy{{name: "upload", rules: []limits.Rule{requests(limits.Source, 1, time.Hour)}}}})
	g.ask(from("127.0.0.1", post("/upload", "")))
	c := dial(t, g.serve())
	began := time.Now()
	c.write("POST /upload HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 20000000\r\n\r\n")
	res, body := c.read()
	if res.StatusCode != 429 || !strings.Contains(body, "rate_limited") || !res.Close {
		t.Errorf("got %d %q, close %v; want the refusal, and that the connection ends", res.StatusCode, body, res.Close)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("the answer took %v", took)
	}
	if _, err := c.in.ReadByte(); err != io.EOF { // within the deadline of the connection
		t.Errorf("got %v, want the connection closed", err)
	}
}

func repeat(w io.Writer, s string, n int) error {
	for range n {
		if _, err := io.WriteString(w, s); err != nil {
			return err
		}
	}
	return nil
}

func chunked(chunk string, n int) func(io.Writer) error {
	return func(w io.Writer) error {
		if err := repeat(w, fmt.Sprintf("%x\r\n%s\r\n", len(chunk), chunk), n); err != nil {
			return err
		}
		_, err := io.WriteString(w, "0\r\n\r\n")
		return err
	}
}

// conn is a client that says exactly what a test writes.
type conn struct {
	net.Conn
	t       *testing.T
	in      *bufio.Reader
	request *http.Request // that the next answer is for; nil: a GET
}

func dial(t *testing.T, addr string) *conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return &conn{Conn: c, t: t, in: bufio.NewReader(c)}
}

func (c *conn) write(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, s); err != nil {
		c.t.Fatalf("writing: %v", err)
	}
}

// head reads the next answer's header.
func (c *conn) head() *http.Response {
	c.t.Helper()
	res, err := http.ReadResponse(c.in, c.request)
	if err != nil {
		c.t.Fatalf("reading an answer: %v", err)
	}
	return res
}

// read reads the next answer whole.
func (c *conn) read() (*http.Response, string) {
	c.t.Helper()
	res := c.head()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatalf("reading an answer's body: %v", err)
	}
	return res, string(body)
}
