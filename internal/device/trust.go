package device

import (
	"cmp"
	"context"
	"slices"
	"time"

	"authgate/limits"
)

// renewEvery is how old a renewal must be for another one to be worth a write to the store. Shorter times to live
// have it shorter.
const renewEvery = time.Hour

// shareFloor is the number of a spelling's pairs that other spellings, if they came later, cannot push out.
const shareFloor = 4

// rank is how well a device is known to a user.
type rank int

const (
	unknown      rank = iota
	recorded          // to somebody
	known             // by another spelling
	trustedAny        // by any spelling
	trustedExact      // by the very spelling
)

// candidate is one of the devices that a browser brought.
type candidate struct {
	id      ID
	device  digest
	targets []string // of its record; nil: it has none
	rank    rank
}

func (s *step) trust(ctx context.Context, u User, seen []ID) (id ID, added bool, err error) {
	keys := []string{userKey(s.realm, u.Target)}
	for _, id := range seen {
		keys = append(keys, deviceKey(s.realm, id.Public()))
	}
	texts, err := s.load(ctx, keys...)
	if err != nil {
		return ID{}, false, err
	}
	owner, by := s.user(u.Target, texts[0]), anySpelling
	if u.Spelling != "" {
		by = s.g.spelling(s.realm, u.Spelling)
	}
	s.prune(owner)
	var best candidate
	for i, id := range seen {
		if c := s.candidate(owner, by, id, texts[1+i]); c.rank > best.rank {
			best = c
		}
	}
	if best.rank >= trustedAny {
		s.renew(owner, best, by)
		return best.id, false, nil
	}
	id = NewID()
	return id, true, s.add(ctx, owner, best, id, by)
}

// candidate looks at a device that came with a success.
func (s *step) candidate(owner *user, by spelling, id ID, text string) candidate {
	c := candidate{id: id, device: id.digest()}
	if device, targets, ok := parseDevice(text); ok && device == c.device {
		c.targets, c.rank = targets, recorded
	}
	switch {
	case find(owner.pairs, c.device, by) >= 0:
		c.rank = trustedExact
	case find(owner.pairs, c.device, anySpelling) >= 0:
		c.rank = trustedAny
	case len(s.of(owner, c.device)) > 0:
		c.rank = known
	}
	return c
}

// renew plans what a success changes for a device that was trusted already. A pair for any spelling becomes one for
// the spelling that succeeded.
func (s *step) renew(owner *user, c candidate, by spelling) {
	i := find(owner.pairs, c.device, by)
	whole := i >= 0 && (by == anySpelling || find(owner.pairs, c.device, anySpelling) < 0)
	if i < 0 {
		i = find(owner.pairs, c.device, anySpelling)
	}
	p := owner.pairs[i]
	age := time.Duration(s.now-p.last) * time.Second
	if whole && c.targets != nil && p.failures == 0 && p.last > p.since && age < min(renewEvery, s.g.cfg.TTL/24) {
		return
	}
	p.spelling, p.last, p.failures = by, s.now, 0
	owner.pairs[i] = p
	if by != anySpelling {
		owner.drop(func(p pair) bool { return p.device == c.device && p.spelling == anySpelling })
	}
	s.keep(owner)
	others := slices.DeleteFunc(slices.Clone(c.targets), func(target string) bool { return target == owner.target })
	s.keepDevice(c.device, append([]string{owner.target}, others...))
}

// add plans a device with a fresh id for the owner, which takes over the pairs of the device that the browser brought, if it
// brought one, and ends that.
func (s *step) add(ctx context.Context, owner *user, old candidate, id ID, by spelling) error {
	fresh := id.digest()
	s.was = append(s.was, limits.Kept{Key: deviceKey(s.realm, fresh.public())}) // no two devices share a public id
	others := slices.DeleteFunc(slices.Clone(old.targets), func(target string) bool { return target == owner.target })
	users, err := s.users(ctx, others)
	if err != nil {
		return err
	}
	targets := s.takeOver(users, old.device, fresh)
	rename(owner, old.device, fresh)
	owner.pairs = append(owner.pairs, pair{device: fresh, spelling: by, since: s.now, last: s.now})
	full := slices.Clone(owner.pairs)
	owner.makeRoom()
	if err := s.leave(ctx, owner, full); err != nil {
		return err
	}
	s.keep(owner)
	s.keepDevice(fresh, append([]string{owner.target}, targets...)) // the latest first, which decides where the seconds do not
	if old.targets != nil {
		s.forgetDevice(old.device.public())
	}
	return nil
}

// takeOver gives the pairs that users have with a device to a fresh one, and returns the targets that keep it: those whose
// latest success is the least long ago, with room for one more.
func (s *step) takeOver(users []*user, old, fresh digest) (targets []string) {
	latest := func(u *user) (last int64) {
		for _, p := range s.of(u, old) {
			last = max(last, p.last)
		}
		return last
	}
	users = slices.DeleteFunc(users, func(u *user) bool { return len(s.of(u, old)) == 0 })
	slices.SortStableFunc(users, func(a, b *user) int { return cmp.Compare(latest(b), latest(a)) })
	for i, u := range users {
		if i < s.g.cfg.MaxUsers-1 {
			rename(u, old, fresh)
			targets = append(targets, u.target)
		} else {
			u.drop(func(p pair) bool { return p.device == old })
		}
		s.keep(u)
	}
	return targets
}

// rename gives a user's pairs with a device to another device.
func rename(u *user, old, fresh digest) {
	for i := range u.pairs {
		if u.pairs[i].device == old {
			u.pairs[i].device = fresh
		}
	}
}

// makeRoom drops pairs until all bounds hold, but never the last one, which is new.
func (u *user) makeRoom() {
	added := u.pairs[len(u.pairs)-1]
	u.shrink(maxSpellings, func(p pair) bool { return p.device == added.device })
	u.shrink(MaxDevices, func(p pair) bool { return p.spelling == added.spelling })
	for len(u.pairs) > maxPairs {
		loser := u.loser()
		u.shrink(u.count(loser)-1, func(p pair) bool { return p.spelling == loser })
	}
}

// shrink drops the oldest of the pairs that a condition holds for, until at most so many are left. One that was seen only once
// is older than any that came back, since a client without a memory for cookies is a new device each time.
func (u *user) shrink(most int, among func(pair) bool) {
	for {
		n, oldest := 0, -1
		for i, p := range u.pairs {
			if !among(p) {
				continue
			}
			n++
			if i < len(u.pairs)-1 && (oldest < 0 || older(p, u.pairs[oldest])) {
				oldest = i
			}
		}
		if n <= most || oldest < 0 {
			return
		}
		u.pairs = slices.Delete(u.pairs, oldest, oldest+1)
	}
}

func older(a, b pair) bool {
	once := func(p pair) bool { return p.last == p.since }
	if once(a) != once(b) {
		return once(a)
	}
	return a.last < b.last
}

// count is how many pairs there are of a spelling.
func (u *user) count(by spelling) (n int) {
	for _, p := range u.pairs {
		if p.spelling == by {
			n++
		}
	}
	return n
}

// loser is the spelling that has to make room at the bound of the target: the one with the most pairs or, if none has more
// than its share, the one that came last, the pair that is new left aside. Pairs stand in the order in which they came.
func (u *user) loser() spelling {
	type group struct {
		spelling spelling
		n        int
	}
	var groups []group
	for _, p := range u.pairs[:len(u.pairs)-1] {
		i := slices.IndexFunc(groups, func(g group) bool { return g.spelling == p.spelling })
		if i < 0 {
			i, groups = len(groups), append(groups, group{spelling: p.spelling})
		}
		groups[i].n++
	}
	loser := groups[0]
	for _, g := range groups {
		if max(g.n, shareFloor) >= max(loser.n, shareFloor) {
			loser = g
		}
	}
	return loser.spelling
}
