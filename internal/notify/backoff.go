package notify

import (
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = time.Second
	maxBackoff   = 5 * time.Minute
)

// Backoff is how long to wait after so many failures (1 or more) before trying again: about a second, twice as long each time,
// at most five minutes. Up to half of it is left to chance, so that several instances do not try in step.
func Backoff(failures int) time.Duration {
	d := maxBackoff
	if doublings := max(failures, 1) - 1; doublings < 10 { // 2^10 s are more than five minutes
		d = min(d, firstBackoff<<doublings)
	}
	return d - rand.N(d/2)
}
