package transport

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// body is the body of an answer. At its end the connection is free for the next request, before the caller has seen
// the end. It may be closed while it is being read.
type body struct {
	kind bodyKind
	x    *exchange

	mu     sync.Mutex // held while reading
	left   int64      // bytes of a sized body
	chunks chunks
	err    error // what Read returns from now on
}

func (b *body) begin(x *exchange, f framing) { b.x, b.kind, b.left = x, f.kind, f.length }

// Read reads the body as it comes. The end of the body is reported together with its last bytes where it is known then.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	n, err := b.read(p)
	if err != nil {
		if err != io.EOF {
			err = &callError{"reading the answer's body", b.x.cause(err)}
		}
		b.err = err
		b.x.finish(err == io.EOF)
	}
	return n, err
}

// read returns io.EOF only where the body ends.
func (b *body) read(p []byte) (int, error) {
	in := &b.x.in
	switch b.kind {
	case bodySized:
		n, err := in.read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
		if b.left == 0 {
			return n, io.EOF
		}
		return n, unexpected(err)
	case bodyChunked:
		n, done, err := b.chunks.read(in, p, &b.x.res)
		if done {
			return n, io.EOF
		}
		return n, unexpected(err)
	default:
		return in.read(p)
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close ends the exchange. The connection is kept if the rest of the body has arrived already; to wait for it would
// take longer than to dial. A Read under way returns.
func (b *body) Close() error {
	if !b.mu.TryLock() {
		b.x.breakOff(http.ErrBodyReadAfterClose)
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	if b.err == nil {
		b.x.in.sealed = true
		b.x.finish(b.discard())
	}
	b.err = http.ErrBodyReadAfterClose
	return nil
}

// discard drops what has arrived, and reports whether that was all.
func (b *body) discard() bool {
	var p [512]byte
	for {
		if _, err := b.read(p[:]); err != nil {
			return err == io.EOF
		}
	}
}
