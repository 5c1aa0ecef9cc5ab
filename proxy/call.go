package proxy

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"
)

// call is the context of the call to the backend, and what it tells on its way. A call that nobody judges ends with the
// client. One whose verdict is awaited goes on when the client hangs up, or hanging up would be a free guess [L9]; but only
// so many do, and none for longer than the backend is given for a header. It costs nothing but a look at the client's
// context as long as the client stays: the rest is made when it is needed.
type call struct {
	x      *exchange
	client context.Context
	judged bool

	mu     sync.Mutex
	over   bool
	life   context.Context // what a judged call lives by once the client has gone; nil until then
	kill   context.CancelFunc
	orphan *time.Timer     // nil: the call is none
	done   chan struct{}   // for those who ask
	forget func() bool     // takes back that done is closed when the life is over
	trace  context.Context // holds the hooks of httptrace, once somebody asks
}

var _ context.Context = (*call)(nil)

func (c *call) begin(x *exchange) {
	c.x, c.client, c.judged = x, x.r.Context(), x.reservation != nil
}

// AfterFunc is what [context.AfterFunc] does for this context.
func (c *call) AfterFunc(f func()) (stop func() bool) {
	if !c.judged {
		return context.AfterFunc(c.client, f)
	}
	return context.AfterFunc(c.client, func() { context.AfterFunc(c.outlive(), f) })
}

// outlive is what the call lives by now that the client has gone.
func (c *call) outlive() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life != nil {
		return c.life
	}
	c.life, c.kill = context.WithCancel(c.x.h.closing)
	if c.over || !c.x.h.orphans.take() {
		c.kill()
	} else {
		c.orphan = time.AfterFunc(c.x.upstream.orphanTime(), c.kill)
	}
	return c.life
}

// end ends the call, whatever still waits for it.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.orphan != nil {
		c.orphan.Stop()
		c.x.h.orphans.give()
	}
	if c.done != nil && c.forget() {
		close(c.done)
	}
	if c.kill != nil {
		c.kill()
	}
}

// Done implements [context.Context].
func (c *call) Done() <-chan struct{} {
	if !c.judged {
		return c.client.Done()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		c.forget = c.AfterFunc(func() { close(c.done) })
		if c.over && c.forget() {
			close(c.done)
		}
	}
	return c.done
}

// Err implements [context.Context].
func (c *call) Err() error {
	if !c.judged {
		return c.client.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over:
		return context.Canceled
	case c.life != nil:
		return c.life.Err()
	}
	return nil
}

// Deadline implements [context.Context]. There is none.
func (c *call) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements [context.Context]. It holds the hooks of httptrace and nothing else.
func (c *call) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trace == nil {
		c.trace = httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got1xxResponse: c.x.early.pass})
	}
	return c.trace.Value(key)
}

// informant passes 103 and its like on to a client that can take them. 100 is the server's own affair, and nothing is said
// until that is settled: after a hint the server would not say it in HTTP/2, and the client would wait in vain; in HTTP/1 it
// would write both at once. The transport may still call it when its call is over, and the answer is no longer there to be
// added to.
type informant struct {
	x    *exchange
	mu   sync.Mutex
	over bool
}

func (i *informant) pass(code int, header textproto.MIMEHeader) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over || code == http.StatusContinue || !i.x.r.ProtoAtLeast(1, 1) || i.x.coming.pending() {
		return nil
	}
	h := i.x.w.Header()
	copyHeader(h, http.Header(header))
	i.x.w.WriteHeader(code)
	clear(h)
	return nil
}

func (i *informant) end() {
	i.mu.Lock()
	i.over = true
	i.mu.Unlock()
}
