package valkeystore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"authgate/internal/valkeytest"
	"authgate/limits"
)

// Every key has a time to live after every script [L13].
func TestEveryKeyEnds(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	ctx := context.Background()
	seen := map[string]bool{}
	check := func(after string) {
		t.Helper()
		for key, ttl := range keys(server) {
			seen[strings.Split(key, ":")[1]] = true
			if ttl <= 0 {
				t.Errorf("after %s: %s lives for ever", after, key)
			}
		}
	}
	all := []*limits.Rule{windowRule, tokenRule, failRule, lockRule, signalRule}
	for _, do := range []limits.Action{limits.Free, limits.Clear, limits.ShadowNeutral, limits.ShadowPending, limits.Count} {
		a := attempt("x", all...)
		w.admit(t, a)
		check("a decision")
		if err := w.Renew(ctx, a); err != nil {
			t.Fatal(err)
		}
		check("a renewal")
		st := a.Release()
		for i := range st.Closings {
			st.Closings[i].Do, st.Closings[i].Repeat = do, 1
		}
		st.Closings = append(st.Closings, limits.Closing{Rule: signalRule, Key: a.Charges[4].Key, Do: do})
		st.Repeats = []limits.RepeatCheck{{Key: "secrets:x", Sum: 7, Window: time.Hour}}
		for range 2 {
			if _, err := w.Settle(ctx, st); err != nil {
				t.Fatal(err)
			}
			check("a settlement")
		}
	}
	if d, err := w.Decide(ctx, attempt("x", all...)); err != nil || d.Admitted {
		t.Fatalf("got %+v %v, want a refusal", d, err)
	}
	check("a refusal")
	if err := w.Merge(ctx, []limits.Record{{Rule: failRule, Key: "f:f:target:realm:alone", Ages: []int64{5000, 10}}}); err != nil {
		t.Fatal(err)
	}
	check("a merge")
	mine := limits.Change{Key: "n", Text: "text", TTL: time.Hour, Index: "l"}
	if _, err := w.Swap(ctx, []limits.Kept{{Key: "n"}}, mine); err != nil {
		t.Fatal(err)
	}
	if err := w.SetLogOnly(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	check("a record and the kill switch")
	if _, err := w.Release(ctx, "f:f:target:realm:x"); err != nil {
		t.Fatal(err)
	}
	check("a release")
	if _, err := w.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	check("a clear")
	if want := []string{"f", "index", "list", "mode", "probe", "r", "record", "released", "secrets"}; !slices.Equal(slices.Sorted(maps.Keys(seen)), want) {
		t.Errorf("got keys of the kinds %v, want %v", slices.Sorted(maps.Keys(seen)), want)
	}
}

// Keys live as long as their state means something, and hardly longer.
func TestKeysLiveLongEnough(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	w.admit(t, attempt("x", windowRule, tokenRule, failRule))
	cooling := *lockRule
	cooling.Policy, cooling.Lockout = "c", limits.Lockout{Base: time.Second, Max: time.Second}
	for _, a := range []*limits.Attempt{attempt("x", lockRule), attempt("y", failRule), attempt("x", &cooling), attempt("x", signalRule)} {
		w.admit(t, a)
		w.settleAll(t, a, limits.Count)
	}
	const lock, window = limits.MaxLockout, time.Hour
	want := map[string]time.Duration{
		"gateway:r:w:source:realm:x":        time.Hour,
		"gateway:r:t:client:realm:x":        5 * time.Minute, // a full refill of five tokens, sixty an hour
		"gateway:f:f:target:realm:x":        time.Minute,     // a lease
		"gateway:f:f:target:realm:y":        10 * time.Minute,
		"gateway:f:l:target_source:realm:x": lock + window,
		"gateway:f:c:target_source:realm:x": time.Second + window,
		"gateway:f:s:source:realm:x":        time.Hour,
		"gateway:index:failures":            lock + window,
	}
	got := keys(server)
	for key, least := range want {
		ttl := time.Duration(got[key]) * time.Millisecond
		if ttl > least || ttl < least-valkeytest.Patience {
			t.Errorf("%s lives for %s, want %s", key, ttl, least)
		}
	}
}

// A key that lost its time to live gets one back, whatever comes of the attempt that finds it.
func TestPersistedKeysAreRearmed(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	ctx := context.Background()
	persisted := []string{
		"gateway:r:w:source:realm:x", "gateway:r:t:client:realm:x", "gateway:f:f:target:realm:x", "gateway:f:l:target_source:realm:x",
	}
	all := attempt("x", windowRule, tokenRule, failRule, lockRule)
	w.admit(t, all)
	w.settleAll(t, all, limits.Count)
	full := &limits.Rule{Policy: "full", Dimension: limits.App, Limit: 1, Window: time.Hour}
	w.admit(t, attempt("x", full))

	rearmed := func(by string, keys ...string) {
		t.Helper()
		for _, key := range keys {
			ttl, _ := server.Do("PTTL", key).(int64)
			least := time.Minute
			if strings.HasPrefix(key, "gateway:f:l:") {
				least = limits.MaxLockout + time.Hour - valkeytest.Patience // it is locked: no shorter than that
			}
			if time.Duration(ttl)*time.Millisecond < least {
				t.Errorf("by %s: %s lives for %d ms, want at least %s", by, key, ttl, least)
			}
		}
	}
	persist := func(keys ...string) {
		for _, key := range keys {
			if n := server.Do("PERSIST", key); n != int64(1) {
				t.Fatalf("PERSIST %s: got %v", key, n)
			}
		}
	}

	persist(persisted...)
	if d, err := w.Decide(ctx, attempt("x", windowRule, tokenRule, failRule, lockRule, full)); err != nil || d.Admitted {
		t.Fatalf("got %+v %v, want a refusal", d, err)
	}
	rearmed("a refusal", persisted...)

	failures := persisted[2:]
	persist(failures...)
	if err := w.Renew(ctx, all); err != nil { // its reservations are gone
		t.Fatal(err)
	}
	rearmed("a renewal that finds nothing", failures...)

	persist(failures...)
	w.settleAll(t, all, limits.Count)
	rearmed("a settlement that finds nothing", failures...)

	persist(persisted[:3]...)
	w.admit(t, attempt("x", windowRule, tokenRule, failRule))
	rearmed("an admission", persisted[:3]...)

	a := attempt("z", failRule)
	w.admit(t, a)
	w.settleAll(t, a, limits.Count)
	persist("gateway:index:failures")
	b := attempt("z", failRule)
	w.admit(t, b)
	w.settleAll(t, b, limits.Count)
	rearmed("a failure", "gateway:index:failures")
}

func TestRememberedSecretsAreRearmed(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	wide := *failRule
	wide.Limit = 1000
	again := func() {
		t.Helper()
		a := attempt("x", &wide)
		w.admit(t, a)
		st := a.Release()
		st.Closings[0].Do, st.Closings[0].Repeat = limits.Count, 1
		st.Repeats = []limits.RepeatCheck{{Key: "secrets:x", Sum: 7, Window: time.Hour}}
		if _, err := w.Settle(context.Background(), st); err != nil {
			t.Fatal(err)
		}
	}
	for range 1 + limits.MaxRepeats {
		again()
	}
	server.Do("PERSIST", "gateway:secrets:x")
	again() // one too many to be freed: nothing is written
	if ttl, _ := server.Do("PTTL", "gateway:secrets:x").(int64); ttl <= 0 {
		t.Errorf("it lives for %d ms, want it to end", ttl)
	}
}

// A lease is over when it says so, though its key may be there for longer.
func TestLeaseEndsBeforeItsKey(t *testing.T) {
	server := valkeytest.Start(t)
	now := limits.ToMillis(time.Now())
	w := open(t, server.Addr(), func(c *Config) { c.Now = func() limits.Millis { return now } })
	a := attempt("x", failRule)
	w.admit(t, a)
	server.Do("PEXPIRE", "gateway:f:f:target:realm:x", "3600000")
	now += failRule.Lease().Milliseconds()
	if out := w.settleAll(t, a, limits.Free); out.Effects[0] != (limits.Effect{}) {
		t.Errorf("got %+v, want nothing done", out.Effects[0])
	}
	b := attempt("x", failRule)
	w.admit(t, b)
	if out := w.settleAll(t, b, limits.Free); out.Effects[0] != (limits.Effect{Done: true}) {
		t.Errorf("got %+v, want it done", out.Effects[0])
	}
	if n := server.Do("EXISTS", "gateway:f:f:target:realm:x"); n != int64(0) {
		t.Error("the bucket is still there, with nothing in it")
	}
}

// A refused request leaves every key as it is, byte for byte, and prolongs none [L1].
func TestRefusalChangesNothing(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	ctx := context.Background()
	all := []*limits.Rule{windowRule, tokenRule, failRule, lockRule}
	a := attempt("x", all...)
	w.admit(t, a)
	w.settleAll(t, a, limits.Count)
	w.admit(t, attempt("x", failRule)) // stays in flight

	dump := func() map[string]string {
		out := map[string]string{}
		for key := range keys(server) {
			if !strings.HasSuffix(key, ":"+probeKey) {
				out[key], _ = server.Do("DUMP", key).(string)
			}
		}
		return out
	}
	before, lived := dump(), keys(server)
	for range 20 {
		if d, err := w.Decide(ctx, attempt("x", all...)); err != nil || d.Admitted {
			t.Fatalf("got %+v %v, want a refusal", d, err)
		}
	}
	if after := dump(); !maps.Equal(before, after) {
		t.Errorf("got %q\nwant %q", after, before)
	}
	for key, ttl := range keys(server) {
		if ttl > lived[key] && !strings.HasSuffix(key, ":"+probeKey) {
			t.Errorf("%s lives for %d ms now, %d before", key, ttl, lived[key])
		}
	}
}

// A secret is kept as long as one of the instances starts now and then.
func TestKeptSecretIsRenewed(t *testing.T) {
	server := valkeytest.Start(t)
	const key = "gateway:record:secret:s"
	for i := range 3 {
		w := open(t, server.Addr(), nil)
		server.Do("EVAL", "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('EXPIRE', KEYS[1], 60) end", "1", key)
		if _, err := limits.KeptSecret(context.Background(), w, "s", []byte{byte(i)}); err != nil {
			t.Error(err)
		}
		const want = 400 * 24 * time.Hour
		if ttl, _ := server.Do("PTTL", key).(int64); ttl < (want-valkeytest.Patience).Milliseconds() || ttl > want.Milliseconds() {
			t.Errorf("instance %d: it lives for %d ms, want %s", i, ttl, want)
		}
	}
}

// Records live as long as they are kept, and a list as long as any record on it.
func TestRecordsEnd(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	ctx := context.Background()
	for _, ttl := range []time.Duration{10 * time.Minute, time.Hour, time.Minute} {
		if _, err := w.Swap(ctx, nil, limits.Change{Key: ttl.String(), Text: "x", TTL: ttl, Index: "l"}); err != nil {
			t.Fatal(err)
		}
	}
	rearmed := func(key string, want time.Duration) {
		t.Helper()
		if ttl, _ := server.Do("PTTL", key).(int64); ttl <= (want-valkeytest.Patience).Milliseconds() || ttl > want.Milliseconds() {
			t.Errorf("%s lives for %d ms, want %s", key, ttl, want)
		}
	}
	rearmed("gateway:record:10m0s", 10*time.Minute)
	rearmed("gateway:record:1h0m0s", time.Hour)
	rearmed("gateway:list:l", time.Hour)

	const found = 60 * 24 * time.Hour
	for name, do := range map[string]func() error{
		"load":         func() error { _, err := w.Load(ctx, "1m0s"); return err },
		"a condition":  func() error { _, err := w.Swap(ctx, []limits.Kept{{Key: "1m0s", Text: "x"}}); return err },
		"a refusal":    func() error { _, err := w.Swap(ctx, []limits.Kept{{Key: "1m0s", Text: "y"}}); return err },
		"a fact asked": func() error { _, err := w.Decide(ctx, &limits.Attempt{Facts: []limits.Fact{"1m0s"}}); return err },
	} {
		server.Do("PERSIST", "gateway:record:1m0s")
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		rearmed("gateway:record:1m0s", found)
	}
}

// What has ended leaves its list without anybody listing it.
func TestListsShedWhatHasEnded(t *testing.T) {
	server := valkeytest.Start(t)
	now := limits.ToMillis(time.Now())
	w := open(t, server.Addr(), func(c *Config) { c.Now = func() limits.Millis { return now } })
	on := func(key string) limits.Change {
		return limits.Change{Key: key, Text: "x", TTL: time.Minute, Index: "l"}
	}
	for i := range 20 {
		if _, err := w.Swap(context.Background(), nil, on(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Swap(context.Background(), nil, limits.Change{Key: "0", Index: "l"}); err != nil {
		t.Fatal(err)
	}
	if n, _ := server.Do("ZCARD", "gateway:list:l").(int64); n != 19 {
		t.Errorf("got %d on the list, want 19 without the one that was forgotten", n)
	}
	now += time.Minute.Milliseconds()
	for i, want := range []int64{12, 5, 3} {
		if _, err := w.Swap(context.Background(), nil, on(fmt.Sprint("new", i))); err != nil {
			t.Fatal(err)
		}
		if n, _ := server.Do("ZCARD", "gateway:list:l").(int64); n != want {
			t.Errorf("after %d: got %d on the list, want %d", i+1, n, want)
		}
	}
}

// A change that the server takes up too late is not made.
func TestLateSwapDoesNothing(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	w.health.clock.Store(&reading{server: 1000, at: time.Now()})
	if done, err := w.Swap(context.Background(), nil, limits.Change{Key: "k", Text: "x", TTL: time.Hour}); done || !errors.Is(err, limits.ErrUnavailable) {
		t.Errorf("got %t, %v; want it to be out", done, err)
	}
	if n := server.Do("EXISTS", "gateway:record:k"); n != int64(0) {
		t.Error("it was made all the same")
	}
}

// Without a time of its own, every script goes by the server's clock, to the millisecond.
func TestScriptsReadTheServersClock(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	ctx := context.Background()
	clock := func() limits.Millis {
		now, err := w.clock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	// stored is the time at a place in a key's value.
	stored := func(key string, at int) limits.Millis {
		value, _ := server.Do("GET", key).(string)
		if len(value) < at+6 {
			t.Fatalf("%s holds %d bytes", key, len(value))
		}
		var n limits.Millis
		for i := range 6 {
			n |= limits.Millis(value[at+i]) << (8 * i)
		}
		return n
	}
	inFlight := attempt("x", windowRule, failRule)
	const head = 9
	lease := failRule.Lease().Milliseconds()
	for _, step := range []struct {
		name string
		do   func()
		time func() limits.Millis
	}{
		{"decide", func() { w.admit(t, inFlight) }, func() limits.Millis { return stored("gateway:r:w:source:realm:x", 1) }},
		{"renew", func() {
			if err := w.Renew(ctx, inFlight); err != nil {
				t.Fatal(err)
			}
		}, func() limits.Millis { return stored("gateway:f:f:target:realm:x", head+8) - lease }},
		{"settle", func() { w.settleAll(t, inFlight, limits.Count) }, func() limits.Millis { return stored("gateway:f:f:target:realm:x", head) }},
		{"merge", func() {
			if err := w.Merge(ctx, []limits.Record{{Rule: failRule, Key: "f:f:target:realm:y", Ages: []int64{0}}}); err != nil {
				t.Fatal(err)
			}
		}, func() limits.Millis { return stored("gateway:f:f:target:realm:y", head) }},
		{"release", func() {
			if _, err := w.Release(ctx, "f:f:target:realm:y"); err != nil {
				t.Fatal(err)
			}
		}, func() limits.Millis {
			text, _ := server.Do("GET", "gateway:released:f:f:target:realm:y").(string)
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}},
	} {
		before := clock()
		step.do()
		after := clock()
		if got := step.time(); got < before || got > after {
			t.Errorf("%s: got %d, want it in %d..%d", step.name, got, before, after)
		}
	}
}
