package limits

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The life of a failure bucket is told in storetest's cases, which both stores pass. Here is what they do not show.

const moment = Millis(1_000_000_000) // some moment

func lockRule() *Rule {
	return &Rule{Class: Failures, Dimension: TargetSource, Limit: 3, Window: time.Minute, Lockout: Lockout{5 * time.Minute, time.Hour}}
}

func TestFailureLogExpires(t *testing.T) {
	const window = 60_000
	tests := []struct {
		name string
		log  FailureLog
		want Millis
	}{
		{"never touched", FailureLog{}, 0},
		{"failures", FailureLog{Log: []Millis{moment - 5, moment}}, moment + window},
		{"a reservation", FailureLog{Live: []Slot{{1, moment + 5000}}}, moment + 5000},
		{"the longest reservation", FailureLog{Live: []Slot{{1, moment + 9000}, {2, moment + 5000}}}, moment + 9000},
		{"a lock and the window after it", FailureLog{LockedUntil: moment + 300_000, Level: 1, Quiet: moment + 300_000}, moment + 300_000 + window},
		{"a lock without a level", FailureLog{LockedUntil: moment + 300_000}, moment + 300_000},
		{"a cool-off", FailureLog{Level: 4, Quiet: moment}, moment + window},
		{"a shadow", FailureLog{Neutral: Window{moment, 1}}, moment + window},
		{"the other shadow", FailureLog{Pending: Window{moment, 1}}, moment + window},
		{"a shadow of nothing", FailureLog{Neutral: Window{moment, 0}}, 0},
		{"the latest of all", FailureLog{Log: []Millis{moment}, Live: []Slot{{1, moment + 1}}, Neutral: Window{moment + 7, 1}}, moment + 7 + window},
	}
	for _, tt := range tests {
		if got := tt.log.Expires(lockRule()); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// What is forgotten at Expires must have meant nothing any more.
func TestFailureLogMeansNothingOnceExpired(t *testing.T) {
	r := lockRule()
	var f FailureLog
	id := uint64(0)
	for _, do := range []Action{Count, Count, Count, ShadowNeutral, Count, ShadowPending, Free, Count, Clear, Count, Count} {
		id++
		now := moment + Millis(id)*400_000 // after the lock
		f.Reserve(r, id, now)
		f.Settle(r, id, do, now+10)
		end := f.Expires(r)
		if end == 0 {
			continue
		}
		if cause, wait := f.Ask(r, end); cause != Room {
			t.Errorf("after %d: %s for %d at the end of all", id, cause, wait)
		}
		if e, ok := f.Entry("k", r.Window.Milliseconds(), end); ok {
			t.Errorf("after %d: got %+v at the end of all, want nothing to see", id, e)
		}
		if f.Busy(end) {
			t.Errorf("after %d: busy at the end of all", id)
		}
	}
}

func TestFailureLogBusy(t *testing.T) {
	tests := []struct {
		name string
		log  FailureLog
		want bool
	}{
		{"never touched", FailureLog{}, false},
		{"failures", FailureLog{Log: []Millis{moment}}, false},
		{"a lock", FailureLog{LockedUntil: moment + 1}, true},
		{"a lock that has ended", FailureLog{LockedUntil: moment, Level: 1}, false},
		{"a reservation", FailureLog{Live: []Slot{{1, moment + 1}}}, true},
		{"a reservation that has ended", FailureLog{Live: []Slot{{1, moment}}}, false},
		{"a reservation among ended ones", FailureLog{Live: []Slot{{1, moment - 1}, {2, moment + 1}}}, true},
	}
	for _, tt := range tests {
		if got := tt.log.Busy(moment); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestFailureLogAsksWithoutTouching(t *testing.T) {
	f := FailureLog{
		Log: []Millis{moment - 60_000, moment - 1, moment + 99}, Live: []Slot{{1, moment - 1}, {2, moment + 1}},
		Level: 2, Quiet: moment - 90_000, Neutral: Window{moment + 5, 3},
	}
	before := FailureLog{
		Log: slices.Clone(f.Log), Live: slices.Clone(f.Live), Level: f.Level, Quiet: f.Quiet, Neutral: f.Neutral,
	}
	if cause, wait := f.Ask(lockRule(), moment); cause != Held || wait != 1 {
		t.Errorf("got %s for %d, want held for 1", cause, wait)
	}
	f.Entry("k", 60_000, moment)
	f.Holds(2, moment)
	if !slices.Equal(f.Log, before.Log) || !slices.Equal(f.Live, before.Live) || f.Level != 2 || f.Quiet != before.Quiet || f.Neutral != before.Neutral {
		t.Errorf("got %+v, want %+v", f, before)
	}
}

func TestFailureLogHolds(t *testing.T) {
	f := FailureLog{Live: []Slot{{1, moment}, {2, moment + 1}}}
	for id, want := range map[uint64]bool{0: false, 1: false, 2: true, 3: false} {
		if got := f.Holds(id, moment); got != want {
			t.Errorf("id %d: got %t, want %t", id, got, want)
		}
	}
}

func TestFailureLogAdopt(t *testing.T) {
	tests := []struct {
		name  string
		log   FailureLog
		until Millis
		level int64
		want  Entry
	}{
		{"an open bucket", FailureLog{Log: []Millis{moment}}, moment + 500, 2, Entry{Key: "k", LockedFor: 500, Level: 2}},
		{"the later end wins", FailureLog{LockedUntil: moment + 900, Quiet: moment + 900, Level: 1, LockCount: 3}, moment + 500, 1, Entry{Key: "k", Attempts: 3, LockedFor: 900, Level: 1}},
		{"the higher level wins", FailureLog{LockedUntil: moment + 100, Quiet: moment + 100, Level: 7, LockCount: 3}, moment + 500, 1, Entry{Key: "k", Attempts: 3, LockedFor: 500, Level: 7}},
	}
	for _, tt := range tests {
		tt.log.Adopt(tt.until, tt.level)
		if got, ok := tt.log.Entry("k", 60_000, moment); !ok || got != tt.want {
			t.Errorf("%s: got %+v %t, want %+v", tt.name, got, ok, tt.want)
		}
		cool := moment + tt.want.LockedFor + 60_000 // a whole window after the lock's end
		if got, ok := tt.log.Entry("k", 60_000, cool-1); !ok || got.Level != tt.want.Level {
			t.Errorf("%s: before the cool-off is over: got %+v %t, want level %d", tt.name, got, ok, tt.want.Level)
		}
		if got, ok := tt.log.Entry("k", 60_000, cool); ok {
			t.Errorf("%s: after the cool-off: got %+v, want nothing to see", tt.name, got)
		}
	}
}

// TestFailureLogManyInFlight: what is remembered of the leases never changes an answer. The same is counted from the slots alone.
func TestFailureLogManyInFlight(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		rules := []*Rule{{Class: Failures, Limit: 20, Window: 7 * time.Second}, {Class: Failures, Limit: 25, Window: 30 * time.Second}}
		var f FailureLog
		var ids []uint64
		now := Millis(moment)
		for step := range 2000 {
			r := rules[random.IntN(len(rules))] // as after a reload
			switch now += Millis(random.IntN(400)); random.IntN(4) {
			case 0, 1:
				if cause, _ := f.Ask(r, now); cause == Room {
					ids = append(ids, uint64(step+1))
					f.Reserve(r, uint64(step+1), now)
				}
			case 2:
				if len(ids) > 0 {
					i := random.IntN(len(ids))
					f.Settle(r, ids[i], Action(random.IntN(2)*int(Clear)), now)
					ids = slices.Delete(ids, i, i+1)
				}
			case 3:
				if len(ids) > 0 {
					f.Renew(r, ids[random.IntN(len(ids))], now)
				}
			}
			bare := f
			bare.soonest, bare.latest = 0, 0
			cause, wait := f.Ask(r, now)
			bareCause, bareWait := bare.Ask(r, now)
			if cause != bareCause || wait != bareWait || f.Busy(now) != bare.Busy(now) || f.live(now) != bare.live(now) {
				t.Fatalf("seed %d, step %d: got %s for %d, busy %t, %d live; want %s for %d, busy %t, %d live", seed, step,
					cause, wait, f.Busy(now), f.live(now), bareCause, bareWait, bare.Busy(now), bare.live(now))
			}
			got, want := f.Expires(r), bare.Expires(r)
			if got < want || got > want+30_000 {
				t.Fatalf("seed %d, step %d: it ends at %d, want %d or a lease later", seed, step, got, want)
			}
		}
	}
}
