package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"authgate/limits"
	"authgate/limits/memstore"
)

func TestEntriesPages(t *testing.T) {
	bubble(t, 8*memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
		const n = 60
		for i := range n {
			fail(t, s, fmt.Sprint(i), failing)
		}
		for _, page := range []int{1, 2, 3, 7, n - 1, n, n + 1, 1000} {
			seen := map[string]int{}
			cursor, pages := "", 0
			for {
				entries, next, err := s.Entries(context.Background(), cursor, page)
				if err != nil {
					t.Fatal(err)
				}
				if len(entries) > page {
					t.Errorf("pages of %d: got %d entries", page, len(entries))
				}
				for _, e := range entries {
					seen[e.Key]++
				}
				if pages++; next == "" || pages > 2*n {
					break
				}
				cursor = next
			}
			if len(seen) != n {
				t.Errorf("pages of %d: got %d buckets, want %d", page, len(seen), n)
			}
			for key, times := range seen {
				if times != 1 {
					t.Errorf("pages of %d: %s was listed %d times", page, key, times)
				}
			}
		}
	})
}

func TestEntriesOfNothing(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		fail(t, s, "x", failing)
		for _, page := range []int{0, -1} { // too small to be meant; it must end all the same
			cursor := ""
			for range 10 {
				_, next, err := s.Entries(context.Background(), cursor, page)
				if err != nil {
					t.Fatal(err)
				}
				if cursor = next; cursor == "" {
					break
				}
			}
			if cursor != "" {
				t.Errorf("a page of %d: the list has no end", page)
			}
		}
	})
}

func TestEntriesRefusesForeignCursors(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		for _, cursor := range []string{"x", "1", ".", "0.", ".0", "-1.0", "0.-1", "1.0", "64.0", "99999999999999999999.0", "0.0.0", "0.x"} {
			if _, _, err := s.Entries(context.Background(), cursor, 10); !errors.Is(err, limits.ErrCursor) {
				t.Errorf("cursor %q: got %v, want ErrCursor", cursor, err)
			}
		}
		if _, next, err := s.Entries(context.Background(), "0.9999", 10); err != nil || next != "" {
			t.Errorf("beyond the end: got %q %v, want the end", next, err)
		}
	})
}

func TestAdopt(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *memstore.Store) {
		key := limits.NewScope(locking, "realm").Key("x")
		s.Adopt(locking, key, 60_000, 3)
		d := decide(t, s, attempt("x", locking))
		if d.Admitted || d.Refusals[0].Cause != limits.Locked || d.Refusals[0].Wait != 60_000 {
			t.Errorf("got %+v, want it locked for a minute", d)
		}
		entries, _, err := s.Entries(context.Background(), "", 10)
		if err != nil || len(entries) != 1 || entries[0].Level != 3 || entries[0].LockedFor != 60_000 {
			t.Errorf("got %+v %v, want a lock of level 3", entries, err)
		}
	})
}
