package memstore

import (
	"fmt"

	"authgate/limits"
)

// SetLevel makes a bucket look as if its lock of that level had ended just now.
func (s *Store) SetLevel(r *limits.Rule, key string, level int64) {
	p := s.spot(key)
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	now := s.now()
	p.shard.place(s, &p, key, now)
	e := p.shard.claim(s, &p, key, limits.KindFailures, now)
	f := p.shard.failures.at(e.more)
	f.rule = r
	f.log.Level, f.log.Quiet = level, now
	p.shard.touch(e, now)
}

// buckets are all of a shard.
func (sh *shard) buckets(yield func(*entry) bool) {
	for i := range sh.tables {
		for n := range sh.tables[i].slots {
			if e := &sh.tables[i].slots[n]; e.used() && !yield(e) {
				return
			}
		}
	}
}

// Snapshot is the whole state, but for when buckets were touched.
func (s *Store) Snapshot() map[string]string {
	all := make(map[string]string)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for e := range sh.buckets {
			text := fmt.Sprint(e.kind, e.a, e.b, e.span, e.expires, e.pinned)
			switch e.kind {
			case limits.KindFailures:
				f := sh.failures.at(e.more)
				text += fmt.Sprint(f.key, f.log, f.listing, f.weight)
			case kindRepeats:
				text += fmt.Sprint(*sh.repeats.at(e.more))
			}
			all[fmt.Sprintf("%x", e.id)] = text
		}
		sh.mu.Unlock()
	}
	s.records.mu.RLock()
	defer s.records.mu.RUnlock()
	for key, at := range s.records.at {
		all["record "+key] = fmt.Sprint(at.text, at.until, at.list, at.number)
	}
	return all
}

// ListedKeys is how many keys are on lists.
func (s *Store) ListedKeys() (n int) {
	s.records.mu.RLock()
	defer s.records.mu.RUnlock()
	for _, l := range s.records.lists {
		n += len(l.places) - l.gone
	}
	return n
}

// RecordWeight is what all records weigh together.
func (s *Store) RecordWeight() int {
	s.records.mu.RLock()
	defer s.records.mu.RUnlock()
	return s.records.weight
}

// Check reports what is wrong with the tables, the slabs and the weight of a shard.
func (s *Store) Check() error {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		err := sh.check()
		sh.mu.Unlock()
		if err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
	}
	s.records.mu.RLock()
	defer s.records.mu.RUnlock()
	return s.records.check()
}

func (r *records) check() error {
	weight, listed := 0, 0
	for key, at := range r.at {
		weight += at.weight()
		if at.key != key || at.element.Value.(*record) != at {
			return fmt.Errorf("record %s is not itself", key)
		}
		if at.list == "" {
			continue
		}
		listed++
		l := r.lists[at.list]
		if i := l.find(at.number); l.places[i].record != at {
			return fmt.Errorf("record %s is not where it is listed", key)
		}
	}
	for name, l := range r.lists {
		n := 0
		for _, p := range l.places {
			if p.record != nil {
				n++
			}
		}
		if listed -= n; n == 0 || n != len(l.places)-l.gone {
			return fmt.Errorf("list %s has %d keys, and says %d", name, n, len(l.places)-l.gone)
		}
	}
	if listed != 0 || weight != r.weight || r.order.Len() != len(r.at) {
		return fmt.Errorf("%d records listed too much; they weigh %d, not %d; %d in order of %d", listed, weight, r.weight, r.order.Len(), len(r.at))
	}
	return nil
}

func (sh *shard) check() error {
	weight, count, pinned, shared, failures, repeats, listed := 0, 0, 0, 0, 0, 0, 0
	for e := range sh.buckets {
		count++
		weight++
		if sh.find(e.id) != e {
			return fmt.Errorf("bucket %x is not found", e.id)
		}
		switch {
		case e.coarse:
			shared++
		case e.pinned:
			pinned++
		}
		switch e.kind {
		case kindRepeats:
			repeats++
		case limits.KindFailures:
			failures++
			f := sh.failures.at(e.more)
			if f.id != e.id || !f.used() {
				return fmt.Errorf("bucket %x has the failures of %x", e.id, f.id)
			}
			weight += int(f.weight)
			if f.listing > 0 {
				listed++
				if sh.listed[f.listing-1] != e.more {
					return fmt.Errorf("bucket %x is not where it is listed", e.id)
				}
			}
		}
	}
	if count != sh.count || pinned != sh.pinned || shared != sh.shared || weight != sh.weight || listed != len(sh.listed) {
		return fmt.Errorf("%d buckets, %d pinned, %d shared, %d listed, of weight %d; the shard says %d, %d, %d, %d, %d",
			count, pinned, shared, listed, weight, sh.count, sh.pinned, sh.shared, len(sh.listed), sh.weight)
	}
	for i := range sh.tables {
		count -= sh.tables[i].count
	}
	if count != 0 || failures != sh.failures.len() || repeats != sh.repeats.len() {
		return fmt.Errorf("%d buckets more than the tables say; %d failure buckets and %d memories, of %d and %d",
			count, failures, repeats, sh.failures.len(), sh.repeats.len())
	}
	return nil
}

func (s *slab[T]) len() int { return int(s.next) - len(s.free) }

// Weight is what all buckets weigh together, and the bound of that.
func (s *Store) Weight() (weight, limit int) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		weight, limit = weight+sh.weight, limit+sh.limit
		sh.mu.Unlock()
	}
	return weight, limit
}

// WriteAround writes what waits for the file, and calls between when it is known what that is.
func (s *Store) WriteAround(between func()) error {
	m := s.file.take()
	between()
	return s.file.save(&m)
}

// MaxMarked is the bound of keys that wait to be written.
const MaxMarked = maxMarked
