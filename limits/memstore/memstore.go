// Package memstore keeps buckets and records in the memory of this process: bounded, sharded, and without any work that
// grows with the number of buckets on the way of a request [S1]. With a file, what must survive a restart does.
package memstore

import (
	"context"
	"hash/maphash"
	"log/slog"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authgate/limits"
)

// Store is a [limits.Store] in process memory. Use [New]; Close ends its sweeper.
type Store struct {
	cfg     Config
	seeds   [2]maphash.Seed
	shards  []shard
	mask    uint64
	done    chan struct{}
	closed  sync.Once
	coarse  atomic.Int64
	records records
	file    *file // nil: nothing survives a restart
}

var _ limits.Local = (*Store)(nil)

// Config bounds the store.
type Config struct {
	// MaxEntries is about how many buckets are kept; a failure bucket weighs one more for each eight
	// failures or four reservations it holds. About as many records are kept besides; one weighs one more for each 256 bytes.
	// Values below MinEntries are raised to it.
	MaxEntries int

	// Logger is told when the file of a store made by [Open] cannot be written; default: discards.
	Logger *slog.Logger

	// Now replaces the wall clock; only tests that set the clock back set it.
	Now func() limits.Millis
}

// MinEntries is the smallest bound: below it the shards are too small to tell idle from busy.
const MinEntries = 1024

const (
	maxShards  = 64 // as many as a set of them has bits
	sweepEvery = time.Second
	// Every bucket is visited about once in sweepRounds sweeps, so an expired one stays that many seconds at most.
	sweepRounds = 60
)

// New makes an empty store in memory alone, and starts its sweeper. [Open] makes one that survives a restart.
func New(cfg Config) *Store {
	s := newStore(cfg)
	s.start()
	return s
}

func (s *Store) start() { go s.sweep() }

func newStore(cfg Config) *Store {
	entries := max(cfg.MaxEntries, MinEntries)
	n := 1 << bits.Len(uint(min(maxShards, entries/MinEntries))-1)
	s := &Store{
		cfg:    cfg,
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		shards: make([]shard, n),
		mask:   uint64(n - 1),
		done:   make(chan struct{}),
	}
	s.records.limit = entries
	for i := range s.shards {
		s.shards[i].init(entries / n)
	}
	return s
}

func (s *Store) now() limits.Millis {
	if s.cfg.Now != nil {
		return s.cfg.Now()
	}
	return limits.ToMillis(time.Now())
}

// Close ends the sweeper, and writes to the file, if there is one, what is not yet there; the error is that of writing. The
// rest is gone with the store. It must not be used any more.
func (s *Store) Close() (err error) {
	s.closed.Do(func() {
		close(s.done)
		if s.file != nil {
			<-s.file.done
			err = s.file.close()
		}
	})
	return err
}

// Decide answers the attempt; see [limits.Store]. It never fails.
func (s *Store) Decide(_ context.Context, a *limits.Attempt) (limits.Decision, error) {
	var room [12]spot
	spots := s.spots(room[:0], a.Charges)
	held := s.lock(spots)
	defer s.unlock(held)
	ahead(spots)

	now := s.now()
	d := limits.Decision{Admitted: true, Known: s.records.known(a.Facts, now)}
	silent := true
	for i := range spots {
		p, c := &spots[i], &a.Charges[i]
		if !c.Applies(d.Known) {
			p.idle = true
			continue
		}
		cause, wait := p.shard.ask(p.shard.place(s, p, c.Key, now), c, now)
		if cause == limits.Room {
			continue
		}
		p.full = true
		d.Refusals = append(d.Refusals, limits.Refusal{Charge: i, Cause: cause, Wait: wait})
		if !a.Lenient && !c.LogOnly {
			d.Admitted = false
			silent = silent && c.Rule.Refuse == limits.Silent
		}
	}
	for i := range spots {
		p, c := &spots[i], &a.Charges[i]
		if p.full || p.idle || (!d.Admitted && (!silent || !c.OnSilent())) {
			continue
		}
		p.shard.charge(s, p, c, a.ID, now)
	}
	if a.Quotas {
		d.Quotas = quotas(spots, a, now)
	}
	return d, nil
}

// Settle closes reservations; see [limits.Store]. It never fails.
func (s *Store) Settle(_ context.Context, st *limits.Settlement) (limits.Settled, error) {
	var room [12]spot
	spots := room[:0]
	for i := range st.Closings {
		spots = append(spots, s.spot(st.Closings[i].Key))
	}
	for i := range st.Repeats {
		spots = append(spots, s.spot(st.Repeats[i].Key))
	}
	held := s.lock(spots)
	defer s.unlock(held)
	ahead(spots)

	now := s.now()
	out := limits.Settled{Effects: make([]limits.Effect, len(st.Closings)), Repeated: make([]bool, len(st.Repeats))}
	if !s.holds(spots, st, now) {
		return out, nil // late, repeated or fenced: nothing may change, memory of secrets and signals included
	}
	for i := range st.Repeats {
		p := &spots[len(st.Closings)+i]
		out.Repeated[i] = p.shard.repeated(s, p, &st.Repeats[i], now)
	}
	for i := range st.Closings {
		c := &st.Closings[i]
		do := c.Do
		if do == limits.Count && c.Repeat > 0 && out.Repeated[c.Repeat-1] {
			do = limits.Free
		}
		out.Effects[i] = spots[i].shard.settle(s, &spots[i], c, st.ID, do, now)
	}
	return out, nil
}

// holds reports whether a reservation of the attempt is alive in any of its failure buckets; an attempt that
// has none, having only signals to feed, always may.
func (s *Store) holds(spots []spot, st *limits.Settlement, now limits.Millis) bool {
	reserves := false
	for i := range st.Closings {
		c := &st.Closings[i]
		if c.Rule.Kind() != limits.KindFailures {
			continue
		}
		reserves = true
		if spots[i].shard.holder(s, &spots[i], c.Key, st.ID, now) != nil {
			return true
		}
	}
	return !reserves
}

// Renew extends the leases of the attempt; see [limits.Store]. It never fails.
func (s *Store) Renew(_ context.Context, a *limits.Attempt) error {
	var room [12]spot
	spots := s.spots(room[:0], a.Charges)
	held := s.lock(spots)
	defer s.unlock(held)
	now := s.now()
	for i := range spots {
		c := &a.Charges[i]
		if c.Rule.Kind() != limits.KindFailures {
			continue
		}
		sh := spots[i].shard
		if e := sh.holder(s, &spots[i], c.Key, a.ID, now); e != nil {
			sh.failures.at(e.more).log.Renew(c.Rule, a.ID, now)
			sh.touch(e, now)
		}
	}
	return nil
}

// Stats is a count of what the store holds.
type Stats struct {
	Entries int64 // live buckets
	Pinned  int64 // those with a lock or a reservation when they were last touched
	Coarse  int64 // charges made to shared coarse buckets since the start, for want of room
	Records int64 // kept, some that have ended among them

	// Of a store with a file: how many keys wait to be written, how many writes failed since the start, and whether the last did.
	FileWaiting, FileFailed int64
	FileFailing             bool
}

// Stats counts the buckets. It locks one shard after the other.
func (s *Store) Stats() Stats {
	st := Stats{Coarse: s.coarse.Load()}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		st.Entries += int64(sh.count)
		st.Pinned += int64(sh.pinned)
		sh.mu.Unlock()
	}
	s.records.mu.RLock()
	defer s.records.mu.RUnlock()
	st.Records = int64(len(s.records.at))
	if f := s.file; f != nil {
		st.FileWaiting, st.FileFailed, st.FileFailing = f.waiting(), f.failed.Load(), f.failing.Load()
	}
	return st
}

// id stands for a key. 127 bits of a hash whose seeds nobody outside knows: two keys meeting is not a thing
// that happens, and a bucket need not keep its key. The second half is never 0.
type id [2]uint64

// spot is where a charge lands.
type spot struct {
	id     id
	shard  *shard
	order  int  // the shard's number, by which locks are taken
	coarse bool // shared with others for want of room; id is that bucket's
	full   bool
	idle   bool // the charge has no part in the attempt
}

func (s *Store) spot(key string) spot {
	i := id{maphash.String(s.seeds[0], key), maphash.String(s.seeds[1], key) | 1}
	n := int(i[0] & s.mask)
	return spot{id: i, shard: &s.shards[n], order: n}
}

func (s *Store) spots(into []spot, charges []limits.Charge) []spot {
	for i := range charges {
		into = append(into, s.spot(charges[i].Key))
	}
	return into
}

// lock takes the locks of all shards among the spots, in the order of their numbers so that two calls never wait
// for each other. Unlock gives them back.
func (s *Store) lock(spots []spot) (held uint64) {
	for i := range spots {
		held |= 1 << spots[i].order
	}
	for m := held; m != 0; m &= m - 1 {
		s.shards[bits.TrailingZeros64(m)].mu.Lock()
	}
	return held
}

// ahead has the processor fetch the buckets while the clock is read, all at once.
func ahead(spots []spot) {
	for i := range spots {
		spots[i].shard.table(spots[i].id).ahead(spots[i].id)
	}
}

func (s *Store) unlock(held uint64) {
	for m := held; m != 0; m &= m - 1 {
		s.shards[bits.TrailingZeros64(m)].mu.Unlock()
	}
}

// quotas tells what is left by source and by client.
func quotas(spots []spot, a *limits.Attempt, now limits.Millis) []limits.Quota {
	var out []limits.Quota
	for i := range spots {
		c := &a.Charges[i]
		if !c.HasQuota() || spots[i].idle {
			continue
		}
		q := spots[i].shard.quota(spots[i].id, c.Rule, now)
		q.Charge = i
		out = append(out, q)
	}
	return slices.Clip(out)
}

// sweep drops expired buckets, a few of every shard at a time.
func (s *Store) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			now := s.now()
			for i := range s.shards {
				s.shards[i].sweep(now)
			}
			s.records.sweep(now)
		}
	}
}
