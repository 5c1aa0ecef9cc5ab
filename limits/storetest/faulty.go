package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"authgate/limits"
)

// Faulty is a store that fails on request, for tests of whatever uses one. It does what the store inside does, unless a
// [Fault] is due. Its errors wrap [limits.ErrUnavailable], as those of a shared store do. All methods may be used by any
// number of goroutines; Close never fails by a fault.
type Faulty struct {
	inner limits.Store

	mu     sync.Mutex
	next   []Fault
	always Fault
	calls  map[string]int
	merged []limits.Record
}

var _ limits.Shared = (*Faulty)(nil)

// Fault is the way in which a call fails.
type Fault uint8

// The faults. The zero value is none.
const (
	Works  Fault = iota
	Before       // an error, and nothing was done
	After        // an error, although it was done
	Hang         // nothing is done, and the error comes when the context ends
	Late         // it is done, and the error comes when the context ends
)

// NewFaulty wraps a store, which it owns: Close closes it.
func NewFaulty(inner limits.Store) *Faulty {
	return &Faulty{inner: inner, calls: make(map[string]int)}
}

// Next makes the next calls of any method, one for each fault, fail in that way.
func (f *Faulty) Next(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = append(f.next, faults...)
}

// Always makes all calls fail in that way, those of Next aside, until it is told otherwise.
func (f *Faulty) Always(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.always = fault
}

// Calls is how often an operation was asked for: decide, settle, renew, entries, release, clear, load, swap, list, merge.
func (f *Faulty) Calls(operation string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[operation]
}

// Merged is what was brought in by Merge, in order.
func (f *Faulty) Merged() []limits.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.merged)
}

// errFault is the cause that Faulty gives.
var errFault = errors.New("fault on request")

// call does one operation, or fails.
func (f *Faulty) call(ctx context.Context, operation string, do func() error) error {
	f.mu.Lock()
	f.calls[operation]++
	fault := f.always
	if len(f.next) > 0 {
		fault, f.next = f.next[0], f.next[1:]
	}
	f.mu.Unlock()

	if fault == Works {
		return do()
	}
	if fault == After || fault == Late {
		if err := do(); err != nil {
			return err
		}
	}
	cause := errFault
	if fault == Hang || fault == Late {
		<-ctx.Done()
		cause = ctx.Err()
	}
	return fmt.Errorf("asking the store to %s: %w: %w", operation, limits.ErrUnavailable, cause)
}

// ask is call for what has a result: on an error that is the zero value, whatever was done.
func ask[T any](ctx context.Context, f *Faulty, operation string, do func() (T, error)) (T, error) {
	var out, zero T
	err := f.call(ctx, operation, func() (err error) {
		out, err = do()
		return err
	})
	if err != nil {
		return zero, err
	}
	return out, nil
}

// Decide is that of the store inside, or a fault.
func (f *Faulty) Decide(ctx context.Context, a *limits.Attempt) (limits.Decision, error) {
	return ask(ctx, f, "decide", func() (limits.Decision, error) { return f.inner.Decide(ctx, a) })
}

// Settle is that of the store inside, or a fault.
func (f *Faulty) Settle(ctx context.Context, s *limits.Settlement) (limits.Settled, error) {
	return ask(ctx, f, "settle", func() (limits.Settled, error) { return f.inner.Settle(ctx, s) })
}

// Renew is that of the store inside, or a fault.
func (f *Faulty) Renew(ctx context.Context, a *limits.Attempt) error {
	return f.call(ctx, "renew", func() error { return f.inner.Renew(ctx, a) })
}

// Entries is that of the store inside, or a fault.
func (f *Faulty) Entries(ctx context.Context, cursor string, limit int) ([]limits.Entry, string, error) {
	next := ""
	entries, err := ask(ctx, f, "entries", func() (entries []limits.Entry, err error) {
		entries, next, err = f.inner.Entries(ctx, cursor, limit)
		return entries, err
	})
	if err != nil {
		return nil, "", err
	}
	return entries, next, nil
}

// Release is that of the store inside, or a fault.
func (f *Faulty) Release(ctx context.Context, key string) (bool, error) {
	return ask(ctx, f, "release", func() (bool, error) { return f.inner.Release(ctx, key) })
}

// Clear is that of the store inside, or a fault.
func (f *Faulty) Clear(ctx context.Context) (int, error) {
	return ask(ctx, f, "clear", func() (int, error) { return f.inner.Clear(ctx) })
}

// Load is that of the store inside, or a fault.
func (f *Faulty) Load(ctx context.Context, keys ...string) ([]string, error) {
	return ask(ctx, f, "load", func() ([]string, error) { return f.inner.Load(ctx, keys...) })
}

// Swap is that of the store inside, or a fault.
func (f *Faulty) Swap(ctx context.Context, was []limits.Kept, changes ...limits.Change) (bool, error) {
	return ask(ctx, f, "swap", func() (bool, error) { return f.inner.Swap(ctx, was, changes...) })
}

// List is that of the store inside, or a fault.
func (f *Faulty) List(ctx context.Context, index, cursor string, limit int) ([]string, string, error) {
	next := ""
	keys, err := ask(ctx, f, "list", func() (keys []string, err error) {
		keys, next, err = f.inner.List(ctx, index, cursor, limit)
		return keys, err
	})
	if err != nil {
		return nil, "", err
	}
	return keys, next, nil
}

// Merge takes the records down, and passes them on if the store inside can merge; or it is a fault.
func (f *Faulty) Merge(ctx context.Context, records []limits.Record) error {
	return f.call(ctx, "merge", func() error {
		f.mu.Lock()
		f.merged = append(f.merged, records...)
		f.mu.Unlock()
		if shared, ok := f.inner.(limits.Shared); ok {
			return shared.Merge(ctx, records)
		}
		return nil
	})
}

// Close closes the store inside.
func (f *Faulty) Close() error { return f.inner.Close() }
