package memstore

import "authgate/limits"

// tries is how many candidates are looked at when room is needed: enough to find an idle one among the least
// recently touched, few enough to cost nothing.
const tries = 8

// place finds the bucket of p: its own, or none yet, or the coarse one that takes newcomers in when the shard holds
// nothing but locks and reservations [S1].
func (sh *shard) place(s *Store, p *spot, key string, now limits.Millis) {
	p.index = sh.at[p.id]
	if p.index == 0 && sh.weight >= sh.limit && sh.victim(now) == 0 {
		p.id, p.coarse = s.coarseID(p.id, key), true
		p.index = sh.at[p.id]
	}
}

// claim is the bucket of the given kind for p, which was placed; it is made if need be. At the bound the one that loses
// least makes room.
func (sh *shard) claim(s *Store, p *spot, key string, kind limits.Kind, now limits.Millis) uint32 {
	index := sh.at[p.id]
	if p.coarse {
		s.coarse.Add(1)
	} else if index == 0 && sh.weight >= sh.limit {
		if v := sh.victim(now); v != 0 { // gone if the same attempt took it just before: then the bound gives way by one
			sh.drop(v)
		}
	}
	if index != 0 {
		if sh.slab[index].kind == kind {
			return index
		}
		sh.drop(index) // a changed kind starts anew [L12]
	}
	return sh.add(p, key, kind)
}

// trim keeps the shard within its bound after the bucket at index has grown by a failure or a reservation.
func (sh *shard) trim(index uint32, now limits.Millis) {
	for sh.weight > sh.limit {
		v := sh.victim(now)
		if v == 0 || v == index {
			return
		}
		sh.drop(v)
	}
}

func (sh *shard) add(p *spot, key string, kind limits.Kind) uint32 {
	index := sh.free
	if index != 0 {
		sh.free = sh.slab[index].next
	} else {
		sh.slab = append(sh.slab, entry{})
		index = uint32(len(sh.slab) - 1)
	}
	e := &sh.slab[index]
	*e = entry{id: p.id, kind: kind, used: true, isCoarse: p.coarse}
	if kind == limits.KindFailures || kind == kindRepeats {
		e.failure = &failure{key: key}
	}
	sh.at[p.id] = index
	sh.weight++
	sh.push(sh.listOf(e), index)
	return index
}

// victim is the bucket to drop for want of room, one without a lock or a reservation: one that has expired if there is one
// near, else the least recently touched; 0 when there is none.
func (sh *shard) victim(now limits.Millis) uint32 {
	index := sh.counted.last
	for range tries {
		if index == 0 {
			break
		}
		if limits.Millis(sh.slab[index].expires)*1000 <= now {
			return index
		}
		index = sh.slab[index].prev
	}
	index = sh.pinned.last
	for range tries { // locks end without anybody touching them
		if index == 0 {
			break
		}
		if !sh.slab[index].log.Busy(now) {
			return index
		}
		index = sh.slab[index].prev
	}
	return sh.counted.last
}

// touch moves a bucket to the front of the list where it belongs, after it was changed.
func (sh *shard) touch(index uint32, now limits.Millis) {
	e := &sh.slab[index]
	pin := false
	switch e.kind {
	case limits.KindFailures:
		pin = e.log.Busy(now)
		e.expires = seconds(e.log.Expires(e.rule))
	case kindRepeats:
		e.expires = seconds(e.repeats.Expires(limits.Millis(e.span)))
	}
	sh.unlink(index)
	e.isPinned = pin
	sh.push(sh.listOf(e), index)
}

// weigh takes the size of a failure bucket into account.
func (sh *shard) weigh(index uint32) {
	f := sh.slab[index].failure
	w := len(f.log.Log)/8 + len(f.log.Live)/4
	sh.weight += w - f.weight
	f.weight = w
}

// list makes a failure bucket visible to operators.
func (sh *shard) list(index uint32) {
	f := sh.slab[index].failure
	if f.listing == 0 {
		sh.listed = append(sh.listed, index)
		f.listing = len(sh.listed)
	}
}

func (sh *shard) drop(index uint32) {
	e := &sh.slab[index]
	sh.unlink(index)
	delete(sh.at, e.id)
	sh.weight--
	if f := e.failure; f != nil {
		sh.weight -= f.weight
		if f.saved {
			sh.file.markFailure(f.key)
		}
		if f.listing > 0 {
			last := len(sh.listed) - 1
			moved := sh.listed[last]
			sh.listed[f.listing-1] = moved
			sh.slab[moved].listing = f.listing
			sh.listed = sh.listed[:last]
		}
	}
	*e = entry{next: sh.free}
	sh.free = index
}

// sweep visits a part of the slab, drops what has expired, and lets go of what is no longer locked or reserved.
func (sh *shard) sweep(now limits.Millis) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for range len(sh.slab)/sweepRounds + 1 {
		if sh.cursor++; int(sh.cursor) >= len(sh.slab) {
			sh.cursor = 0
			continue
		}
		switch e := &sh.slab[sh.cursor]; {
		case !e.used:
		case limits.Millis(e.expires)*1000 <= now:
			sh.drop(sh.cursor)
		case e.isPinned && !e.log.Busy(now):
			sh.touch(sh.cursor, now)
		}
	}
}

func (sh *shard) listOf(e *entry) *list {
	switch {
	case e.isCoarse:
		return &sh.coarse
	case e.isPinned:
		return &sh.pinned
	}
	return &sh.counted
}

func (sh *shard) push(l *list, index uint32) {
	e := &sh.slab[index]
	e.prev, e.next = 0, l.first
	if l.first != 0 {
		sh.slab[l.first].prev = index
	} else {
		l.last = index
	}
	l.first = index
	l.len++
}

func (sh *shard) unlink(index uint32) {
	e := &sh.slab[index]
	l := sh.listOf(e)
	if e.prev != 0 {
		sh.slab[e.prev].next = e.next
	} else {
		l.first = e.next
	}
	if e.next != 0 {
		sh.slab[e.next].prev = e.prev
	} else {
		l.last = e.prev
	}
	l.len--
}
