package memstore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"authgate/limits/memstore"
)

func TestFileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	reopen(t, path, memstore.Config{}, func(*memstore.Store) {
		start := time.Now()
		_, err := memstore.Open(path, memstore.Config{})
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another process uses it") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
	reopen(t, path, memstore.Config{}, func(*memstore.Store) {})
}

// openContent opens a store on a file of that content; an error must name the file and say what to do.
func openContent(t *testing.T, path string, content []byte) error {
	t.Helper()
	_ = os.Remove(path) // with the lock that a damaged one may keep
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := memstore.Open(path, memstore.Config{})
	if err == nil {
		return s.Close()
	}
	if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("got %v, want an error that names the file and says what to do", err)
	}
	return err
}

// withEntry writes one entry into a database, and returns the file's content.
func withEntry(t *testing.T, path, bucket, key, value string) []byte {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(bucket))
		if err != nil {
			return err
		}
		return b.Put([]byte(key), []byte(value))
	}); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Whatever is in the file, opening it ends well or with an error that names it.
func TestFileDamaged(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.db")
	reopen(t, good, memstore.Config{}, func(s *memstore.Store) {
		for i := range 300 {
			keep(t, s, record(fmt.Sprint(i), 1000*time.Hour))
			fail(t, s, fmt.Sprint(i), locking)
		}
	})
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "bad.db")
	foreign := filepath.Join(dir, "foreign.db")
	later := filepath.Join(dir, "later.db")
	goodAgain := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, content := range map[string][]byte{
		"text":        []byte(strings.Repeat("this is no database\n", 1000)),
		"short":       []byte("x"),
		"zeroes":      make([]byte, 1<<16),
		"cut in half": data[:len(data)/2],
		"cut early":   data[:3*os.Getpagesize()],
		"foreign":     withEntry(t, foreign, "users", "k", "v"),
		"later":       withEntry(t, later, "meta", "format", "2"),
		"a record":    withEntry(t, goodAgain("r.db"), "records", "k", "\x01"),
		"a bucket":    withEntry(t, goodAgain("f.db"), "failures", key(locking, "x"), "nonsense"),
	} {
		if err := openContent(t, path, content); err == nil {
			t.Errorf("%s: it was opened", name)
		}
	}
	if err := openContent(t, path, nil); err != nil {
		t.Errorf("an empty file: %v", err)
	}
	bad := 0
	for at := 3; at < len(data); at += max(1, len(data)/150) {
		flipped := bytes.Clone(data)
		flipped[at] ^= 0xff
		if openContent(t, path, flipped) != nil {
			bad++
		}
	}
	if bad == 0 {
		t.Error("no flipped byte was seen")
	}
	if err := openContent(t, path, data); err != nil {
		t.Errorf("the undamaged file: %v", err)
	}
}

// A key that this program cannot have made is dropped, so that one of another version does not keep it from starting.
func TestFileOfAnotherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	reopen(t, path, memstore.Config{}, func(s *memstore.Store) { fail(t, s, "bob", locking) })
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("failures"))
		value := bytes.Clone(b.Get([]byte(key(locking, "bob"))))
		return b.Put([]byte("f:l:a_new_dimension:realm:bob"), value)
	}); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	reopen(t, path, memstore.Config{}, func(s *memstore.Store) {
		if got := s.Stats().Entries; got != 1 {
			t.Errorf("got %d buckets, want the one", got)
		}
	})
	if got := inside(t, path); len(got) != 1 {
		t.Errorf("the file holds %v", got)
	}
}

func TestFileErrors(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none", "store.db")} {
		if _, err := memstore.Open(path, memstore.Config{}); err == nil || !strings.Contains(err.Error(), "opening store file "+path) {
			t.Errorf("got %v", err)
		}
	}
	path := filepath.Join(dir, "open.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	reopen(t, path, memstore.Config{}, func(*memstore.Store) {})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v %v", info.Mode(), err)
	}
}

// A file that is cut off while it is open harms nobody but itself.
func TestFileCutOff(t *testing.T) {
	inFile(t, func(t *testing.T, path string) {
		var log logged
		s, err := memstore.Open(path, memstore.Config{Logger: log.logger()})
		if err != nil {
			t.Fatal(err)
		}
		keep(t, s, record("k", time.Hour))
		pass(time.Second)
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			keep(t, s, record("k", 2*time.Hour))
			pass(5 * time.Second)
		}
		if got := s.Stats(); !got.FileFailing || got.FileFailed < 3 || got.FileFailed > 16 || text(t, s, "k") != "text" {
			t.Errorf("got %+v", got)
		}
		if got := log.count("store file cannot be written"); got != 1 {
			t.Errorf("got %d lines of that, want one", got)
		}
		if err := s.Close(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("closing: got %v", err)
		}
	})
}
