//go:build unix

package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// settle waits until the system has delivered what the upstream did to the waiting connection.
func (u *upstream) settle(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for probe := u.pool.idle[0]; ; runtime.Gosched() {
		raw, err := probe.Conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		there := false
		_ = raw.Read(func(fd uintptr) bool {
			there = arrived(fd)
			return true
		})
		if there {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the connection stays quiet")
		}
	}
}

// A connection that was closed or spoken on while it waited is found out before a request is written to it, so that even a
// POST does not fail, and is sent once.
func TestStaleConnection(t *testing.T) {
	for _, tt := range []struct{ name, parting string }{
		{"closed", ""},
		{"408", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
		{"a second answer", okAnswer},
	} {
		for _, size := range []int{10, 100_000} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, size), func(t *testing.T) {
				var posts atomic.Int32
				u := listen(t, Config{MaxIdle: 2}, func(n int, c net.Conn, r *bufio.Reader) {
					for {
						req, _, err := hear(r)
						if err != nil {
							return
						}
						if req.Method == http.MethodPost {
							posts.Add(1)
						}
						say(c, okAnswer)
						if n == 1 {
							say(c, tt.parting)
							return
						}
					}
				})
				res, err := u.RoundTrip(get())
				if err != nil {
					t.Fatal(err)
				}
				// The parting words may come with the answer: then the connection is not kept in the first place.
				if _, err := io.ReadAll(res.Body); err != nil {
					t.Fatal(err)
				}
				if u.waiting() == 1 {
					u.settle(t)
				}
				if _, body := mustFetch(t, u, post(strings.Repeat("x", size))); body != "ok" || posts.Load() != 1 || u.accepted() != 2 {
					t.Errorf("got %q after %d posts on %d connections, want ok, 1, 2", body, posts.Load(), u.accepted())
				}
			})
		}
	}
}

// What the upstream has closed is not held until somebody wants to use it.
func TestSweepFindsClosed(t *testing.T) {
	u := listen(t, Config{MaxIdle: 1, ResponseTimeout: time.Hour}, func(_ int, c net.Conn, r *bufio.Reader) {
		_, _, _ = hear(r)
		say(c, okAnswer)
	})
	mustFetch(t, u, get())
	u.settle(t)
	u.pool.sweep()
	if u.waiting() != 0 {
		t.Error("a closed connection was kept")
	}
	u = listen(t, Config{MaxIdle: 1, ResponseTimeout: time.Hour}, polite)
	mustFetch(t, u, get())
	u.pool.idle[0].SetReadDeadline(past) // the time limit of an earlier answer
	u.pool.sweep()
	if u.waiting() != 1 {
		t.Error("an open connection was not kept")
	}
}

// arrived reports whether there is something to read from a socket, be it its end, and leaves it there.
func arrived(fd uintptr) bool {
	_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
	return err != syscall.EAGAIN
}
