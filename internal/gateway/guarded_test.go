package gateway_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// hasty gives clients little time for the next piece of anything.
func hasty(yaml string) string {
	return strings.Replace(yaml, "server: {", "server: {read_body_timeout: 200ms, ", 1)
}

// TestClientsThatTakeNothing: a client that asks again and again and never reads loses its connection, whoever answers it and
// however small the answers are.
func TestClientsThatTakeNothing(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "a", "a.test")
	yaml := settings(backend(t, http.NotFoundHandler()), loginPolicy("target: {limit: 5, window: 1h}"))
	plain, secure := start(t, hasty(yaml)), start(t, hasty(secured(yaml, dir, "", "a")))
	for name, open := range map[string]func() (net.Conn, error){
		"plain": func() (net.Conn, error) { return net.Dial("tcp", plain.g.Addr().String()) },
		"TLS": func() (net.Conn, error) {
			return tls.Dial("tcp", secure.g.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: "a.test"})
		},
	} {
		for kind, request := range map[string]string{
			"answers of the backend": "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n",
			"answers of our own":     "POST /login HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{",
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				c, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(30 * time.Second))
				many := strings.Repeat(request, 1000)
				for err == nil {
					_, err = io.WriteString(c, many)
				}
				if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
					t.Error("the connection is still open")
				}
			})
		}
	}
}

// TestStreamsThatTakeNothing: a stream of HTTP/2 whose client leaves no room for the answer ends, and its connection lives.
func TestStreamsThatTakeNothing(t *testing.T) {
	s := start(t, hasty(settings(backend(t, http.NotFoundHandler()), loginPolicy("target: {limit: 5, window: 1h}"))))
	for _, path := range []string{"/x", "/login"} {
		c, err := net.Dial("tcp", s.g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, http2.ClientPreface)
		f := http2.NewFramer(c, c)
		_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		var block bytes.Buffer
		h := hpack.NewEncoder(&block)
		for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "a.test"}, {":path", path}, {"content-type", "application/json"}} {
			_ = h.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
		_ = f.WriteData(1, true, []byte("{"))
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Errorf("%s: the stream did not end: %v", path, err)
				break
			}
			if _, reset := frame.(*http2.RSTStreamFrame); reset && frame.Header().StreamID == 1 {
				break
			}
		}
	}
}

// Between the pieces of an answer the backend may take as long as it likes, however small the answer is.
func TestPiecesOfAnAnswer(t *testing.T) {
	b := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "8")
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(600 * time.Millisecond) // of thought, which nothing can be waited for in
		_, _ = io.WriteString(w, "end")
	})
	dir := t.TempDir()
	root := pair(t, dir, "a", "a.test")
	yaml := settings(backend(t, b), "")
	plain, secure := start(t, hasty(yaml)), start(t, hasty(secured(yaml, dir, "", "a")))
	for name, client := range clientsOf(t, plain, secure, root) {
		t.Run(name, func(t *testing.T) {
			c, base := client()
			res, err := c.Get(base + "/")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			if string(text) != "beginend" || err != nil {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
}

// A client that takes a little all the time is slow, and no more than that.
func TestSlowReader(t *testing.T) {
	const size = 24 << 20
	b := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.CopyN(w, zeros{}, size)
	})
	s := start(t, hasty(settings(backend(t, b), "")))
	c, err := net.Dial("tcp", s.g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(10 * time.Millisecond) {
		if _, err := io.ReadFull(c, make([]byte, 4<<10)); err != nil {
			t.Fatalf("cut off after %s: %v", time.Since(began), err)
		}
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(c, size/2)); n != size/2 || err != nil {
		t.Errorf("got %d more, %v", n, err)
	}
}

// Clients beyond max_connections wait until another one has left, in whatever way.
func TestMaxConnections(t *testing.T) {
	yaml := settings(backend(t, http.NotFoundHandler()), "")
	s := start(t, strings.Replace(yaml, "server: {", "server: {max_connections: 2, ", 1))
	open := func(request string) (c net.Conn, answered func(time.Duration) bool) {
		c, err := net.Dial("tcp", s.g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, request)
		return c, func(within time.Duration) bool {
			_ = c.SetReadDeadline(time.Now().Add(within))
			n, _ := c.Read(make([]byte, 4096))
			return n > 0
		}
	}
	const (
		plain     = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
		handedOn  = "GET / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
		enough    = 10 * time.Second
		malformed = "GET / HTTP/9.9\r\n\r\n"
	)
	first, answered := open(plain)
	expect(t, "the first is answered", answered(enough), true)
	second, answered := open(handedOn)
	expect(t, "the second is answered", answered(enough), true)
	third, answered := open(malformed)
	expect(t, "the third is answered", answered(100*time.Millisecond), false)
	_ = first.Close()
	expect(t, "the third is answered in the place of the first", answered(enough), true)
	_, answered = open(plain)
	_ = third.Close() // which the gateway has closed before
	expect(t, "the fourth is answered in the place of the third", answered(enough), true)
	_, answered = open(plain)
	expect(t, "the fifth is answered", answered(100*time.Millisecond), false)
	_ = second.Close()
	expect(t, "the fifth is answered in the place of the second", answered(enough), true)
}

// On a connection that has switched to another protocol, one side may have its last word and the other go on.
func TestLastWord(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "a", "a.test")
	heard := make(chan string, 1)
	yaml := settings(backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
		if r.URL.Path == "/first" {
			_ = c.(*net.TCPConn).CloseWrite()
		}
		said, _ := io.ReadAll(c)
		if r.URL.Path != "/first" {
			_, _ = io.WriteString(c, "and I")
		}
		heard <- string(said)
	})), "")
	plain, secure := start(t, yaml), start(t, secured(yaml, dir, "", "a"))
	for name, open := range map[string]func() (net.Conn, error){
		"plain": func() (net.Conn, error) { return net.Dial("tcp", plain.g.Addr().String()) },
		"TLS": func() (net.Conn, error) {
			return tls.Dial("tcp", secure.g.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: "a.test"})
		},
	} {
		for path, want := range map[string]string{"/first": "", "/second": "and I"} {
			t.Run(name+path, func(t *testing.T) {
				c, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
				in := bufio.NewReader(c)
				if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
					t.Fatalf("got %v, %v; want the switch", res, err)
				}
				if want == "" {
					if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
						t.Errorf("got %q, %v; want the backend's last word", rest, err)
					}
				}
				_, _ = io.WriteString(c, "I say")
				_ = c.(interface{ CloseWrite() error }).CloseWrite()
				expect(t, "what the backend heard", <-heard, "I say")
				if rest, err := io.ReadAll(in); string(rest) != want || err != nil {
					t.Errorf("got %q, %v; want %q", rest, err, want)
				}
			})
		}
	}
}
