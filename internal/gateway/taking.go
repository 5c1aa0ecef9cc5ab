package gateway

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// taking is a listener whose clients must take what is written to them: a client that asks and asks and never reads would keep its
// connection for good, since an answer that does not fit into the system's buffers waits for it.
type taking struct {
	net.Listener
	patience time.Duration // for how long nothing may be taken, at least; at most two and a half times as long
}

// Accept implements [net.Listener].
func (l taking) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &taker{Conn: c, patience: l.patience}, nil
}

// taker is one of its connections. Its time limit is one among others: what a server or a handler sets comes first.
type taker struct {
	net.Conn
	patience time.Duration

	mu     sync.Mutex
	until  time.Time // of our own limit; zero: there is none
	theirs bool      // another limit is set
}

// Write implements [net.Conn]. A client that is slow and takes something all the same gets more time: the system lets nobody write
// again before a good part of its buffer, which may be megabytes, has left.
func (c *taker) Write(p []byte) (int, error) {
	c.limit()
	n, err := c.Conn.Write(p)
	for left := -1; errors.Is(err, os.ErrDeadlineExceeded); {
		now, ok := unsent(c.Conn)
		if !ok || left >= 0 && now >= left || !c.renew() {
			break
		}
		left = now
		var more int
		if more, err = c.Conn.Write(p[n:]); more > 0 {
			n, left = n+more, -1
		}
	}
	return n, err
}

// limit sets a limit for the next write, unless there is one that leaves it time enough: setting one for each is work.
func (c *taker) limit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); !c.theirs && c.until.Sub(now) < c.patience {
		c.until = now.Add(c.patience * 3 / 2)
		_ = c.Conn.SetWriteDeadline(c.until)
	}
}

// renew sets the limit anew, unless it was somebody else's.
func (c *taker) renew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.theirs {
		return false
	}
	c.until = time.Now().Add(c.patience)
	return c.Conn.SetWriteDeadline(c.until) == nil
}

// SetWriteDeadline implements [net.Conn]. Without a limit of others there is ours again.
func (c *taker) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.IsZero() && !c.theirs {
		return nil
	}
	c.theirs, c.until = !t.IsZero(), time.Time{}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *taker) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}
