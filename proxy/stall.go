package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A client that stalls must not keep a call to the backend to itself: each piece of a body that it sends on must come, and each
// piece of an answer be taken, within the time that it has for a body that a policy reads. How long all of it takes is
// nobody's business, nor when the next piece of a body comes once the backend has begun to answer.

// steady is a body that the client is still sending. It gives up on one who stalls, and it stands between the client's
// connection and a transport, which may read on when it has its answer: the server must not be read behind its back.
type steady struct {
	io.Reader
	x       *exchange
	stalled atomic.Bool
	begun   atomic.Bool // something has come, or never will

	mu       sync.Mutex
	reading  bool
	returned chan struct{} // closed when that read returns; nil: nobody waits for it
	ended    bool          // all was read
	free     bool          // the backend has begun to answer: the two may talk as slowly as they like
	over     bool          // nothing more is read through it
}

func (s *steady) Read(p []byte) (int, error) {
	defer s.begun.Store(true)
	if !s.enter() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := s.read(p)
	s.leave(err)
	return n, err
}

func (s *steady) read(p []byte) (int, error) {
	if patience := s.x.bodyTime; patience <= 0 || !s.limit(time.Now().Add(patience)) { // a server without deadlines is one without slow clients
		return s.Reader.Read(p)
	}
	n, err := s.Reader.Read(p)
	s.limit(time.Time{}) // when the backend asks for more is not up to the client
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		s.stalled.Store(true)
	}
	return n, err
}

func (s *steady) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = !s.over
	return s.reading
}

func (s *steady) leave(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	s.ended = s.ended || err == io.EOF
	if s.returned != nil {
		close(s.returned)
		s.returned = nil
	}
}

// limit sets or lifts the time for reading.
func (s *steady) limit(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.over && !s.free && s.deadline(t) == nil
}

func (s *steady) deadline(t time.Time) error {
	return http.NewResponseController(&s.x.w).SetReadDeadline(t)
}

// relax lifts the time for reading for good, that of a read under way included. It comes once the backend has begun to answer:
// it may be a conversation, in which the client has nothing to say for hours.
func (s *steady) relax() {
	if s.Reader == nil || s.x.bodyTime <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = true
	_ = s.deadline(time.Time{})
}

// lastPiece is how long a piece of a body may be on its way at the end of the answer. To break it off would leave a connection of
// which nobody knows where the next piece begins, and which cannot be read on until the client has read its answer.
const lastPiece = 50 * time.Millisecond

// detach ends the use of the client's connection, and returns when nobody reads from it any more. What is being read may take
// so long. It comes before the handler returns: from then on the server reads.
func (s *steady) detach(patience time.Duration) {
	if s.Reader == nil {
		return
	}
	if s.x.r.ProtoMajor > 1 {
		patience = 0 // nothing else is read from that stream
	}
	s.mu.Lock()
	s.over = true
	var returned chan struct{}
	if s.reading && s.deadline(time.Now().Add(patience)) == nil {
		returned = make(chan struct{})
		s.returned = returned
	}
	s.mu.Unlock()
	if returned != nil {
		<-returned
	}
	if s.unread() {
		_ = s.deadline(time.Now().Add(drainPause)) // for the server, which reads on a little before it closes the connection
	}
}

// unread reports whether there may be more of the body than was read.
func (s *steady) unread() bool {
	if s.Reader == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// Close implements [io.Closer]. Closing the body itself would wait for what the client has yet to send.
func (s *steady) Close() error { return nil }

// pending reports whether the client may still be waiting to be asked for the body, which the server does by itself when it
// is first read.
func (s *steady) pending() bool { return s.Reader != nil && !s.begun.Load() }

// steadily is the body that the client is still sending, for the backend.
func (x *exchange) steadily(body io.Reader) *steady {
	x.coming.Reader, x.coming.x = body, x
	return &x.coming
}

// hurried gives a client a time to take the next piece of an answer, and takes it back if there are more: the piece after that may
// be long in coming. Of the last one a part may be sent when the handler has returned. HTTP/2 alone needs it, where a stream may be
// held up while others are not; a whole connection has a limit of its own. What the client took last cannot be seen here, so it gets as
// long as that limit gives at most.
func (x *exchange) hurried(rc *http.ResponseController) (hurry, calm func()) {
	if x.bodyTime <= 0 || x.r.ProtoMajor == 1 {
		return nothing, nothing
	}
	return func() { _ = rc.SetWriteDeadline(time.Now().Add(3 * x.bodyTime)) }, func() { _ = rc.SetWriteDeadline(time.Time{}) }
}

func nothing() {}
