package metrics

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are those of a vector by what they count, so that a request does not look labels up as text. There are as many
// as the vector has. Use newCounters; they are safe for concurrent use.
type counters[K comparable] struct {
	make func(K) prometheus.Counter

	mu   sync.Mutex // of those who add one
	made atomic.Pointer[map[K]prometheus.Counter]
}

func newCounters[K comparable](vec *prometheus.CounterVec, labels func(K) []string) *counters[K] {
	c := &counters[K]{make: func(key K) prometheus.Counter { return vec.WithLabelValues(labels(key)...) }}
	c.made.Store(new(map[K]prometheus.Counter))
	return c
}

// of is the counter of what key says.
func (c *counters[K]) of(key K) prometheus.Counter {
	if counter, ok := (*c.made.Load())[key]; ok {
		return counter
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := maps.Clone(*c.made.Load())
	if next == nil {
		next = make(map[K]prometheus.Counter)
	}
	next[key] = c.make(key)
	c.made.Store(&next)
	return next[key]
}
