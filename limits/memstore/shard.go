package memstore

import (
	"strconv"
	"strings"
	"sync"

	"authgate/limits"
)

// shard is a part of the store with a lock of its own. Its buckets lie in one slab; at finds them. Each is in
// one of three lists, most recently touched first: counted, pinned while it holds a lock or a reservation, or coarse.
type shard struct {
	mu      sync.Mutex
	at      map[id]uint32
	slab    []entry // slab[0] is not used, so that index 0 means none
	free    uint32  // first of the free slots, linked by next
	counted list
	pinned  list
	coarse  list // shared buckets of newcomers, never dropped for want of room
	weight  int
	limit   int // bound of weight
	cursor  uint32
	listed  []uint32 // failure buckets that operators see
	file    *file    // nil: there is none
}

// entry is one bucket. Windows and tokens live in it; a failure bucket hangs on it.
type entry struct {
	id         id
	a, b       int64  // window: start and count; tokens: units and last
	span       uint32 // milliseconds: of a window its length, of tokens the unit they are counted in
	expires    uint32 // seconds, rounded up; for the sweeper and for eviction only
	prev, next uint32
	kind       limits.Kind
	isPinned   bool
	isCoarse   bool
	used       bool
	*failure
}

// failure is what only failure buckets and remembered secrets need. The key is kept since operators see it.
type failure struct {
	key     string
	rule    *limits.Rule
	log     limits.FailureLog
	repeats limits.Repeats
	listing int // 1 + position in shard.listed; 0: not listed
	weight  int
	saved   bool // the file has it, or is about to
}

const kindRepeats limits.Kind = 255 // beside the kinds of rules

type list struct {
	first, last uint32
	len         int
}

func (sh *shard) init(limit int) {
	sh.at = make(map[id]uint32)
	sh.slab = make([]entry, 1)
	sh.limit = limit
}

// ask is whether the bucket at index (0: there is none) has room for charge c.
func (sh *shard) ask(index uint32, c *limits.Charge, now limits.Millis) (limits.Cause, limits.Millis) {
	r := c.Rule
	var e entry
	if index != 0 && sh.slab[index].kind == r.Kind() {
		e = sh.slab[index]
	}
	window := r.Window.Milliseconds()
	var wait limits.Millis
	switch r.Kind() {
	case limits.KindWindow:
		wait = e.window().At(window, now).Wait(int64(r.Limit), window, now)
	case limits.KindTokens:
		wait = e.tokens().At(int64(r.Limit), int64(r.Burst), window, now).Wait(int64(r.Limit))
	case limits.KindFailures:
		if e.failure != nil {
			return e.log.Ask(r, now)
		}
	case limits.KindSignal: // no part in admission [L14]
	}
	if wait > 0 {
		return limits.Full, wait
	}
	return limits.Room, 0
}

// charge makes the charge of an attempt that is admitted. The caller has asked for room.
func (sh *shard) charge(s *Store, p *spot, c *limits.Charge, attempt uint64, now limits.Millis) {
	r := c.Rule
	kind := r.Kind()
	if kind == limits.KindSignal {
		return
	}
	index := sh.claim(s, p, c.Key, kind, now)
	e := &sh.slab[index]
	switch window := r.Window.Milliseconds(); kind {
	case limits.KindWindow:
		w := e.window().At(window, now).Charge()
		e.setWindow(w, window)
	case limits.KindTokens:
		t := e.tokens().At(int64(r.Limit), int64(r.Burst), window, now)
		t = t.Charge()
		e.setTokens(t, t.Expires(int64(r.Limit), int64(r.Burst)))
	case limits.KindFailures:
		e.rule = r
		e.log.Reserve(r, attempt, now)
		sh.weigh(index)
	}
	sh.touch(index, now)
	sh.trim(index, now)
}

// holder is the failure bucket in which the reservation of the attempt is alive, its own or the coarse one that took it
// in, or 0.
func (sh *shard) holder(s *Store, p *spot, key string, attempt uint64, now limits.Millis) uint32 {
	if sh.holds(sh.at[p.id], attempt, now) {
		return sh.at[p.id]
	}
	if s.coarse.Load() == 0 {
		return 0
	}
	if index := sh.at[s.coarseID(p.id, key)]; sh.holds(index, attempt, now) {
		return index
	}
	return 0
}

func (sh *shard) holds(index uint32, attempt uint64, now limits.Millis) bool {
	e := &sh.slab[index]
	return e.kind == limits.KindFailures && e.log.Holds(attempt, now)
}

// failure is the failure bucket of key, its own or the coarse one that took it in, or 0.
func (sh *shard) failure(s *Store, p spot, key string) uint32 {
	index := sh.at[p.id]
	if index == 0 {
		index = sh.at[s.coarseID(p.id, key)]
	}
	if index == 0 || sh.slab[index].kind != limits.KindFailures {
		return 0
	}
	return index
}

// settle closes the attempt's reservation if it is alive; a signal has none and counts.
func (sh *shard) settle(s *Store, p *spot, c *limits.Closing, attempt uint64, do limits.Action, now limits.Millis) limits.Effect {
	if c.Rule.Kind() == limits.KindSignal {
		if do != limits.Count {
			return limits.Effect{}
		}
		return sh.signal(s, p, c, now)
	}
	index := sh.holder(s, p, c.Key, attempt, now)
	if index == 0 {
		return limits.Effect{}
	}
	e := &sh.slab[index]
	effect := e.log.Settle(c.Rule, attempt, do, now)
	e.rule = c.Rule
	sh.weigh(index)
	if effect.Counted {
		sh.list(index)
	}
	sh.save(index, now)
	sh.touch(index, now)
	sh.trim(index, now)
	return effect
}

// save has the file follow a failure bucket that was changed, if it is worth that or was.
func (sh *shard) save(index uint32, now limits.Millis) {
	e := &sh.slab[index]
	if sh.file == nil {
		return
	}
	if e.saved = e.saved || lasting(&e.log, e.rule, now); e.saved {
		sh.file.markFailure(e.key)
	}
}

// signal counts one failure, and reports when that first exceeds the limit [L14].
func (sh *shard) signal(s *Store, p *spot, c *limits.Closing, now limits.Millis) limits.Effect {
	window := c.Rule.Window.Milliseconds()
	sh.place(s, p, c.Key, now)
	index := sh.claim(s, p, c.Key, limits.KindSignal, now)
	e := &sh.slab[index]
	w := e.window().At(window, now).Charge()
	e.setWindow(w, window)
	sh.touch(index, now)
	return limits.Effect{Done: true, Counted: true, Crossed: w.Count == int64(c.Rule.Limit)+1}
}

// repeated asks the memory of wrong secrets, and keeps it. Without room for one, nothing is a repetition: what is shared
// with other targets must not free a guess.
func (sh *shard) repeated(s *Store, p *spot, c *limits.RepeatCheck, now limits.Millis) bool {
	if c.Sum == 0 {
		return false
	}
	if sh.place(s, p, c.Key, now); p.coarse {
		return false
	}
	index := sh.claim(s, p, c.Key, kindRepeats, now)
	again := sh.slab[index].repeats.Again(c.Sum, c.Window.Milliseconds(), now)
	sh.slab[index].span = uint32(c.Window.Milliseconds())
	sh.touch(index, now)
	return again
}

// quota is what is left in a bucket of a request rule.
func (sh *shard) quota(i id, r *limits.Rule, now limits.Millis) limits.Quota {
	var e entry
	if index := sh.at[i]; index != 0 && sh.slab[index].kind == r.Kind() {
		e = sh.slab[index]
	}
	window := r.Window.Milliseconds()
	if r.Kind() == limits.KindTokens {
		t := e.tokens().At(int64(r.Limit), int64(r.Burst), window, now)
		return limits.Quota{Remaining: t.Units / t.Window, Reset: t.Expires(int64(r.Limit), int64(r.Burst)) - now}
	}
	w := e.window().At(window, now)
	return limits.Quota{Remaining: max(0, int64(r.Limit)-w.Count), Reset: w.Start + window - now}
}

func (e *entry) window() limits.Window { return limits.Window{Start: e.a, Count: e.b} }

func (e *entry) setWindow(w limits.Window, window limits.Millis) {
	e.a, e.b, e.span = w.Start, w.Count, uint32(window)
	e.expires = seconds(w.Expires(window))
}

func (e *entry) tokens() limits.Tokens {
	return limits.Tokens{Units: e.a, Last: e.b, Window: limits.Millis(e.span)}
}

func (e *entry) setTokens(t limits.Tokens, expires limits.Millis) {
	e.a, e.b, e.span = t.Units, t.Last, uint32(t.Window)
	e.expires = seconds(expires)
}

func seconds(t limits.Millis) uint32 { return uint32((t + 999) / 1000) }

// coarseBuckets is how many buckets of one scope and shard newcomers share when nothing may be dropped.
const coarseBuckets = 16

// coarseID is the shared bucket that takes in key when the shard is full of locks and reservations.
func (s *Store) coarseID(i id, key string) id {
	scope := key
	for range 4 { // CLASS:POLICY:DIMENSION:REALM:
		if n := strings.IndexByte(scope, ':'); n >= 0 {
			scope = scope[n+1:]
		}
	}
	scope = key[:len(key)-len(scope)]
	return s.spot(scope + "\x00" + strconv.FormatUint(i[1]%coarseBuckets, 10)).id
}
