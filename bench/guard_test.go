//go:build !race

package bench

import (
	"net/http"
	"testing"

	"authgate/internal/gateway"
)

// TestAllocations guards what the way of a request costs. Allocations are counted instead of time, since they are the same on
// every machine; three of each admitted request are the backend's of this test. The race detector has its own ideas
// of allocating.
func TestAllocations(t *testing.T) {
	g := newGateway(t, "http://backend.test", gateway.Options{Transport: newInstant()})
	for _, tt := range []struct {
		path   string
		status int
		most   float64 // what was reached, and about one in ten more
	}{
		{"/login", http.StatusOK, 37},
		{"/deny", http.StatusTooManyRequests, 12},
		{"/untouched", http.StatusOK, 16},
	} {
		t.Run(tt.path[1:], func(t *testing.T) {
			v := newVisitor(tt.path)
			for range 100 { // until the pools are filled, and the bucket of /deny
				v.visit(g.Handler())
			}
			got := testing.AllocsPerRun(2000, func() {
				if status := v.visit(g.Handler()); status != tt.status {
					t.Fatalf("got status %d, want %d", status, tt.status)
				}
			})
			if got > tt.most {
				t.Errorf("got %v allocations, want at most %v", got, tt.most)
			}
			t.Logf("%v allocations", got)
		})
	}
}
