//go:build !race

package route

// raceEnabled says that pools forget things on purpose, so that allocations cannot be counted.
const raceEnabled = false
