package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// TestHeapRoom looks at the size of heap at which the runtime means to collect next.
func TestHeapRoom(t *testing.T) {
	for _, tt := range []struct {
		name, variable string
		want           bool
	}{{"by default", "", true}, {"GOGC", "GOGC", false}, {"GOMEMLIMIT", "GOMEMLIMIT", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if tt.variable != "" {
				t.Setenv(tt.variable, "100")
			}
			before := heapGoal()
			room := reserveHeap()
			after := heapGoal()
			runtime.KeepAlive(room)
			if got := after >= before+heapRoom; got != tt.want {
				t.Errorf("got a goal of %d bytes after %d, want room for %d more: %v", after, before, heapRoom, tt.want)
			}
		})
	}
}

func heapGoal() uint64 {
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
