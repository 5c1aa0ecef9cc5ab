package limits

import (
	"context"
	"sync"
	"time"
)

// aloneRecords are the keys of records that were changed while the shared store was out. The zero value is none.
type aloneRecords struct {
	mu sync.Mutex
	at map[string]aloneRecord
}

// aloneRecord is what became of a record.
type aloneRecord struct {
	forgotten bool
	until     time.Time // when that means nothing any more
}

const (
	// maxAloneRecords bounds what is remembered: a record that finds no place is as well known as before the outage.
	maxAloneRecords = 10_000
	// forgottenFor is how long it is remembered that a record was forgotten alone, as for released buckets [S5].
	forgottenFor = 24 * time.Hour
)

func (r *aloneRecords) add(changes []Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = make(map[string]aloneRecord)
	}
	now := time.Now()
	for i := range changes {
		c := &changes[i]
		if _, known := r.at[c.Key]; !known && len(r.at) >= maxAloneRecords {
			r.purge(now)
			if len(r.at) >= maxAloneRecords {
				return
			}
		}
		n := aloneRecord{until: now.Add(c.TTL)}
		if c.Text == "" {
			n = aloneRecord{forgotten: true, until: now.Add(forgottenFor)}
		}
		r.at[c.Key] = n
	}
}

func (r *aloneRecords) purge(now time.Time) {
	for key, n := range r.at {
		if !now.Before(n.until) {
			delete(r.at, key)
		}
	}
}

func (r *aloneRecords) drop(was []Kept, changes []Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.at) == 0 {
		return
	}
	for i := range was {
		delete(r.at, was[i].Key)
	}
	for i := range changes {
		delete(r.at, changes[i].Key)
	}
}

// get is what became of a record alone; ok is false if nothing did.
func (r *aloneRecords) get(key string) (n aloneRecord, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, ok = r.at[key]; ok && !time.Now().Before(n.until) {
		delete(r.at, key)
		ok = false
	}
	return n, ok
}

// Load reads the shared store, and the local one only while that is out. A record that was changed during an outage is found
// afterwards as well, by the instance that changed it: one that was kept unless the shared store has another, and one that was
// forgotten as forgotten. The next [Fallback.Swap] of the key ends that, whatever comes of it.
func (f *Fallback) Load(ctx context.Context, keys ...string) ([]string, error) {
	texts, err := f.shared.Load(ctx, keys...)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return f.local.Load(ctx, keys...)
	}
	for i, key := range keys {
		n, changed := f.records.get(key)
		switch {
		case !changed:
		case n.forgotten:
			texts[i] = ""
		case texts[i] == "":
			local, err := f.local.Load(ctx, key)
			if err != nil {
				return nil, err
			}
			texts[i] = local[0]
		}
	}
	return texts, nil
}

// Swap changes the shared store's records, and then the local ones alike. While the shared store is out the local ones alone
// are asked and changed.
func (f *Fallback) Swap(ctx context.Context, was []Kept, changes ...Change) (bool, error) {
	if err := CheckSwap(was, changes); err != nil {
		return false, err
	}
	done, err := f.shared.Swap(ctx, was, changes...)
	if err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		done, err = f.local.Swap(ctx, was, changes...)
		if done && err == nil {
			f.records.add(changes)
		}
		return done, err
	}
	f.records.drop(was, changes)
	if done {
		_, err = f.local.Swap(ctx, nil, changes...)
	}
	return done, err
}

// List lists what the shared store has.
func (f *Fallback) List(ctx context.Context, index, cursor string, limit int) ([]string, string, error) {
	return f.shared.List(ctx, index, cursor, limit)
}

// Shared are the records as all instances see them: what the shared store does not answer is an error, and nothing is changed for
// this instance alone [A4].
func (f *Fallback) Shared() Records { return sharedRecords{f} }

type sharedRecords struct{ f *Fallback }

func (r sharedRecords) Load(ctx context.Context, keys ...string) ([]string, error) {
	return r.f.shared.Load(ctx, keys...)
}

func (r sharedRecords) List(ctx context.Context, index, cursor string, limit int) ([]string, string, error) {
	return r.f.shared.List(ctx, index, cursor, limit)
}

func (r sharedRecords) Swap(ctx context.Context, was []Kept, changes ...Change) (bool, error) {
	done, err := r.f.shared.Swap(ctx, was, changes...)
	if err != nil || !done {
		return done, err
	}
	r.f.records.drop(was, changes)
	_, err = r.f.local.Swap(ctx, nil, changes...)
	return true, err
}
