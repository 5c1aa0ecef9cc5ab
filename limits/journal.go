package limits

import (
	"sync"
	"sync/atomic"
	"time"
)

// Record is what one bucket went through while the shared store was out. All times are spans before or after the
// moment at which the record is handed over, so that the clocks of two machines need not agree.
type Record struct {
	Rule      *Rule
	Key       string
	Ages      []Millis // of the failures that were counted, oldest first
	LockedFor Millis   // of the lock they made, from now on; 0: none, or over
	LockAge   Millis   // how long ago that lock was made
	LockCount int64
	Level     int64
}

// journal keeps records until the shared store can take them. It is bounded: a bucket that finds no place is as
// well known as before the outage, only to this instance.
type journal struct {
	mu      sync.Mutex
	records map[string]*alone
	some    atomic.Bool
}

// alone is a record in local time.
type alone struct {
	rule      *Rule
	failures  []Millis
	lockedAt  Millis
	until     Millis
	lockCount int64
	level     int64
}

// maxRecords bounds the buckets in a journal, and with the bound of a rule's limit its memory.
const maxRecords = 10_000

func newJournal() *journal { return &journal{records: make(map[string]*alone)} }

func (j *journal) waiting() bool { return j.some.Load() }

// add takes down what settling did to one bucket just now.
func (j *journal) add(c *Closing, e Effect) {
	now := ToMillis(time.Now())
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.records[c.Key]
	if r == nil {
		if len(j.records) >= maxRecords {
			return
		}
		r = &alone{}
		j.records[c.Key] = r
		j.some.Store(true)
	}
	r.rule = c.Rule
	if e.Locked > 0 { // the lock has taken the failures up
		r.failures, r.lockedAt, r.until = nil, now, now+e.Locked
		r.level, r.lockCount = max(r.level, e.Level), int64(c.Rule.Limit)
		return
	}
	r.failures = append(r.failures, now)
	if over := len(r.failures) - c.Rule.Limit; over > 0 {
		r.failures = append(r.failures[:0], r.failures[over:]...)
	}
}

// take removes a record, if there is one, and turns its times into ages.
func (j *journal) take() (rec Record, ok bool) {
	now := ToMillis(time.Now())
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, r := range j.records {
		rec = Record{Rule: r.rule, Key: key, Level: r.level, LockCount: r.lockCount, LockedFor: max(0, r.until-now)}
		if r.level > 0 {
			rec.LockAge = now - r.lockedAt
		}
		for _, t := range r.failures {
			rec.Ages = append(rec.Ages, now-t)
		}
		delete(j.records, key)
		j.some.Store(len(j.records) > 0)
		return rec, true
	}
	return rec, false
}

// putBack returns a record that was not taken after all; what was added meanwhile comes after it.
func (j *journal) putBack(rec Record) {
	now := ToMillis(time.Now())
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.records[rec.Key]
	if r == nil {
		r = &alone{rule: rec.Rule}
		j.records[rec.Key] = r
	}
	var earlier []Millis
	for _, age := range rec.Ages {
		earlier = append(earlier, now-age)
	}
	r.failures = append(earlier, r.failures...)
	if over := len(r.failures) - r.rule.Limit; over > 0 {
		r.failures = r.failures[over:]
	}
	if rec.Level > 0 {
		r.level, r.lockCount = max(r.level, rec.Level), rec.LockCount
		r.lockedAt = max(r.lockedAt, now-rec.LockAge)
		r.until = max(r.until, now+rec.LockedFor)
	}
	j.some.Store(true)
}

func (j *journal) forget(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.records, key)
	j.some.Store(len(j.records) > 0)
}

func (j *journal) forgetAll() {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.records)
	j.some.Store(false)
}
