package gateway

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"authgate/proxy/server"
)

// connections knows who is connected to the public server, so that a stop loses no request: net/http, once Shutdown has
// begun, drops every request that it has read and not yet handed on, and closes a connection that waits for its next
// request at the very moment when that may be on its way.
type connections struct {
	open     sync.Map     // net.Conn -> *arrival
	count    atomic.Int64 // of open
	arriving atomic.Int64 // those whose first request has not come to the handler
	leaving  atomic.Bool
}

// arrival is a connection until its first request is in the handler's hands.
type arrival struct {
	of   *connections
	over atomic.Bool
}

func (a *arrival) done() {
	if !a.over.Load() && a.over.CompareAndSwap(false, true) {
		a.of.arriving.Add(-1)
	}
}

type arrivalKey struct{}

// watch has a server tell what it accepts and closes. It wraps the server's handler.
func (c *connections) watch(s *http.Server) {
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if r, ok := conn.(*server.Resumed); ok { // the server of plain requests has counted it
			if a, known := c.open.LoadAndDelete(r.Conn); known {
				c.open.Store(conn, a)
				return context.WithValue(ctx, arrivalKey{}, a)
			}
		}
		a := &arrival{of: c}
		c.arriving.Add(1)
		c.count.Add(1)
		c.open.Store(conn, a)
		return context.WithValue(ctx, arrivalKey{}, a)
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		if state != http.StateClosed && state != http.StateHijacked {
			return
		}
		if a, ok := c.open.LoadAndDelete(conn); ok {
			a.(*arrival).done()
			c.count.Add(-1)
		}
	}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, ok := r.Context().Value(arrivalKey{}).(*arrival); ok {
			a.done()
		}
		if c.leaving.Load() {
			w.Header()["Connection"] = []string{"close"} // in HTTP/2 that makes a GOAWAY
		}
		next.ServeHTTP(w, r)
	})
}

const (
	// farewell is how long clients that hold a connection may send one more request, whose answer tells them to go elsewhere.
	farewell = 250 * time.Millisecond
	// silence is how long a client that has connected may take until its request is there.
	silence = time.Second
)

// leave waits until whoever has connected is served or was told to go, and closes on those that do not say what they want.
// Nobody may be accepted any more. Requests that are being answered are not waited for; Shutdown does that.
func (c *connections) leave(ctx context.Context) {
	c.leaving.Store(true)
	defer c.open.Range(func(conn, a any) bool {
		if !a.(*arrival).over.Load() {
			_ = conn.(net.Conn).Close() // or Shutdown would wait for it
		}
		return true
	})
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); c.count.Load() > 0; {
		took := time.Since(began)
		if took > silence || took > farewell && c.arriving.Load() == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
