//go:build unix

package transport

import (
	"io"
	"os"
	"syscall"

	"authgate/internal/socket"
)

// talk waits for an answer on a socket without a system call more than it takes, and finds out on the way whether
// the upstream had hung up. The usual way is to write, to read in vain, to wait, and to read. The read in vain is
// needed: only after it does the runtime's poller know that the next bytes are news. But it may as well come before
// the write, and then it tells whether the connection is still open, for which nobody asks otherwise.
type talk struct {
	raw   syscall.RawConn
	conn  *conn
	step  func(fd uintptr) (done bool) // made once, since it would be allocated for each request
	asked bool

	x               *exchange
	request, answer []byte
	n               int
	sent            bool
	err             error
}

func (t *talk) init(c *conn) {
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	t.raw, t.conn, t.step = raw, c, t.proceed
}

// able reports whether the connection is a socket.
func (t *talk) able() bool { return t.raw != nil }

func (t *talk) ask(x *exchange, request, answer []byte) (n int, sent bool, err error) {
	t.x, t.request, t.answer, t.asked, t.sent, t.n, t.err = x, request, answer, false, false, 0, nil
	err = t.raw.Read(t.step)
	if t.err != nil {
		err = t.err
	}
	t.x, t.request, t.answer = nil, nil, nil
	return t.n, t.sent, err
}

// proceed is called at once, and then whenever there may be something to read.
func (t *talk) proceed(fd uintptr) (done bool) {
	if !t.asked {
		t.asked = true
		if !nothingToRead(fd) {
			t.err = errStale
			return true
		}
		w, err := t.write(fd)
		t.sent = w > 0
		if err != nil && (w == 0 || isTimeout(err)) {
			t.err = err
			return true
		}
		// After a failed write an answer may still be there: the upstream can refuse a request before it has
		// read it. Otherwise the connection's end is.
		return false
	}
	n, err := socket.ReadNow(fd, t.answer)
	switch {
	case err == syscall.EAGAIN:
		return false
	case err != nil:
		t.err = os.NewSyscallError("read", err)
	case n == 0:
		t.err = io.EOF
	}
	t.n = n
	return true
}

// write writes the request. What the system does not take at once is waited for.
func (t *talk) write(fd uintptr) (int, error) {
	w, err := socket.WriteNow(fd, t.request)
	if w == len(t.request) || err != nil && err != syscall.EAGAIN {
		return w, err
	}
	t.x.slowWrite(t.conn)
	more, err := t.conn.Write(t.request[w:])
	return w + more, err
}

// quiet reports whether the connection is open and has nothing to say.
func (t *talk) quiet() bool {
	if t.raw == nil {
		return true
	}
	var quiet bool
	err := t.raw.Read(func(fd uintptr) bool {
		quiet = nothingToRead(fd)
		return true
	})
	return err == nil && quiet
}

// nothingToRead may take a byte away. A connection that had one is of no more use.
func nothingToRead(fd uintptr) bool {
	var b [1]byte
	_, err := socket.ReadNow(fd, b[:])
	return err == syscall.EAGAIN
}
