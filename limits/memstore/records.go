package memstore

import (
	ordered "container/list"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"authgate/limits"
)

// records are kept apart from the buckets, under a lock of their own. At the bound the one that was not changed for the
// longest time makes room.
type records struct {
	mu     sync.RWMutex
	at     map[string]*record
	order  ordered.List // of *record, latest change first
	lists  map[string]*keyList
	weight int
	limit  int              // bound of weight
	cursor *ordered.Element // where the sweeper goes on, towards the front
	file   *file            // nil: there is none
}

type record struct {
	key, text string
	until     limits.Millis
	element   *ordered.Element
	list      string
	number    uint64 // in that list; 0: in none
}

// weightStep is how many bytes of a record weigh as much as one bucket.
const weightStep = 256

func (r *record) weight() int { return 1 + (len(r.key)+len(r.text))/weightStep }

// Load is what is kept under the keys; see [limits.Records]. It never fails.
func (s *Store) Load(_ context.Context, keys ...string) ([]string, error) {
	now := s.now()
	texts := make([]string, len(keys))
	s.records.mu.RLock()
	defer s.records.mu.RUnlock()
	for i, key := range keys {
		texts[i] = s.records.text(key, now)
	}
	return texts, nil
}

// Swap changes records; see [limits.Records]. It fails only if [limits.CheckSwap] does.
func (s *Store) Swap(_ context.Context, was []limits.Kept, changes ...limits.Change) (bool, error) {
	if err := limits.CheckSwap(was, changes); err != nil {
		return false, err
	}
	now := s.now()
	r := &s.records
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range was {
		if r.text(was[i].Key, now) != was[i].Text {
			return false, nil
		}
	}
	for i := range changes {
		r.change(&changes[i], now)
	}
	r.trim(len(changes))
	return true, nil
}

// List pages through a list; see [limits.Records]. The cursor is the number of a place in it.
func (s *Store) List(_ context.Context, index, cursor string, limit int) ([]string, string, error) {
	from := uint64(0)
	if cursor != "" {
		var err error
		if from, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return nil, "", fmt.Errorf("reading cursor %q: %w", cursor, limits.ErrCursor)
		}
	}
	now := s.now()
	s.records.mu.RLock()
	defer s.records.mu.RUnlock()
	l := s.records.lists[index]
	if l == nil {
		return nil, "", nil
	}
	limit = min(max(limit, 1), limits.MaxSwap)
	var keys []string
	for _, p := range l.places[l.find(from):] {
		switch {
		case p.record == nil || p.record.until <= now:
		case len(keys) == limit:
			return keys, strconv.FormatUint(p.number, 10), nil
		default:
			keys = append(keys, p.record.key)
		}
	}
	return keys, "", nil
}

// followed is how long a fact that the shared store knew is known here without being seen again [S4]. It is prolonged when
// half of that is over, so that most decisions change nothing.
const followed = 24 * time.Hour

// Follow keeps in line with what the shared store knew; see [limits.Local].
func (s *Store) Follow(facts []limits.Fact, known uint32) {
	now := s.now()
	least := now + (followed / 2).Milliseconds()
	r := &s.records
	agrees := func(i int, fact limits.Fact) bool {
		at := r.at[string(fact)]
		if known>>i&1 == 0 {
			return at == nil
		}
		return at != nil && at.until > least
	}
	r.mu.RLock()
	all := true
	for i, fact := range facts {
		all = all && agrees(i, fact)
	}
	r.mu.RUnlock()
	if all {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, fact := range facts {
		if agrees(i, fact) {
			continue
		}
		c := limits.Change{Key: string(fact)}
		if known>>i&1 == 1 {
			c.Text, c.TTL = limits.Seen, followed
			if at := r.at[c.Key]; at != nil && at.until > now {
				c.Text, c.Index = at.text, at.list
			}
		}
		r.change(&c, now)
	}
	r.trim(len(facts))
}

func (r *records) text(key string, now limits.Millis) string {
	if at := r.at[key]; at != nil && at.until > now {
		return at.text
	}
	return ""
}

// known says which of the facts are known, by bits.
func (r *records) known(facts []limits.Fact, now limits.Millis) (bits uint32) {
	if len(facts) == 0 {
		return 0
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for i, fact := range facts {
		if at := r.at[string(fact)]; at != nil && at.until > now {
			bits |= 1 << i
		}
	}
	return bits
}

func (r *records) change(c *limits.Change, now limits.Millis) {
	at := r.at[c.Key]
	if c.Text == "" {
		if at != nil {
			r.drop(at)
		}
		return
	}
	if at == nil {
		at = &record{key: c.Key}
		at.element = r.order.PushFront(at)
		if r.at == nil {
			r.at = make(map[string]*record)
		}
		r.at[c.Key] = at
	} else {
		r.weight -= at.weight()
		r.order.MoveToFront(at.element)
	}
	r.file.markRecord(at.key)
	at.text, at.until = c.Text, now+c.TTL.Milliseconds()
	r.weight += at.weight()
	if at.list != c.Index {
		r.unlist(at)
		r.enlist(at, c.Index)
	}
}

func (r *records) drop(at *record) {
	if r.cursor == at.element {
		r.cursor = at.element.Prev()
	}
	r.order.Remove(at.element)
	delete(r.at, at.key)
	r.weight -= at.weight()
	r.unlist(at)
	r.file.markRecord(at.key)
}

// trim makes room at the bound, but never of the latest changes, which belong together.
func (r *records) trim(latest int) {
	for r.weight > r.limit && r.order.Len() > latest {
		r.drop(r.order.Back().Value.(*record))
	}
}

// sweep looks at some of the records, and drops what has ended.
func (r *records) sweep(now limits.Millis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range r.order.Len()/sweepRounds + 1 {
		if r.cursor == nil {
			if r.cursor = r.order.Back(); r.cursor == nil {
				return
			}
		}
		at := r.cursor.Value.(*record)
		r.cursor = r.cursor.Prev()
		if at.until <= now {
			r.drop(at)
		}
	}
}

// keyList is a list of keys in the order in which they came. Their places are numbered, so that whoever pages through it
// finds the next one whatever became of the last.
type keyList struct {
	places []place
	next   uint64 // number of the next place
	gone   int    // how many places are empty
}

type place struct {
	number uint64
	record *record // nil: it is gone
}

// find is the index of the first place of that number or a later one.
func (l *keyList) find(number uint64) int {
	i, _ := slices.BinarySearchFunc(l.places, number, func(p place, n uint64) int {
		switch {
		case p.number < n:
			return -1
		case p.number > n:
			return 1
		}
		return 0
	})
	return i
}

func (r *records) enlist(at *record, name string) {
	if name == "" {
		return
	}
	l := r.lists[name]
	if l == nil {
		if r.lists == nil {
			r.lists = make(map[string]*keyList)
		}
		l = &keyList{next: 1}
		r.lists[name] = l
	}
	at.list, at.number = name, l.next
	l.places = append(l.places, place{number: l.next, record: at})
	l.next++
}

func (r *records) unlist(at *record) {
	if at.number == 0 {
		return
	}
	l := r.lists[at.list]
	l.places[l.find(at.number)].record = nil
	if l.gone++; l.gone == len(l.places) {
		delete(r.lists, at.list)
	} else if l.gone > len(l.places)/2 {
		l.places = slices.DeleteFunc(l.places, func(p place) bool { return p.record == nil })
		l.gone = 0
	}
	at.list, at.number = "", 0
}
