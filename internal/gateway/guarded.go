package gateway

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"authgate/internal/socket"
)

// guarded is a public listener that bounds how many clients are connected, and whose clients must take what is written to them: a
// client that asks and asks and never reads would keep its connection for good, since an answer that does not fit into the
// system's buffers waits for it.
type guarded struct {
	net.Listener
	patience time.Duration // for how long nothing may be taken: half as long again, and at most three times as long
	places   chan struct{} // one for each client
	over     chan struct{}
	end      sync.Once
}

func newGuarded(l net.Listener, patience time.Duration, clients int) *guarded {
	return &guarded{Listener: l, patience: patience, places: make(chan struct{}, clients), over: make(chan struct{})}
}

// Accept implements [net.Listener]. It waits until there is a place.
func (l *guarded) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.over:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &taker{Conn: socket.Wrap(c), listener: l}, nil
}

// Close implements [net.Listener].
func (l *guarded) Close() error {
	l.end.Do(func() { close(l.over) })
	return l.Listener.Close()
}

// taker is one of its connections. Its time limit is one among others: what a server or a handler sets comes first.
type taker struct {
	net.Conn
	listener *guarded
	gone     sync.Once

	writing sync.Mutex // held by one write at a time
	wrote   int64      // bytes that the system has taken, of which
	taken   int64      // so many had reached the client when it was last seen to take any
	until   time.Time  // when it must have taken more; the limit of a write that waits

	mu     sync.Mutex // guards the time limit
	ours   time.Time  // of a write that waits for the client; zero: none does
	theirs bool       // another limit than ours is set
}

// Write implements [net.Conn]. Nearly always the system takes all at once, and there is nothing to limit.
func (c *taker) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if ready, ok := c.Conn.(interface{ WriteReady([]byte) (int, error) }); ok {
		n, err = ready.WriteReady(p)
		c.wrote += int64(n)
	}
	for err == nil && n < len(p) {
		c.look(true)
		c.limit(c.until)
		var more int
		more, err = c.Conn.Write(p[n:])
		n, c.wrote = n+more, c.wrote+int64(more)
		c.lift()
		if errors.Is(err, os.ErrDeadlineExceeded) && c.look(false) && !c.limited() {
			err = nil // it is slow, and no more than that
		}
	}
	return n, err
}

// look reports whether the client has taken something since it was last seen to, and gives it more time then; where nobody can tell,
// for each write that begins. What the system has taken for it does not count: that may be megabytes, and more of them all the
// time. A slow client's own system takes nothing for a while, too, and then much.
func (c *taker) look(begins bool) bool {
	left, ok := unsent(c.Conn)
	if taken := c.wrote - int64(left); c.until.IsZero() || ok && taken > c.taken || !ok && begins {
		c.taken, c.until = taken, time.Now().Add(c.listener.patience*3/2)
		return true
	}
	return false
}

// limit sets a limit for a write that waits.
func (c *taker) limit(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ours = until
	if !c.theirs {
		_ = c.Conn.SetWriteDeadline(until)
	}
}

// lift takes it back.
func (c *taker) lift() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ours = time.Time{}
	if !c.theirs {
		_ = c.Conn.SetWriteDeadline(time.Time{})
	}
}

// limited reports whether somebody else has set a limit.
func (c *taker) limited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.theirs
}

// SetWriteDeadline implements [net.Conn]. Without a limit of others there is ours again.
func (c *taker) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.theirs = !t.IsZero()
	if !c.theirs {
		t = c.ours
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *taker) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// Close implements [net.Conn], and leaves the place to the next client.
func (c *taker) Close() error {
	err := c.Conn.Close()
	c.gone.Do(func() { <-c.listener.places })
	return err
}

// CloseWrite closes the half that the client reads, if the connection can do that.
func (c *taker) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
