package memstore_test

import (
	"context"
	"fmt"
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

func TestFactsEnd(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		if err := s.Learn(context.Background(), time.Minute, "a", "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if err := s.Learn(context.Background(), time.Minute, "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(29 * time.Second)
		if got := knows(t, s, "a", "b"); got != 2 {
			t.Errorf("got %d known, want both", got)
		}
		time.Sleep(time.Second)
		if got := knows(t, s, "a"); got != 0 {
			t.Error("a fact is known for longer than it was to be")
		}
		if got := knows(t, s, "b"); got != 1 {
			t.Error("a fact that was learned again is not known")
		}
	})
}

func TestFactsAreBounded(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		var facts []limits.Fact
		for i := range 5 * memstore.MinEntries {
			facts = append(facts, limits.Fact(fmt.Sprint(i)))
			if err := s.Learn(context.Background(), time.Hour, facts[i]); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		for i := 0; i < len(facts); i += limits.MaxFacts {
			n += knows(t, s, facts[i:i+limits.MaxFacts]...)
		}
		if n != memstore.MinEntries {
			t.Errorf("got %d known, want %d", n, memstore.MinEntries)
		}
		if last := facts[len(facts)-1]; knows(t, s, last) != 1 {
			t.Error("the latest fact was dropped")
		}
	})
}

func TestNotesEnd(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		ctx := context.Background()
		if err := s.Note(ctx, "n", "text", time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Millisecond)
		if got, err := s.Noted(ctx, "n"); err != nil || got != "text" {
			t.Errorf("got %q %v, want it kept", got, err)
		}
		time.Sleep(time.Millisecond)
		if got, err := s.Noted(ctx, "n"); err != nil || got != "" {
			t.Errorf("got %q %v, want it gone", got, err)
		}
	})
}
