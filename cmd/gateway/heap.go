package main

import "os"

// heapRoom is how much a gateway may allocate between two collections beyond what it keeps, in bytes. The runtime collects when
// the heap has doubled. What a gateway keeps is little, so that it would collect dozens of times a second under load,
// and spend a fifth of its own time on that; with this much room it is a few times a second, and more room gains little.
const heapRoom = 32 << 20

// reserveHeap returns an allocation that makes the runtime see a heap of heapRoom bytes more, as long as it is kept. It is never
// touched, so it takes no memory itself; up to as much garbage does. Who sets GOGC or GOMEMLIMIT has
// decided otherwise.
func reserveHeap() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, heapRoom)
}
