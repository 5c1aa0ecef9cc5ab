package memstore

import "authgate/limits"

// Bounds of the search for a bucket to drop.
const (
	// tries is how many candidates are compared: enough to find an idle one, few enough to cost nothing.
	tries = 8
	// reach is how many slots are looked at when next to everything has a lock or a reservation: so that one in a thousand
	// which has not may be missed, and the way of a request has an end.
	reach = 1024
)

// hand goes round the slots of a shard, in an order that nobody outside can foresee.
type hand struct{ table, slot int }

// next is the slot under the hand, which moves on; nil at the end of a table.
func (h *hand) next(sh *shard) *entry {
	t := &sh.tables[h.table]
	if h.slot >= len(t.slots) {
		h.table, h.slot = (h.table+1)%len(sh.tables), 0
		return nil
	}
	h.slot++
	return &t.slots[h.slot-1]
}

// place finds the bucket of p: its own, or nil if there is none yet, or the coarse one that takes newcomers in when the shard
// holds nothing, or next to nothing, but locks and reservations [S1].
func (sh *shard) place(s *Store, p *spot, key string, now limits.Millis) *entry {
	e := sh.find(p.id)
	if e != nil || sh.weight < sh.limit {
		return e
	}
	v, beyond := sh.victim(nil, now)
	if v != nil {
		return nil
	}
	sh.hand = beyond
	p.id, p.coarse = s.coarseID(p.id, key), true
	return sh.find(p.id)
}

// claim is the bucket of the given kind for p, which was placed; it is made if need be. At the bound the one that loses
// least makes room.
func (sh *shard) claim(s *Store, p *spot, key string, kind limits.Kind, now limits.Millis) *entry {
	e := sh.find(p.id)
	if p.coarse {
		s.coarse.Add(1)
	} else if e == nil && sh.weight >= sh.limit {
		sh.evict(nil, now) // nothing left: the same attempt took it just before, and the bound gives way by one
	}
	if e != nil {
		if e.kind == kind {
			return e
		}
		sh.drop(e) // a changed kind starts anew [L12]
	}
	return sh.add(p, key, kind)
}

// trim keeps the shard within its bound after the bucket of that id has grown by a failure or a reservation.
func (sh *shard) trim(grown id, now limits.Millis) {
	for sh.weight > sh.limit && sh.evict(sh.find(grown), now) {
	}
}

// evict drops the bucket that loses least, but for the one to be kept, and reports whether there was any.
func (sh *shard) evict(keep *entry, now limits.Millis) bool {
	v, beyond := sh.victim(keep, now)
	sh.hand = beyond
	if v != nil {
		sh.drop(v)
	}
	return v != nil
}

// victim is the bucket to drop for want of room, one without a lock or a reservation: of the next few one that has expired,
// else the least recently touched; nil when there is none. The hand is to go on at beyond.
func (sh *shard) victim(keep *entry, now limits.Millis) (best *entry, beyond hand) {
	beyond = sh.hand
	seen, asked := 0, 0
	for looked := 0; looked < reach && seen < tries; looked++ {
		if asked == tries && sh.pinned+sh.shared == sh.count {
			break
		}
		e := beyond.next(sh)
		if e == nil || !e.used() || e.coarse || e == keep {
			continue
		}
		if e.pinned { // locks end without anybody touching them
			if asked == tries {
				continue
			}
			if asked++; sh.failures.at(e.more).log.Busy(now) {
				continue
			}
		}
		if e.expired(now) {
			return e, beyond
		}
		seen++
		if best == nil || e.age(now) > best.age(now) {
			best = e
		}
	}
	return best, beyond
}

func (sh *shard) drop(e *entry) {
	sh.count--
	sh.weight--
	switch {
	case e.coarse:
		sh.shared--
	case e.pinned:
		sh.pinned--
	}
	switch e.kind {
	case limits.KindFailures:
		sh.dropFailure(e.more)
	case kindRepeats:
		sh.repeats.give(e.more)
	}
	sh.table(e.id).remove(e.id)
}

// sweep visits a part of the slots, drops what has expired, and lets go of what is no longer locked or reserved.
func (sh *shard) sweep(now limits.Millis) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slots := len(sh.tables)
	for i := range sh.tables {
		slots += len(sh.tables[i].slots)
	}
	for n := slots/sweepRounds + 1; n > 0; n-- {
		switch e := sh.sweeper.next(sh); {
		case e == nil || !e.used():
		case e.expired(now):
			sh.drop(e)
			sh.sweeper.slot-- // another one may have moved there
			n++
		case e.pinned && !sh.failures.at(e.more).log.Busy(now):
			sh.pin(e, false)
		}
	}
}

// ticks is a time in units of 16 ms, so coarse that 32 bits tell it from any other that a bucket may remember.
func ticks(t limits.Millis) uint32 { return uint32(t / 16) }

// age is how many ticks ago the bucket was touched; negative if the clock was set back since.
func (e *entry) age(now limits.Millis) int32 { return int32(ticks(now) - e.touched) }

func (e *entry) expired(now limits.Millis) bool { return limits.Millis(e.expires)*1000 <= now }

// pin notes whether the bucket has a lock or a reservation.
func (sh *shard) pin(e *entry, pinned bool) {
	if e.pinned == pinned {
		return
	}
	e.pinned = pinned
	switch {
	case e.coarse:
	case pinned:
		sh.pinned++
	default:
		sh.pinned--
	}
}
