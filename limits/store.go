package limits

import (
	"context"
	"errors"
	"time"
)

// Store keeps the states of buckets. Its methods may be called by any number of goroutines at once.
//
// # What every store must do
//
// Decide is one atomic step over all charges of the attempt: no other call is seen between the look at
// the first bucket and the change of the last. If every charge that may refuse has room, all charges with room
// are made; failure buckets get a reservation under the attempt's ID. Otherwise nothing changes, but for a
// refusal in silent form only, which charges what [Charge.OnSilent] says. Signals take no part.
//
// Settle is atomic as well, changes only buckets in which the attempt's reservation is alive, and is idempotent.
// A signal counts when a closing says Count.
//
// Renew extends every reservation of the attempt that is still alive; Settle and Renew never create a bucket.
//
// An error means that the caller must not rely on either outcome: the change may or may not be made. Stores
// bound every call themselves; a cancelled context may end it earlier. Keys and rules are not kept
// beyond the call, but for what the store's own index needs.
type Store interface {
	Decide(ctx context.Context, a *Attempt) (Decision, error)
	Settle(ctx context.Context, s *Settlement) (Settled, error)
	Renew(ctx context.Context, a *Attempt) error
	Locks
	Records
	Close() error
}

// Locks is the part of a store that lists and releases failure buckets [A2]. Buckets of request rules
// are never listed.
type Locks interface {
	// Entries lists failure buckets in no particular but stable order. It reads an index that is kept when
	// failures settle, at most limit entries from cursor on; the next cursor is "" at the end.
	Entries(ctx context.Context, cursor string, limit int) (entries []Entry, next string, err error)

	// Release forgets failures, lock, level and reservations of one bucket, so that attempts in flight are
	// fenced: their verdicts change nothing any more. It reports whether there was such a bucket.
	Release(ctx context.Context, key string) (bool, error)

	// Clear releases every failure bucket and reports how many there were.
	Clear(ctx context.Context) (int, error)
}

// Entry is one failure bucket as the operator sees it.
type Entry struct {
	Key       string
	Attempts  int64  // failures that count now; while locked, those that made the lock
	LockedFor Millis // 0: open
	Level     int64
}

// ErrUnavailable is wrapped by errors of a shared store that did not answer in time, or that could not do what it
// was asked for want of memory. It is an outage, never an admission [S4].
var ErrUnavailable = errors.New("shared store unavailable")

// ErrCursor is wrapped by the error of a page that was asked for with a cursor this store did not give out.
var ErrCursor = errors.New("cursor is not one of this list's")

// Switchboard is the kill switch that all instances share: log-only for a stated time [A3].
type Switchboard interface {
	// SetLogOnly turns it on for d from now, or off with 0. An error means that it may not have changed.
	SetLogOnly(ctx context.Context, d time.Duration) error

	// LogOnlyFor is how much longer it stays on; 0: it is off. It is asked for each request and never waits.
	LogOnlyFor() time.Duration
}
