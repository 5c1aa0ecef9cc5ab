//go:build unix

// Package socket reads and writes the sockets of package net, which never block, without telling Go's scheduler about each system
// call. What that is told, it has to take note of, and its monitor wakes up all the time to see whether a call takes long and
// its processor is better given to another thread; on a busy gateway that was a tenth of all processor time. Here a call takes
// what is there or what there is room for, at once, and only waiting is the scheduler's.
package socket

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// maxPiece bounds the bytes of one system call: as long as it lasts, nothing else runs on its processor.
const maxPiece = 64 << 10

// ReadNow reads what is there, at most len(p) bytes and not more than 64 KiB. Without anything the error is
// [syscall.EAGAIN]; at the end n is 0 and there is none. fd is of a socket that does not block.
func ReadNow(fd uintptr, p []byte) (n int, err error) {
	return again(read, fd, p[:min(len(p), maxPiece)])
}

// WriteNow writes as much as the system takes without waiting. If that is not all, the error tells why; mostly that is
// [syscall.EAGAIN]. fd is of a socket that does not block.
func WriteNow(fd uintptr, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		more, err = again(write, fd, p[n:min(len(p), n+maxPiece)])
		n += more
	}
	return n, err
}

// again calls until no signal comes between.
func again(call func(uintptr, []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(fd, p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// Conn is a connection whose Read and Write are those of this package. Like any [net.Conn] it is safe for concurrent use.
type Conn struct {
	stream
	in, out work
}

// stream is what [net.TCPConn] and [net.UnixConn] are.
type stream interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

// Wrap makes a connection of package net a [Conn]; any other stays what it is.
func Wrap(c net.Conn) net.Conn {
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return c
	}
	s := &Conn{stream: c.(stream)}
	raw, err := s.SyscallConn()
	if err != nil {
		return c
	}
	s.in.begin(raw.Read, ReadNow)
	s.out.begin(raw.Write, WriteNow)
	return s
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 || !c.in.mu.TryLock() { // two at once: the second waits as it would for any connection
		return c.stream.Read(p)
	}
	defer c.in.mu.Unlock()
	n, err := c.in.do(p)
	switch {
	case err != nil:
		err = c.told("read", err)
	case n == 0:
		err = io.EOF
	}
	return n, err
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	if !c.out.mu.TryLock() {
		return c.stream.Write(p)
	}
	defer c.out.mu.Unlock()
	return c.write(p)
}

// WriteReady is Write without waiting: it writes as much as the system takes at once. Less than all without an error says that it
// takes no more now.
func (c *Conn) WriteReady(p []byte) (int, error) {
	if !c.out.mu.TryLock() {
		return 0, nil
	}
	defer c.out.mu.Unlock()
	c.out.hasty = true
	defer func() { c.out.hasty = false }()
	return c.write(p)
}

func (c *Conn) write(p []byte) (int, error) {
	n, err := c.out.do(p)
	if err != nil {
		err = c.told("write", err)
	}
	return n, err
}

// told is an error as package net tells it.
func (c *Conn) told(name string, err error) error {
	if op, ok := err.(*net.OpError); ok { // of waiting, under another name
		err = op.Err
	} else {
		err = os.NewSyscallError(name, err)
	}
	return &net.OpError{Op: name, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// work is one direction of a connection. Whoever uses it holds its lock.
type work struct {
	wait func(func(fd uintptr) bool) error // calls until that says it is done, and waits between
	now  func(fd uintptr, p []byte) (int, error)
	step func(fd uintptr) bool // made once, since it would be allocated for each call

	mu    sync.Mutex
	hasty bool // it does not wait
	p     []byte
	n     int
	err   error
}

func (w *work) begin(wait func(func(fd uintptr) bool) error, now func(fd uintptr, p []byte) (int, error)) {
	w.wait, w.now, w.step = wait, now, w.proceed
}

// do reads something or writes all.
func (w *work) do(p []byte) (int, error) {
	w.p, w.n, w.err = p, 0, nil
	err := w.wait(w.step)
	w.p = nil
	if err == nil && w.err != syscall.EAGAIN {
		err = w.err
	}
	return w.n, err
}

func (w *work) proceed(fd uintptr) (done bool) {
	var n int
	n, w.err = w.now(fd, w.p[w.n:])
	w.n += n
	return w.hasty || w.err != syscall.EAGAIN
}
