package proxy_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authgate/limits"
	"authgate/proxy"
)

// A backend that closes idle connections is dialled again, and what may have reached it is never sent twice.
func TestIdleConnections(t *testing.T) {
	var requests atomic.Int32
	url := scripted(t, func(c *conn) {
		c.ask()
		requests.Add(1)
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") // and closes without saying so
	})
	g := newGate(t, setup{url: url, policies: []policy{named(100, nil)}})
	addr := g.serve()
	for i := range 20 {
		c := dial(t, addr)
		c.write("POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{\"user\":\"bob\"}")
		if res, _ := c.read(); res.StatusCode != 200 && res.StatusCode != 502 {
			t.Errorf("request %d got %d", i, res.StatusCode)
		}
	}
	if n := requests.Load(); n > 20 {
		t.Errorf("the backend got %d requests for 20", n)
	}
}

func TestNothingIsSentTwice(t *testing.T) {
	t.Run("HTTP/1.1", func(t *testing.T) { nothingIsSentTwice(t, nil) })
	t.Run("the standard library", func(t *testing.T) { nothingIsSentTwice(t, &http.Transport{}) })
}

// nothingIsSentTwice sends by the transport, or nil for the one that plain HTTP goes by.
func nothingIsSentTwice(t *testing.T, via http.RoundTripper) {
	for _, test := range []struct{ name, head string }{
		{"a body", "POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{\"user\":\"bob\"}"},
		{"no body", "POST /login HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"a key that says one may", "POST /login HTTP/1.1\r\nHost: x\r\nIdempotency-Key: 1\r\nX-Idempotency-Key: 1\r\n\r\n"},
		{"no policy", "POST /other HTTP/1.1\r\nHost: x\r\nIdempotency-Key: 1\r\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var posts atomic.Int32
			url := scripted(t, func(c *conn) {
				for {
					r, _ := c.ask()
					if r == nil {
						return
					}
					if r.Method == "POST" {
						posts.Add(1)
						if strings.Contains(test.head, "Idempotency") && r.Header.Get("Idempotency-Key") != "1" {
							t.Errorf("the backend got %v, want the key", r.Header)
						}
						return // the connection ends without an answer
					}
					c.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			})
			addr := newGate(t, setup{url: url, backend: via, policies: []policy{named(100, nil)}}).serve()
			c := dial(t, addr)
			c.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n") // so that the connection to the backend is not a new one
			c.read()
			c.write(test.head)
			if res, body := c.read(); res.StatusCode != 502 || body != `{"error":"bad_gateway"}` {
				t.Errorf("got %d %q", res.StatusCode, body)
			}
			if n := posts.Load(); n != 1 {
				t.Errorf("the backend got the request %d times", n)
			}
		})
	}
}

// What the backend's trouble looks like to a client, and that nothing of the backend's words gets into the log.
func TestUpstreamTrouble(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	hold := make(chan bool)
	defer close(hold)
	const cookie = "session=hunter2"
	for _, test := range []struct {
		name   string
		script func(*conn)
		status int
		word   string
	}{
		{"nobody listens", nil, 502, "bad_gateway"},
		{"it hangs up", func(c *conn) { c.ask() }, 502, "bad_gateway"},
		{"it speaks no HTTP", func(c *conn) { c.ask(); c.write(cookie + "\r\n\r\n") }, 502, "bad_gateway"},
		{"a broken header", func(c *conn) { c.ask(); c.write("HTTP/1.1 200 OK\r\nSet-Cookie " + cookie + "\r\n\r\n") }, 502, "bad_gateway"},
		{"a broken first line", func(c *conn) { c.ask(); c.write("HTTP/1.1 " + cookie + "\r\n\r\n") }, 502, "bad_gateway"},
		{"it is slow", func(c *conn) { c.ask(); <-hold }, 504, "upstream_timeout"},
		{"another protocol unasked", func(c *conn) {
			c.ask()
			c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		}, 502, "bad_gateway"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := setup{url: "http://" + closed.Addr().String(), upstream: func(u *proxy.UpstreamConfig) { u.ResponseTimeout = 100 * time.Millisecond }}
			if test.script != nil {
				s.url = scripted(t, test.script)
			}
			g := newGate(t, s)
			c := dial(t, g.serve())
			c.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
			res, body := c.read()
			if want := `{"error":"` + test.word + `"}`; res.StatusCode != test.status || body != want || res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("got %d %v %s, want %d %s", res.StatusCode, res.Header, body, test.status, want)
			}
			if lines := g.log.lines("request failed"); len(lines) != 1 || lines[0]["code"] != test.word || lines[0]["error"] == "" {
				t.Errorf("got log lines %v, want one with the cause", lines)
			}
			if strings.Contains(g.log.String(), "hunter2") {
				t.Errorf("the log quotes the backend:\n%s", g.log)
			}
		})
	}
}

// Whoever sends a large body, or waits to be asked for one, learns that the backend fails or has said enough.
func TestTroubleDuringAnUpload(t *testing.T) {
	t.Run("HTTP/1.1", func(t *testing.T) { troubleDuringAnUpload(t, nil) })
	t.Run("the standard library", func(t *testing.T) { troubleDuringAnUpload(t, &http.Transport{ExpectContinueTimeout: time.Second}) })
}

func troubleDuringAnUpload(t *testing.T, via http.RoundTripper) {
	for _, test := range []struct {
		name   string
		script func(*conn)
		wait   bool // for a 100
		want   int
	}{
		{"it hangs up", func(c *conn) { _, _ = http.ReadRequest(c.in) }, false, 502},
		{"it hangs up on somebody who waits", func(c *conn) { _, _ = http.ReadRequest(c.in) }, true, 502},
		{"it has heard enough", func(c *conn) {
			_, _ = http.ReadRequest(c.in)
			c.write("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			_, _ = io.Copy(io.Discard, c.in)
		}, false, 413},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGate(t, setup{url: scripted(t, test.script), backend: via})
			c := dial(t, g.serve())
			began := time.Now()
			if test.wait {
				c.write("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 20971520\r\n\r\n")
			} else {
				c.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20971520\r\n\r\n")
				if err := repeat(c, strings.Repeat("x", 1<<20), 20); err != nil {
					t.Fatalf("the upload broke off: %v", err)
				}
			}
			if res, body := c.read(); res.StatusCode != test.want || time.Since(began) > 2*time.Second {
				t.Errorf("got %d %q after %v, want %d", res.StatusCode, body, time.Since(began), test.want)
			}
		})
	}
}

// Beyond so many calls at once a request is refused rather than queued.
func TestTooManyCalls(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	g := newGate(t, setup{
		backend: backendFunc(func(r *http.Request) (*http.Response, error) {
			entered <- true
			<-leave
			return answer(r, 200, ""), nil
		}),
		upstream: func(u *proxy.UpstreamConfig) { u.MaxInFlight = 1 },
		policies: []policy{{name: "login", target: []string{"json:/user"}, rules: []limits.Rule{failures(limits.Target, 1, time.Hour)}, outcome: verdicts}},
	})
	done := make(chan int, 1)
	go func() { done <- g.ask(post("/other", "")).Code }()
	<-entered
	for range 2 { // the second shows that the first gave back what it had reserved
		w := g.ask(post("/login", `{"user":"bob"}`))
		if w.Code != 503 || w.Body.String() != `{"error":"too_many_requests_in_flight"}` || w.Header().Get("Retry-After") != "1" {
			t.Errorf("got %d %s, Retry-After %q", w.Code, w.Body, w.Header().Get("Retry-After"))
		}
		_ = g.limiter.Wait(t.Context())
	}
	leave <- true
	if code := <-done; code != 200 {
		t.Errorf("the call in flight got %d", code)
	}
}

// A part of an answer must not look like the whole.
func TestTruncatedAnswers(t *testing.T) {
	for _, test := range []struct{ name, answer string }{
		{"a length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"},
		{"a broken chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := scripted(t, func(c *conn) { c.ask(); c.write(test.answer) })
			c := dial(t, open(t, url))
			c.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			res, err := http.ReadResponse(c.in, nil)
			if err != nil {
				return // broken off before the header is as good
			}
			if body, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("got %q as if it were whole", body)
			}
		})
	}
}
