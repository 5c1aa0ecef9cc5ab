package memstore

import (
	"reflect"
	"testing"
	"time"

	"authgate/limits"
)

// FuzzDecodeRecord: a file may hold anything; what is read of it is bounded, and written again as it was.
func FuzzDecodeRecord(f *testing.F) {
	r := savedRecord{key: "k", text: "text", list: "l", until: 5000}
	f.Add("k", r.encode(nil))
	f.Add("k", []byte{})
	f.Add("", []byte{2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 'x'})
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		const now = 1000
		c, err := decodeRecord([]byte(key), value, now)
		if err != nil || c.TTL == 0 {
			return
		}
		if err := limits.CheckSwap(nil, []limits.Change{c}); err != nil {
			t.Fatal(err)
		}
		again := savedRecord{key: key, text: c.Text, list: c.Index, until: now + c.TTL.Milliseconds()}
		if got, err := decodeRecord([]byte(key), again.encode(nil), now); err != nil || got != c {
			t.Errorf("got %+v %v, want %+v", got, err, c)
		}
	})
}

// FuzzDecodeFailure: the same of buckets.
func FuzzDecodeFailure(f *testing.F) {
	const key = "f:p:target:realm:x"
	rule := &limits.Rule{
		Policy: "p", Class: limits.Failures, Dimension: limits.Target, Limit: 5, Window: time.Hour,
		Lockout: limits.Lockout{Base: time.Minute, Max: time.Hour},
	}
	f.Add(key, encodeFailure(rule, &limits.FailureLog{LockedUntil: 5, LockCount: 5, Level: 2, Quiet: 7, Log: []limits.Millis{1, 2}}))
	f.Add(key, []byte{})
	f.Add("x", []byte{10, 200, 200, 10})
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		r, log, err := decodeFailure([]byte(key), value)
		if err != nil || r == nil {
			return
		}
		if len(log.Log) > len(value) || r.Window <= 0 {
			t.Fatalf("got %+v with %d failures from %d bytes", r, len(log.Log), len(value))
		}
		log.Ask(r, 1000)
		log.Expires(r)
		again, same, err := decodeFailure([]byte(key), encodeFailure(r, &log))
		if err != nil || !reflect.DeepEqual(r, again) || !reflect.DeepEqual(log, same) {
			t.Errorf("got %+v %+v %v, want %+v %+v", again, same, err, r, log)
		}
	})
}
