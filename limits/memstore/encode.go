package memstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"authgate/limits"
)

// A record in the file is the time at which it ends, the name of its list with its length in front, and the text. All
// numbers are of variable length.

// savedRecord is a record as it is written; "" as its text: it is taken out.
type savedRecord struct {
	key, text, list string
	until           limits.Millis
}

func (r *savedRecord) encode(b []byte) []byte {
	if r.text == "" {
		return nil
	}
	b = binary.AppendVarint(b, r.until)
	b = binary.AppendUvarint(b, uint64(len(r.list)))
	b = append(b, r.list...)
	return append(b, r.text...)
}

// decodeRecord reads a record as the change that keeps it. Its TTL is 0 if it has ended.
func decodeRecord(key, value []byte, now limits.Millis) (limits.Change, error) {
	d := decoder{rest: value}
	until := d.varint()
	list := d.bytes(d.uvarint())
	c := limits.Change{Key: string(key), Index: string(list), Text: string(d.rest)}
	if d.short || c.Text == "" || until < 0 {
		return c, fmt.Errorf("%w: record %.80q makes no sense", errDamaged, key)
	}
	if left := until - now; left > 0 {
		c.TTL = time.Duration(min(left, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
		if limits.CheckSwap(nil, []limits.Change{c}) != nil {
			return c, fmt.Errorf("%w: record %.80q makes no sense", errDamaged, key)
		}
	}
	return c, nil
}

// marked are the marked records as they stand, all at one moment. Those that the store does not have any more are without
// a text.
func (r *records) marked(m *marks, f *file) []savedRecord {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m.add(f.takeRecords()) // or a swap since the others were taken would be written in part
	out := make([]savedRecord, 0, len(m.records))
	for key := range m.records {
		s := savedRecord{key: key}
		if at := r.at[key]; at != nil {
			s.text, s.list, s.until = at.text, at.list, at.until
		}
		out = append(out, s)
	}
	return out
}

// every is every record.
func (r *records) every() []savedRecord {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]savedRecord, 0, len(r.at))
	for key, at := range r.at {
		out = append(out, savedRecord{key: key, text: at.text, list: at.list, until: at.until})
	}
	return out
}

func inOrder(records []savedRecord) []savedRecord {
	slices.SortFunc(records, func(a, b savedRecord) int { return strings.Compare(a.key, b.key) })
	return records
}

// lasting reports whether a failure bucket is worth the file: it has a lock, or a level that another one would build on.
func lasting(f *limits.FailureLog, r *limits.Rule, now limits.Millis) bool {
	return now < f.LockedUntil || f.Level > 0 && now-f.Quiet < r.Window.Milliseconds()
}

// encodeFailure is what the file is to hold of a bucket, nil for nothing.
func (s *Store) encodeFailure(key string, now limits.Millis) []byte {
	p := s.spot(key)
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	e := p.shard.find(p.id)
	if e == nil || e.kind != limits.KindFailures {
		return nil
	}
	return p.shard.encodeFailure(e, now)
}

func (sh *shard) encodeFailure(e *entry, now limits.Millis) []byte {
	f := sh.failures.at(e.more)
	if e.coarse {
		return nil
	}
	if f.saved = lasting(&f.log, f.rule, now); !f.saved {
		return nil
	}
	return encodeFailure(f.rule, &f.log)
}

// encodeFailures are all buckets of the shard that are worth the file.
func (sh *shard) encodeFailures(now limits.Millis) map[string][]byte {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	out := make(map[string][]byte)
	for f := range sh.failures.all {
		if !f.used() {
			continue
		}
		if value := sh.encodeFailure(sh.find(f.id), now); value != nil {
			out[f.key] = value
		}
	}
	return out
}

// A failure bucket in the file is what of its rule is needed to understand it (limit, window, base and maximum of the lock in
// milliseconds), end of the lock, failures that made it, level, since when it is quiet, and the times of its failures. Attempts
// in flight end with the process; shadow counts begin anew.
func encodeFailure(r *limits.Rule, f *limits.FailureLog) []byte {
	b := make([]byte, 0, 48+6*len(f.Log))
	for _, n := range []int64{
		int64(r.Limit), r.Window.Milliseconds(), r.Lockout.Base.Milliseconds(), r.Lockout.Max.Milliseconds(),
		f.LockedUntil, f.LockCount, f.Level, f.Quiet, int64(len(f.Log)),
	} {
		b = binary.AppendVarint(b, n)
	}
	for _, t := range f.Log {
		b = binary.AppendVarint(b, t)
	}
	return b
}

// decodeFailure reads a bucket. The rule is nil if its key is none of this program.
func decodeFailure(key, value []byte) (*limits.Rule, limits.FailureLog, error) {
	d := decoder{rest: value}
	milliseconds := func() time.Duration {
		n := d.varint()
		if n < 0 || n > limits.MaxLockout.Milliseconds() {
			d.short = true
		}
		return time.Duration(n) * time.Millisecond
	}
	r := &limits.Rule{Limit: int(d.varint()), Window: milliseconds(), Lockout: limits.Lockout{Base: milliseconds(), Max: milliseconds()}}
	f := limits.FailureLog{LockedUntil: d.varint(), LockCount: d.varint(), Level: d.varint(), Quiet: d.varint()}
	n := d.varint()
	if n < 0 || n > int64(len(d.rest)) { // each takes a byte at least
		d.short = true
	}
	for range n {
		if d.short {
			break
		}
		f.Log = append(f.Log, d.varint())
	}
	if d.short || len(d.rest) > 0 || r.Limit < 1 || r.Limit > limits.MaxPoolFailure || r.Window < limits.MinWindow || f.LockedUntil < 0 || f.Level < 0 {
		return nil, f, fmt.Errorf("%w: bucket %.80q makes no sense", errDamaged, key)
	}
	parts, ok := limits.ParseKey(string(key))
	if !ok || parts.Class == limits.Requests {
		return nil, f, nil
	}
	r.Policy, r.Class, r.Dimension, r.Index = parts.Policy, parts.Class, parts.Dimension, parts.Index
	return r, f, nil
}

// decoder reads numbers and bytes; short is true once there were not enough.
type decoder struct {
	rest  []byte
	short bool
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	return advance(d, v, n)
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	return advance(d, v, n)
}

func advance[T int64 | uint64](d *decoder, v T, n int) T {
	if n <= 0 || d.short {
		d.short = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes(n uint64) []byte {
	if d.short || n > uint64(len(d.rest)) {
		d.short = true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}
