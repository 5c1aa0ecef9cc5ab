package main

import (
	"context"
	"sync/atomic"

	"authgate/internal/config"
	"authgate/internal/watch"
)

// follower tells when the configuration file has changed, or a file that a value of it is read from. The zero value follows
// nothing. Its methods belong to the goroutine that loads the file.
type follower struct {
	file    string // empty: there is none
	changed chan struct{}
	paths   atomic.Pointer[[]string]
	end     func()
}

// follow begins with the file as it is, so it comes before the file is read.
func follow(file string) *follower {
	f := &follower{file: file, changed: make(chan struct{}, 1)}
	f.paths.Store(&[]string{file})
	f.begin()
	return f
}

// begin takes the files as they are for those that hold; what changes from now on is told. It comes before they are read.
func (f *follower) begin() {
	f.stop()
	if f.file == "" {
		return
	}
	select {
	case <-f.changed: // which is about to be read
	default:
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	paths := func() []string { return *f.paths.Load() }
	w := watch.New(0, paths())
	go func() {
		defer close(ended)
		w.Run(ctx, paths, func() {
			select {
			case f.changed <- struct{}{}:
			default: // told already
			}
		})
	}()
	f.end = func() {
		cancel()
		<-ended
	}
}

// uses says what was read.
func (f *follower) uses(cfg *config.Config) {
	paths := append([]string{f.file}, cfg.Files()...)
	f.paths.Store(&paths)
}

func (f *follower) stop() {
	if f.end != nil {
		f.end()
	}
	f.end = nil
}
