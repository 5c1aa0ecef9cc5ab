package memstore

import (
	"context"
	"sync"
	"time"

	"authgate/limits"
)

// facts are what is known, each until its time is over. At the bound any one makes room: an unknown fact costs its
// owner one more proof.
type facts struct {
	mu    sync.RWMutex
	until map[limits.Fact]int64 // seconds since the epoch
	limit int
}

// Learn has the store know the facts; see [limits.Knowledge].
func (s *Store) Learn(_ context.Context, ttl time.Duration, list ...limits.Fact) error {
	f := &s.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.until == nil {
		f.until = make(map[limits.Fact]int64)
	}
	until := time.Now().Add(ttl).Unix()
	for _, fact := range list {
		if len(f.until) >= f.limit {
			for victim := range f.until {
				delete(f.until, victim)
				break
			}
		}
		f.until[fact] = until
	}
	return nil
}

// known says which of the facts are known, by bits.
func (f *facts) known(list []limits.Fact) (bits uint32) {
	if len(list) == 0 {
		return 0
	}
	now := time.Now().Unix()
	f.mu.RLock()
	defer f.mu.RUnlock()
	for i, fact := range list {
		if f.until[fact] > now {
			bits |= 1 << i
		}
	}
	return bits
}
