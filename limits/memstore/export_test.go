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
	return all
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
