// Package server answers plain HTTP/1.1 with less work for each request than net/http's server takes, and leaves to that
// server whatever is not plain.
//
// A connection begins here. As long as its requests are of the ordinary kind and have arrived whole, head and body, each is
// read, handled and answered in the connection's own goroutine: nothing watches the client meanwhile, unless the handler asks
// for it by the request's context. The first request that is anything else (chunked, long, slow, malformed, an upgrade,
// HTTP/2 or 1.0) goes to the [http.Server] as it came, with its connection and for good. So there is one judge of what is a
// request and what is not, and this package only has to be sure of what it takes itself; what it takes, it reads as
// [http.ReadRequest] does and answers as the [http.Server] does, byte for byte.
package server

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves connections for an [http.Server], and has it serve those that are not plain. Use [New].
//
// Of the server it knows Handler, ReadHeaderTimeout, IdleTimeout, MaxHeaderBytes, ErrorLog, ConnContext and ConnState; of
// the states of a connection it tells only StateClosed, since one that it hands on is still the server's. There are no time
// limits for reading a whole request or for writing an answer, but those that a handler sets.
type Server struct {
	std  *http.Server
	rest *handover

	mu      sync.Mutex
	conns   map[*conn]struct{}
	closing atomic.Bool
	gone    chan struct{} // tells Shutdown that a connection has ended; has room for one
}

// New makes a server that answers for std. Std must be configured already, and must not be served otherwise by who wants its
// plain connections to come here.
func New(std *http.Server) *Server {
	return &Server{std: std, rest: newHandover(), conns: map[*conn]struct{}{}, gone: make(chan struct{}, 1)}
}

// Serve accepts connections until l fails, and returns why: [http.ErrServerClosed] after Shutdown or Close.
func (s *Server) Serve(l net.Listener) error {
	s.rest.once.Do(func() { go func() { _ = s.std.Serve(s.rest) }() })
	var delay time.Duration
	for {
		c, err := l.Accept()
		if s.closing.Load() {
			if err == nil {
				_ = c.Close()
			}
			return http.ErrServerClosed
		}
		if err != nil {
			var temporary interface{ Temporary() bool }
			if !errors.As(err, &temporary) || !temporary.Temporary() {
				return err
			}
			delay = min(max(2*delay, minAcceptDelay), maxAcceptDelay)
			s.logf("http: Accept error: %v; retrying in %v", err, delay)
			time.Sleep(delay)
			continue
		}
		delay = 0
		s.begin(c)
	}
}

// How long Serve waits after an error that may pass, such as too many open files; twice as long each time.
const (
	minAcceptDelay = 5 * time.Millisecond
	maxAcceptDelay = time.Second
)

func (s *Server) begin(nc net.Conn) {
	ctx := context.Background()
	if s.std.ConnContext != nil {
		ctx = s.std.ConnContext(ctx, nc)
	}
	c := &conn{server: s, Conn: nc, ctx: ctx}
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	go c.serve()
}

// end forgets a connection that is closed, or was handed on.
func (s *Server) end(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	select {
	case s.gone <- struct{}{}:
	default:
	}
}

// Shutdown ends all connections once they are idle, as [http.Server.Shutdown] does, which it calls as well. Requests under way
// are waited for until ctx is done; then its error is returned, and [Server.Close] ends the rest.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closing.Store(true)
	for s.closeIdle() > 0 {
		select {
		case <-s.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer s.rest.Close() // by whoever takes from it, unless that has not begun
	return s.std.Shutdown(ctx)
}

// closeIdle closes connections between requests and returns how many others there are.
func (s *Server) closeIdle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c := range s.conns {
		if c.busy.CompareAndSwap(idle, closed) {
			_ = c.Close()
		} else if c.busy.Load() == busy {
			n++
		}
	}
	return n
}

// Close ends all connections at once, and the [http.Server].
func (s *Server) Close() error {
	s.closing.Store(true)
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	defer s.rest.Close()
	return s.std.Close()
}

func (s *Server) logf(format string, args ...any) {
	if s.std.ErrorLog != nil {
		_ = s.std.ErrorLog.Output(2, fmt.Sprintf(format, args...))
	} else {
		log.Printf(format, args...)
	}
}

// handover is the listener from which the [http.Server] takes the connections that are not plain.
type handover struct {
	once  sync.Once
	conns chan net.Conn
	over  chan struct{}
	close sync.Once
}

func newHandover() *handover {
	return &handover{conns: make(chan net.Conn), over: make(chan struct{})}
}

// pass hands a connection on, or closes it if nobody takes any more.
func (h *handover) pass(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.over:
		_ = c.Close()
	}
}

// Accept implements [net.Listener].
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.over:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (h *handover) Close() error {
	h.close.Do(func() { close(h.over) })
	return nil
}

// Addr implements [net.Listener]. It is no address: what arrives here has arrived elsewhere.
func (h *handover) Addr() net.Addr { return &net.UnixAddr{Name: "handed over", Net: "internal"} }

// Resumed is a connection that was handed on, with what was read from it.
type Resumed struct {
	net.Conn
	unread []byte
}

// Read implements [net.Conn].
func (r *Resumed) Read(p []byte) (int, error) {
	if len(r.unread) > 0 {
		n := copy(p, r.unread)
		if r.unread = r.unread[n:]; len(r.unread) == 0 {
			r.unread = nil
		}
		return n, nil
	}
	return r.Conn.Read(p)
}

// CloseWrite closes the half that the client reads, if the connection can do that.
func (r *Resumed) CloseWrite() error {
	if half, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
