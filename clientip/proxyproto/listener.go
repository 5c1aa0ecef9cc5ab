package proxyproto

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"authgate/clientip"
)

// NewListener returns a listener for connections that must begin with a PROXY header. A peer outside balancers is closed
// without a byte being read. Accept never waits for a header: the first Read or RemoteAddr of a connection, in whatever
// goroutine, reads it within 5 seconds. If that fails, the connection is closed, Read returns the error, and RemoteAddr
// the balancer's address. TLS goes on top of the listener. A hook that a server runs while it accepts, such as
// http.Server.ConnContext, must ask Conn.SocketAddr instead.
//
// onReject, unless nil, is told of each connection that is about to be closed for either reason, with the address of the
// socket. It is called from Accept or from the connection's goroutine, so it must be safe for concurrent use and must not
// block.
func NewListener(inner net.Listener, balancers clientip.PrefixSet, onReject func(peer net.Addr, err error)) net.Listener {
	if onReject == nil {
		onReject = func(net.Addr, error) {}
	}
	return &listener{Listener: inner, balancers: balancers, onReject: onReject}
}

// headerTimeout is how long a balancer has for the whole header. The protocol asks for at least 3 seconds.
const headerTimeout = 5 * time.Second

// bufferSize is enough for every header without records in one read. A larger one would hold more of each connection's
// first request than needed.
const bufferSize = 256

var errNotListed = errors.New("accepting connection: the peer is not a listed balancer")

// listener accepts connections of listed balancers only.
type listener struct {
	net.Listener
	balancers clientip.PrefixSet
	onReject  func(peer net.Addr, err error)
}

// Accept returns the next connection of a listed balancer, as a *Conn.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.balancers.Contains(address(conn.RemoteAddr())) {
			return &Conn{Conn: conn, onReject: l.onReject}, nil
		}
		l.onReject(conn.RemoteAddr(), errNotListed)
		_ = conn.Close() // nothing was written that could be lost
	}
}

// address returns the IP address of a TCP peer, or none.
func address(peer net.Addr) netip.Addr {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr()
}

// Conn is a connection behind a balancer. Like any net.Conn it is safe for concurrent use.
type Conn struct {
	net.Conn // the balancer's

	onReject func(peer net.Addr, err error)
	header   sync.Once
	source   net.Addr      // what the header names, else nil
	err      error         // why the header was refused
	early    *bufio.Reader // what came with the header; nil once it is used up. Read owns it

	reading  sync.Mutex // serialises Read while early is not nil
	deadline sync.Mutex // guards the next two
	wanted   time.Time  // the read deadline that the user set
	limit    time.Time  // that of the header while it is being read, else zero
}

// SocketAddr returns the address of the socket's other end, which is the balancer. It never waits.
func (c *Conn) SocketAddr() net.Addr { return c.Conn.RemoteAddr() }

// RemoteAddr returns the source that the header names, or the balancer's address if it names none. It waits for the header,
// so it is not for the goroutine that accepts.
func (c *Conn) RemoteAddr() net.Addr {
	c.header.Do(c.readHeader)
	if c.source != nil {
		return c.source
	}
	return c.Conn.RemoteAddr()
}

// Read reads what follows the header.
func (c *Conn) Read(p []byte) (int, error) {
	c.header.Do(c.readHeader)
	if c.err != nil {
		return 0, c.err
	}
	if n := c.readEarly(p); n > 0 {
		return n, nil
	}
	return c.Conn.Read(p)
}

// readEarly takes from what was read along with the header.
func (c *Conn) readEarly(p []byte) int {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.early == nil || len(p) == 0 {
		return 0
	}
	n := min(len(p), c.early.Buffered())
	if n > 0 {
		n, _ = c.early.Read(p[:n]) // only from the buffer, so it neither waits nor fails
	}
	if c.early.Buffered() == 0 {
		c.early = nil
	}
	return n
}

// readHeader runs once, in the goroutine that first asks.
func (c *Conn) readHeader() {
	r := bufio.NewReaderSize(c.Conn, bufferSize)
	header, err := c.parseInTime(r)
	if err != nil {
		c.err = err
		c.onReject(c.Conn.RemoteAddr(), err)
		_ = c.Conn.Close() // the error that matters is the one at hand
		return
	}
	if header.Source.IsValid() {
		c.source = net.TCPAddrFromAddrPort(header.Source)
	}
	c.early = r
}

func (c *Conn) parseInTime(r *bufio.Reader) (Header, error) {
	if err := c.limitReads(time.Now().Add(headerTimeout)); err != nil {
		return Header{}, fmt.Errorf("limiting the PROXY header's time: %w", err)
	}
	header, err := Parse(r)
	if err != nil {
		return Header{}, err
	}
	if err := c.limitReads(time.Time{}); err != nil {
		return Header{}, fmt.Errorf("lifting the PROXY header's time limit: %w", err)
	}
	return header, nil
}

// limitReads sets or, given the zero time, lifts the header's own read deadline.
func (c *Conn) limitReads(limit time.Time) error {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	c.limit = limit
	return c.applyDeadline()
}

// SetReadDeadline is that of net.Conn. While the header is being read it can only shorten the time for that.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	c.wanted = t
	return c.applyDeadline()
}

// SetDeadline is that of net.Conn, with the same reservation as SetReadDeadline.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *Conn) applyDeadline() error {
	t := c.wanted
	if t.IsZero() || !c.limit.IsZero() && c.limit.Before(t) {
		t = c.limit
	}
	return c.Conn.SetReadDeadline(t)
}

// CloseWrite shuts down the sending side. An HTTP server needs it to get an answer across while a large upload that it
// refuses is still coming in. It returns errors.ErrUnsupported where the connection cannot do that.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
