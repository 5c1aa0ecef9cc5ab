package memstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"authgate/internal/logtest"
	"authgate/limits"
	"authgate/limits/memstore"
)

// reopen opens a store on a file, hands it to test, and closes it.
func reopen(t *testing.T, path string, cfg memstore.Config, test func(*memstore.Store)) {
	t.Helper()
	s, err := memstore.Open(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	test(s)
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// inFile runs a test in virtual time with a new file.
func inFile(t *testing.T, test func(t *testing.T, path string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	synctest.Test(t, func(t *testing.T) { test(t, path) })
}

// pass lets time pass in inFile, and waits for what is due at its end, such as a write.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// leveled locks for a minute, and longer the next time.
var leveled = &limits.Rule{
	Policy: "v", Class: limits.Failures, Dimension: limits.Target, Index: 1, Limit: 2, Window: time.Hour,
	Lockout: limits.Lockout{Base: time.Minute, Max: time.Hour},
}

func key(r *limits.Rule, value string) string { return limits.NewScope(r, "realm").Key(value) }

func TestFileSurvivesARestart(t *testing.T) {
	inFile(t, func(t *testing.T, path string) {
		reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
			listed := record("listed", 3*time.Hour)
			listed.Text, listed.Index = "a text with\x00 any bytes \xff", "l"
			keep(t, s, listed, record("brief", time.Minute), record("gone", time.Hour))
			keep(t, s, limits.Change{Key: "gone"})
			fail(t, s, "locked", locking)
			fail(t, s, "leveled", leveled)
			fail(t, s, "leveled", leveled)
			fail(t, s, "counted", failing, window, tokens)
			s.Adopt(leveled, key(leveled, "adopted"), (2 * time.Hour).Milliseconds(), 3)
			pass(90 * time.Second)
			fail(t, s, "leveled", leveled) // one failure beyond the level
			decide(t, s, attempt("leveled", leveled))
		})
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got mode %v %v, want it for the owner alone", info.Mode(), err)
		}
		pass(10 * time.Second) // until the next start
		reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
			if got := text(t, s, "listed"); got != "a text with\x00 any bytes \xff" {
				t.Errorf("got %q", got)
			}
			if knows(t, s, "listed", "brief", "gone") != 1 {
				t.Error("a record is back that has ended or was forgotten")
			}
			if keys, _, err := s.List(context.Background(), "l", "", 9); err != nil || fmt.Sprint(keys) != "[listed]" {
				t.Errorf("got %v %v on the list", keys, err)
			}
			if got := s.Stats(); got.Entries != 3 || got.Records != 1 {
				t.Errorf("got %+v, want the three buckets with a lock or a level", got)
			}
			d := decide(t, s, attempt("locked", locking))
			if d.Admitted || d.Refusals[0].Cause != limits.Locked || d.Refusals[0].Wait != (time.Hour-100*time.Second).Milliseconds() {
				t.Errorf("got %+v, want the lock as it was", d)
			}
			entries, _, err := s.Entries(context.Background(), "", 9)
			if err != nil || len(entries) != 3 {
				t.Errorf("got %+v %v, want them listed", entries, err)
			}
			for _, e := range entries {
				if e.Key == key(leveled, "leveled") && e != (limits.Entry{Key: e.Key, Attempts: 1, Level: 1}) {
					t.Errorf("got %+v", e)
				}
			}
			a := attempt("leveled", leveled) // the attempt in flight has ended with the process
			if !decide(t, s, a).Admitted {
				t.Fatal("no room for the second failure")
			}
			if e := settle(t, s, a, limits.Count).Effects[0]; e.Level != 2 || e.Locked != 120_000 {
				t.Errorf("got %+v, want the second level", e)
			}
			pass(3*time.Hour - 100*time.Second)
			if text(t, s, "listed") != "" {
				t.Error("a record lives longer because of a restart")
			}
		})
	})
}

// A release, in whatever way, is not undone by a restart.
func TestFileForgetsWhatWasReleased(t *testing.T) {
	for name, release := range map[string]func(*testing.T, *memstore.Store){
		"release": func(t *testing.T, s *memstore.Store) {
			if found, err := s.Release(context.Background(), key(locking, "bob")); err != nil || !found {
				t.Errorf("got %t %v", found, err)
			}
		},
		"clear": func(t *testing.T, s *memstore.Store) {
			if n, err := s.Clear(context.Background()); err != nil || n != 1 {
				t.Errorf("got %d %v", n, err)
			}
		},
		"its end": func(_ *testing.T, _ *memstore.Store) { pass(3 * time.Hour) },
		"success": func(t *testing.T, s *memstore.Store) {
			wide := *locking
			wide.Limit = 9
			pass(time.Hour) // the lock's end
			a := attempt("bob", &wide)
			if !decide(t, s, a).Admitted {
				t.Fatal("locked for longer than it was to be")
			}
			settle(t, s, a, limits.Clear)
		},
	} {
		for _, after := range []time.Duration{0, time.Second} { // written in one go, or one after the other
			t.Run(fmt.Sprint(name, after), func(t *testing.T) {
				inFile(t, func(t *testing.T, path string) {
					reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
						fail(t, s, "bob", locking)
						pass(after)
						release(t, s)
					})
					if got := inside(t, path); len(got) != 0 {
						t.Errorf("the file still holds %v", got)
					}
					reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
						if got := s.Stats().Entries; got != 0 {
							t.Errorf("got %d buckets", got)
						}
					})
				})
			})
		}
	}
}

// inside is what a file holds.
func inside(t *testing.T, path string) (keys []string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		for _, name := range []string{"records", "failures"} {
			if err := tx.Bucket([]byte(name)).ForEach(func(k, _ []byte) error {
				keys = append(keys, string(k))
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// What is written within a second needs no Close.
func TestFileIsWrittenSoon(t *testing.T) {
	inFile(t, func(t *testing.T, path string) {
		reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
			for i := range 2 {
				keep(t, s, record(fmt.Sprint(i), time.Hour))
				fail(t, s, fmt.Sprint(i), locking)
				if got := s.Stats().FileWaiting; got != 2 {
					t.Errorf("got %d keys waiting, want both", got)
				}
				pass(time.Second - time.Millisecond) // between two writes
				if got := s.Stats(); got.FileWaiting != 0 || got.FileFailed != 0 || got.FileFailing {
					t.Errorf("got %+v, want all written", got)
				}
			}
			now := copied(t, path)
			if got := inside(t, now); len(got) != 4 {
				t.Errorf("got %v in the file", got)
			}
			reopen(t, copied(t, path), memstore.Config{}, func(s *memstore.Store) {
				if decide(t, s, attempt("1", locking)).Admitted {
					t.Error("the lock is not in the copy")
				}
			})
		})
	})
}

// copied is a copy of a file, while nothing is written to it.
func copied(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// What has ended while nothing ran, or finds no place any more, leaves the file.
func TestFileShedsWhenOpened(t *testing.T) {
	inFile(t, func(t *testing.T, path string) {
		reopen(t, path, memstore.Config{MaxEntries: 4 * memstore.MinEntries}, func(s *memstore.Store) {
			for i := range 3 * memstore.MinEntries {
				keep(t, s, record(fmt.Sprintf("%04d", i), 10*time.Hour+time.Duration(i)*time.Second))
				if i < memstore.MinEntries+100 {
					fail(t, s, fmt.Sprint(i), locking)
				}
			}
			keep(t, s, record("brief", time.Hour))
			pass(time.Second)
		})
		pass(time.Hour)
		held := 0
		for range 2 {
			reopen(t, path, memstore.Config{MaxEntries: memstore.MinEntries}, func(s *memstore.Store) {
				got := s.Stats()
				if held = int(got.Records + got.Entries); got.Records != memstore.MinEntries || got.Entries > memstore.MinEntries {
					t.Errorf("got %+v, want at most %d of each", got, memstore.MinEntries)
				}
				if knows(t, s, "brief", "0000", limits.Fact(fmt.Sprint(3*memstore.MinEntries-1))) != 1 {
					t.Error("something else was kept than what lasts longest")
				}
			})
			if got := len(inside(t, path)); got != held {
				t.Errorf("the file holds %d, want what the store does: %d", got, held)
			}
		}
		pass(2 * time.Hour)
		reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
			if got := s.Stats(); got.Entries != 0 || got.Records != memstore.MinEntries {
				t.Errorf("got %+v, want no lock that has ended", got)
			}
		})
	})
}

// A swap is in the file as a whole or not at all.
func TestFileHoldsWholeSwaps(t *testing.T) {
	inFile(t, func(t *testing.T, path string) {
		reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
			keep(t, s, record("left", time.Hour))
			if err := s.WriteAround(func() { keep(t, s, record("left", time.Hour), record("right", time.Hour)) }); err != nil {
				t.Fatal(err)
			}
			reopen(t, copied(t, path), memstore.Config{}, func(s *memstore.Store) {
				if got := knows(t, s, "left", "right"); got != 2 {
					t.Errorf("got %d of the two", got)
				}
			})
		})
	})
}

// A lock that newcomers share for want of room is nobody's after a restart.
func TestFileHoldsNoSharedLocks(t *testing.T) {
	inFile(t, func(t *testing.T, path string) {
		reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
			for i := range memstore.MinEntries + 50 {
				fail(t, s, fmt.Sprint(i), locking)
			}
			if got := s.Stats().Coarse; got == 0 {
				t.Fatal("nothing is shared")
			}
			for i := 0; i <= memstore.MaxMarked; i += limits.MaxSwap {
				var changes []limits.Change
				for n := range limits.MaxSwap {
					changes = append(changes, record(fmt.Sprint(i+n), time.Minute))
				}
				keep(t, s, changes...)
			}
			pass(5 * time.Minute)
		})
		if got := len(inside(t, path)); got != memstore.MinEntries {
			t.Errorf("the file holds %d locks, want the %d that are somebody's", got, memstore.MinEntries)
		}
	})
}

// A file that is mostly empty is written anew.
func TestFileIsCompacted(t *testing.T) {
	inFile(t, func(t *testing.T, path string) {
		size := func() int64 {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		reopen(t, path, memstore.Config{MaxEntries: 1 << 20}, func(s *memstore.Store) {
			large := strings.Repeat("x", limits.MaxRecord)
			for i := range 500 {
				c := record(fmt.Sprint(i), time.Hour)
				c.Text = large
				keep(t, s, c)
			}
			pass(time.Second)
			for i := range 450 {
				keep(t, s, limits.Change{Key: fmt.Sprint(i)})
			}
		})
		before := size()
		if err := os.WriteFile(path+".new", []byte("left by a crash"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			reopen(t, path, memstore.Config{MaxEntries: 1 << 20}, func(s *memstore.Store) {
				if got := s.Stats().Records; got != 50 {
					t.Errorf("got %d records, want those of the file", got)
				}
				keep(t, s, record("later", time.Hour))
				keep(t, s, limits.Change{Key: "later"})
				if _, err := memstore.Open(path, memstore.Config{}); err == nil {
					t.Error("two stores are on one file")
				}
			})
			if after := size(); after > before/3 {
				t.Errorf("got %d bytes of %d", after, before)
			}
			if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
				t.Errorf("something was left behind: %v", err)
			}
		}
	})
}

// When the marks are too many, everything is written.
func TestFileWritesEverythingIfNeedBe(t *testing.T) {
	inFile(t, func(t *testing.T, path string) {
		const many = memstore.MaxMarked + 5000
		cfg := memstore.Config{MaxEntries: 1 << 20}
		reopen(t, path, cfg, func(s *memstore.Store) {
			keep(t, s, record("before", time.Hour))
			fail(t, s, "before", locking)
			pass(time.Second)
			keep(t, s, limits.Change{Key: "before"})
			_, _ = s.Release(context.Background(), key(locking, "before"))
			fail(t, s, "bob", locking)
			fail(t, s, "bob", failing)
			for i := 0; i < many; i += limits.MaxSwap {
				var changes []limits.Change
				for n := range limits.MaxSwap {
					changes = append(changes, record(fmt.Sprint(i+n), time.Hour))
				}
				keep(t, s, changes...)
			}
			if got := s.Stats().FileWaiting; got != memstore.MaxMarked+1 {
				t.Errorf("got %d waiting, want the bound", got)
			}
			pass(time.Second)
			if got := s.Stats().FileWaiting; got != 0 {
				t.Errorf("got %d waiting", got)
			}
		})
		reopen(t, path, cfg, func(s *memstore.Store) {
			if got := s.Stats(); got.Records < many || got.Entries != 1 {
				t.Errorf("got %+v, want %d records and a lock", got, many)
			}
			if knows(t, s, "before", limits.Fact(fmt.Sprint(many-1))) != 1 || decide(t, s, attempt("bob", locking)).Admitted {
				t.Error("something else was kept")
			}
		})
	})
}

// Requests go on while the file is written, and each swap gets there as a whole.
func TestFileWhileBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	const many = 4
	reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
		var all sync.WaitGroup
		for n := range many {
			all.Go(func() {
				for i := range 3000 {
					c := record(fmt.Sprint("left", n), time.Hour)
					c.Text = fmt.Sprint(i)
					d := c
					d.Key = fmt.Sprint("right", n)
					keep(t, s, c, d)
					fail(t, s, fmt.Sprint(n, i%10), locking)
					if i%100 == 0 {
						_, _ = s.Clear(context.Background())
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		all.Wait()
	})
	reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
		for n := range many {
			if l, r := text(t, s, fmt.Sprint("left", n)), text(t, s, fmt.Sprint("right", n)); l != "2999" || r != l {
				t.Errorf("got %q and %q, want the last of both", l, r)
			}
		}
	})
}

// logged is a log as text.
type logged struct{ logtest.Buffer }

func (l *logged) count(message string) int {
	return strings.Count(l.String(), message)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
