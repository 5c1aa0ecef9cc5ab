package server

import (
	"context"
	"sync"
	"time"
)

// life is a request's context. It ends with the handler, or when the client hangs up; for the latter somebody has to watch the
// connection, so that begins when the first one asks.
type life struct {
	context.Context // the connection's
	conn            *conn

	mu      sync.Mutex
	over    bool
	inner   context.Context // made for who asks
	cancel  context.CancelFunc
	watched chan struct{} // closed when the watching has ended
}

// Done implements [context.Context].
func (l *life) Done() <-chan struct{} { return l.ask().Done() }

// Err implements [context.Context]. Without anybody who waits, the client's leaving is not noticed.
func (l *life) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.inner != nil:
		return l.inner.Err()
	case l.over:
		return context.Canceled
	}
	return l.Context.Err()
}

// AfterFunc is what [context.AfterFunc] does for this context.
func (l *life) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(l.ask(), f) }

func (l *life) ask() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner == nil {
		l.inner, l.cancel = context.WithCancel(l.Context)
		switch {
		case l.over:
			l.cancel()
		case l.conn.w < len(l.conn.buf):
			l.watched = make(chan struct{})
			l.conn.readBy(time.Time{})
			go l.watch()
		}
	}
	return l.inner
}

// watch reads on. What comes is the next request, if it is not the end.
func (l *life) watch() {
	defer close(l.watched)
	n, err := l.conn.Read(l.conn.buf[l.conn.w:])
	l.conn.w += n
	if err != nil && n == 0 {
		l.cancel() // or end has interrupted, and does so anyway
	}
}

// end ends the context and the watching.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.watched != nil {
		l.conn.readBy(past)
		<-l.watched
	}
	if l.cancel != nil {
		l.cancel()
	}
}

var past = time.Unix(1, 0)
