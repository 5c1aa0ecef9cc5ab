package device

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

const (
	realm   = "acme"
	testTTL = day // of virtual time, through which the store sweeps each second
)

// world is a registry over records that are watched.
type world struct {
	*Registry
	t       testing.TB
	records *watched
}

func newWorld(t testing.TB, r limits.Records) *world {
	t.Helper()
	records := &watched{Records: r, t: t, keys: map[string]bool{}}
	g, err := NewRegistry(Config{Records: records, Key: []byte("spelling-key-0123"), TTL: testTTL, MaxUsers: 10})
	if err != nil {
		t.Fatal(err)
	}
	return &world{Registry: g, t: t, records: records}
}

// inBubble runs a test in virtual time over a memory store, and checks the invariants at its end.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Config{MaxEntries: 1 << 20})
		defer s.Close()
		w := newWorld(t, s)
		test(t, w)
		w.check()
	})
}

// watched counts the calls of a store and remembers its keys.
type watched struct {
	limits.Records
	t testing.TB

	mu           sync.Mutex
	loads, swaps int
	keys         map[string]bool
	before       func(was []limits.Kept) error // called before a swap, if not nil
}

func (r *watched) Load(ctx context.Context, keys ...string) ([]string, error) {
	r.mu.Lock()
	r.loads++
	r.mu.Unlock()
	return r.Records.Load(ctx, keys...)
}

func (r *watched) Swap(ctx context.Context, was []limits.Kept, changes ...limits.Change) (bool, error) {
	r.mu.Lock()
	r.swaps++
	lists := false
	for _, c := range changes {
		r.keys[c.Key] = true
		if fact := strings.HasPrefix(c.Key, "device:fact:"); fact && lists {
			r.t.Errorf("fact %s is written after the list that leads to it", c.Key)
		}
		lists = lists || strings.HasPrefix(c.Key, "device:user:")
	}
	r.mu.Unlock()
	if r.before != nil {
		if err := r.before(was); err != nil {
			return false, err
		}
	}
	return r.Records.Swap(ctx, was, changes...)
}

// calls are the loads and swaps that f makes.
func (w *world) calls(f func()) (loads, swaps int) {
	w.records.loads, w.records.swaps = 0, 0
	f()
	return w.records.loads, w.records.swaps
}

func (w *world) load(keys ...string) []string {
	w.t.Helper()
	texts, err := w.records.Records.Load(context.Background(), keys...)
	if err != nil {
		w.t.Fatal(err)
	}
	return texts
}

// trust has a success of a user, with the ids that the browser brings.
func (w *world) trust(u User, seen ...ID) (id ID, added bool) {
	w.t.Helper()
	id, added, err := w.Trust(context.Background(), u, seen)
	if err != nil {
		w.t.Fatal(err)
	}
	return id, added
}

// first has a success that must make a fresh id.
func (w *world) first(u User, seen ...ID) ID {
	w.t.Helper()
	id, added := w.trust(u, seen...)
	if !added || slices.Contains(seen, id) {
		w.t.Fatalf("%v: got added %t, and id %s of %v", u, added, id.Public(), seen)
	}
	return id
}

// again has a success that must keep the id.
func (w *world) again(u User, id ID) {
	w.t.Helper()
	if got, added := w.trust(u, id); got != id || added {
		w.t.Fatalf("%v: got %s, added %t, want a renewal of %s", u, got.Public(), added, id.Public())
	}
}

// doubts has a device fail n times, and reports whether one of these was the end.
func (w *world) doubts(u User, id ID, n int) (ended bool) {
	w.t.Helper()
	for range n {
		end, err := w.Doubt(context.Background(), u, id)
		if err != nil {
			w.t.Fatal(err)
		}
		ended = ended || end
	}
	return ended
}

// known says what a decision would know: "exact", "any", "both" or "".
func (w *world) known(id ID, u User) string {
	w.t.Helper()
	exact, loose := w.Facts(id, u)
	texts := w.load(string(exact), string(loose))
	switch {
	case texts[0] != "" && texts[1] != "":
		return "both"
	case texts[0] != "":
		return "exact"
	case texts[1] != "":
		return "any"
	}
	return ""
}

// wantKnown fails the test unless a decision would know just that.
func (w *world) wantKnown(what string, id ID, u User, want string) {
	w.t.Helper()
	if got := w.known(id, u); got != want {
		w.t.Errorf("%s: %v is known as %q, want %q", what, u, got, want)
	}
}

func (w *world) list(target string) []Entry {
	w.t.Helper()
	var all []Entry
	for cursor := ""; ; {
		entries, next, err := w.List(context.Background(), realm, target, cursor, 100)
		if err != nil {
			w.t.Fatal(err)
		}
		if all = append(all, entries...); next == "" {
			return all
		}
		cursor = next
	}
}

// bob is a user, spelt like that.
func bob(spelling string) User { return User{Realm: realm, Target: "bob", Spelling: spelling} }

func user1(name string) User { return User{Realm: realm, Target: name, Spelling: name} }

// check holds all records that were ever changed against the bounds, and the facts against the lists: each has the other.
func (w *world) check() {
	w.t.Helper()
	keys := slices.Sorted(maps.Keys(w.records.keys))
	texts := w.load(keys...)
	kept, facts, devices := map[string]string{}, map[string]bool{}, map[string]map[string]bool{}
	for i, key := range keys {
		kept[key] = texts[i]
	}
	for i, key := range keys {
		if text := texts[i]; strings.HasPrefix(key, "device:user:") && text != "" {
			w.checkUser(key, text, kept, facts, devices)
		}
	}
	for _, key := range keys {
		if strings.HasPrefix(key, "device:fact:") && (kept[key] != "") != facts[key] {
			w.t.Errorf("fact %s is kept: %t; on a list: %t", key, kept[key] != "", facts[key])
		}
	}
	for device, targets := range devices {
		if len(targets) > 10 {
			w.t.Errorf("device %s has %d users", device, len(targets))
		}
	}
}

func (w *world) checkUser(key, text string, kept map[string]string, facts map[string]bool, devices map[string]map[string]bool) {
	w.t.Helper()
	in, target, _ := strings.Cut(strings.TrimPrefix(key, "device:user:"), ":")
	spellings, onDevice := map[string]int{}, map[string]int{}
	pairs := parsePairs(text)
	for _, p := range pairs {
		if time.Since(time.Unix(p.last, 0)) >= testTTL {
			continue
		}
		facts[factKey(in, target, p.device, p.spelling)] = true
		spellings[fmt.Sprint(p.spelling)]++
		onDevice[p.device.String()]++
		device, targets, _ := parseDevice(kept[deviceKey(in, p.device.public())])
		if device != p.device || !slices.Contains(targets, target) {
			w.t.Errorf("device %s is trusted for %s, but its record says %q", p.device, target, kept[deviceKey(in, p.device.public())])
		}
		if devices[in+p.device.String()] == nil {
			devices[in+p.device.String()] = map[string]bool{}
		}
		devices[in+p.device.String()][target] = true
	}
	for what, counts := range map[string]map[string]int{"a spelling": spellings, "a device": onDevice} {
		for name, n := range counts {
			if most := map[string]int{"a spelling": 32, "a device": 4}[what]; n > most {
				w.t.Errorf("%s of %s has %d pairs (%s), want at most %d", what, target, n, name, most)
			}
		}
	}
	if len(pairs) > 128 {
		w.t.Errorf("%s has %d pairs", target, len(pairs))
	}
	for fact := range facts {
		if w.records.keys[fact] {
			continue
		}
		w.t.Errorf("fact %s was never written", fact)
	}
}

func (u User) String() string { return fmt.Sprintf("%s/%s as %q", u.Realm, u.Target, u.Spelling) }
