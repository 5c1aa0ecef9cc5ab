package watch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rename puts a file in the place of another at once.
func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// A change is told once, and only when it has come to rest.
func TestSettled(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	paths := []string{a, b}
	write(t, a, "one")
	w := New(0, paths)
	for _, step := range []struct {
		name string
		do   func()
		want []bool // of the looks after it
	}{
		{"nothing", func() {}, []bool{false, false}},
		{"another content of the same size", func() { write(t, a, "two") }, []bool{false, true, false}},
		{"the same content, written anew", func() { write(t, a, "two") }, []bool{false, false}},
		{"still being written", func() { write(t, a, "th") }, []bool{false}},
		{"written", func() { write(t, a, "three") }, []bool{false, true, false}},
		{"back before anybody was told", func() { write(t, a, "x") }, []bool{false}},
		{"and as it was", func() { write(t, a, "three") }, []bool{false, false}},
		{"a file appears", func() { write(t, b, "b") }, []bool{false, true, false}},
		{"replaced", func() { write(t, a+"~", "four!"); rename(t, a+"~", a) }, []bool{false, true, false}},
		{"gone", func() { os.Remove(b) }, []bool{false, true, false}},
		{"a file joins the list", func() { write(t, filepath.Join(dir, "c"), "c"); paths = append(paths, filepath.Join(dir, "c")) }, []bool{false, false}},
		{"and changes", func() { write(t, filepath.Join(dir, "c"), "C") }, []bool{false, true, false}},
		{"a file leaves the list", func() { paths = paths[:2] }, []bool{false, false}},
	} {
		step.do()
		for i, want := range step.want {
			if got := w.settled(paths); got != want {
				t.Errorf("%s: look %d: got %v, want %v", step.name, i+1, got, want)
			}
		}
	}
}

// A file whose time says that it is untouched is not read again once it is old enough.
func TestOldFilesAreNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write(t, path, "one")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	w := New(0, []string{path})
	write(t, path, "two")
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if w.settled([]string{path}) {
			t.Error("a change was told that only reading can show")
		}
	}
	if s := w.seen[path]; s.info == nil {
		t.Error("the file is not known")
	}
}

// A young file is read again: the times of files are coarse, and a second change may have the time of the first.
func TestYoungFilesAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write(t, path, "one")
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		t.Fatal(err)
	}
	w := New(0, []string{path})
	write(t, path, "two")
	if err := os.Chtimes(path, now, now); err != nil {
		t.Fatal(err)
	}
	w.settled([]string{path})
	if !w.settled([]string{path}) {
		t.Error("the second change was not told")
	}
}

// Kubernetes swaps a link to a folder, and the files below change together.
func TestSwappedFolder(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"1", "2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "config"), version)
	}
	link := func(version string) {
		t.Helper()
		if err := os.Symlink(version, filepath.Join(dir, "tmp")); err != nil {
			t.Fatal(err)
		}
		rename(t, filepath.Join(dir, "tmp"), filepath.Join(dir, "data"))
	}
	link("1")
	path := filepath.Join(dir, "config")
	if err := os.Symlink(filepath.Join("data", "config"), path); err != nil {
		t.Fatal(err)
	}
	w := New(5*time.Millisecond, []string{path})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	told := make(chan bool)
	ended := make(chan bool)
	go func() {
		defer close(ended)
		w.Run(ctx, func() []string { return []string{path} }, func() { told <- true })
	}()
	for _, version := range []string{"2", "1", "2"} {
		link(version)
		select {
		case <-told:
		case <-ctx.Done():
			t.Fatalf("the swap to %s was not told", version)
		}
	}
	cancel()
	<-ended
}
