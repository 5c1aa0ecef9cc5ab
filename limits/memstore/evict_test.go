package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

func TestRoomComesBackWhenLocksEnd(t *testing.T) {
	bubble(t, memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
		fill(t, s)
		time.Sleep(time.Hour)
		coarse := s.Stats().Coarse
		for i := range 2000 {
			if !decide(t, s, attempt(fmt.Sprint(i), window)).Admitted {
				t.Fatalf("value %d was refused", i)
			}
		}
		if got := s.Stats().Coarse; got != coarse {
			t.Errorf("got %d more charges to shared buckets, want none", got-coarse)
		}
	})
}

// Of what has not expired, buckets that were touched lately stay. A few of those near are compared, so one of them may go.
func TestDropsWhatWasTouchedLongAgo(t *testing.T) {
	one, two := *window, *window
	one.Limit, two.Limit = 1, 2
	never := &limits.Rule{Policy: "never", Dimension: limits.Source, Window: time.Hour} // so that asking changes nothing
	bubble(t, memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
		const half, newcomers = memstore.MinEntries / 2, 100
		for i := range 2 * half {
			decide(t, s, attempt(fmt.Sprint(i), &one))
		}
		time.Sleep(time.Second)
		for i := range half {
			decide(t, s, attempt(fmt.Sprint(i), &two))
		}
		time.Sleep(time.Second)
		for i := range newcomers {
			decide(t, s, attempt(fmt.Sprint("new", i), &one))
		}
		if got := s.Stats().Entries; got != 2*half {
			t.Errorf("got %d entries, want %d", got, 2*half)
		}
		kept := func(format string, n int) (kept int) { // what of these is at the limit of one
			for i := range n {
				if len(decide(t, s, attempt(fmt.Sprintf(format, i), &one, never)).Refusals) == 2 {
					kept++
				}
			}
			return kept
		}
		if got := kept("%d", half); got < half-newcomers/20 {
			t.Errorf("got %d of %d that were touched lately, want nearly all", got, half)
		}
		if got := kept("new%d", newcomers); got != newcomers {
			t.Errorf("got %d of %d newcomers, want all", got, newcomers)
		}
	})
}

func TestDropsTheExpiredFirst(t *testing.T) {
	short, one := *window, *window
	short.Window, one.Limit = time.Second, 1
	bubble(t, memstore.MinEntries, func(t *testing.T, s *memstore.Store) {
		const alive, newcomers = 20, 500 // so few that no search sees only them
		for i := range alive {
			decide(t, s, attempt(fmt.Sprint("alive", i), &one))
		}
		for i := range memstore.MinEntries - alive {
			decide(t, s, attempt(fmt.Sprint(i), &short))
		}
		time.Sleep(1500 * time.Millisecond)
		for i := range newcomers {
			decide(t, s, attempt(fmt.Sprint("new", i), &one))
		}
		for i := range alive {
			if decide(t, s, attempt(fmt.Sprint("alive", i), &one)).Admitted {
				t.Errorf("live bucket %d was dropped where expired ones were near", i)
			}
		}
	})
}

func TestSweeperFreesTheExpired(t *testing.T) {
	short := *window
	short.Window = 10 * time.Second
	bubble(t, 1<<16, func(t *testing.T, s *memstore.Store) {
		for i := range 5000 {
			decide(t, s, attempt(fmt.Sprint(i), &short, tokens))
			fail(t, s, fmt.Sprint(i), failing)
		}
		if got := s.Stats().Entries; got != 15_000 {
			t.Fatalf("got %d entries, want 15000", got)
		}
		time.Sleep(10*time.Second + 2*time.Minute)
		if got := s.Stats().Entries; got != 5000 {
			t.Errorf("after the window: got %d entries, want 5000", got)
		}
		time.Sleep(time.Hour)
		if got := s.Stats(); got.Entries != 0 || got.Pinned != 0 {
			t.Errorf("an hour later: got %+v, want nothing", got)
		}
	})
}

func TestSweeperLetsGoOfEndedLocks(t *testing.T) {
	brief := *locking
	brief.Lockout = limits.Lockout{Base: time.Second, Max: time.Second}
	bubble(t, 1<<16, func(t *testing.T, s *memstore.Store) {
		for i := range 1000 {
			fail(t, s, fmt.Sprint(i), &brief)
			decide(t, s, attempt(fmt.Sprint(i), failing))
		}
		if got := s.Stats(); got.Pinned != 2000 {
			t.Fatalf("got %+v, want 2000 pinned", got)
		}
		time.Sleep(3 * time.Minute)
		if got := s.Stats(); got.Pinned != 0 || got.Entries != 1000 {
			t.Errorf("got %+v, want 1000 levels and nothing pinned", got)
		}
	})
}

// A large store has several tables in a shard, all of which are searched, swept and made room in.
func TestLarge(t *testing.T) {
	short := *window
	short.Policy, short.Window = "short", 10*time.Second
	bubble(t, 1<<20, func(t *testing.T, s *memstore.Store) {
		const n = 100_000
		for i := range n {
			decide(t, s, attempt(fmt.Sprint(i), &short, window))
		}
		if got := s.Stats().Entries; got != 2*n {
			t.Errorf("got %d entries, want %d", got, 2*n)
		}
		time.Sleep(2 * time.Minute)
		if got := s.Stats().Entries; got != n {
			t.Errorf("after the window of half of them: got %d entries, want %d", got, n)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		for i := range 1 << 20 {
			decide(t, s, attempt(fmt.Sprint("new", i), window))
		}
		if got := s.Stats(); got.Entries != 1<<20 || got.Coarse != 0 {
			t.Errorf("got %+v, want as many entries as there is room for", got)
		}
	})
}
