package memstore

import (
	"math/bits"

	"authgate/limits"
)

// table finds buckets by their ids: an open-addressed array with the buckets themselves in it, so that a look at one of
// millions fetches one line of memory that no cache has, not a chain of them. It holds no pointers, so the collector need not
// read it. A pointer to an entry is good until the next add or remove.
type table struct {
	slots []entry
	count int
}

// entry is one bucket, on a cache line of its own. Windows and tokens live in it; failure buckets and remembered secrets
// have more in a slab of the shard.
type entry struct {
	id      id     // the second half is 0 in an empty slot only
	a, b    int64  // window: start and count; tokens: units and last
	span    uint32 // milliseconds: of a window its length, of tokens the unit they are counted in
	expires uint32 // seconds, rounded up; for the sweeper and for eviction only
	touched uint32 // ticks; for eviction only
	more    uint32 // where in the slab of its kind; 0: nowhere
	kind    limits.Kind
	pinned  bool // it had a lock or a reservation when it was last touched
	coarse  bool // shared by newcomers, never dropped for want of room
	_       [13]byte
}

func (e *entry) used() bool { return e.id[1] != 0 }

// find is the bucket of that id, or nil.
func (t *table) find(i id) *entry {
	if t.count == 0 {
		return nil
	}
	if e := &t.slots[t.probe(i)]; e.used() {
		return e
	}
	return nil
}

// ahead has the processor fetch what find will look at, while something else is done.
func (t *table) ahead(i id) {
	if t.count > 0 {
		prefetch(&t.slots[t.home(i)])
	}
}

// add makes the bucket of that id, which there is not yet. Crowded says that it is one of a great many in the store.
func (t *table) add(i id, crowded bool) *entry {
	// At most two thirds are in use: with more, the way to a bucket gets ever longer.
	if t.count++; 3*t.count > 2*len(t.slots) {
		t.resize(len(t.slots)*3/2+2, crowded)
	}
	e := &t.slots[t.probe(i)]
	e.id = i
	return e
}

// remove empties the slot of a bucket, and moves up those behind it that found their places taken.
func (t *table) remove(i id) {
	t.count--
	hole := t.probe(i)
	for n := t.next(hole); t.slots[n].used(); n = t.next(n) {
		if home := t.home(t.slots[n].id); t.distance(home, n) >= t.distance(hole, n) {
			t.slots[hole] = t.slots[n]
			hole = n
		}
	}
	t.slots[hole] = entry{}
}

// resize moves all to an array of n slots. Their order stays the same, so memory is read and written from end to end.
func (t *table) resize(n int, crowded bool) {
	old := t.slots
	t.slots = make([]entry, n)
	if crowded {
		enlarge(t.slots)
	}
	for i := range old {
		if old[i].used() {
			t.slots[t.probe(old[i].id)] = old[i]
		}
	}
}

// probe is where the bucket of that id is, or the empty slot where it would be.
func (t *table) probe(i id) int {
	n := t.home(i)
	for t.slots[n].id != i && t.slots[n].used() {
		n = t.next(n)
	}
	return n
}

// home is the slot where the search for an id begins. The lowest bits of the id, which chose the table, have no say in it.
func (t *table) home(i id) int {
	n, _ := bits.Mul64(i[0], uint64(len(t.slots)))
	return int(n)
}

func (t *table) next(n int) int {
	if n++; n == len(t.slots) {
		return 0
	}
	return n
}

// distance is how many slots to lies behind from, around the end.
func (t *table) distance(from, to int) int {
	if to < from {
		to += len(t.slots)
	}
	return to - from
}
