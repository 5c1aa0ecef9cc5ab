package memstore_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

// A full disk is told once, and fails no request; what could not be written is written when there is room again.
func TestFileOnAFullDisk(t *testing.T) {
	if os.Getenv(envChild) == "" { // the limit is one of the whole process
		child := exec.Command(os.Args[0], "-test.run=^TestFileOnAFullDisk$")
		child.Env = append(os.Environ(), envChild+"=full")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	var unlimited syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &unlimited); err != nil {
		t.Fatal(err)
	}
	restore := func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &unlimited) }
	defer restore()
	inFile(t, func(t *testing.T, path string) {
		var log logged
		reopen(t, path, memstore.Config{Logger: log.logger()}, func(s *memstore.Store) {
			keep(t, s, record("before", time.Hour))
			pass(time.Second)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			full := unlimited
			full.Cur = uint64(info.Size())
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
				t.Fatal(err)
			}
			large := record("during", time.Hour)
			large.Text = strings.Repeat("x", limits.MaxRecord)
			for i := range 5 {
				large.Key = fmt.Sprint("during", i)
				keep(t, s, large)
				fail(t, s, fmt.Sprint(i), locking)
				pass(5 * time.Second)
			}
			if got := s.Stats(); !got.FileFailing || got.FileFailed < 5 || got.FileWaiting != 10 {
				t.Errorf("got %+v, want ten keys waiting", got)
			}
			if text(t, s, "during4") != large.Text || decide(t, s, attempt("4", locking)).Admitted {
				t.Error("the store itself has lost something")
			}
			reopen(t, copied(t, path), memstore.Config{}, func(s *memstore.Store) { // a start writes nothing yet
				if knows(t, s, "before") != 1 {
					t.Error("a copy does not hold what was written before")
				}
			})
			restore()
			pass(5 * time.Second)
			if got := s.Stats(); got.FileFailing || got.FileWaiting != 0 {
				t.Errorf("got %+v, want all written", got)
			}
			if a, b := log.count("store file cannot be written"), log.count("store file is written again"); a != 1 || b != 1 {
				t.Errorf("got %d and %d lines, want one each", a, b)
			}
		})
		reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
			if got := s.Stats(); got.Records != 6 || got.Entries != 5 {
				t.Errorf("got %+v, want everything", got)
			}
		})
	})
}

// envChild makes the test binary the process that is killed.
const envChild = "MEMSTORE_CHILD"

// TestFileChild is the process that is killed: it counts, and tells what it has kept for longer than may be lost.
func TestFileChild(t *testing.T) {
	path := os.Getenv(envChild)
	if path == "" {
		t.Skip("only as a child of TestFileAfterAKill")
	}
	s, err := memstore.Open(path, memstore.Config{MaxEntries: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fail(t, s, "bob", locking)
	type kept struct {
		n  int
		at time.Time
	}
	var recent []kept
	for n := 0; ; n++ {
		c := record("left", time.Hour)
		c.Text = fmt.Sprint(n)
		d := c
		d.Key = "right"
		keep(t, s, c, d, record(fmt.Sprint("n", n), time.Hour))
		recent = append(recent, kept{n, time.Now()})
		for len(recent) > 0 && time.Since(recent[0].at) > time.Second {
			fmt.Println("kept", recent[0].n)
			recent = recent[1:]
		}
		time.Sleep(time.Millisecond)
	}
}

// After kill -9 nothing is lost but what the last second brought, and no swap is torn.
func TestFileAfterAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	for range 2 {
		child := exec.Command(os.Args[0], "-test.run=^TestFileChild$", "-test.v")
		child.Env = append(os.Environ(), envChild+"="+path)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		last := -1
		for lines := bufio.NewScanner(out); last < 300 && lines.Scan(); {
			_, _ = fmt.Sscanf(lines.Text(), "kept %d", &last)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
		if last < 300 {
			t.Fatalf("the child kept no more than %d", last)
		}
		reopen(t, path, memstore.Config{MaxEntries: 1 << 20}, func(s *memstore.Store) {
			var n int
			_, err := fmt.Sscan(text(t, s, "left"), &n)
			if err != nil || n < last || text(t, s, "right") != fmt.Sprint(n) {
				t.Errorf("got %d and %q %v, want at least %d, both alike", n, text(t, s, "right"), err, last)
			}
			for i := range n {
				if text(t, s, fmt.Sprint("n", i)) == "" {
					t.Fatalf("record %d of %d is lost", i, n)
				}
			}
			if decide(t, s, attempt("bob", locking)).Admitted {
				t.Error("the lock is lost")
			}
		})
	}
}
