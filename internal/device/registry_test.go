package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

func TestNewRegistry(t *testing.T) {
	good := Config{Records: &watched{}, Key: keyA, TTL: time.Minute, MaxUsers: 1}
	if _, err := NewRegistry(good); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no records", func(c *Config) { c.Records = nil }, "making a registry of devices: no records"},
		{"short key", func(c *Config) { c.Key = keyA[:15] }, "making a registry of devices: the key has 15 bytes; use at least 16"},
		{"short life", func(c *Config) { c.TTL = time.Second }, "making a registry of devices: a time to live of 1s; use at least a minute"},
		{"no users", func(c *Config) { c.MaxUsers = 0 }, "making a registry of devices: 0 users of a device; use 1..10"},
		{"many users", func(c *Config) { c.MaxUsers = 11 }, "making a registry of devices: 11 users of a device; use 1..10"},
	} {
		cfg := good
		c.change(&cfg)
		if _, err := NewRegistry(cfg); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

func TestDoubt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(bob("bob"))
		other := w.first(bob("bob"))
		if w.doubts(bob("bob"), id, MaxFailures-1) {
			t.Error("it ended too early")
		}
		w.wantKnown("after 29", id, bob("bob"), "exact")
		w.again(bob("bob"), id)
		if w.doubts(bob("bob"), id, MaxFailures-1) {
			t.Error("a success did not begin anew")
		}
		if w.doubts(bob("BOB"), id, MaxFailures) || w.doubts(user1("alice"), id, MaxFailures) || w.doubts(bob("bob"), NewID(), MaxFailures) {
			t.Error("a stranger's trust ended")
		}
		if got := w.list("bob"); len(got) != 2 || got[0].Failures+got[1].Failures != MaxFailures-1 {
			t.Errorf("got list %v, want %d failures", got, MaxFailures-1)
		}
		if !w.doubts(bob("bob"), id, 1) {
			t.Error("it did not end")
		}
		w.wantKnown("after 30", id, bob("bob"), "")
		w.wantKnown("another device", other, bob("bob"), "exact")
		if w.doubts(bob("bob"), id, MaxFailures) {
			t.Error("it ended twice")
		}
	})
}

// A link for any spelling gives no more failures than any other trust, whatever spellings are tried.
func TestDoubtAnySpelling(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(bob(""))
		for i := range MaxFailures {
			if got, want := w.doubts(bob(fmt.Sprint(i)), id, 1), i == MaxFailures-1; got != want {
				t.Fatalf("failure %d: got ended %t, want %t", i+1, got, want)
			}
		}
		w.wantKnown("after 30", id, bob("bob"), "")

		id = w.first(bob("bob"))
		w.doubts(bob("bob"), id, 20)
		id = w.first(bob(""), id)
		if w.doubts(bob("bob"), id, 15) {
			t.Error("it ended, though the link trusts it still")
		}
		w.wantKnown("by link alone", id, bob("bob"), "any")
		if !w.doubts(bob("bob"), id, 15) {
			t.Error("it did not end")
		}
		w.wantKnown("after all", id, bob("bob"), "")

		id = w.first(bob(""), w.first(bob("bob")))
		w.doubts(bob("x"), id, MaxFailures-1)
		if w.doubts(bob("bob"), id, 1) {
			t.Error("it ended, though the spelling is trusted still")
		}
		w.wantKnown("by spelling alone", id, bob("bob"), "exact")
	})
}

func TestList(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		start := time.Now().Truncate(0)
		id := w.first(bob("bob"))
		time.Sleep(time.Minute)
		id = w.first(bob("Bob"), id)
		w.doubts(bob("bob"), id, 1)
		w.doubts(bob("Bob"), id, 3)
		time.Sleep(time.Minute)
		second := w.first(bob("bob"))
		foreign := w.first(User{"other", "bob", "bob"})
		want := []Entry{
			{second.Public(), realm, "bob", start.Add(2 * time.Minute), start.Add(2 * time.Minute), 0, start.Add(2*time.Minute + testTTL)},
			{id.Public(), realm, "bob", start, start.Add(time.Minute), 3, start.Add(time.Minute + testTTL)},
		}
		same := func(a, b Entry) bool {
			return a.ID == b.ID && a.Realm == b.Realm && a.Target == b.Target && a.Failures == b.Failures &&
				a.Since.Equal(b.Since) && a.Last.Equal(b.Last) && a.Expires.Equal(b.Expires)
		}
		for _, target := range []string{"", "bob"} {
			if got := w.list(target); !slices.EqualFunc(got, want, same) {
				t.Errorf("target %q: got %v, want %v", target, got, want)
			}
		}
		if got := w.list("alice"); len(got) != 0 {
			t.Errorf("got %v for a user without devices", got)
		}
		got, _, err := w.List(t.Context(), "other", "", "", 10)
		if err != nil || len(got) != 1 || got[0].ID != foreign.Public() {
			t.Errorf("other realm: got %v, %v", got, err)
		}
	})
}

func TestListPages(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want := map[string]bool{}
		for i := range 250 {
			u := User{realm, fmt.Sprintf("a:b %%%d\n", i), "x"}
			want[u.Target] = true
			w.first(u)
		}
		for _, limit := range []int{-1, 7, 100, 1 << 30} {
			got := map[string]bool{}
			for cursor, pages := "", 1; ; pages++ {
				entries, next, err := w.List(t.Context(), realm, "", cursor, limit)
				if err != nil {
					t.Fatal(err)
				}
				if most := min(max(limit, 1), 100); len(entries) > most {
					t.Fatalf("limit %d: a page has %d entries", limit, len(entries))
				}
				for _, e := range entries {
					got[e.Target] = true
				}
				if cursor = next; next == "" || pages > 300 {
					break
				}
			}
			if len(got) != len(want) {
				t.Errorf("limit %d: got %d targets, want %d", limit, len(got), len(want))
			}
		}
		if _, _, err := w.List(t.Context(), realm, "", "no cursor", 10); !errors.Is(err, limits.ErrCursor) {
			t.Errorf("got %v, want %v", err, limits.ErrCursor)
		}
	})
}

func TestRevoke(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(user1("a:l i\nce%"), w.first(bob("Bob"), w.first(bob("bob"))))
		other := w.first(bob("bob"))
		for _, wrong := range []string{"", "0123456789ab", id.Public()[:11], id.Public() + "0", "../../../../", strings.Repeat("a", 5000)} {
			if got, err := w.Revoke(t.Context(), realm, wrong); err != nil || len(got) != 0 {
				t.Errorf("%.20q: got %v, %v, want nothing", wrong, got, err)
			}
		}
		if got, err := w.Revoke(t.Context(), "other", id.Public()); err != nil || len(got) != 0 {
			t.Errorf("other realm: got %v, %v, want nothing", got, err)
		}
		w.wantKnown("before", id, bob("bob"), "exact")
		got, err := w.Revoke(t.Context(), realm, id.Public())
		slices.Sort(got)
		if want := []string{"a:l i\nce%", "bob"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		for _, u := range []User{bob("bob"), bob("Bob"), user1("a:l i\nce%")} {
			w.wantKnown("revoked", id, u, "")
		}
		w.wantKnown("another device", other, bob("bob"), "exact")
		if got := w.load(deviceKey(realm, id.Public()))[0]; got != "" {
			t.Errorf("the device's record is %q", got)
		}
		if got, err := w.Revoke(t.Context(), realm, id.Public()); err != nil || len(got) != 0 {
			t.Errorf("twice: got %q, %v", got, err)
		}
		if w.first(bob("bob"), id) == id {
			t.Error("a revoked id lives again")
		}
	})
}

func TestRevokeUser(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		shared := w.first(user1("alice"), w.first(bob("Bob"), w.first(bob("bob"))))
		phone := w.first(bob(""))
		foreign := w.first(User{"other", "bob", "bob"})
		if n, err := w.RevokeUser(t.Context(), realm, "bob"); n != 2 || err != nil {
			t.Errorf("got %d, %v, want 2", n, err)
		}
		w.wantKnown("revoked", shared, bob("bob"), "")
		w.wantKnown("revoked", shared, bob("Bob"), "")
		w.wantKnown("revoked", phone, bob("x"), "")
		w.wantKnown("another user", shared, user1("alice"), "exact")
		w.wantKnown("another realm", foreign, User{"other", "bob", "bob"}, "exact")
		if n, err := w.RevokeUser(t.Context(), realm, "bob"); n != 0 || err != nil {
			t.Errorf("twice: got %d, %v, want 0", n, err)
		}
		if got := w.list(""); len(got) != 1 || got[0].Target != "alice" {
			t.Errorf("got list %v, want alice", got)
		}
	})
}

func TestErrors(t *testing.T) {
	down := errors.New("down")
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(bob("bob"))
		all := func(ctx context.Context) map[string]error {
			_, _, trust := w.Trust(ctx, bob("Bob"), []ID{id})
			_, doubt := w.Doubt(ctx, bob("bob"), id)
			_, revoke := w.Revoke(ctx, realm, id.Public())
			_, revokeUser := w.RevokeUser(ctx, realm, "bob")
			return map[string]error{
				"trusting a device": trust, "doubting a device": doubt,
				"revoking a device": revoke, "revoking the devices of a user": revokeUser,
			}
		}
		w.doubts(bob("bob"), id, MaxFailures-1)
		w.records.before = func([]limits.Kept) error { return down }
		if ended, _ := w.Doubt(t.Context(), bob("bob"), id); ended {
			t.Error("a trust ended that did not")
		}
		for doing, err := range all(t.Context()) {
			if want := doing + ": down"; !errors.Is(err, down) || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		for doing, err := range all(left) {
			if want := doing + ": context canceled"; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		w.records.before = nil
	})
}

// Whoever loses against others tries again, eight times.
func TestOthersAreFaster(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx, n, most := t.Context(), 0, 7
		w.records.before = func(was []limits.Kept) error {
			if n++; n > most {
				return nil
			}
			_, err := w.records.Records.Swap(ctx, nil, limits.Change{Key: was[0].Key, Text: fmt.Sprint(n), TTL: time.Hour})
			return err
		}
		w.first(bob("bob"))
		if n != 8 {
			t.Errorf("got %d tries, want 8", n)
		}
		n, most = 0, 8
		start := time.Now()
		if _, _, err := w.Trust(ctx, user1("alice"), nil); !errors.Is(err, errBusy) || n != 8 {
			t.Errorf("got %v after %d tries, want %v after 8", err, n, errBusy)
		}
		if took := time.Since(start); took > 7*maxPause {
			t.Errorf("it took %s", took)
		}
		w.records.before = nil
		if _, err := w.RevokeUser(ctx, realm, "alice"); err != nil {
			t.Error(err)
		}
	})
}

// Whoever leaves while others are faster is not served.
func TestLeavingMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx, leave := context.WithCancel(t.Context())
		n := 0
		w.records.before = func(was []limits.Kept) error {
			n++
			leave()
			_, err := w.records.Records.Swap(t.Context(), nil, limits.Change{Key: was[0].Key, Text: fmt.Sprint(n), TTL: time.Hour})
			return err
		}
		if _, _, err := w.Trust(ctx, bob("bob"), nil); !errors.Is(err, context.Canceled) || n != 1 {
			t.Errorf("got %v after %d tries, want %v after 1", err, n, context.Canceled)
		}
	})
}

// A revocation reaches also what has ended by a clock that is ahead.
func TestRevokeByAnotherClock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(bob("bob"))
		pairs := parsePairs(w.load(userKey(realm, "bob"))[0])
		pairs[0].last = time.Now().Add(-testTTL).Unix()
		change := limits.Change{Key: userKey(realm, "bob"), Text: formatPairs(pairs), TTL: testTTL, Index: listName(realm)}
		if _, err := w.records.Records.Swap(t.Context(), nil, change); err != nil {
			t.Fatal(err)
		}
		if got, err := w.Revoke(t.Context(), realm, id.Public()); err != nil || len(got) != 0 {
			t.Errorf("got %v, %v, want nobody who was trusted", got, err)
		}
		w.wantKnown("revoked", id, bob("bob"), "")
	})
}

// No two devices get one public id, even if chance has it so.
func TestPublicIDIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var taken string
		w.records.before = func(was []limits.Kept) error {
			w.records.before = nil
			i := slices.IndexFunc(was, func(k limits.Kept) bool { return strings.HasPrefix(k.Key, "device:id:") })
			taken = was[i].Key
			_, err := w.records.Records.Swap(t.Context(), nil, limits.Change{Key: taken, Text: "another", TTL: time.Hour})
			return err
		}
		if id := w.first(bob("bob")); deviceKey(realm, id.Public()) == taken {
			t.Error("the id of another device was taken")
		}
		if got := w.load(taken)[0]; got != "another" {
			t.Errorf("the other device's record is %q", got)
		}
	})
}

// A cookie whose device shares its public id with another one gets nothing of that.
func TestForeignDeviceRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := NewID()
		w.first(bob("bob"))
		other := id.digest()
		other[len(other)-1]++
		text := formatDevice(other, []string{"bob"})
		if _, err := w.records.Records.Swap(t.Context(), nil, limits.Change{Key: deviceKey(realm, id.Public()), Text: text, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		w.first(user1("alice"), id)
		if got := w.load(deviceKey(realm, id.Public()))[0]; got != text {
			t.Errorf("the record of another device is %q now", got)
		}
	})
}

// A list whose device record is lost is mended by the next success.
func TestLostDeviceRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(bob("bob"))
		time.Sleep(time.Second)
		w.again(bob("bob"), id)
		if _, err := w.records.Records.Swap(t.Context(), nil, limits.Change{Key: deviceKey(realm, id.Public())}); err != nil {
			t.Fatal(err)
		}
		w.again(bob("bob"), id)
		if got, err := w.Revoke(t.Context(), realm, id.Public()); err != nil || len(got) != 1 {
			t.Errorf("got %v, %v, want bob", got, err)
		}
	})
}

// A clock that was ahead makes no trust that lasts longer.
func TestTimeInTheFuture(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(bob("bob"))
		pairs := parsePairs(w.load(userKey(realm, "bob"))[0])
		pairs[0].since, pairs[0].last = time.Now().Add(day).Unix(), time.Now().Add(day).Unix()
		text := formatPairs(pairs)
		if _, err := w.records.Records.Swap(t.Context(), nil, limits.Change{Key: userKey(realm, "bob"), Text: text, TTL: testTTL, Index: listName(realm)}); err != nil {
			t.Fatal(err)
		}
		if got := w.list("bob"); len(got) != 1 || got[0].Expires.After(time.Now().Add(testTTL)) {
			t.Errorf("got list %v", got)
		}
		time.Sleep(time.Second)
		w.again(bob("bob"), id)
		if got := w.list("bob"); len(got) != 1 || got[0].Last.After(time.Now()) {
			t.Errorf("got list %v", got)
		}
	})
}

// What a full store drops of facts and lists leaves no fact without its list.
func TestFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Config{})
		defer s.Close()
		w := newWorld(t, s)
		for i := range 3000 {
			w.first(user1(fmt.Sprint("user", i%700)))
		}
		facts := 0
		for key := range w.records.keys {
			if !strings.HasPrefix(key, "device:fact:") || w.load(key)[0] == "" {
				continue
			}
			facts++
			target := key[strings.LastIndexByte(key, ':')+1:]
			if pairs := parsePairs(w.load(userKey(realm, target))[0]); !slices.ContainsFunc(pairs, func(p pair) bool { return factKey(realm, target, p.device, p.spelling) == key }) {
				t.Errorf("fact %s has lost its list", key)
			}
		}
		if facts == 0 {
			t.Error("no fact is left")
		}
	})
}
