// Package watch tells when the content of files changes. It asks the files again and again rather than the kernel, so a
// file that is replaced, a symbolic link that is swapped (as Kubernetes does), a network file system and a file
// that is not there yet are all the same to it.
package watch

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"time"
)

// Every is how often files are looked at. What is written in pieces is over within two looks.
const Every = time.Second

// Watcher compares files with what they held at the last change. Use [New]. It belongs to one goroutine.
type Watcher struct {
	every time.Duration
	seen  map[string]state // as last reported
	next  map[string]state // what differed from that at the last look; nil: nothing
}

// New makes a watcher that looks every so often; 0 is [Every]. Files are as they are now, so make it before they are
// read: what changes in between is then read twice rather than not at all.
func New(every time.Duration, paths []string) *Watcher {
	if every <= 0 {
		every = Every
	}
	w := &Watcher{every: every}
	w.seen = w.look(paths)
	return w
}

// Run calls changed once for every change of what the files hold, when they have been the same for two looks, so that a
// half-written file is not taken for the new one. paths is asked before every look; a file that joins the list
// is no change. Run ends with ctx.
func (w *Watcher) Run(ctx context.Context, paths func() []string, changed func()) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if w.settled(paths()) {
			changed()
		}
	}
}

// settled looks once, and reports whether the files have changed and come to rest.
func (w *Watcher) settled(paths []string) bool {
	now := w.look(paths)
	if same(w.seen, now) {
		w.seen, w.next = now, nil // with the new times of files that hold the same
		return false
	}
	if w.next == nil || !same(w.next, now) {
		w.next = now
		return false
	}
	w.seen, w.next = now, nil
	return true
}

// state is what is known of a file.
type state struct {
	info os.FileInfo // nil: it cannot be read
	sum  [sha256.Size]byte
	read time.Time // when
}

// young is the age below which a file is read again although its time has not changed: times of files are coarse.
const young = 2 * time.Second

func (w *Watcher) look(paths []string) map[string]state {
	now := make(map[string]state, len(paths))
	for _, path := range paths {
		now[path] = look(path, w.seen[path], w.next[path])
	}
	return now
}

// look reads a file, unless one of the states is certainly still its own.
func look(path string, known ...state) state {
	info, err := os.Stat(path)
	if err != nil {
		return state{}
	}
	for _, s := range known {
		if s.info != nil && os.SameFile(s.info, info) && s.info.ModTime().Equal(info.ModTime()) && s.info.Size() == info.Size() &&
			s.read.Sub(info.ModTime()) > young {
			return s
		}
	}
	read := time.Now()
	f, err := os.Open(path)
	if err != nil {
		return state{}
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return state{}
	}
	s := state{info: info, read: read}
	h.Sum(s.sum[:0])
	return s
}

// same reports whether the files that both know hold the same.
func same(a, b map[string]state) bool {
	for path, s := range b {
		if old, ok := a[path]; ok && ((old.info == nil) != (s.info == nil) || old.sum != s.sum) {
			return false
		}
	}
	return true
}
