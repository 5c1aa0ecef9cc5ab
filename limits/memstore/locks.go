package memstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"authgate/limits"
)

// Entries lists failure buckets; see [limits.Locks]. The cursor is "SHARD.POSITION"; one shard at a time is locked.
func (s *Store) Entries(_ context.Context, cursor string, limit int) ([]limits.Entry, string, error) {
	first, position := 0, 0
	if cursor != "" {
		a, b, _ := strings.Cut(cursor, ".")
		var errA, errB error
		first, errA = strconv.Atoi(a)
		position, errB = strconv.Atoi(b)
		if errA != nil || errB != nil || first < 0 || position < 0 || first >= len(s.shards) {
			return nil, "", fmt.Errorf("reading cursor %q: %w", cursor, limits.ErrCursor)
		}
	}
	var out []limits.Entry
	now := s.now()
	for n := first; n < len(s.shards); n, position = n+1, 0 {
		if next, more := s.shards[n].entries(&out, position, max(1, limit), now); more {
			return out, fmt.Sprintf("%d.%d", n, next), nil
		}
	}
	return out, "", nil
}

// entries appends listed buckets from position on until there are limit of them, and tells where to go on if there are more.
func (sh *shard) entries(out *[]limits.Entry, position, limit int, now limits.Millis) (next int, more bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for ; position < len(sh.listed); position++ {
		if len(*out) >= limit {
			return position, true
		}
		f := sh.failures.at(sh.listed[position])
		if entry, ok := f.log.Entry(f.key, f.rule.Window.Milliseconds(), now); ok {
			*out = append(*out, entry)
		}
	}
	return 0, false
}

// Release forgets one failure bucket; see [limits.Locks].
func (s *Store) Release(_ context.Context, key string) (bool, error) {
	p := s.spot(key)
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	e := p.shard.failure(s, p, key)
	if e == nil {
		return false, nil
	}
	f := p.shard.failures.at(e.more)
	_, tracked := f.log.Entry(key, f.rule.Window.Milliseconds(), s.now())
	p.shard.drop(e)
	return tracked, nil
}

// Clear forgets every failure bucket; see [limits.Locks].
func (s *Store) Clear(context.Context) (int, error) {
	n, now := 0, s.now()
	for i := range s.shards {
		n += s.shards[i].clear(now)
	}
	return n, nil
}

func (sh *shard) clear(now limits.Millis) (n int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for f := range sh.failures.all {
		if !f.used() {
			continue
		}
		if _, tracked := f.log.Entry(f.key, f.rule.Window.Milliseconds(), now); tracked && f.listing > 0 {
			n++
		}
		sh.drop(sh.find(f.id))
	}
	return n
}

// Adopt makes a bucket as locked as another store says; see [limits.Local].
func (s *Store) Adopt(r *limits.Rule, key string, lockedFor limits.Millis, level int64) {
	p := s.spot(key)
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	now := s.now()
	if p.shard.place(s, &p, key, now); p.coarse {
		return // a bucket that others share must not be locked for one of them
	}
	e := p.shard.claim(s, &p, key, limits.KindFailures, now)
	f := p.shard.failures.at(e.more)
	f.rule = r
	f.log.Adopt(now+lockedFor, level)
	p.shard.list(e.more)
	p.shard.save(f, now)
	p.shard.touch(e, now)
}
