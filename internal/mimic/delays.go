package mimic

import (
	"slices"
	"time"
)

// delays are how long the latest real answers took, in microseconds. The zero value is empty.
//
// How many are kept follows from how alike real and refused answers must be: of 1000 each, the distributions may differ by 0.1 at
// most. The distance of 1000 draws to 1000 fresh answers, by way of n kept ones, exceeds that with a probability of
// 2 exp(-2 x 0.1^2 / (2/1000 + 1/n)): 7 in 100 for 256, 3 in 1000 for 1024.
type delays struct {
	recent []uint32 // a ring, once it is full
	next   int
	sorted []uint32 // of recent, not always up to date
	stale  int      // answers since it was sorted
}

const (
	maxDelays = 1024
	fewDelays = 8 // below, those of the policy as a whole say more
	sortEvery = 32

	maxDelay = 30 * time.Second // backends that throttle take up to 25 s
)

func (d *delays) add(took time.Duration) {
	µs := uint32(min(took, maxDelay).Microseconds())
	d.stale++
	if len(d.recent) < maxDelays {
		d.recent = append(d.recent, µs)
		return
	}
	d.recent[d.next] = µs
	d.next = (d.next + 1) % maxDelays
}

// draw takes one of the times, u of [0, 1) says which, and moves it by less than half the way to its nearer neighbour, v says how
// far: so no time is repeated exactly, and the gap between two groups (names that exist and such that do not) stays empty.
func (d *delays) draw(u, v float64) time.Duration {
	if d.stale > 0 && (len(d.recent) < maxDelays || d.stale >= sortEvery || d.sorted == nil) {
		d.sorted = append(d.sorted[:0], d.recent...)
		slices.Sort(d.sorted)
		d.stale = 0
	}
	i := int(u * float64(len(d.sorted)))
	at := d.sorted[i]
	gap := uint32(0)
	switch last := len(d.sorted) - 1; {
	case i > 0 && i < last:
		gap = min(at-d.sorted[i-1], d.sorted[i+1]-at)
	case i > 0:
		gap = at - d.sorted[i-1]
	case i < last:
		gap = d.sorted[i+1] - at
	}
	moved := float64(at) + (v-0.5)*float64(gap)
	return time.Duration(moved * float64(time.Microsecond))
}

// unknownDelay is a time that hashing a password takes, as these are commonly set up: 50 to 150 ms.
func unknownDelay(u float64) time.Duration {
	return 50*time.Millisecond + time.Duration(u*float64(100*time.Millisecond))
}
