package limits

// FailureLog is the state of a failure bucket: a sliding log of failures [L4], the reservations of attempts
// whose verdict is not known yet [L6], a lock with its level [L5], and the shadow counts of verdicts that told
// nothing [L16]. The zero value is a bucket that was never touched.
//
// Every method takes now and treats a stored time that lies after it as now [L12]; the lock's end alone is
// meant to lie in the future. Methods with a pointer receiver change the state.
type FailureLog struct {
	Log  []Millis // times of the counted failures, oldest first
	Live []Slot   // attempts in flight, in no order; expired ones may still be among them

	LockedUntil Millis // 0: never locked. The bucket refuses while now < LockedUntil
	LockCount   int64  // how many failures made that lock
	Level       int64  // how many locks in a row; the next one is of level Level+1
	Quiet       Millis // a whole window after this without a failure, the level starts again

	Neutral Window // shadow of neutral, unknown and timed-out verdicts
	Pending Window // shadow of pending verdicts

	// Of the leases in Live none ends before soonest, and none after latest, so that a bucket with thousands in flight need not be
	// read from end to end each time. 0: that is not known.
	soonest, latest Millis
}

// Slot is the reservation of one attempt in flight.
type Slot struct {
	ID      uint64
	Expires Millis // the lease's end: at this time the slot is free [L6]
}

// Cause is why a bucket refuses. The order is that of precedence within one bucket.
type Cause uint8

// The causes.
const (
	Room   Cause = iota // it does not refuse
	Full                // the window, the tokens or the failures in the log are used up
	Locked              // a lock is in force
	Held                // only live reservations are in the way; waiting for their verdicts may help [L8]
)

// String is the cause in logs.
func (c Cause) String() string {
	return [...]string{"room", "full", "locked", "held"}[c&3]
}

// Ask reports whether the bucket has room for one more attempt under rule r, and otherwise why not and for
// how long. It changes nothing.
func (f *FailureLog) Ask(r *Rule, now Millis) (Cause, Millis) {
	window := r.Window.Milliseconds()
	if now < f.LockedUntil {
		return Locked, f.LockedUntil - now
	}
	limit := int64(r.Limit)
	log := f.Log[f.aged(window, now):]
	failures := int64(len(log))
	if failures >= limit {
		// Room comes when so many of the oldest have aged that fewer than limit are left.
		oldest := min(log[failures-limit], now)
		return Full, oldest + window - now
	}
	if r.Shadowed() {
		if wait := f.Neutral.At(window, now).Wait(limit*NeutralFactor, window, now); wait > 0 {
			return Full, wait
		}
		if wait := f.Pending.At(window, now).Wait(limit*PendingFactor, window, now); wait > 0 {
			return Full, wait
		}
	}
	if failures+f.live(now) >= limit {
		return Held, f.next(now) - now
	}
	return Room, 0
}

// Reserve adds the slot of attempt id, with the rule's lease. The caller has asked for room.
func (f *FailureLog) Reserve(r *Rule, id uint64, now Millis) {
	f.drop(r, now)
	end := now + r.Lease().Milliseconds()
	if len(f.Live) == 0 {
		f.soonest, f.latest = end, end
	}
	f.Live = append(f.Live, Slot{ID: id, Expires: end})
	f.soonest, f.latest = min(f.soonest, end), max(f.latest, end)
}

// Renew gives the slot of id a new lease and reports whether it was still alive.
func (f *FailureLog) Renew(r *Rule, id uint64, now Millis) bool {
	i := f.find(id, now)
	if i < 0 {
		return false
	}
	end := now + r.Lease().Milliseconds()
	f.Live[i].Expires = end
	f.soonest, f.latest = min(f.soonest, end), max(f.latest, end)
	f.drop(r, now)
	return true
}

// Settle closes the slot of attempt id with what its verdict means for this bucket [L7]. It reports what came
// of it; an id that is not alive changes nothing.
func (f *FailureLog) Settle(r *Rule, id uint64, do Action, now Millis) Effect {
	i := f.find(id, now)
	if i < 0 {
		return Effect{}
	}
	last := len(f.Live) - 1
	f.Live[i] = f.Live[last]
	f.Live = f.Live[:last]
	f.drop(r, now)
	window := r.Window.Milliseconds()
	switch do {
	case Count:
		if now < f.LockedUntil {
			return Effect{Done: true} // dropped: the lock already says more [L5]
		}
		return f.count(r, window, now)
	case Clear:
		f.Log, f.LockedUntil, f.LockCount, f.Level, f.Quiet = nil, 0, 0, 0, 0
	case ShadowNeutral:
		f.Neutral = f.Neutral.At(window, now).Charge()
	case ShadowPending:
		f.Pending = f.Pending.At(window, now).Charge()
	case Free:
	}
	return Effect{Done: true}
}

// count adds a failure at now, and locks the bucket when that reaches the limit.
func (f *FailureLog) count(r *Rule, window, now Millis) Effect {
	f.Log = append(f.Log, now)
	if f.Level > 0 {
		f.Quiet = now
	}
	if r.Lockout == (Lockout{}) || len(f.Log) < r.Limit {
		return Effect{Done: true, Counted: true, Filled: len(f.Log) == r.Limit}
	}
	f.lock(r, int64(len(f.Log)), now)
	return Effect{Done: true, Counted: true, Filled: true, Locked: f.LockedUntil - now, Level: f.Level}
}

// lock raises the level and locks from now on; the log starts empty afterwards.
func (f *FailureLog) lock(r *Rule, count int64, now Millis) {
	f.Level = min(f.Level+1, maxLevel)
	f.LockedUntil = now + r.Lockout.Duration(int(f.Level)).Milliseconds()
	f.LockCount = count
	f.Quiet = f.LockedUntil
	f.Log = nil
}

// maxLevel bounds the stored level; long before it every lock lasts the maximum.
const maxLevel = 1 << 30

// drop forgets what no longer counts at now: aged failures, dead reservations, an old level.
func (f *FailureLog) drop(r *Rule, now Millis) {
	window := r.Window.Milliseconds()
	if n := f.aged(window, now); n > 0 {
		f.Log = append(f.Log[:0], f.Log[n:]...)
	}
	for i := len(f.Log) - 1; i >= 0 && f.Log[i] > now; i-- {
		f.Log[i] = now
	}
	f.dropSlots(now)
	if f.Level > 0 && now-f.Quiet >= window {
		f.Level, f.Quiet = 0, 0
	}
	if now >= f.LockedUntil {
		f.LockedUntil, f.LockCount = 0, 0
	}
}

// dropSlots forgets the reservations that are dead.
func (f *FailureLog) dropSlots(now Millis) {
	if now < f.soonest {
		return
	}
	live := f.Live[:0]
	f.soonest, f.latest = 0, 0
	for _, v := range f.Live {
		if v.Expires <= now {
			continue
		}
		live = append(live, v)
		if f.soonest == 0 || v.Expires < f.soonest {
			f.soonest = v.Expires
		}
		f.latest = max(f.latest, v.Expires)
	}
	f.Live = live
}

// aged is how many of the oldest failures no longer count: those of age window or more [L4].
func (f *FailureLog) aged(window, now Millis) int {
	n := 0
	for n < len(f.Log) && now-f.Log[n] >= window {
		n++
	}
	return n
}

// live is how many reservations hold a slot at now.
func (f *FailureLog) live(now Millis) (n int64) {
	if now < f.soonest {
		return int64(len(f.Live))
	}
	for _, v := range f.Live {
		if now < v.Expires {
			n++
		}
	}
	return n
}

// next is when the first of them ends.
func (f *FailureLog) next(now Millis) Millis {
	next := now + Forever
	for _, v := range f.Live {
		if now < v.Expires {
			next = min(next, v.Expires)
		}
	}
	return next
}

// find is the position of the live reservation id, or -1.
func (f *FailureLog) find(id uint64, now Millis) int {
	for i, v := range f.Live {
		if v.ID == id && now < v.Expires {
			return i
		}
	}
	return -1
}

// Count is how many failures count at now, live reservations aside.
func (f *FailureLog) Count(window, now Millis) int64 {
	return int64(len(f.Log) - f.aged(window, now))
}

// Expires is when the whole state may be forgotten [L13], at the latest: it may be by a lease too late.
func (f *FailureLog) Expires(r *Rule) Millis {
	window := r.Window.Milliseconds()
	var end Millis
	if n := len(f.Log); n > 0 {
		end = f.Log[n-1] + window
	}
	if f.latest == 0 {
		for _, v := range f.Live {
			end = max(end, v.Expires)
		}
	} else if len(f.Live) > 0 {
		end = max(end, f.latest)
	}
	end = max(end, f.LockedUntil)
	if f.Level > 0 {
		end = max(end, f.Quiet+window)
	}
	for _, w := range [2]Window{f.Neutral, f.Pending} {
		if w.Count > 0 {
			end = max(end, w.Start+window)
		}
	}
	return end
}

// Action is what a verdict does to one bucket.
type Action uint8

// The actions, in the numbering that the scripts share.
const (
	Free          Action = iota // give the slot back
	Count                       // turn the slot into a failure
	Clear                       // give the slot back, and forget failures, lock and level
	ShadowNeutral               // give the slot back, and count a verdict that told nothing
	ShadowPending               // give the slot back, and count a half-finished login
)

// Effect is what settling did to one bucket. The zero value: nothing, the slot was gone.
type Effect struct {
	Done    bool   // the slot was alive and is closed now
	Counted bool   // a failure was added
	Filled  bool   // this very failure used up the last room
	Locked  Millis // > 0: this very failure locked the bucket for so long
	Level   int64  // the level of that lock
	Crossed bool   // a signal exceeded its limit for the first time in its window [L14]
}

// Holds reports whether the reservation of attempt id is alive.
func (f *FailureLog) Holds(id uint64, now Millis) bool { return f.find(id, now) >= 0 }

// Busy reports whether a lock is in force or a reservation alive: such a bucket is never dropped for want of room [S1].
func (f *FailureLog) Busy(now Millis) bool {
	return now < f.LockedUntil || f.live(now) > 0
}

// Entry is the bucket as an operator sees it; ok is false when there is nothing to see: no failure that
// counts, no lock, and no level that another lock would build on.
func (f *FailureLog) Entry(key string, window, now Millis) (e Entry, ok bool) {
	e = Entry{Key: key, Attempts: f.Count(window, now), Level: f.Level}
	if now < f.LockedUntil {
		e.Attempts, e.LockedFor = f.LockCount, f.LockedUntil-now
		return e, true
	}
	if f.Level > 0 && now-f.Quiet >= window {
		e.Level = 0
	}
	return e, e.Attempts > 0 || e.Level > 0
}

// Adopt takes over a lock that another store holds: the later end and the higher level win [S5].
func (f *FailureLog) Adopt(until Millis, level int64) {
	f.LockedUntil = max(f.LockedUntil, until)
	f.Level = max(f.Level, level)
	f.Quiet = max(f.Quiet, until)
	f.Log = nil
}
