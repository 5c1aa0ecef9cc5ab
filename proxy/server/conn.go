package server

import (
	"context"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection as long as it is served here. One goroutine works on it; besides that there may be one that watches for
// the client's hanging up.
type conn struct {
	net.Conn
	server *Server
	ctx    context.Context // what ConnContext made
	remote string

	busy   atomic.Uint32
	buf    []byte // borrowed
	r, w   int    // buf[r:w] was read and is not used yet
	slack  int    // so many bytes of line ends may come before the next request, and belong to nothing
	failed bool   // a write failed
	limits bool   // a handler has set a time limit for writing

	until time.Time // the time limit for reading; zero: none
}

// States of a connection.
const (
	idle   uint32 = iota // nothing has come of the next request
	busy                 // a request is on its way
	closed               // by Shutdown, while it was idle
)

const (
	// bufferBytes is the room for a request with its body. Most logins take a kilobyte; what takes more than this is not plain.
	bufferBytes = 8 << 10
	// patience is how long the rest of a request may take that has begun to arrive. What is slower is not plain.
	patience = 50 * time.Millisecond
)

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferBytes); return &b }}

func (c *conn) serve() {
	buf := buffers.Get().(*[]byte)
	c.buf = *buf
	handed := false
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			c.server.logf("http: panic serving %v: %v\n%s", c.remote, p, debug.Stack())
		}
		if !handed {
			_ = c.Close()
			if c.server.std.ConnState != nil {
				c.server.std.ConnState(c.Conn, http.StateClosed)
			}
		}
		buffers.Put(buf)
		c.server.end(c)
	}()
	c.remote = c.RemoteAddr().String()
	for first := true; ; first = false {
		x := &exchange{conn: c}
		switch c.await(x, first) {
		case complete:
			if !x.serve() || c.server.closing.Load() {
				return
			}
		case other:
			handed = true
			c.handOver()
			return
		default:
			return
		}
	}
}

// await reads until the next request is there, and parses it. Partial means that the connection has ended.
func (c *conn) await(x *exchange, first bool) verdict {
	c.skipLineEnd()
	for c.r == c.w {
		if !c.fill(first) {
			return partial
		}
		c.skipLineEnd()
	}
	for waited := false; ; {
		v := x.parse(c.buf[c.r:c.w], c.server.std.MaxHeaderBytes)
		if v != partial {
			return v
		}
		if c.r > 0 {
			c.w = copy(c.buf, c.buf[c.r:c.w])
			c.r = 0
		}
		if c.w == len(c.buf) {
			return other
		}
		if !waited {
			waited = true
			c.readBy(time.Now().Add(patience))
		}
		n, err := c.Read(c.buf[c.w:])
		if c.w += n; err != nil && n == 0 {
			return other // which knows what to say to whom, and waits as long as it should
		}
	}
}

// fill waits for the first bytes of a request.
func (c *conn) fill(first bool) bool {
	limit := c.server.std.IdleTimeout
	if first {
		limit = c.server.std.ReadHeaderTimeout
	}
	c.r, c.w = 0, 0
	c.busy.Store(idle)
	if c.server.closing.Load() {
		return false
	}
	c.waitFor(limit)
	n, err := c.Read(c.buf)
	c.w = n
	return (err == nil || n > 0) && c.busy.CompareAndSwap(idle, busy)
}

// waitFor limits the next read. A limit that is nearly as long as that stays: setting one for each request is work.
func (c *conn) waitFor(limit time.Duration) {
	if limit <= 0 {
		c.readBy(time.Time{})
		return
	}
	now := time.Now()
	if left := c.until.Sub(now); left > limit || left < limit-limit/8 {
		c.readBy(now.Add(limit))
	}
}

func (c *conn) readBy(t time.Time) {
	c.until = t
	_ = c.SetReadDeadline(t)
}

// maxSlack is how many bytes of line ends some old clients send after the body of a POST (RFC 9112, section 2.2), at most.
const maxSlack = 4

// skipLineEnd drops those.
func (c *conn) skipLineEnd() {
	for c.slack > 0 && c.r < c.w && (c.buf[c.r] == '\r' || c.buf[c.r] == '\n') {
		c.r++
		c.slack--
	}
}

// handOver gives the connection to the other server, with what it has said.
func (c *conn) handOver() {
	_ = c.SetReadDeadline(time.Time{})
	unread := append([]byte(nil), c.buf[c.r:c.w]...)
	c.server.rest.pass(&Resumed{Conn: c.Conn, unread: unread})
}

// Write implements [io.Writer], and remembers whether that failed.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.failed = c.failed || err != nil
	return n, err
}
