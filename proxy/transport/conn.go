package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// conn is a connection to the upstream. One exchange at a time owns it.
type conn struct {
	net.Conn
	talk talk // how the system lets one wait for an answer

	generation uint64 // of the pool, when it was dialled
	idleSince  time.Time
	until      time.Time // the time limit for reading; zero: none
}

// readBy limits reading.
func (c *conn) readBy(t time.Time) {
	c.until = t
	_ = c.SetReadDeadline(t)
}

// interrupt ends all waiting on the connection.
func (c *conn) interrupt() {
	c.until = past
	_ = c.SetDeadline(past)
}

// past is a deadline that has passed, but not the zero time, which is none.
var past = time.Unix(1, 0)

// errStale says that a connection was closed or spoken on by the upstream before it was asked anything. What it said
// cannot be an answer to a request that was not sent.
var errStale = errors.New("the upstream ended the connection before the request")

func (t *Transport) dial(ctx context.Context) (*conn, error) {
	generation := t.pool.current()
	nc, err := t.cfg.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, generation: generation}
	c.talk.init(c)
	return c, nil
}

// quiet reports whether a connection without a request under way is open and has nothing to say. It does not wait.
func (c *conn) quiet() bool {
	c.readBy(time.Time{}) // the last request's may have passed, and would be taken for an end
	return c.talk.quiet()
}

// ask writes the request of an exchange and waits for the first bytes of its answer, until the connection's deadline. It
// returns how many of them it read into the exchange's buffer, which may share memory with request, and whether the
// upstream may have seen a part of the request.
func (c *conn) ask(x *exchange, request []byte) (n int, sent bool, err error) {
	answer := x.in.buf
	if c.talk.able() {
		return c.talk.ask(x, request, answer)
	}
	x.slowWrite(c)
	w, werr := c.Write(request)
	if werr != nil && (w == 0 || isTimeout(werr)) {
		return 0, w > 0, werr
	}
	// After a failed write an answer may still be there: the upstream can refuse a request before it has read it.
	n, err = c.Read(answer)
	if n > 0 {
		return n, true, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, true, err
}
