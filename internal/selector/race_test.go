//go:build race

package selector

// raceEnabled: the race detector allocates, and makes sync.Pool drop what it is given.
const raceEnabled = true
