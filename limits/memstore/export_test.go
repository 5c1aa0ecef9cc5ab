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
	index := p.shard.claim(s, &p, key, limits.KindFailures, now)
	e := &p.shard.slab[index]
	e.rule = r
	e.log.Level, e.log.Quiet = level, now
	p.shard.touch(index, now)
}

// Snapshot is the whole state, but for the order in which buckets were touched.
func (s *Store) Snapshot() map[string]string {
	all := make(map[string]string)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for n := range sh.slab {
			e := &sh.slab[n]
			if !e.used {
				continue
			}
			text := fmt.Sprint(e.kind, e.a, e.b, e.span, e.expires, e.isPinned)
			if f := e.failure; f != nil {
				text += fmt.Sprint(f.key, f.log, f.repeats, f.listing, f.weight)
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

// Check reports what is wrong with the lists, the index and the weight of a shard.
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
	weight, used := 0, 0
	for n := range sh.slab {
		e := &sh.slab[n]
		if !e.used {
			continue
		}
		used++
		weight++
		if sh.at[e.id] != uint32(n) {
			return fmt.Errorf("slot %d is found at %d", n, sh.at[e.id])
		}
		if f := e.failure; f != nil {
			weight += f.weight
			if f.listing > 0 && sh.listed[f.listing-1] != uint32(n) {
				return fmt.Errorf("slot %d is not where it is listed", n)
			}
		}
	}
	if used != len(sh.at) || used != sh.counted.len+sh.pinned.len+sh.coarse.len || weight != sh.weight {
		return fmt.Errorf("%d slots are used, %d known, %d+%d+%d in lists; they weigh %d, not %d",
			used, len(sh.at), sh.counted.len, sh.pinned.len, sh.coarse.len, weight, sh.weight)
	}
	for _, l := range []*list{&sh.counted, &sh.pinned, &sh.coarse} {
		n, last := 0, uint32(0)
		for at := l.first; at != 0; at = sh.slab[at].next {
			if n++; n > used || sh.slab[at].prev != last || sh.listOf(&sh.slab[at]) != l {
				return fmt.Errorf("a list is broken at slot %d", at)
			}
			last = at
		}
		if n != l.len || l.last != last {
			return fmt.Errorf("a list of %d has %d slots and ends at %d, not %d", l.len, n, last, l.last)
		}
	}
	return nil
}

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
