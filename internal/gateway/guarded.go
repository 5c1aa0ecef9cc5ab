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
	patience time.Duration // for how long nothing may be taken, at least; at most two and a half times as long
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

	mu      sync.Mutex
	waiting int  // writes that wait for the client
	theirs  bool // another limit than ours is set
}

// Write implements [net.Conn]. Nearly always the system takes all at once, and there is nothing to limit. A client that is slow and
// takes something all the same gets more time: the system lets nobody write again before a good part of its buffer, which may be
// megabytes, has left.
func (c *taker) Write(p []byte) (n int, err error) {
	if ready, ok := c.Conn.(interface{ WriteReady([]byte) (int, error) }); ok {
		if n, err = ready.WriteReady(p); err != nil || n == len(p) {
			return n, err
		}
	}
	c.limit()
	defer c.lift()
	more, err := c.Conn.Write(p[n:])
	n += more
	for left := -1; errors.Is(err, os.ErrDeadlineExceeded); {
		now, ok := unsent(c.Conn)
		if !ok || left >= 0 && now >= left || !c.renew() {
			break
		}
		left = now
		if more, err = c.Conn.Write(p[n:]); more > 0 {
			n, left = n+more, -1
		}
	}
	return n, err
}

// limit sets a limit for a write that waits.
func (c *taker) limit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting++; !c.theirs {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.listener.patience * 3 / 2))
	}
}

// lift takes it back when nobody waits any more.
func (c *taker) lift() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting--; c.waiting == 0 && !c.theirs {
		_ = c.Conn.SetWriteDeadline(time.Time{})
	}
}

// renew sets the limit anew, unless it was somebody else's.
func (c *taker) renew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.theirs {
		return false
	}
	return c.Conn.SetWriteDeadline(time.Now().Add(c.listener.patience)) == nil
}

// SetWriteDeadline implements [net.Conn]. Without a limit of others there is ours again.
func (c *taker) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.theirs = !t.IsZero()
	if !c.theirs && c.waiting > 0 {
		t = time.Now().Add(c.listener.patience * 3 / 2)
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
