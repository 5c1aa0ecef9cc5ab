package transport

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// sender sends the body of a request that does not fit into one write, while the caller's goroutine waits for the answer,
// which may come before the body is sent, or instead. It ends by itself, at the latest when the body's Read
// returns after the end of the exchange.
type sender struct {
	x    *exchange
	conn *conn
	left int64 // bytes of a body of known length, or -1

	last bool // the last bytes are on their way; guarded by the exchange's lock

	done chan struct{} // closed when the sender ends
	err  error         // once done: why the request is incomplete
}

const (
	pieceBytes = 32 << 10
	chunkHead  = len("8000\r\n") // before a piece
	chunkTail  = len("\r\n0\r\n\r\n")
	// maxLastWrite is how long the end of an answer waits for the end of the request, which the upstream has read in all
	// likelihood; the system has only not told yet. The same as in net/http.
	maxLastWrite = 50 * time.Millisecond
)

func newSender(x *exchange, c *conn) *sender {
	left := x.req.ContentLength
	if left <= 0 {
		left = -1
	}
	return &sender{x: x, conn: c, left: left, done: make(chan struct{})}
}

var pieces = sync.Pool{New: func() any { return new([chunkHead + pieceBytes + chunkTail]byte) }}

func (s *sender) run() {
	piece := pieces.Get().(*[chunkHead + pieceBytes + chunkTail]byte)
	s.err = s.send(piece[:])
	pieces.Put(piece)
	s.await()
	close(s.done)
	_ = s.x.req.Body.Close() // may wait for the client
}

// await starts the time limit for the answer.
func (s *sender) await() {
	x := s.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if timeout := x.t.cfg.ResponseTimeout; timeout > 0 && x.conn == s.conn && !x.interrupted && !x.answered {
		s.conn.readBy(time.Now().Add(timeout))
	}
}

// send sends piece by piece. A body that cannot be read ends the exchange; when the upstream does not take a piece, it
// may still have an answer.
func (s *sender) send(buf []byte) error {
	for idle := 0; idle < maxEmptyReads; idle++ {
		room := buf[chunkHead : len(buf)-chunkTail]
		if s.left >= 0 {
			room = room[:min(int64(len(room)), s.left)]
		}
		n, err := s.x.req.Body.Read(room)
		if err != nil && err != io.EOF {
			return s.fail(err)
		}
		last := err == io.EOF
		if s.left >= 0 {
			s.left -= int64(n)
			last = last || s.left == 0
			if last && s.left > 0 {
				return s.fail(errBodyShort)
			}
		}
		if n > 0 {
			idle = 0
		} else if !last {
			continue
		}
		piece, err := s.frame(buf, n, last)
		if err != nil {
			return s.fail(err)
		}
		if err := s.write(piece, last); err != nil || last {
			return err
		}
	}
	return s.fail(io.ErrNoProgress)
}

// frame puts around the n bytes in buf what the transfer coding asks for.
func (s *sender) frame(buf []byte, n int, last bool) ([]byte, error) {
	if s.left >= 0 {
		return buf[chunkHead : chunkHead+n], nil
	}
	start, end := chunkHead, chunkHead+n
	if n > 0 {
		var head [chunkHead]byte
		h := append(strconv.AppendInt(head[:0], int64(n), 16), "\r\n"...)
		start -= copy(buf[chunkHead-len(h):], h)
		end += copy(buf[end:], "\r\n")
	}
	piece := buf[start:end]
	if !last {
		return piece, nil
	}
	return appendTrailer(append(piece, "0\r\n"...), s.x.req)
}

// appendTrailer ends a chunked body. Its fields are known only now.
func appendTrailer(b []byte, req *http.Request) (_ []byte, err error) {
	for name, vv := range req.Trailer {
		if !sendsTrailer(req, name) {
			continue
		}
		if b, err = appendField(b, name, vv); err != nil {
			return nil, err
		}
	}
	return append(b, "\r\n"...), nil
}

func (s *sender) write(piece []byte, last bool) error {
	s.x.mu.Lock()
	s.last = last
	s.x.mu.Unlock()
	s.x.limitWrite(s.conn)
	_, err := s.conn.Write(piece)
	if isTimeout(err) && !s.x.hasAnswer() {
		s.x.breakOff(err) // who does not read is not expected to answer
	}
	return err
}

// fail ends an exchange whose request cannot be completed.
func (s *sender) fail(err error) error {
	s.x.breakOff(err)
	return err
}

// ended reports, when the answer has ended, whether the request was sent to its end too. If not, the connection
// is closed, and what is sent next fails.
func (s *sender) ended() bool {
	s.x.mu.Lock()
	last := s.last
	s.x.mu.Unlock()
	if !last {
		return false
	}
	t := time.NewTimer(maxLastWrite)
	defer t.Stop()
	select {
	case <-s.done:
		return s.err == nil
	case <-t.C:
		return false
	}
}
