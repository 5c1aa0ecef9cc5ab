//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// connections are how many clients ask at once, and people how many different names they ask for.
const (
	connections = 64
	people      = 100_000
)

// tally counts answers by status class.
type tally struct{ passed, refused, other atomic.Int64 }

func (t *tally) add(status int) {
	switch status {
	case http.StatusOK:
		t.passed.Add(1)
	case http.StatusTooManyRequests:
		t.refused.Add(1)
	default:
		t.other.Add(1)
	}
}

func (t *tally) total() int64 { return t.passed.Load() + t.refused.Load() + t.other.Load() }

// wrong counts the answers that a path is not for. The first one is admitted where all others are refused.
func (t *tally) wrong(path string) int64 {
	if path == "/login" {
		return t.refused.Load() + t.other.Load()
	}
	return max(t.passed.Load()-1, 0) + t.other.Load()
}

// client is one connection that asks again and again.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dial(address string) (*client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, in: bufio.NewReader(conn)}, nil
}

// ask sends one login and returns the status of its answer.
func (c *client) ask(path string) (int, error) {
	body := fmt.Sprintf(`{"username":"user%d@example.com","password":"correct horse battery"}`, rand.IntN(people))
	c.out = fmt.Appendf(c.out[:0], "POST %s HTTP/1.1\r\nHost: login.example.com\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// flood asks as fast as the answers come, for so long. n may be nil.
func flood(ctx context.Context, address, path string, d time.Duration, n *tally) error {
	end := time.Now().Add(d)
	return crowd(address, func(c *client) error {
		for time.Now().Before(end) && ctx.Err() == nil {
			status, err := c.ask(path)
			if err != nil {
				return err
			}
			if n != nil {
				n.add(status)
			}
		}
		return ctx.Err()
	})
}

// crowd has all clients do the same, and returns the first error.
func crowd(address string, do func(*client) error) error {
	errs := make(chan error, connections)
	for range connections {
		c, err := dial(address)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		go func() { errs <- do(c) }()
	}
	var first error
	for range connections {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// times are latencies, sorted.
type times []time.Duration

// at is the latency that a part of the requests stays below.
func (t times) at(part float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[min(int(part*float64(len(t))), len(t)-1)]
}

// paced asks so many times a second, whether answers come or not: a request that has to wait for a free connection waits on
// the clock. The first tenth does not count.
func paced(ctx context.Context, address string, rate float64, d time.Duration) (times, error) {
	due := make(chan time.Time, int(rate*d.Seconds())+1)
	go func() {
		defer close(due)
		began := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			at := time.Duration(float64(i) / rate * float64(time.Second))
			if at > d {
				return
			}
			if wait := at - time.Since(began); wait > 0 {
				pause := syscall.NsecToTimespec(wait.Nanoseconds())
				_ = syscall.Nanosleep(&pause, nil) // the runtime's timers are not this exact
			}
			due <- time.Now()
		}
	}()
	var mu sync.Mutex
	var all times
	began := time.Now()
	err := crowd(address, func(c *client) error {
		var own times
		for at := range due {
			status, err := c.ask("/login")
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				return fmt.Errorf("got %d", status)
			}
			if at.Sub(began) > d/10 {
				own = append(own, time.Since(at))
			}
		}
		mu.Lock()
		all = append(all, own...)
		mu.Unlock()
		return ctx.Err()
	})
	slices.Sort(all)
	return all, err
}
