//go:build !race

package server

import (
	"io"
	"testing"
)

// TestAllocations guards what a request costs here: what was reached, and about one in ten more. Three of them are the handler's.
func TestAllocations(t *testing.T) {
	s := run(t, judge)
	c := s.dial("")
	answer := make([]byte, 4096)
	ask := func() {
		if _, err := io.WriteString(c, login); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(answer); err != nil {
			t.Fatal(err)
		}
	}
	ask() // fills the pools
	const most = 14
	if got := testing.AllocsPerRun(200, ask); got > most {
		t.Errorf("a request takes %.1f allocations, at most %d are expected", got, most)
	}
}
