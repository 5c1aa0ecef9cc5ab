package memstore

import (
	"math/bits"
	"strconv"
	"strings"
	"sync"

	"authgate/limits"
)

// shard is a part of the store with a lock of its own.
type shard struct {
	mu       sync.Mutex
	tables   []table // by an id's bits above those that chose the shard
	failures slab[failure]
	repeats  slab[limits.Repeats]
	count    int // buckets, of which so many are
	pinned   int // locked or reserved, or
	shared   int // coarse
	weight   int
	limit    int // bound of weight
	hand     hand
	sweeper  hand
	listed   []uint32 // failure buckets that operators see
	file     *file    // nil: there is none
}

const kindRepeats limits.Kind = 255 // beside the kinds of rules

// tableLimit is about how many buckets one table has at the bound: as it grows, all of them move at once, while requests wait.
const tableLimit = 4096

// crowd is how many buckets of a shard are worth large pages of memory for its tables. With fewer, finding one is quick anyway, and
// what the system does to make a large page, requests would wait for.
const crowd = 16 << 10

func (sh *shard) init(limit int) {
	sh.limit = limit
	sh.tables = make([]table, 1<<bits.Len(uint((limit-1)/tableLimit)))
}

func (sh *shard) table(i id) *table { return &sh.tables[i[0]/maxShards&uint64(len(sh.tables)-1)] }

func (sh *shard) find(i id) *entry { return sh.table(i).find(i) }

func (sh *shard) add(p *spot, key string, kind limits.Kind) *entry {
	e := sh.table(p.id).add(p.id, sh.count >= crowd)
	e.kind, e.coarse = kind, p.coarse
	switch kind {
	case limits.KindFailures:
		var f *failure
		e.more, f = sh.failures.take()
		f.id, f.key = p.id, key
	case kindRepeats:
		e.more, _ = sh.repeats.take()
	}
	sh.count++
	sh.weight++
	if p.coarse {
		sh.shared++
	}
	return e
}

// ask is whether a bucket (nil: there is none) has room for charge c.
func (sh *shard) ask(e *entry, c *limits.Charge, now limits.Millis) (limits.Cause, limits.Millis) {
	r := c.Rule
	kind := r.Kind()
	var none entry
	if e == nil || e.kind != kind {
		e = &none
	}
	window := r.Window.Milliseconds()
	var wait limits.Millis
	switch kind {
	case limits.KindWindow:
		wait = e.window().At(window, now).Wait(int64(r.Limit), window, now)
	case limits.KindTokens:
		wait = e.tokens().At(int64(r.Limit), int64(r.Burst), window, now).Wait(int64(r.Limit))
	case limits.KindFailures:
		if e != &none {
			return sh.failures.at(e.more).log.Ask(r, now)
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
	e := sh.claim(s, p, c.Key, kind, now)
	switch window := r.Window.Milliseconds(); kind {
	case limits.KindWindow:
		e.setWindow(e.window().At(window, now).Charge(), window)
	case limits.KindTokens:
		t := e.tokens().At(int64(r.Limit), int64(r.Burst), window, now).Charge()
		e.setTokens(t, t.Expires(int64(r.Limit), int64(r.Burst)))
	case limits.KindFailures:
		f := sh.failures.at(e.more)
		f.rule = r
		f.log.Reserve(r, attempt, now)
		sh.weigh(f)
	}
	sh.touch(e, now)
	sh.trim(p.id, now)
}

// touch notes that a bucket was changed.
func (sh *shard) touch(e *entry, now limits.Millis) {
	e.touched = ticks(now)
	switch e.kind {
	case limits.KindFailures:
		f := sh.failures.at(e.more)
		e.expires = seconds(f.log.Expires(f.rule))
		sh.pin(e, f.log.Busy(now))
	case kindRepeats:
		e.expires = seconds(sh.repeats.at(e.more).Expires(limits.Millis(e.span)))
	}
}

// holder is the failure bucket in which the reservation of the attempt is alive, its own or the coarse one that took it
// in, or nil.
func (sh *shard) holder(s *Store, p *spot, key string, attempt uint64, now limits.Millis) *entry {
	if e := sh.find(p.id); sh.holds(e, attempt, now) {
		return e
	}
	if s.coarse.Load() == 0 {
		return nil
	}
	if e := sh.find(s.coarseID(p.id, key)); sh.holds(e, attempt, now) {
		return e
	}
	return nil
}

func (sh *shard) holds(e *entry, attempt uint64, now limits.Millis) bool {
	return e != nil && e.kind == limits.KindFailures && sh.failures.at(e.more).log.Holds(attempt, now)
}

// failure is the failure bucket of key, its own or the coarse one that took it in, or nil.
func (sh *shard) failure(s *Store, p spot, key string) *entry {
	e := sh.find(p.id)
	if e == nil {
		e = sh.find(s.coarseID(p.id, key))
	}
	if e == nil || e.kind != limits.KindFailures {
		return nil
	}
	return e
}

// settle closes the attempt's reservation if it is alive; a signal has none and counts.
func (sh *shard) settle(s *Store, p *spot, c *limits.Closing, attempt uint64, do limits.Action, now limits.Millis) limits.Effect {
	if c.Rule.Kind() == limits.KindSignal {
		if do != limits.Count {
			return limits.Effect{}
		}
		return sh.signal(s, p, c, now)
	}
	e := sh.holder(s, p, c.Key, attempt, now)
	if e == nil {
		return limits.Effect{}
	}
	f := sh.failures.at(e.more)
	effect := f.log.Settle(c.Rule, attempt, do, now)
	f.rule = c.Rule
	sh.weigh(f)
	if effect.Counted {
		sh.list(e.more)
	}
	sh.save(f, now)
	sh.touch(e, now)
	sh.trim(e.id, now)
	return effect
}

// signal counts one failure, and reports when that first exceeds the limit [L14].
func (sh *shard) signal(s *Store, p *spot, c *limits.Closing, now limits.Millis) limits.Effect {
	window := c.Rule.Window.Milliseconds()
	sh.place(s, p, c.Key, now)
	e := sh.claim(s, p, c.Key, limits.KindSignal, now)
	w := e.window().At(window, now).Charge()
	e.setWindow(w, window)
	sh.touch(e, now)
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
	e := sh.claim(s, p, c.Key, kindRepeats, now)
	again := sh.repeats.at(e.more).Again(c.Sum, c.Window.Milliseconds(), now)
	e.span = uint32(c.Window.Milliseconds())
	sh.touch(e, now)
	return again
}

// quota is what is left in a bucket of a request rule.
func (sh *shard) quota(i id, r *limits.Rule, now limits.Millis) limits.Quota {
	var none entry
	e := sh.find(i)
	if e == nil || e.kind != r.Kind() {
		e = &none
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
	return s.spot(scope + "\x00" + strconv.FormatUint(i[1]>>32%coarseBuckets, 10)).id
}
