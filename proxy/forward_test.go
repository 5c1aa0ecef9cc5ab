package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"authgate/limits"
	"authgate/proxy"
)

// scripted starts a backend that does exactly what a test writes, once for each connection.
func scripted(t *testing.T, script func(*conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			go func() {
				defer c.Close()
				script(&conn{Conn: c, t: t, in: bufio.NewReader(c)})
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// ask reads one request from the connection, header and body.
func (c *conn) ask() (*http.Request, string) {
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return nil, ""
	}
	body, _ := io.ReadAll(r.Body)
	return r, string(body)
}

// open is a gate that guards nothing, in front of a real backend, behind a real listener.
func open(t *testing.T, url string) string {
	t.Helper()
	return newGate(t, setup{url: url}).serve()
}

// A request reaches the backend as it was spelled.
func TestTargetIsSentAsItCame(t *testing.T) {
	for _, test := range []struct {
		name, line, base string
		want, host       string // "" is that of the Host header
	}{
		{"plain", "GET /a?b=c HTTP/1.1", "", "/a?b=c", ""},
		{"escapes", "GET /a%2Fb//c?x=%zz; HTTP/1.1", "", "/a%2Fb//c?x=%zz;", ""},
		{"what Go would escape", `GET /a|b"c/{d}^?q="|<> HTTP/1.1`, "", `/a|b"c/{d}^?q="|<>`, ""},
		{"bytes above ASCII", "GET /\xff\xc3\xbc?\xff HTTP/1.1", "", "/\xff\xc3\xbc?\xff", ""},
		{"lower case escapes", "GET /%c3%bc/%2e%2e/x HTTP/1.1", "", "/%c3%bc/%2e%2e/x", ""},
		{"dots", "GET /a/./b/../c HTTP/1.1", "", "/a/./b/../c", ""},
		{"two slashes first", "GET //evil.test/a%2fb?c HTTP/1.1", "", "//evil.test/a%2fb?c", ""},
		{"an empty query", "GET /a? HTTP/1.1", "", "/a?", ""},
		{"a fragment", "GET /a#b HTTP/1.1", "", "/a#b", ""},
		{"params", "GET /a;b=c/d HTTP/1.1", "", "/a;b=c/d", ""},
		{"absolute form", "GET http://other.test/a%2Fb?c HTTP/1.1", "", "/a%2Fb?c", "other.test"},
		{"absolute form without a path", "GET http://other.test?c HTTP/1.1", "", "/?c", "other.test"},
		{"asterisk form", "OPTIONS * HTTP/1.1", "", "*", ""},
		{"below a path", "GET /a%2Fb?c HTTP/1.1", "/auth/", "/auth/a%2Fb?c", ""},
		{"the root below a path", "GET / HTTP/1.1", "/auth", "/auth/", ""},
		{"an unusual method", "PROPFIND /a HTTP/1.1", "", "/a", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := make(chan *http.Request, 1)
			url := scripted(t, func(c *conn) {
				r, _ := c.ask()
				c.write("HTTP/1.1 204 No Content\r\n\r\n")
				got <- r
			})
			c := dial(t, open(t, url+test.base))
			c.write(test.line + "\r\nHost: auth.test\r\n\r\n")
			if res, body := c.read(); res.StatusCode != 204 {
				t.Fatalf("got %d %q", res.StatusCode, body)
			}
			r := <-got
			if test.host == "" {
				test.host = "auth.test"
			}
			if r.RequestURI != test.want || r.Host != test.host || r.Method != strings.Fields(test.line)[0] {
				t.Errorf("the backend got %s %q for %q, want %q for %q", r.Method, r.RequestURI, r.Host, test.want, test.host)
			}
		})
	}
}

// The backend gets the client's own header and nothing that the gateway's transport would add.
func TestHeaderIsSentAsItCame(t *testing.T) {
	var got received
	g := newGate(t, setup{url: backend(t, &got).URL, upstream: func(u *proxy.UpstreamConfig) {
		u.SecretHeader.Name, u.SecretHeader.Value = "x-gateway-proof", "s3cret"
	}})
	c := dial(t, g.serve())
	c.write("GET / HTTP/1.1\r\nHost: auth.test\r\nX-A: 1\r\nX-A: 2\r\nCookie: s=1\r\nx-gateway-proof: forged\r\nConnection: X-B, keep-alive\r\nX-B: 3\r\n\r\n")
	res, _ := c.read()
	want := http.Header{
		"X-A": {"1", "2"}, "Cookie": {"s=1"}, "X-Gateway-Proof": {"s3cret"}, "X-Request-Id": {res.Header.Get("X-Request-Id")},
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"auth.test"}, "X-Forwarded-Port": {"80"},
		"X-Real-Ip": {"127.0.0.1"},
	}
	if h := got.last().header; fmt.Sprint(h) != fmt.Sprint(want) {
		t.Errorf("the backend got %v, want %v", h, want)
	}
}

// The client gets the backend's header, but for what concerns the connection to the backend only.
func TestAnswerHeader(t *testing.T) {
	named := "close, X-Hop"
	if *standard {
		named = "X-Hop" // net/http takes away a field Connection that says close, and does not tell what else it named
	}
	url := scripted(t, func(c *conn) {
		c.ask()
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Odd: \r\nServer: old\r\nDate: Thu, 01 Jan 2015 00:00:00 GMT\r\n" +
			"Connection: " + named + "\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nProxy-Connection: close\r\nUpgrade: h2c\r\n\r\n")
	})
	c := dial(t, open(t, url))
	c.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	res, _ := c.read()
	want := http.Header{
		"Content-Length": {"0"}, "Set-Cookie": {"a=1", "b=2"}, "X-Odd": {""}, "Server": {"old"}, "Date": {"Thu, 01 Jan 2015 00:00:00 GMT"},
		"X-Request-Id": {res.Header.Get("X-Request-Id")},
	}
	if fmt.Sprint(res.Header) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", res.Header, want)
	}
}

func TestOwnHost(t *testing.T) {
	var got received
	s := backend(t, &got)
	g := newGate(t, setup{url: s.URL, upstream: func(u *proxy.UpstreamConfig) { u.OwnHost = true }})
	c := dial(t, g.serve())
	c.write("GET / HTTP/1.1\r\nHost: auth.test\r\n\r\n")
	c.read()
	if host := got.last().host; "http://"+host != s.URL {
		t.Errorf("the backend got Host %q, want its own", host)
	}
}

// A large upload and a large download pass at once, in memory that does not grow with them.
func TestStreamsInConstantMemory(t *testing.T) {
	const size = 10 << 20
	echo := backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		_ = rc.Flush() // the answer begins before the request ends
		buf := make([]byte, 8<<10)
		_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r.Body}, buf)
	}))
	addr := open(t, echo.URL)
	for _, transfer := range []string{"length", "chunked"} {
		t.Run(transfer, func(t *testing.T) {
			c := dial(t, addr)
			block := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
			sent := make(chan error, 1)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			go func() {
				var err error
				if transfer == "length" {
					_, err = fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
				} else {
					_, err = fmt.Fprint(c, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
				}
				for n := 0; n < size && err == nil; n += len(block) {
					if transfer == "chunked" {
						_, _ = fmt.Fprintf(c, "%x\r\n", len(block))
					}
					if _, err = c.Write(block); transfer == "chunked" {
						_, _ = io.WriteString(c, "\r\n")
					}
				}
				if transfer == "chunked" {
					_, err = io.WriteString(c, "0\r\n\r\n")
				}
				sent <- err
			}()
			res := c.head()
			n, buf := 0, make([]byte, 16<<10)
			for {
				m, err := io.ReadFull(res.Body, buf)
				if !bytes.Equal(buf[:m], block[:m]) {
					t.Fatalf("what came back differs after %d bytes", n)
				}
				if n += m; err != nil {
					break
				}
			}
			runtime.ReadMemStats(&after)
			if err := <-sent; err != nil || n != size {
				t.Errorf("got %d bytes back, want %d; %v", n, size, err)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > size/4 {
				t.Errorf("%d bytes were allocated for %d bytes both ways", grown, size)
			}
		})
	}
}

// Whatever has come is passed on before more comes: server-sent events, and answers whose length is known.
func TestAnswersAreNotHeldBack(t *testing.T) {
	for _, test := range []struct{ name, header, first, second string }{
		{"server-sent events", "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked", "d\r\ndata: one\n\n\r\n\r\n", "d\r\ndata: two\n\n\r\n\r\n0\r\n\r\n"},
		{"until the connection ends", "Connection: close", "data: one\n\n\r\n", "data: two\n\n\r\n"},
		{"a known length", "Content-Length: 26", "data: one\n\n\r\n", "data: two\n\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			seen := make(chan bool)
			url := scripted(t, func(c *conn) {
				c.ask()
				c.write("HTTP/1.1 200 OK\r\n" + test.header + "\r\n\r\n")
				<-seen // the header alone is passed on
				c.write(test.first)
				<-seen
				c.write(test.second)
			})
			c := dial(t, open(t, url))
			c.write("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
			if test.name == "a known length" {
				seen <- true // such a header may wait for its body
			}
			res := c.head()
			if test.name != "a known length" {
				seen <- true
			}
			buf := make([]byte, 13)
			for _, want := range []string{"data: one\n\n\r\n", "data: two\n\n\r\n"} {
				if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != want {
					t.Fatalf("got %q, %v; want %q", buf, err, want)
				}
				if want == "data: one\n\n\r\n" {
					seen <- true
				}
			}
			if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
				t.Errorf("got %q, %v at the end", rest, err)
			}
		})
	}
}

func TestTrailers(t *testing.T) {
	got := make(chan http.Header, 2)
	s := backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.Copy(w, r.Body)
		got <- r.Trailer
		w.Header().Set("X-Sum", "2")
		w.Header().Set(http.TrailerPrefix+"X-Unannounced", "3")
	}))
	for _, test := range []struct {
		name     string
		policies []policy
	}{{"streamed", nil}, {"read by a policy", []policy{named(5, nil)}}} {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, newGate(t, setup{url: s.URL, policies: test.policies}).serve())
			c.write("POST /login HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nTrailer: X-In\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-In: 1\r\n\r\n")
			res, body := c.read()
			if body != "abc" || res.Trailer.Get("X-Sum") != "2" || res.Trailer.Get("X-Unannounced") != "3" {
				t.Errorf("the client got %q and trailers %v", body, res.Trailer)
			}
			if in := <-got; in.Get("X-In") != "1" {
				t.Errorf("the backend got trailers %v", in)
			}
		})
	}
}

func TestEarlyHints(t *testing.T) {
	s := backend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(103)
		w.Header().Del("Link")
		w.WriteHeader(200)
	}))
	var hints []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, h.Get("Link")))
		return nil
	}}
	r, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", "http://"+open(t, s.URL), nil)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if fmt.Sprint(hints) != "[103</style.css>; rel=preload]" || res.StatusCode != 200 || res.Header.Get("Link") != "" {
		t.Errorf("got hints %q, then %d with Link %q", hints, res.StatusCode, res.Header.Get("Link"))
	}
	c := dial(t, open(t, s.URL))
	c.write("GET / HTTP/1.0\r\n\r\n")
	if res, _ := c.read(); res.StatusCode != 200 {
		t.Errorf("an old client got %d first, want 200", res.StatusCode)
	}
}

// A hint that comes before the client was asked for its upload must not take the place of the question.
func TestEarlyHintsWaitFor100(t *testing.T) {
	hinting := roundTripper(func(r *http.Request) (*http.Response, error) {
		hint := func(link string) {
			_ = httptrace.ContextClientTrace(r.Context()).Got1xxResponse(103, textproto.MIMEHeader{"Link": {link}})
		}
		hint("before")
		first := make([]byte, 1)
		if _, err := io.ReadFull(r.Body, first); err != nil {
			return nil, err
		}
		hint("after")
		rest, err := io.ReadAll(r.Body)
		return answer(r, 200, string(first)+string(rest)), err
	})
	s := httptest.NewUnstartedServer(newGate(t, setup{backend: hinting}).handler)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	for version := 1; version <= 2; version++ {
		transport := &http.Transport{Protocols: new(http.Protocols), ExpectContinueTimeout: time.Minute}
		transport.Protocols.SetHTTP1(version == 1)
		transport.Protocols.SetUnencryptedHTTP2(version == 2)
		var hints []string
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code != http.StatusContinue {
				hints = append(hints, fmt.Sprint(code, " ", h.Get("Link")))
			}
			return nil
		}}
		r, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", s.URL, strings.NewReader("upload"))
		r.Header.Set("Expect", "100-continue")
		res, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(r)
		if err != nil {
			t.Errorf("HTTP/%d: %v", version, err)
			continue
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		transport.CloseIdleConnections()
		if res.ProtoMajor != version || string(body) != "upload" || fmt.Sprint(hints) != "[103 after]" {
			t.Errorf("HTTP/%d: got %q by %s after hints %q, want the upload after the hint that came later", version, body, res.Proto, hints)
		}
	}
}

// Whether an upload is wanted is asked of the backend itself, unless a policy has to read it anyway.
func TestContinue(t *testing.T) {
	asked := make(chan string, 1)
	url := scripted(t, func(c *conn) {
		r, err := http.ReadRequest(c.in)
		if err != nil {
			return
		}
		asked <- r.Header.Get("Expect")
		if r.URL.Path == "/no" {
			c.write("HTTP/1.1 417 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
		c.write("HTTP/1.1 100 Continue\r\n\r\n")
		body, _ := io.ReadAll(r.Body)
		c.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	})
	addr := newGate(t, setup{url: url, policies: []policy{named(5, nil)}}).serve()
	for _, test := range []struct{ path, expect string }{{"/upload", "100-continue"}, {"/login", ""}} {
		c := dial(t, addr)
		c.write("POST " + test.path + " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
		if line, _ := c.in.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%s: got %q", test.path, line)
		}
		_, _ = c.in.ReadString('\n')
		c.write("abc")
		if res, body := c.read(); res.StatusCode != 200 || body != "abc" {
			t.Errorf("%s: got %d %q", test.path, res.StatusCode, body)
		}
		if got := <-asked; got != test.expect {
			t.Errorf("%s: the backend got Expect: %q, want %q", test.path, got, test.expect)
		}
	}
	c := dial(t, addr)
	c.write("POST /no HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	if res, _ := c.read(); res.StatusCode != 417 {
		t.Errorf("got %d, want the backend's 417", res.StatusCode)
	}
}

// Answers without a body keep what they say of it, and old clients get what they can read.
func TestBodylessAnswers(t *testing.T) {
	for _, test := range []struct {
		name, request, answer string
		status                int
		header                map[string]string // "" is absent
		body                  string
	}{
		{"HEAD", "HEAD / HTTP/1.1", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", 200, map[string]string{"Content-Length": "1234", "Content-Type": ""}, ""},
		{"204", "GET / HTTP/1.1", "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", 204, map[string]string{"X-A": "b", "Content-Length": ""}, ""},
		{"304", "GET / HTTP/1.1", "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\nContent-Length: 1234\r\n\r\n", 304, map[string]string{"Etag": `"x"`}, ""},
		{"an empty 200", "GET / HTTP/1.1", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, map[string]string{"Content-Length": "0"}, ""},
		{"no type", "GET / HTTP/1.1", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", 200, map[string]string{"Content-Type": ""}, "<html>"},
		{"HTTP/1.0", "GET / HTTP/1.0", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200, map[string]string{"Transfer-Encoding": ""}, "abc"},
		{"an old backend", "GET / HTTP/1.1", "HTTP/1.0 200 OK\r\n\r\nabc", 200, nil, "abc"},
		{"an unusual status", "GET / HTTP/1.1", "HTTP/1.1 299 Well\r\nContent-Length: 0\r\n\r\n", 299, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := scripted(t, func(c *conn) { c.ask(); c.write(test.answer) })
			c := dial(t, open(t, url))
			c.write(test.request + "\r\nHost: x\r\n\r\n")
			c.request = &http.Request{Method: strings.Fields(test.request)[0]}
			res, body := c.read()
			if res.StatusCode != test.status || body != test.body {
				t.Errorf("got %d %q, want %d %q", res.StatusCode, body, test.status, test.body)
			}
			for name, want := range test.header {
				if got := res.Header.Get(name); got != want {
					t.Errorf("got %s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestUnixSocketAndBasePath(t *testing.T) {
	var got received
	path := t.TempDir() + "/backend"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: &got}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	c := dial(t, open(t, (&url.URL{Scheme: "unix", Path: path}).String()))
	c.write("GET /a%2Fb HTTP/1.1\r\nHost: auth.test\r\n\r\n")
	if res, body := c.read(); res.StatusCode != 200 {
		t.Fatalf("got %d %s", res.StatusCode, body)
	}
	if in := got.last(); in.uri != "/a%2Fb" || in.host != "auth.test" {
		t.Errorf("the backend got %q for %q", in.uri, in.host)
	}
}

// Trailers pass, but for names that the gateway keeps to itself, in any spelling, announced or not [M5] [C6].
func TestTrailersKeepOut(t *testing.T) {
	got := make(chan http.Header, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Trailer.Clone()
	}))
	defer backend.Close()
	for name, policies := range map[string][]policy{
		"untouched":        nil,
		"a policy's route": {{name: "upload", target: []string{"form:name"}, onMissing: proxy.Skip, rules: []limits.Rule{requests(limits.Target, 100, time.Hour)}}},
	} {
		t.Run(name, func(t *testing.T) {
			front := httptest.NewServer(newGate(t, setup{url: backend.URL, policies: policies}).handler)
			defer front.Close()
			c, err := net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, "POST /upload HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n"+
				"Transfer-Encoding: chunked\r\nTrailer: X-Sum, X_Real_IP, X-Forwarded-For\r\n\r\n3\r\na=b\r\n0\r\nX-Sum: 1\r\nX_Real_IP: 9.9.9.9\r\nX-Forwarded-For: 9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
			if h := <-got; len(h) != 1 || h.Get("X-Sum") != "1" {
				t.Errorf("got trailers %v, want X-Sum alone", h)
			}
		})
	}
}
