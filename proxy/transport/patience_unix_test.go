//go:build unix

package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// On sockets an exchange does not watch its context from the beginning, but it gets its answer, its time and its end all the same.
func TestPatience(t *testing.T) {
	answers := func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			_, body, err := hear(r)
			if err != nil {
				return
			}
			if body != "never" {
				time.Sleep(20 * time.Millisecond) // longer than the shorter patience, and shorter than the longer one
				say(c, okAnswer)
			}
		}
	}
	for _, tt := range []struct {
		name            string
		patience, limit time.Duration
		body            string
		gone            bool // the context ends before the answer is there
		want            error
	}{
		{"an answer in time", time.Hour, 0, "soon", false, nil},
		{"an answer after it", time.Millisecond, 0, "soon", false, nil},
		{"an answer after it, limited", time.Millisecond, time.Hour, "soon", false, nil},
		{"the limit is shorter", time.Hour, time.Millisecond, "never", false, errTime},
		{"the limit is longer", time.Millisecond, 2 * time.Millisecond, "never", false, errTime},
		{"nobody waits, but the answer is there", time.Hour, 0, "soon", true, nil},
		{"nobody waits", time.Millisecond, 0, "never", true, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := listen(t, Config{ResponseTimeout: tt.limit, MaxIdle: 1}, answers)
			u.patience = tt.patience
			for range 2 { // on a new connection and on a used one
				ctx, cancel := context.WithCancel(context.Background())
				if tt.gone {
					time.AfterFunc(5*time.Millisecond, cancel) // when it waits
				}
				req := post(tt.body).WithContext(ctx)
				_, _, err := fetch(u, req)
				cancel()
				if timeout := tt.want == errTime; timeout != isTimeout(err) || !timeout && !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			}
		})
	}
}

var errTime = errors.New("out of time")

// A request that the system does not take at once is sent all the same, and can be interrupted.
func TestSlowWrite(t *testing.T) {
	body := strings.Repeat("0123456789", 1600)
	for _, read := range []bool{true, false} {
		got := make(chan string, 1)
		release := make(chan struct{})
		u := listen(t, Config{}, func(_ int, c net.Conn, r *bufio.Reader) {
			if !read {
				<-release
				return
			}
			_, body, _ := hear(r)
			got <- body
			say(c, okAnswer)
		})
		dial := u.cfg.Dial
		u.cfg.Dial = func(ctx context.Context) (net.Conn, error) {
			c, err := dial(ctx)
			if err == nil {
				err = c.(*net.TCPConn).SetWriteBuffer(1)
			}
			return c, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		req := post(body).WithContext(ctx)
		if !read {
			// More than both systems keep for a connection, so that the write waits.
			req.Header["X-Long"] = []string{strings.Repeat("x", 16<<20)}
			time.AfterFunc(10*time.Millisecond, cancel)
		}
		_, _, err := fetch(u, req)
		switch {
		case read && (err != nil || <-got != body):
			t.Errorf("got %v, want the whole body to arrive", err)
		case !read && !errors.Is(err, context.Canceled):
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		cancel()
		close(release)
	}
}

// A body that takes long to come takes nothing of the time for the answer, on a connection that has an older limit neither.
func TestPatienceAfterASlowBody(t *testing.T) {
	const patience = 20 * time.Millisecond
	for _, limit := range []time.Duration{0, 2 * patience, 10 * patience} {
		u := listen(t, Config{ResponseTimeout: limit, MaxIdle: 1}, func(_ int, c net.Conn, r *bufio.Reader) {
			for {
				if _, _, err := hear(r); err != nil {
					return
				}
				say(c, okAnswer)
			}
		})
		u.patience = patience
		for _, pause := range []time.Duration{0, patience / 2, 3 * patience, 12 * patience} {
			req := post("abc")
			req.Body = slow{req.Body, pause}
			if res, _, err := fetch(u, req); err != nil || res.StatusCode != 200 {
				t.Errorf("limit %s, after %s: got %v, %v", limit, pause, res, err)
			}
		}
	}
}

// slow is a body that comes after a pause.
type slow struct {
	io.ReadCloser
	pause time.Duration
}

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	return s.ReadCloser.Read(p)
}

// A request that is sent a second time, after the exchange has lost its patience, has its whole time again.
func TestPatienceOfARepeat(t *testing.T) {
	const patience = 10 * time.Millisecond
	var asked atomic.Int32
	u := listen(t, Config{ResponseTimeout: time.Minute, MaxIdle: 1}, func(n int, c net.Conn, r *bufio.Reader) {
		for {
			if _, _, err := hear(r); err != nil {
				return
			}
			switch asked.Add(1) {
			case 2:
				time.Sleep(5 * patience)
				_ = c.Close() // without a byte of an answer, so it is asked again
				return
			case 3:
				time.Sleep(10 * patience)
			}
			say(c, okAnswer)
		}
	})
	u.patience = patience
	for range 2 {
		if _, _, err := fetch(u, get()); err != nil {
			t.Error(err)
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("asked %d times", n)
	}
}
