package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"
)

// exchange is one request and its answer. It ends when the answer's body does, or with an error; then its connection
// goes to the pool or is closed. One goroutine works on it, the caller's. Besides it there may be the context's, which
// interrupts, and that of a sender.
type exchange struct {
	t     *Transport
	req   *http.Request
	ctx   context.Context
	began time.Time

	res  http.Response // what the caller gets: one allocation for all
	body body
	in   inbox // what was read from the connection

	sent     bool        // the upstream may have seen a part of the request
	streams  bool        // the body is sent by a sender
	sender   *sender     // nil until the head of such a request is sent
	reusable bool        // both sides mean to keep the connection
	limit    time.Time   // for the header of the answer; zero: none
	stop     func() bool // takes the interruption by the context back; nil: it cannot interrupt yet

	mu          sync.Mutex // guards what follows, and the deadlines of conn
	conn        *conn      // nil before it is found and after the exchange; only the caller's goroutine sets it
	answered    bool       // the time limit of the header was lifted; only the caller's goroutine sets it
	interrupted bool       // a past deadline is set, and must stay
	broken      error      // why it was interrupted, unless by the context
}

// maxInformational bounds the 1xx answers to one request: somebody has to end. A 102 every 15 seconds lasts 16 minutes.
const maxInformational = 64

var (
	errSwitched      = malformed("switches to a protocol nobody asked for")
	errInformational = malformed("too many 1xx answers")
)

// run takes the exchange from the request to the header of the answer.
func (x *exchange) run() error {
	request, err := x.compose()
	if err != nil {
		x.finish(false)
		return err
	}
	err = x.ask(request)
	if x.streams && x.sender == nil {
		closeBody(x.req) // of which nothing was sent
	}
	doing := "sending the request"
	if err == nil {
		doing, err = "reading the answer", x.readHead()
	}
	if err != nil {
		err = &callError{doing, x.cause(err)}
		x.finish(false)
		return err
	}
	if x.body.kind == bodyNone {
		x.finish(true)
	}
	return nil
}

// compose writes down the request, as far as it is sent in one write.
func (x *exchange) compose() ([]byte, error) {
	x.in.borrow(x)
	request, err := x.appendRequest(x.in.buf[:0])
	if err != nil || !x.streams {
		closeBody(x.req)
	}
	if err != nil {
		return nil, &callError{"sending the request", err}
	}
	x.in.buf = request[:cap(request)] // the answer may take the place of the request
	return request, nil
}

func (x *exchange) appendRequest(b []byte) ([]byte, error) {
	if x.ctx.Err() != nil {
		return nil, context.Cause(x.ctx)
	}
	length, err := bodyLength(x.req)
	if err != nil {
		return nil, err
	}
	x.streams = length < 0 || length > maxSmallBody
	b, err = appendHead(b, x.req, length)
	if err == nil && length > 0 && !x.streams {
		b, err = appendBody(b, x.req.Body, length)
	}
	return b, err
}

// ask sends the request and waits for an answer's first bytes. A used connection may turn out to have been closed.
func (x *exchange) ask(request []byte) error {
	if c := x.t.pool.get(x.began); c != nil {
		err := x.askOn(c, request)
		if err == nil || !x.mayRepeat(err) {
			return err
		}
		x.detach()
		_ = c.Close()
	}
	c, err := x.t.dial(x.ctx)
	if err != nil {
		return &callError{"connecting", err}
	}
	if x.ctx.Err() != nil {
		_ = c.Close()
		return context.Cause(x.ctx)
	}
	return x.askOn(c, request)
}

// mayRepeat reports whether a request that got not a byte of an answer from a used connection can be sent again
// without being done twice. One that has a body or that changes something is only if no byte of it was sent.
func (x *exchange) mayRepeat(err error) bool {
	if isTimeout(err) || x.ctx.Err() != nil {
		return false
	}
	if !x.sent {
		return true
	}
	switch x.req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return x.req.Body == nil || x.req.Body == http.NoBody
	}
	return false
}

func (x *exchange) askOn(c *conn, request []byte) (err error) {
	x.attach(c)
	if x.streams {
		return x.askStreaming(c, request)
	}
	x.in.w, x.sent, err = c.ask(x, request)
	if err != nil && x.sent && isTimeout(err) { // of its patience
		return x.in.fill()
	}
	return err
}

// askStreaming sends the head of a request and leaves its body to a sender, so that an answer is seen that comes early.
func (x *exchange) askStreaming(c *conn, head []byte) error {
	x.watch()
	x.mu.Lock()
	x.unlimit() // until the request has ended
	x.mu.Unlock()
	if !c.talk.quiet() {
		return errStale
	}
	x.limitWrite(c)
	n, err := c.Write(head)
	x.sent = n > 0
	if err != nil {
		return err
	}
	x.sender = newSender(x, c)
	go x.sender.run()
	return x.in.fill()
}

// patience is how long an exchange waits for its answer before it begins to watch its context. Nearly all answers come
// earlier, and watching costs as much as writing the request down. Who has given up meanwhile is found then, or after twice that.
const patience = 500 * time.Millisecond

// attach makes the exchange own a connection. For a while only the time can interrupt it: its patience, or up to twice that, since
// setting a limit for each request is work.
func (x *exchange) attach(c *conn) {
	now := time.Now() // the body may have taken its time
	least, most := x.t.patience, 2*x.t.patience
	if timeout := x.t.cfg.ResponseTimeout; timeout > 0 {
		x.limit, least, most = now.Add(timeout), min(least, timeout), min(most, timeout)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn = c
	left := c.until.Sub(now)
	switch {
	case x.interrupted:
		c.interrupt()
	case x.stop != nil: // the second connection of a request whose context is watched since the first
		c.readBy(x.limit)
	case left < least || left > most:
		c.readBy(now.Add(most))
	}
}

// watch lets the context interrupt the exchange, and gives it its whole time.
func (x *exchange) watch() {
	if x.stop != nil {
		return
	}
	x.mu.Lock()
	if !x.interrupted && !x.answered {
		x.conn.readBy(x.limit)
	}
	x.mu.Unlock()
	x.stop = afterFunc(x.ctx, x.interrupt)
}

// afterFunc is [context.AfterFunc], but for what that makes on its way to a context's own method.
func afterFunc(ctx context.Context, f func()) (stop func() bool) {
	if own, ok := ctx.(interface{ AfterFunc(func()) func() bool }); ok {
		return own.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// detach gives the connection up.
func (x *exchange) detach() {
	x.mu.Lock()
	x.conn = nil
	x.mu.Unlock()
}

// interrupt makes whoever waits for the connection return.
func (x *exchange) interrupt() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.interrupted = true
	if x.conn != nil {
		x.conn.interrupt()
	}
}

// breakOff interrupts for a reason of its own. The first interruption is the one that errors tell.
func (x *exchange) breakOff(reason error) {
	x.mu.Lock()
	if !x.interrupted {
		x.broken = reason
	}
	x.mu.Unlock()
	x.interrupt()
}

// slowWrite prepares for a write that may have to wait.
func (x *exchange) slowWrite(c *conn) {
	x.watch()
	x.limitWrite(c)
}

// limitWrite gives the upstream time to take the next piece of a request.
func (x *exchange) limitWrite(c *conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if timeout := x.t.cfg.ResponseTimeout; timeout > 0 && !x.interrupted && x.conn == c {
		_ = c.SetWriteDeadline(time.Now().Add(timeout))
	}
}

// Read reads from the connection for the inbox. The time limit is one for the header, so it is lifted here when
// that is complete; most answers are complete then too, and never come here again.
func (x *exchange) Read(p []byte) (int, error) {
	x.watch()
	if x.body.kind != bodyNone && !x.answered {
		x.liftLimit()
	}
	return x.conn.Read(p)
}

func (x *exchange) liftLimit() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
	x.unlimit()
}

// unlimit gives reading all the time it takes. The lock is held.
func (x *exchange) unlimit() {
	if !x.interrupted {
		x.conn.readBy(time.Time{})
	}
}

func (x *exchange) hasAnswer() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answered
}

// readHead reads answers until one is final.
func (x *exchange) readHead() error {
	for range maxInformational {
		block, err := x.in.section(x.t.cfg.MaxHeaderBytes)
		if err != nil {
			return err
		}
		if err := parseHead(block, &x.res); err != nil {
			return err
		}
		switch code := x.res.StatusCode; {
		case code == http.StatusSwitchingProtocols:
			return errSwitched
		case code < 200:
			if err := x.inform(code, x.res.Header); err != nil {
				return err
			}
		default:
			return x.begin()
		}
	}
	return errInformational
}

// inform passes on an answer that is not the last.
func (x *exchange) inform(code int, header http.Header) error {
	if err := checkInformational(header); err != nil {
		return err
	}
	trace := httptrace.ContextClientTrace(x.ctx)
	if trace == nil || trace.Got1xxResponse == nil {
		return nil
	}
	return trace.Got1xxResponse(code, textproto.MIMEHeader(header))
}

// begin finds out how the body of the answer is framed, and makes the response.
func (x *exchange) begin() error {
	f, err := frame(x.req.Method, &x.res)
	if err != nil {
		return err
	}
	x.reusable = !f.close && !x.req.Close && !hasToken(x.req.Header["Connection"], "close")
	x.res.Request = x.req
	x.res.Body = http.NoBody
	if f.kind != bodyNone {
		x.res.Body = &x.body
	}
	x.body.begin(x, f)
	if x.sender != nil {
		x.liftLimit() // or the sender would set one when it ends
	}
	return nil
}

// cause is the reason behind an error of the connection.
func (x *exchange) cause(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.broken != nil {
		return x.broken
	}
	if ctxErr := context.Cause(x.ctx); ctxErr != nil {
		return ctxErr
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF // here no end is expected
	}
	return err
}

// finish ends the exchange. It keeps the connection if the answer was read to its end, everybody wants to go
// on, and nothing followed the answer.
func (x *exchange) finish(complete bool) {
	if x.stop != nil {
		x.stop() // an interruption under way finds no connection any more
	}
	complete = complete && (x.sender == nil || x.sender.ended())
	x.mu.Lock()
	c := x.conn
	x.conn = nil
	keep := complete && x.reusable && !x.interrupted && x.in.buffered() == 0
	x.mu.Unlock()
	x.in.release()
	switch {
	case c == nil:
	case keep:
		x.t.pool.put(c)
	default:
		_ = c.Close()
	}
}
