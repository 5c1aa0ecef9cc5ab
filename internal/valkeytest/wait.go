package valkeytest

import (
	"testing"
	"time"
)

// Patience bounds the wait for what must come about soon, on a busy machine.
const Patience = 20 * time.Second

// Eventually fails the test unless the condition comes to hold within [Patience].
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(Patience); !condition(); {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("%s: not within %s", what, Patience)
		}
	}
}
