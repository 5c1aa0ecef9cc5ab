package mimic

import (
	"context"
	"sync/atomic"
	"time"
)

// Delayer lets refusals take their time, a bounded number at once. Make it with [NewDelayer]. It is safe for concurrent use.
type Delayer struct {
	slots   chan struct{}
	dropped atomic.Uint64
	late    atomic.Int64 // by how much timers have lately fired after their time, in ns
}

// DefaultDelayed is how many refusals a delayer keeps waiting at once, unless told otherwise: each holds a connection and a
// goroutine, some tens of kilobytes.
const DefaultDelayed = 1024

// NewDelayer makes a delayer of at most so many waiting at once; 0: DefaultDelayed.
func NewDelayer(limit int) *Delayer {
	if limit <= 0 {
		limit = DefaultDelayed
	}
	return &Delayer{slots: make(chan struct{}, limit)}
}

// Wait returns when total has passed since a moment, or when ctx is done. It returns at once, and false, if too many wait
// already: then a refusal is early rather than everybody's memory gone.
func (d *Delayer) Wait(ctx context.Context, since time.Time, total time.Duration) bool {
	left := total - time.Since(since)
	if left <= 0 {
		return true
	}
	select {
	case d.slots <- struct{}{}:
	default:
		d.dropped.Add(1)
		return false
	}
	defer func() { <-d.slots }()
	// A real answer's time has the lateness of one timer or none, and it is in the samples. Ours would come on top.
	set := left - time.Duration(d.late.Load())
	if set <= 0 {
		return true
	}
	began := time.Now()
	timer := time.NewTimer(set)
	defer timer.Stop()
	select {
	case <-timer.C:
		d.learn(time.Since(began) - set)
	case <-ctx.Done():
	}
	return true
}

// Waiting is how many wait now.
func (d *Delayer) Waiting() int { return len(d.slots) }

// Dropped is how many were not delayed, since too many others were.
func (d *Delayer) Dropped() uint64 { return d.dropped.Load() }

// learn follows how late timers are, slowly, and up to what an idle machine shows: the system's timers count milliseconds. Of two
// goroutines that do so at once one may be lost.
func (d *Delayer) learn(late time.Duration) {
	const most, slowness = 2 * time.Millisecond, 16
	old := time.Duration(d.late.Load())
	d.late.Store(int64(old + (min(late, most)-old)/slowness))
}
