package certs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/internal/valkeytest"
)

// open makes a storage that ends with the test.
func open(t *testing.T, s *valkeytest.Server, ttl time.Duration) *Valkey {
	t.Helper()
	v, err := NewValkey(ValkeyConfig{Addresses: []string{s.Addr()}, Prefix: "gw", Log: slog.New(slog.DiscardHandler), LockTTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// What one instance keeps, the other finds, in the shape of a file system.
func TestStorage(t *testing.T) {
	s := valkeytest.Start(t)
	ctx := t.Context()
	a, b := open(t, s, 0), open(t, s, 0)
	began := time.Now().Add(-time.Second)
	for _, key := range []string{"certs/ca/a.test/a.test.crt", "certs/ca/a.test/a.test.key", "certs/ca/b.test/b.test.crt", "certs2/x", "acme/y"} {
		if err := a.Store(ctx, key, []byte("of "+key)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Store(ctx, "acme/y", []byte("\x00\xff")); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Load(ctx, "acme/y"); string(got) != "\x00\xff" || err != nil {
		t.Errorf("a value that was written twice: got %q, %v", got, err)
	}
	for _, key := range []string{"acme/z", "certs", "acme"} {
		if _, err := b.Load(ctx, key); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("loading %s: got %v, want that it does not exist", key, err)
		}
	}
	for key, want := range map[string]bool{"certs": true, "certs/ca/a.test": true, "certs/ca/a.test/a.test.key": true, "cert": false, "certs/c": false} {
		if got := b.Exists(ctx, key); got != want {
			t.Errorf("%s exists: got %v, want %v", key, got, want)
		}
	}
	for _, c := range []struct {
		folder    string
		recursive bool
		want      string
	}{
		{"certs", false, "certs/ca"},
		{"certs/ca", false, "certs/ca/a.test certs/ca/b.test"},
		{"certs/ca/a.test/", false, "certs/ca/a.test/a.test.crt certs/ca/a.test/a.test.key"},
		{"certs", true, "certs/ca/a.test/a.test.crt certs/ca/a.test/a.test.key certs/ca/b.test/b.test.crt"},
		{"", false, "acme certs certs2"},
	} {
		got, err := b.List(ctx, c.folder, c.recursive)
		slices.Sort(got)
		if strings.Join(got, " ") != c.want || err != nil {
			t.Errorf("list of %q, recursive %v: got %q, %v; want %q", c.folder, c.recursive, got, err, c.want)
		}
	}
	if _, err := b.List(ctx, "nowhere", true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("list of nothing: got %v", err)
	}
	info, err := b.Stat(ctx, "certs2/x")
	if err != nil || !info.IsTerminal || info.Size != int64(len("of certs2/x")) || info.Modified.Before(began) || info.Modified.After(time.Now().Add(time.Second)) {
		t.Errorf("stat of a value: got %+v, %v", info, err)
	}
	if info, err := b.Stat(ctx, "certs/ca"); err != nil || info.IsTerminal {
		t.Errorf("stat of a folder: got %+v, %v", info, err)
	}
	if _, err := b.Stat(ctx, "nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of nothing: got %v", err)
	}
	for _, key := range []string{"certs/ca/a.test", "certs2/x", "nowhere"} {
		if err := b.Delete(ctx, key); err != nil {
			t.Errorf("deleting %s: %v", key, err)
		}
	}
	if got, _ := a.List(ctx, "", true); len(got) != 2 || a.Exists(ctx, "certs2") || !a.Exists(ctx, "certs/ca/b.test") {
		t.Errorf("left after deleting: %q", got)
	}
	if keys := fmt.Sprint(s.Do("KEYS", "*")); keys != "[gw:certs]" {
		t.Errorf("keys of the server: %s", keys)
	}
}

// A lock is one instance's at a time, expires with its holder, and not before.
func TestLock(t *testing.T) {
	s := valkeytest.Start(t)
	ctx := t.Context()
	a, b := open(t, s, 300*time.Millisecond), open(t, s, 300*time.Millisecond)
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for i := range 6 {
		v := []*Valkey{a, b}[i%2]
		all.Go(func() {
			if err := v.Lock(ctx, "order"); err != nil {
				t.Errorf("locking: %v", err)
				return
			}
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(5 * time.Millisecond)
			inside.Add(-1)
			if err := v.Unlock(ctx, "order"); err != nil {
				t.Errorf("unlocking: %v", err)
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held the lock at once", most.Load())
	}
	if err := a.Lock(ctx, "order"); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, time.Second) // more than three times its life
	if err := b.Lock(short, "order"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("locking what a living holder has: got %v", err)
	}
	cancel()
	if ttl, _ := s.Do("PTTL", "gw:certlock:order").(int64); ttl <= 0 || ttl > 300 {
		t.Errorf("the lock expires in %d ms, want at most 300", ttl)
	}
	a.mu.Lock()
	a.locks["order"].stop() // the holder dies
	a.mu.Unlock()
	if err := b.Lock(ctx, "order"); err != nil {
		t.Errorf("locking what a dead holder had: %v", err)
	}
	if err := a.Unlock(ctx, "order"); err != nil {
		t.Errorf("unlocking what was lost: %v", err)
	}
	if s.Do("EXISTS", "gw:certlock:order") != int64(1) {
		t.Error("unlocking a lost lock took it from its new holder")
	}
	b.Close()
	if s.Do("EXISTS", "gw:certlock:order") != int64(0) {
		t.Error("closing left a lock behind")
	}
}

// A server that is down makes errors, not empty answers; one that is back works.
func TestStorageOutage(t *testing.T) {
	s := valkeytest.Start(t)
	v := open(t, s, 0)
	ctx := t.Context()
	if err := v.Store(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := v.Load(short, "k"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("loading from nobody: got %v", err)
	}
	if err := v.Lock(short, "k"); err == nil {
		t.Error("a lock was given by nobody")
	}
	s.Restart()
	if _, err := v.Load(ctx, "k"); !errors.Is(err, fs.ErrNotExist) { // this server keeps nothing on disk
		t.Errorf("loading from one that is back: got %v", err)
	}
}
