//go:build unix && !race

package transport

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestAllocations guards what a login costs: half of it is what the test itself allocates, for the request and its context. The
// race detector has its own ideas of allocating.
func TestAllocations(t *testing.T) {
	const most = 28
	addr := benchBackend(t)
	own := New(Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		},
		ResponseTimeout: 30 * time.Second, MaxIdle: 1,
	})
	buf := make([]byte, 32<<10)
	if got := testing.AllocsPerRun(500, func() { login(t, own, addr, buf) }); got > most {
		t.Errorf("got %v allocations for a login, want at most %d", got, most)
	}
}
