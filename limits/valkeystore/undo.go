package valkeystore

import (
	"context"
	"time"

	"authgate/limits"
)

// undo gives back reservations of decisions that were not answered in time: the server may have made them after
// all, and nobody will settle them [S6]. What does not fit, or fails again, ends with its lease.
type undo struct {
	store *Store
	queue chan doubtful
}

// doubtful is what may have been reserved, and when the script that did it can no longer run.
type doubtful struct {
	release *limits.Settlement
	over    time.Time
}

// undoQueue bounds what waits to be given back: more than the calls that can time out before the breaker opens.
const undoQueue = 1024

func newUndo(s *Store) *undo {
	return &undo{store: s, queue: make(chan doubtful, undoQueue)}
}

func (u *undo) add(a *limits.Attempt) {
	if a.ID == 0 {
		return
	}
	st := a.Release()
	if len(st.Closings) == 0 {
		return
	}
	select {
	case u.queue <- doubtful{st, time.Now().Add(u.store.cfg.Timeout + clockSlack*time.Millisecond)}:
	default:
	}
}

func (u *undo) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-u.queue:
			u.giveBack(ctx, d)
		}
	}
}

// giveBack waits until the late script can no longer run, then releases; during an outage it waits for its end,
// but not for longer than any lease lives.
func (u *undo) giveBack(ctx context.Context, d doubtful) {
	pause := time.NewTimer(time.Until(d.over))
	defer pause.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); pause.Reset(time.Second) {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		if u.store.health.open() {
			continue
		}
		if _, err := u.store.Settle(ctx, d.release); err == nil {
			return
		}
	}
}
