package limits

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Fallback is a shared store with a local one as its net [S4]. While the shared store answers, its word is
// final; the local one keeps the account alongside, leniently, so that it knows what this instance saw when the
// shared one is out. Then each policy's [Outage] decides: the same rules from the local store, no rules, or no service.
//
// What the local store recorded alone is kept in a bounded journal and merged into the shared store when that is
// back [S5]. Fallback is itself a [Store]; its lists and releases never come from the local store alone [A4].
type Fallback struct {
	shared  Shared
	local   Local
	journal *journal
	merging atomic.Bool
	records aloneRecords
}

var _ Store = (*Fallback)(nil)

// Shared is what a shared store can do beyond a [Store].
type Shared interface {
	Store
	// Merge brings in what an instance recorded on its own during an outage. It is asked while the store is just
	// coming back, so it must not depend on a breaker that is still open.
	Merge(ctx context.Context, records []Record) error
}

// Local is what a local store can do beyond a [Store].
type Local interface {
	Store
	// Adopt makes a bucket as locked as the shared store says that it is: for at least lockedFor from now, at
	// no lower a level.
	Adopt(r *Rule, key string, lockedFor Millis, level int64)
	// Follow brings the records of an attempt's facts in line with what the shared store knew of them, by bits: a known one
	// is kept for about a day from now at least, with the text [Seen] if it is new; an unknown one is forgotten.
	Follow(facts []Fact, known uint32)
}

// Seen is the text of a record that a local store has from a decision of the shared one only: a device lately seen [S4].
const Seen = "seen"

// NewFallback joins the two stores. It owns both: Close closes them.
func NewFallback(shared Shared, local Local) *Fallback {
	return &Fallback{shared: shared, local: local, journal: newJournal()}
}

// Decide asks the shared store, and the local one when that does not answer. The error is [ErrUnavailable] if a
// policy prefers no service to a local decision.
func (f *Fallback) Decide(ctx context.Context, a *Attempt) (Decision, error) {
	d, err := f.shared.Decide(ctx, a)
	if err != nil {
		if ctx.Err() != nil {
			return Decision{}, err // whoever asked has left, which says nothing of the shared store
		}
		return f.decideAlone(ctx, a, err)
	}
	if f.journal.waiting() {
		go f.Merge(context.WithoutCancel(ctx))
	}
	f.follow(ctx, a, &d)
	return d, nil
}

// follow keeps the local account of what the shared store decided.
func (f *Fallback) follow(ctx context.Context, a *Attempt, d *Decision) {
	if len(a.Facts) > 0 {
		f.local.Follow(a.Facts, d.Known)
	}
	for _, r := range d.Refusals {
		if r.Cause == Locked {
			c := &a.Charges[r.Charge]
			f.local.Adopt(c.Rule, c.Key, r.Wait, 1)
		}
	}
	if d.Admitted {
		alongside := *a
		alongside.Lenient, alongside.Quotas = true, false
		_, _ = f.local.Decide(ctx, &alongside) // a store in this process does not fail
	}
}

// decideAlone decides while the shared store is out.
func (f *Fallback) decideAlone(ctx context.Context, a *Attempt, cause error) (Decision, error) {
	alone := *a
	alone.Charges = nil
	var place []int // of each of alone's charges among a's
	for i := range a.Charges {
		c := &a.Charges[i]
		switch {
		case c.Outage == OutageDeny && !c.LogOnly && !a.Lenient:
			return Decision{}, fmt.Errorf("deciding for policy %s, which prefers no service to a local decision: %w", c.Rule.Policy, cause)
		case c.Outage == OutageLocal:
			charge := *c
			charge.LogOnly = c.LogOnly || c.Doubt // whom only the shared store knows is no stranger [S4]
			alone.Charges = append(alone.Charges, charge)
			place = append(place, i)
		}
	}
	d, err := f.local.Decide(ctx, &alone)
	if err != nil {
		return Decision{}, err
	}
	d.Alone = true
	for i := range d.Refusals {
		d.Refusals[i].Charge = place[d.Refusals[i].Charge]
	}
	for i := range d.Quotas {
		d.Quotas[i].Charge = place[d.Quotas[i].Charge]
	}
	return d, nil
}

// Settle closes the account in both stores. What the shared one could not be told, but the local one counted, goes
// into the journal.
func (f *Fallback) Settle(ctx context.Context, s *Settlement) (Settled, error) {
	local, err := f.local.Settle(ctx, s)
	if err != nil {
		return Settled{}, err
	}
	if !s.Alone {
		shared, err := f.shared.Settle(ctx, s)
		if err == nil {
			for i, e := range shared.Effects {
				if e.Locked > 0 {
					f.local.Adopt(s.Closings[i].Rule, s.Closings[i].Key, e.Locked, e.Level)
				}
			}
			return shared, nil
		}
	}
	for i, e := range local.Effects {
		if e.Counted && s.Closings[i].Rule.Kind() == KindFailures {
			f.journal.add(&s.Closings[i], e)
		}
	}
	return local, nil
}

// Renew renews the leases in both stores.
func (f *Fallback) Renew(ctx context.Context, a *Attempt) error {
	return errors.Join(f.local.Renew(ctx, a), f.shared.Renew(ctx, a))
}

// Merge brings what was recorded alone into the shared store. It is called when that is back; what it does not take
// is kept for the next time.
func (f *Fallback) Merge(ctx context.Context) {
	if !f.merging.CompareAndSwap(false, true) {
		return
	}
	defer f.merging.Store(false)
	for { // one by one, so that no bucket is merged twice because another one failed
		record, ok := f.journal.take()
		if !ok {
			return
		}
		if err := f.shared.Merge(ctx, []Record{record}); err != nil {
			f.journal.putBack(record)
			return
		}
	}
}

// Entries lists what the shared store knows.
func (f *Fallback) Entries(ctx context.Context, cursor string, limit int) ([]Entry, string, error) {
	return f.shared.Entries(ctx, cursor, limit)
}

// Release releases in the shared store and, if that worked, in the local one.
func (f *Fallback) Release(ctx context.Context, key string) (bool, error) {
	found, err := f.shared.Release(ctx, key)
	if err == nil {
		f.journal.forget(key)
		_, err = f.local.Release(ctx, key)
	}
	return found, err
}

// Clear clears the shared store and, if that worked, the local one.
func (f *Fallback) Clear(ctx context.Context) (int, error) {
	n, err := f.shared.Clear(ctx)
	if err == nil {
		f.journal.forgetAll()
		_, err = f.local.Clear(ctx)
	}
	return n, err
}

// Close closes both stores.
func (f *Fallback) Close() error {
	return errors.Join(f.shared.Close(), f.local.Close())
}
