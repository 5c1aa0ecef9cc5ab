package transport

import (
	"bytes"
	"io"
	"sync"
)

// inbox is what has arrived and was not yet read. It differs from a bufio.Reader in that it may grow for a large header,
// and in that its buffer is borrowed.
type inbox struct {
	src    io.Reader
	buf    []byte
	lent   *[]byte // from the pool, what buf began as
	r, w   int     // buf[r:w] is unread
	sealed bool    // nothing more is to be read from src
}

const (
	bufferBytes     = 16 << 10 // most heads and most answers fit
	maxPooledBytes  = 64 << 10 // larger buffers are not kept
	maxTrailerBytes = 4 << 10  // as much as http.Transport takes
)

const (
	errTooLarge = malformed("header too large")
	errLineEnd  = malformed("line without CR at its end")
	errSealed   = malformed("not here yet")
)

func (in *inbox) buffered() int { return in.w - in.r }

func (in *inbox) unread() []byte { return in.buf[in.r:in.w] }

// fill reads once from the source, at least one byte or an error.
func (in *inbox) fill() error {
	if in.sealed {
		return errSealed
	}
	if in.r > 0 {
		in.w = copy(in.buf, in.unread())
		in.r = 0
	}
	if in.w == len(in.buf) {
		larger := make([]byte, 2*len(in.buf))
		copy(larger, in.buf)
		in.buf = larger
	}
	for range 100 { // as patient as bufio with a reader that returns nothing
		n, err := in.src.Read(in.buf[in.w:])
		in.w += n
		if n > 0 {
			return nil // an error comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// read reads at most len(p) > 0 bytes, at least one or an error.
func (in *inbox) read(p []byte) (int, error) {
	if in.buffered() == 0 {
		if len(p) >= bufferBytes && !in.sealed {
			return in.src.Read(p)
		}
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.unread())
	in.r += n
	return n, nil
}

// section reads lines until an empty one, and returns those before it with their line ends. limit bounds its bytes.
func (in *inbox) section(limit int) (string, error) {
	line, seen := 0, 0 // where the current line begins, and how far it was searched; both from r
	for {
		unread := in.unread()
		i := bytes.IndexByte(unread[seen:], '\n')
		if i < 0 {
			if seen = len(unread); seen > limit {
				return "", errTooLarge
			}
			if err := in.fill(); err != nil {
				return "", err
			}
			continue
		}
		end := seen + i
		seen = end + 1
		switch {
		case seen > limit:
			return "", errTooLarge
		case end == line || unread[end-1] != '\r':
			return "", errLineEnd
		case end == line+1:
			in.r += seen
			return string(unread[:line]), nil
		}
		line = seen
	}
}

// line reads one line and returns it without its end. It is valid until the next read. limit bounds its bytes.
func (in *inbox) line(limit int) ([]byte, error) {
	for {
		unread := in.unread()
		i := bytes.IndexByte(unread, '\n')
		switch {
		case i > limit || i < 0 && len(unread) > limit:
			return nil, errTooLarge
		case i < 0:
			if err := in.fill(); err != nil {
				return nil, err
			}
		case i == 0 || unread[i-1] != '\r':
			return nil, errLineEnd
		default:
			in.r += i + 1
			return unread[:i-1], nil
		}
	}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferBytes); return &b }}

// borrow takes a buffer, for what will be read from src.
func (in *inbox) borrow(src io.Reader) {
	in.src, in.lent = src, buffers.Get().(*[]byte)
	in.buf = *in.lent
}

// release gives the buffer back, grown or not. What was in it stays until it is used again.
func (in *inbox) release() {
	if in.lent != nil && cap(in.buf) <= maxPooledBytes {
		*in.lent = in.buf
		buffers.Put(in.lent)
	}
	in.lent, in.buf, in.r, in.w = nil, nil, 0, 0
}
