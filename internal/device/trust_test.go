package device

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTrust(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(bob("Bob"))
		for _, c := range []struct {
			name string
			id   ID
			user User
			want string
		}{
			{"as it signed in", id, bob("Bob"), "exact"},
			{"another spelling", id, bob("bob"), ""},
			{"no spelling", id, bob(""), ""},
			{"another target", id, User{realm, "bo", "Bob"}, ""},
			{"another realm", id, User{"other", "bob", "Bob"}, ""},
			{"another device", NewID(), bob("Bob"), ""},
		} {
			w.wantKnown(c.name, c.id, c.user, c.want)
		}
		w.again(bob("Bob"), id)
		if _, added, err := w.Trust(t.Context(), User{Realm: realm, Spelling: "x"}, nil); err == nil || added {
			t.Errorf("nobody is trusted: %v", err)
		}
	})
}

func TestFactsAlwaysDiffer(t *testing.T) {
	w := newWorld(t, struct{ *watched }{})
	for _, spelling := range []string{"", "-", "bob"} {
		if exact, loose := w.Facts(someID, bob(spelling)); exact == loose {
			t.Errorf("spelling %q: both are %s", spelling, exact)
		}
	}
	const digest = "3ad3a9e9dc152142" // computed by other means
	if got := w.SpellingDigest(realm, "Bob"); got != digest {
		t.Errorf("got digest %s, want %s", got, digest)
	}
	exact, loose := w.Facts(someID, bob("Bob"))
	const head = "device:fact:acme:be45cb2605bf36bebde684841a28f0fd:"
	if exact != head+digest+":bob" || loose != head+":bob" {
		t.Errorf("got facts %s and %s", exact, loose)
	}
}

// A renewal prolongs the life of the pair, and of no other.
func TestLife(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(bob("bob"))
		alice := w.first(user1("alice"), id)
		idle := w.first(bob("bob"))
		time.Sleep(testTTL - time.Second)
		w.wantKnown("in the last second", idle, bob("bob"), "exact")
		w.again(bob("bob"), alice)
		w.check()
		time.Sleep(time.Second)
		w.check()
		w.wantKnown("renewed", alice, bob("bob"), "exact")
		w.wantKnown("another user of the device", alice, user1("alice"), "")
		w.wantKnown("ended", idle, bob("bob"), "")
		if got := w.list(""); len(got) != 1 || got[0].ID != alice.Public() || got[0].Target != "bob" {
			t.Errorf("got list %v, want bob's one device", got)
		}
		w.first(bob("bob"), idle)
		time.Sleep(testTTL)
		if got := w.list(""); len(got) != 0 {
			t.Errorf("got list %v, want none", got)
		}
		for key := range w.records.keys {
			if text := w.load(key)[0]; text != "" {
				t.Errorf("%s holds %q after its time", key, text)
			}
		}
	})
}

func TestCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var id ID
		cost := func(what string, wantLoads, wantSwaps int, f func()) {
			t.Helper()
			if loads, swaps := w.calls(f); loads != wantLoads || swaps != wantSwaps {
				t.Errorf("%s: got %d loads and %d swaps, want %d and %d", what, loads, swaps, wantLoads, wantSwaps)
			}
		}
		cost("a new device", 1, 1, func() { id = w.first(bob("bob")) })
		time.Sleep(time.Minute)
		cost("its first return", 1, 1, func() { w.again(bob("bob"), id) })
		time.Sleep(time.Minute)
		cost("another within the hour", 1, 0, func() { w.again(bob("bob"), id) })
		cost("a failure", 1, 1, func() { w.doubts(bob("bob"), id, 1) })
		cost("a success after it", 1, 1, func() { w.again(bob("bob"), id) })
		time.Sleep(time.Hour)
		cost("an hour later", 1, 1, func() { w.again(bob("bob"), id) })
		cost("another user", 2, 1, func() { id = w.first(user1("alice"), id) })
		cost("another spelling", 2, 1, func() { id = w.first(bob("Bob"), id) })
		cost("a failure of a stranger", 1, 0, func() { w.doubts(bob("bob"), NewID(), 1) })
	})
}

// A short time to live has renewals that keep up with it.
func TestShortLife(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g, err := NewRegistry(Config{Records: w.records, Key: keyA, TTL: time.Hour, MaxUsers: 1})
		if err != nil {
			t.Fatal(err)
		}
		w.Registry = g
		id := w.first(user1("short"), w.first(user1("former")))
		w.wantKnown("beyond the only user", id, user1("former"), "")
		for range 20 {
			time.Sleep(10 * time.Minute)
			w.again(user1("short"), id)
		}
		if _, err := w.RevokeUser(t.Context(), realm, "short"); err != nil { // whose time is not that of the others
			t.Error(err)
		}
	})
}

// Whoever planted a cookie in a browser has nothing once its victim has signed in.
func TestFixation(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		planted := w.first(user1("mallory"))
		id := w.first(bob("bob"), planted)
		w.wantKnown("the planted cookie", planted, bob("bob"), "")
		w.wantKnown("the planted cookie", planted, user1("mallory"), "")
		w.wantKnown("the victim's browser", id, bob("bob"), "exact")
		w.wantKnown("the victim's browser", id, user1("mallory"), "exact")
		if got := w.list("mallory"); len(got) != 1 || got[0].ID != id.Public() {
			t.Errorf("got list %v, want the fresh id alone", got)
		}
		if got := w.load(deviceKey(realm, planted.Public()))[0]; got != "" {
			t.Errorf("the record of the dead id is %q", got)
		}
		w.wantKnown("by link", w.first(bob(""), w.first(user1("mallory"))), bob("other"), "any")
		if got := w.first(bob("bob"), planted); got == planted {
			t.Error("a dead id lives again")
		}
	})
}

func TestSpellings(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(bob("0"))
		for i := range 5 {
			time.Sleep(time.Minute)
			was := id
			id = w.first(bob(fmt.Sprint(i+1)), id)
			w.wantKnown("the former id", was, bob(fmt.Sprint(i)), "")
		}
		for i, want := range []string{"", "", "exact", "exact", "exact", "exact"} {
			w.wantKnown("the latest four", id, bob(fmt.Sprint(i)), want)
		}
		if got := w.list("bob"); len(got) != 1 {
			t.Errorf("got list %v, want the spellings taken together", got)
		}
	})
}

func TestTwelveUsersOnOneBrowser(t *testing.T) {
	for _, pause := range []time.Duration{time.Minute, 0} { // also where the seconds do not tell who came last
		inBubble(t, func(t *testing.T, w *world) {
			names := strings.Fields("u0 u1 u2 u3 u4 u5 u6 u7 u8 u9 u10 u11")
			var id ID
			for i, name := range names {
				if i == 10 {
					w.again(user1("u0"), id) // so that u1 and u2 are those of the longest ago
				}
				id = w.first(user1(name), id)
				time.Sleep(pause)
			}
			for _, name := range names {
				want := "exact"
				if name == "u1" || name == "u2" {
					want = ""
				}
				w.wantKnown("after twelve", id, user1(name), want)
			}
			if got := len(w.list("")); got != 10 {
				t.Errorf("got %d users, want 10", got)
			}
		})
	}
}

// A user whose pair has ended does not take the place of one whose pair lives.
func TestUsersOfDeadPairs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var id ID
		for i := range 9 {
			id = w.first(user1(fmt.Sprint(i)), id)
			time.Sleep(time.Minute)
		}
		for i := 5; i < 9; i++ {
			if !w.doubts(user1(fmt.Sprint(i)), id, MaxFailures) {
				t.Fatal("the trust has not ended")
			}
		}
		for i := range 5 {
			id = w.first(user1(fmt.Sprint("new", i)), id)
			if _, targets, _ := parseDevice(w.load(deviceKey(realm, id.Public()))[0]); len(targets) != 6+i {
				t.Errorf("the device's record lists %q, want the %d that are trusted", targets, 6+i)
			}
		}
		w.wantKnown("of the longest ago", id, user1("0"), "exact")
	})
}

// What a fresh id takes over lives as long as it would have.
func TestTakenOverTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(User{realm, "alice", "once"})
		time.Sleep(testTTL / 2)
		id = w.first(User{realm, "alice", "twice"}, id)
		time.Sleep(testTTL / 4)
		id = w.first(bob("bob"), id)
		w.wantKnown("the first spelling", id, User{realm, "alice", "once"}, "exact")
		time.Sleep(testTTL / 4)
		w.wantKnown("the first spelling", id, User{realm, "alice", "once"}, "")
		w.wantKnown("the second", id, User{realm, "alice", "twice"}, "exact")
		id = w.first(user1("carol"), id) // while alice's record has a pair that has ended
		w.check()
		time.Sleep(testTTL / 2)
		w.wantKnown("the second", id, User{realm, "alice", "twice"}, "")
		w.wantKnown("another user", id, bob("bob"), "exact")
	})
}

func TestDevicesOfOneSpelling(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ids := make([]ID, 34)
		for i := range ids {
			ids[i] = w.first(bob("bob"))
			time.Sleep(time.Minute)
		}
		for i, id := range ids {
			want := "exact"
			if i < 2 {
				want = ""
			}
			w.wantKnown(fmt.Sprint("device ", i), id, bob("bob"), want)
		}
	})
}

// Where all have come back, the one that was seen the longest ago goes, and not the newcomer.
func TestDevicesThatCameBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var ids []ID
		for range MaxDevices {
			ids = append(ids, w.first(bob("bob")))
		}
		for i := range ids {
			time.Sleep(time.Second)
			w.again(bob("bob"), ids[(i+5)%len(ids)])
		}
		w.wantKnown("the newcomer", w.first(bob("bob")), bob("bob"), "exact")
		for i, id := range ids {
			if got, want := w.known(id, bob("bob")) != "", i != 5; got != want {
				t.Errorf("device %d is trusted: %t, want %t", i, got, want)
			}
		}
	})
}

// A client that keeps no cookies does not push out the browsers that do.
func TestClientWithoutMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		home, work := w.first(bob("bob")), w.first(bob("bob"))
		time.Sleep(time.Minute)
		w.again(bob("bob"), home)
		w.again(bob("bob"), work)
		var last ID
		for range 100 {
			time.Sleep(time.Minute)
			last = w.first(bob("bob"))
		}
		for _, id := range []ID{home, work, last} {
			w.wantKnown("after a hundred", id, bob("bob"), "exact")
		}
	})
}

// Owners of look-alikes of a name, which all are one target, push out only one another.
func TestLookalikes(t *testing.T) {
	for _, c := range []struct {
		name      string
		logins    int
		spellings int
		own, want int // devices of bob's, before and after
	}{
		{"a thousand spellings", 1000, 1000, 4, 4},
		{"many spellings, many devices of his own", 300, 300, 10, 4},
		{"three spellings with many devices", 300, 3, 32, 32},
		{"seven spellings with many devices", 300, 7, 16, 16},
		{"one device of his own", 300, 300, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var ids []ID
				for range c.own {
					ids = append(ids, w.first(bob("bob")))
					time.Sleep(time.Second)
				}
				for i := range c.logins {
					w.first(bob(fmt.Sprint("BOB", i%c.spellings)))
					time.Sleep(time.Second)
				}
				left := 0
				for _, id := range ids {
					if w.known(id, bob("bob")) != "" {
						left++
					}
				}
				if left != c.want {
					t.Errorf("bob has %d devices left, want %d", left, c.want)
				}
				late := w.first(bob("bob"))
				w.wantKnown("one more device", late, bob("bob"), "exact")
			})
		})
	}
}

func TestSeveralCookies(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		mallory, carol := w.first(user1("mallory")), w.first(user1("carol"))
		mine, link := w.first(bob("bob")), w.first(bob(""))
		if got, added := w.trust(bob("bob"), mallory, link, mine); got != mine || added {
			t.Errorf("got %s, added %t, want the one trusted for the spelling", got.Public(), added)
		}
		if got, added := w.trust(bob("BOB"), mallory, mine, link); got != link || added {
			t.Errorf("got %s, added %t, want the one trusted for any spelling", got.Public(), added)
		}
		w.wantKnown("those that were not used", mallory, user1("mallory"), "exact")
		id := w.first(bob("Bob"), mallory, mine)
		w.wantKnown("known by another spelling comes before strangers", id, bob("bob"), "exact")
		w.wantKnown("the stranger", mallory, user1("mallory"), "exact")
		id = w.first(user1("dave"), NewID(), carol, mallory)
		w.wantKnown("the first that has users", id, user1("carol"), "exact")
		w.wantKnown("the second", mallory, user1("mallory"), "exact")
		crowd := make([]ID, maxSeen)
		for i := range crowd {
			crowd[i] = NewID()
		}
		if got, added := w.trust(user1("carol"), append(crowd[:maxSeen-1:maxSeen-1], id)...); got != id || added {
			t.Errorf("got %s, added %t, want the last of those that are looked at", got.Public(), added)
		}
		if got, added := w.trust(user1("carol"), append(crowd, id)...); got == id || !added {
			t.Errorf("got %s, added %t, want the one too many passed over", got.Public(), added)
		}
	})
}

func TestUnlockLink(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.first(bob(""))
		w.wantKnown("by link", id, bob("bob"), "any")
		w.wantKnown("by link", id, bob("BOB"), "any")
		w.wantKnown("by link", id, user1("alice"), "")
		w.again(bob(""), id)
		time.Sleep(time.Second)
		w.again(bob("bob"), id)
		w.wantKnown("after a success", id, bob("bob"), "exact")
		w.wantKnown("after a success", id, bob("BOB"), "")
		time.Sleep(time.Second)
		w.again(bob("bob"), id)
		second := w.first(bob(""), id)
		w.wantKnown("another link", second, bob("bob"), "both")
		w.again(bob("bob"), second)
		w.wantKnown("another success", second, bob("bob"), "exact")
	})
}
