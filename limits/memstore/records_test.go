package memstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

// knows is how many of the facts a store knows.
func knows(t *testing.T, s *memstore.Store, facts ...limits.Fact) (n int) {
	t.Helper()
	a := &limits.Attempt{Facts: facts}
	d := decide(t, s, a)
	for i := range facts {
		if d.Knew(i) {
			n++
		}
	}
	return n
}

// keep makes changes that must be made.
func keep(t *testing.T, s *memstore.Store, changes ...limits.Change) {
	t.Helper()
	if done, err := s.Swap(context.Background(), nil, changes...); err != nil || !done {
		t.Fatalf("got %t, %v", done, err)
	}
}

func record(key string, ttl time.Duration) limits.Change {
	return limits.Change{Key: key, Text: "text", TTL: ttl}
}

// text is what is kept under a key.
func text(t *testing.T, s *memstore.Store, key string) string {
	t.Helper()
	texts, err := s.Load(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return texts[0]
}

func TestRecordsAreSwept(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		for i := range 500 {
			c := record(fmt.Sprint(i), time.Duration(1+i%2)*time.Hour)
			c.Index = "l"
			keep(t, s, c)
		}
		time.Sleep(time.Hour + 2*time.Minute)
		if got := s.Stats().Records; got != 250 {
			t.Errorf("got %d records, want those of two hours", got)
		}
		for i := range 100 { // they move to the front while the sweeper goes that way
			keep(t, s, record(fmt.Sprint(1+2*i), time.Hour))
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Hour)
		if got := s.Stats().Records; got != 0 {
			t.Errorf("got %d records, want none", got)
		}
		if got, weight := s.ListedKeys(), s.RecordWeight(); got != 0 || weight != 0 {
			t.Errorf("got %d keys on lists, and a weight of %d, want nothing", got, weight)
		}
	})
}

// The sweeper goes on where it was, also if the record there is gone by then and another one has its key.
func TestSweeperGoesOn(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		for i := range 200 {
			keep(t, s, record(fmt.Sprint(i), 2*time.Second))
		}
		time.Sleep(1500 * time.Millisecond) // it has looked at some
		for i := range 200 {
			keep(t, s, limits.Change{Key: fmt.Sprint(i)})
			keep(t, s, record(fmt.Sprint(i), time.Hour))
		}
		time.Sleep(2 * time.Minute)
		if got := s.Stats().Records; got != 200 {
			t.Errorf("got %d records, want all", got)
		}
		if got := s.RecordWeight(); got != 200 {
			t.Errorf("got a weight of %d, want 200", got)
		}
	})
}

// A key that is changed keeps its place on the list.
func TestPlacesAreKept(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		for n := range 3 {
			for _, key := range []string{"a", "b", "c"}[n:] {
				c := record(key, time.Hour)
				c.Index = "l"
				keep(t, s, c)
			}
		}
		c := record("a", time.Hour)
		c.Index = "l"
		keep(t, s, c)
		if keys, _, err := s.List(context.Background(), "l", "", 9); err != nil || fmt.Sprint(keys) != "[a b c]" {
			t.Errorf("got %v %v", keys, err)
		}
	})
}

// At the bound the record that was not changed for the longest time makes room.
func TestRecordsAreBounded(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		var facts []limits.Fact
		for i := range 5 * memstore.MinEntries {
			keep(t, s, record(fmt.Sprint(i), time.Hour))
			if i%(memstore.MinEntries/2) == 0 {
				if i > 0 && text(t, s, "always") == "" {
					t.Fatal("what was changed lately was dropped")
				}
				keep(t, s, record("always", time.Hour))
			}
			facts = append(facts, limits.Fact(fmt.Sprint(i)))
		}
		n := 0
		for i := 0; i < len(facts); i += limits.MaxFacts {
			n += knows(t, s, facts[i:i+limits.MaxFacts]...)
		}
		if n != memstore.MinEntries-1 {
			t.Errorf("got %d known, want %d", n, memstore.MinEntries-1)
		}
		if knows(t, s, facts[len(facts)-1], facts[len(facts)-n], "always") != 3 {
			t.Error("one of the latest was dropped")
		}
		large := record("large", time.Hour)
		large.Text = strings.Repeat("x", limits.MaxRecord)
		keep(t, s, large)
		if got, want := int(s.Stats().Records), memstore.MinEntries-limits.MaxRecord/256; got != want && got != want+1 {
			t.Errorf("got %d records beside a large one, want %d", got, want)
		}
		if text(t, s, "large") != large.Text {
			t.Error("the large one was dropped")
		}
	})
}

// What was changed in one step stays together, however large it is.
func TestOneSwapIsNotTornByTheBound(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		var changes []limits.Change
		for i := range limits.MaxSwapText / limits.MaxRecord {
			c := record(fmt.Sprint(i), time.Hour)
			c.Text = strings.Repeat("x", limits.MaxRecord)
			changes = append(changes, c)
		}
		keep(t, s, record("old", time.Hour))
		keep(t, s, changes...)
		if got := int(s.Stats().Records); got != len(changes) {
			t.Errorf("got %d records, want %d", got, len(changes))
		}
	})
}

// A local store follows what the shared one knew.
func TestFollow(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		mine := record("mine", time.Hour)
		mine.Index = "l"
		keep(t, s, mine, record("gone", time.Hour), record("long", 90*24*time.Hour))
		facts := []limits.Fact{"mine", "gone", "seen", "never", "long"}
		s.Follow(facts, 0b10101)
		for key, want := range map[string]string{"mine": "text", "gone": "", "seen": limits.Seen, "never": "", "long": "text"} {
			if got := text(t, s, key); got != want {
				t.Errorf("%s: got %q, want %q", key, got, want)
			}
		}
		if keys, _, err := s.List(context.Background(), "l", "", 9); err != nil || len(keys) != 1 {
			t.Errorf("got %v %v, want mine still listed", keys, err)
		}
		time.Sleep(24*time.Hour - time.Millisecond)
		if got := knows(t, s, facts...); got != 3 {
			t.Errorf("got %d known after a day, want 3", got)
		}
		s.Follow(facts[2:3], 1)
		time.Sleep(time.Millisecond)
		if got := knows(t, s, "mine"); got != 0 {
			t.Error("what was not seen again is known for more than a day")
		}
		if got := knows(t, s, "seen", "long"); got != 2 {
			t.Errorf("got %d known, want what was seen again, and what was to be kept for long", got)
		}
	})
}
