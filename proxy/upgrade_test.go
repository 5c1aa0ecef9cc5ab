package proxy_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"authgate/proxy"
)

const handshake = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"

// switched is a backend that switches to another protocol, and tells what became of both directions.
func switched(t *testing.T, talk func(*conn)) string {
	return scripted(t, func(c *conn) {
		if r, _ := c.ask(); r == nil || r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
			t.Errorf("the backend got %v", r)
			return
		}
		c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-Accept: yes\r\n\r\n")
		talk(c)
	})
}

// shake opens a connection and switches it.
func shake(t *testing.T, addr, more string) *conn {
	t.Helper()
	c := dial(t, addr)
	c.write(handshake + more)
	res := c.head()
	if res.StatusCode != 101 || res.Header.Get("Upgrade") != "WebSocket" || res.Header.Get("Sec-Accept") != "yes" || res.Header.Get("X-Request-Id") == "" {
		t.Fatalf("got %d %v", res.StatusCode, res.Header)
	}
	return c
}

func (c *conn) expect(want string) {
	c.t.Helper()
	buf := make([]byte, len(want))
	if _, err := io.ReadFull(c.in, buf); err != nil || string(buf) != want {
		c.t.Errorf("got %q, %v; want %q", buf, err, want)
	}
}

func (c *conn) closeWrite() { _ = c.Conn.(*net.TCPConn).CloseWrite() }

func TestUpgrade(t *testing.T) {
	ended := make(chan error, 1)
	url := switched(t, func(c *conn) {
		c.expect("early")
		c.write("hello")
		c.expect("one")
		c.write("two")
		_, err := c.in.ReadByte() // the client has said its last word, and still listens
		c.write("last")
		ended <- err
	})
	g := newGate(t, setup{url: url})
	c := shake(t, g.serve(), "early") // what was sent along with the handshake is not lost
	c.expect("hello")
	c.write("one")
	c.expect("two")
	c.closeWrite()
	c.expect("last")
	if err := <-ended; err != io.EOF {
		t.Errorf("the backend got %v, want the end", err)
	}
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
	g.handler.Close() // waits until the exchange has ended
	eventually(t, "the access log line", func() bool { return len(g.log.lines("request")) == 1 })
	if line := g.log.lines("request")[0]; line["status"] != 101.0 {
		t.Errorf("got %v, want status 101 logged", line)
	}
}

// The backend may have its last word first.
func TestUpgradeEndedByTheBackend(t *testing.T) {
	got := make(chan string, 1)
	url := switched(t, func(c *conn) {
		c.write("bye")
		c.closeWrite()
		rest, _ := io.ReadAll(c.in)
		got <- string(rest)
	})
	c := shake(t, open(t, url), "")
	c.expect("bye")
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
	c.write("me too")
	c.closeWrite()
	if rest := <-got; rest != "me too" {
		t.Errorf("the backend got %q after its last word", rest)
	}
}

// A side that is lost takes the other one with it.
func TestUpgradeBrokenOff(t *testing.T) {
	ended := make(chan error, 1)
	url := switched(t, func(c *conn) {
		c.write("x")
		_, err := io.Copy(io.Discard, c.in)
		if err == nil {
			_, err = c.Write(make([]byte, 10<<20)) // nobody is there to take it
		}
		ended <- err
	})
	c := shake(t, open(t, url), "")
	c.expect("x")
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	if err := <-ended; err == nil {
		t.Error("the backend talks on, want its connection ended")
	}
}

// A stopping gateway ends the connections that its server no longer knows.
func TestUpgradeEndsWithTheGateway(t *testing.T) {
	ended := make(chan error, 1)
	url := switched(t, func(c *conn) {
		c.write("x")
		_, err := c.in.ReadByte()
		ended <- err
	})
	g := newGate(t, setup{url: url})
	c := shake(t, g.serve(), "")
	c.expect("x")
	g.handler.Close()
	if err := <-ended; err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the backend got %v, want its connection closed", err)
	}
	if _, err := c.in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the client got %v, want its connection closed", err)
	}
}

// Another version of HTTP is no protocol to switch to: requests in it would pass every policy by.
func TestUpgradeToHTTP(t *testing.T) {
	for _, protocol := range []string{"h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.0", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			got := make(chan http.Header, 1)
			url := scripted(t, func(c *conn) {
				r, _ := c.ask()
				got <- r.Header
				c.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			})
			c := dial(t, open(t, url))
			c.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + protocol + "\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
			if res, _ := c.read(); res.StatusCode != 200 {
				t.Errorf("got %d, want an ordinary answer", res.StatusCode)
			}
			h := <-got
			for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
				if h.Get(name) != "" {
					t.Errorf("the backend got %s: %q", name, h.Get(name))
				}
			}
		})
	}
}

// A backend that switches to something else than it was asked for has not understood the question.
func TestUpgradeToAnotherProtocol(t *testing.T) {
	url := scripted(t, func(c *conn) {
		c.ask()
		c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		_, _ = io.Copy(io.Discard, c.in)
	})
	c := dial(t, open(t, url))
	c.write(handshake)
	if res, body := c.read(); res.StatusCode != 502 || body != `{"error":"bad_gateway"}` {
		t.Errorf("got %d %s, want 502", res.StatusCode, body)
	}
}

// A backend that declines to switch gives an ordinary answer.
func TestUpgradeDeclined(t *testing.T) {
	url := scripted(t, func(c *conn) {
		for {
			if r, _ := c.ask(); r == nil {
				return
			}
			c.write("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\nno")
		}
	})
	c := dial(t, open(t, url))
	for range 2 { // the connection stays one of HTTP
		c.write(handshake)
		if res, body := c.read(); res.StatusCode != 426 || body != "no" {
			t.Errorf("got %d %q", res.StatusCode, body)
		}
	}
}

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// duplex is one end of a connection in memory, each half of which can be closed.
type duplex struct {
	*io.PipeReader
	*io.PipeWriter
}

func newDuplex() (a, b duplex) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return duplex{r1, w2}, duplex{r2, w1}
}

func (d duplex) CloseWrite() error { return d.PipeWriter.Close() }

func (d duplex) Close() error {
	_ = d.PipeReader.Close()
	return d.PipeWriter.Close()
}

// Who has nobody to listen to any more may talk on, as long as something is said now and then. As long as both talk, silence is no end.
func TestUpgradeAfterTheLastWord(t *testing.T) {
	for name, first := range map[string]func(client, backend duplex) (over, silent duplex){
		"the backend's": func(client, backend duplex) (over, silent duplex) { return backend, client },
		"the client's":  func(client, backend duplex) (over, silent duplex) { return client, backend },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, near := newDuplex()
				backend, far := newDuplex()
				ended := make(chan struct{})
				go func() { proxy.Join(near, near, far); close(ended) }()
				over, silent := first(client, backend)
				joined := func() bool {
					synctest.Wait()
					select {
					case <-ended:
						return true
					default:
						return false
					}
				}
				time.Sleep(24 * time.Hour)
				go func() {
					b := make([]byte, 100)
					for {
						n, err := over.Read(b)
						if err != nil {
							return
						}
						if string(b[:n]) == "wait" {
							time.Sleep(5 * time.Minute)
						}
					}
				}()
				_ = over.CloseWrite()
				for range 100 {
					time.Sleep(50 * time.Second)
					if _, err := silent.Write([]byte("still here")); err != nil || joined() {
						t.Fatalf("cut off while it talks: %v", err)
					}
				}
				for _, word := range []string{"wait", "a long word"} { // what is said and not yet taken is no silence
					if _, err := silent.Write([]byte(word)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(4 * time.Minute)
				if joined() {
					t.Fatal("cut off in the middle of a word")
				}
				time.Sleep(time.Minute)
				time.Sleep(3 * time.Minute)
				if !joined() {
					t.Error("both stay open though nothing is said")
				}
				if _, err := silent.Write([]byte("x")); err == nil {
					t.Error("the silent side was not closed")
				}
				_ = client.Close()
				_ = backend.Close()
			})
		})
	}
}
