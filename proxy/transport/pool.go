package transport

import (
	"sync"
	"time"
)

// pool keeps the connections that wait for a request. The one used last is used next, so that the others can grow old
// when fewer are needed. Its zero value keeps none.
type pool struct {
	max     int
	timeout time.Duration

	mu         sync.Mutex
	idle       []*conn // oldest first
	generation uint64  // counts closeAll; older connections are not kept
	timer      *time.Timer
	ticking    bool
}

// sweepEvery is how often waiting connections are looked at. It bounds how long one stays half-closed after the
// upstream has hung up, at the price of one wake-up a second while any wait.
const sweepEvery = time.Second

// get takes a connection out of the pool, or returns nil.
func (p *pool) get(now time.Time) *conn {
	p.mu.Lock()
	n := len(p.idle)
	if n > 0 && !p.expired(p.idle[n-1], now) {
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c
	}
	expired := p.idle // all: the others have waited for longer
	p.idle = nil
	p.mu.Unlock()
	for _, c := range expired {
		_ = c.Close()
	}
	return nil
}

// put keeps a connection for the next request, or closes it.
func (p *pool) put(c *conn) {
	c.idleSince = time.Now()
	p.mu.Lock()
	if len(p.idle) >= p.max || c.generation != p.generation {
		p.mu.Unlock()
		_ = c.Close()
		return
	}
	p.idle = append(p.idle, c)
	p.tick()
	p.mu.Unlock()
}

// current is the generation that a connection dialled now belongs to.
func (p *pool) current() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.generation
}

func (p *pool) closeAll() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.generation++
	if p.timer != nil {
		p.timer.Stop()
		p.ticking = false
	}
	p.mu.Unlock()
	for _, c := range idle {
		_ = c.Close()
	}
}

// tick makes sure that a sweep follows. The lock is held.
func (p *pool) tick() {
	switch {
	case p.ticking:
		return
	case p.timer == nil:
		p.timer = time.AfterFunc(sweepEvery, p.sweep)
	default:
		p.timer.Reset(sweepEvery)
	}
	p.ticking = true
}

// sweep closes the connections that have waited for too long or that the upstream has closed.
func (p *pool) sweep() {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.idle[:0]
	for _, c := range p.idle {
		if p.expired(c, now) || !c.quiet() {
			_ = c.Close()
			continue
		}
		kept = append(kept, c)
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	p.ticking = false
	if len(kept) > 0 {
		p.tick()
	}
}

func (p *pool) expired(c *conn, now time.Time) bool {
	return p.timeout > 0 && now.Sub(c.idleSince) >= p.timeout
}
