package valkeystore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"authgate/internal/valkeytest"
	"authgate/limits"
)

// many is enough for the index to be kept as a table, which is listed in pages, and for several steps of a clear.
const many = 1000

func failMany(t *testing.T, w *watched) {
	t.Helper()
	for i := range many {
		a := attempt(fmt.Sprint(i), failRule)
		w.admit(t, a)
		w.settleAll(t, a, limits.Count)
	}
}

func TestEntriesOfMany(t *testing.T) {
	w := open(t, valkeytest.Start(t).Addr(), nil)
	failMany(t, w)
	seen := map[string]bool{}
	cursor, pages := "", 0
	for {
		entries, next, err := w.Entries(context.Background(), cursor, 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Attempts != 1 {
				t.Errorf("got %+v, want one attempt", e)
			}
			if _, ok := limits.ParseKey(e.Key); !ok {
				t.Errorf("got the key %q", e.Key)
			}
			seen[e.Key] = true
		}
		if pages++; next == "" || pages > many {
			break
		}
		cursor = next
	}
	if len(seen) != many || pages < 5 {
		t.Errorf("got %d buckets in %d pages, want %d in many", len(seen), pages, many)
	}
}

func TestEntriesRefusesForeignCursors(t *testing.T) {
	w := open(t, valkeytest.Start(t).Addr(), nil)
	for _, cursor := range []string{"x", "-1", "0.5", "99999999999999999999"} {
		if _, _, err := w.Entries(context.Background(), cursor, 10); !errors.Is(err, limits.ErrCursor) {
			t.Errorf("%q: got %v, want ErrCursor", cursor, err)
		}
	}
	if w.failures("entries") != 0 {
		t.Error("a foreign cursor counts as a failure of the store")
	}
}

// Listing reads the index and the buckets of one page, and nothing else.
func TestEntriesNeverScansTheKeyspace(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	failMany(t, w)
	before := server.Stats()
	if _, _, err := w.Entries(context.Background(), "", 50); err != nil {
		t.Fatal(err)
	}
	after := server.Stats()
	for command, want := range map[string]int64{"zscan": 1, "mget": 1, "scan": 0, "keys": 0} {
		if got := after[command].Calls - before[command].Calls; got != want {
			t.Errorf("%s: got %d calls, want %d", command, got, want)
		}
	}
}

func TestClearOfMany(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), func(cfg *Config) { cfg.Prefix = "odd*[pre]fix?\\" })
	failMany(t, w)
	w.admit(t, attempt("x", windowRule))
	var open []*limits.Attempt
	for i := range many / 2 {
		a := attempt(fmt.Sprint("open", i), failRule)
		w.admit(t, a)
		open = append(open, a)
	}
	index := w.key(indexKey)
	server.Do("ZADD", index, "99999999999999", w.key("f:f:target:realm:gone"))
	n, err := w.Clear(context.Background())
	if err != nil || n != many {
		t.Errorf("got %d %v, want %d", n, err, many)
	}
	if got := server.Do("ZCARD", index); got != int64(0) {
		t.Errorf("got %v members of the index, want none", got)
	}
	entries, _, err := w.Entries(context.Background(), "", 10)
	if err != nil || len(entries) != 0 {
		t.Errorf("got %v %v, want none", entries, err)
	}
	for _, a := range open {
		if out := w.settleAll(t, a, limits.Count); out.Effects[0] != (limits.Effect{}) {
			t.Fatalf("got %+v, want the attempt fenced", out.Effects[0])
		}
	}
	if got := server.Do("EXISTS", `odd*[pre]fix?\:r:w:source:realm:x`); got != int64(1) {
		t.Error("the bucket of a request rule was cleared, too")
	}
}

// Keys of another store on the same server are none of this one's business.
func TestClearKeepsToItsPrefix(t *testing.T) {
	server := valkeytest.Start(t)
	mine, other := open(t, server.Addr(), nil), open(t, server.Addr(), func(cfg *Config) { cfg.Prefix = "gateway2" })
	for _, w := range []*watched{mine, other} {
		a := attempt("x", failRule)
		w.admit(t, a)
		w.settleAll(t, a, limits.Count)
	}
	if n, err := mine.Clear(context.Background()); err != nil || n != 1 {
		t.Errorf("got %d %v, want 1", n, err)
	}
	if entries, _, err := other.Entries(context.Background(), "", 10); err != nil || len(entries) != 1 {
		t.Errorf("got %v %v, want the other's bucket", entries, err)
	}
}

// The index forgets what has ended, a few at a time, so that it does not grow for ever.
func TestIndexForgetsTheEnded(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	index := w.key(indexKey)
	for i := range 100 {
		server.Do("ZADD", index, "1000", fmt.Sprint("gateway:f:f:target:realm:ended", i))
	}
	for i := range 20 {
		a := attempt(fmt.Sprint(i), failRule)
		w.admit(t, a)
		w.settleAll(t, a, limits.Count)
	}
	if got := server.Do("ZCARD", index); got != int64(20) {
		t.Errorf("got %v members, want 20", got)
	}
}

func TestSwitchReachesOtherInstances(t *testing.T) {
	server := valkeytest.Start(t)
	here, there := open(t, server.Addr(), nil), open(t, server.Addr(), nil)
	ctx := context.Background()
	if here.LogOnlyFor() != 0 {
		t.Error("it is on from the start")
	}
	if err := here.SetLogOnly(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	anHour := func(w *watched) bool {
		d := w.LogOnlyFor()
		return d <= time.Hour+clockSlack*time.Millisecond && d > time.Hour-valkeytest.Patience
	}
	if !anHour(here) {
		t.Errorf("here: got %s, want an hour", here.LogOnlyFor())
	}
	valkeytest.Eventually(t, "the other instance", func() bool { return anHour(there) })
	if err := there.SetLogOnly(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if d := there.LogOnlyFor(); d != 0 {
		t.Errorf("there: got %s, want it off", d)
	}
	valkeytest.Eventually(t, "the first instance", func() bool { return here.LogOnlyFor() == 0 })
	late := open(t, server.Addr(), nil)
	if d := late.LogOnlyFor(); d != 0 {
		t.Errorf("a new instance: got %s, want it off", d)
	}
}
