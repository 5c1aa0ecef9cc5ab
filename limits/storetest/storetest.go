// Package storetest proves that a [limits.Store] keeps its contract. The cases are text: testdata/*.txt, one line for each
// thing that happens and what must come of it; testdata/requests.txt says how to read them. Random sequences look for what
// nobody thought of: they check what must always hold, and two stores that are given the same sequence must answer the same.
//
// [Faulty] is a store that fails on request, for tests of whatever uses one.
package storetest

import (
	"embed"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"authgate/limits"
)

// Env is one empty store and the hands that the suite lays on it. All fields must be set.
type Env struct {
	Store limits.Store

	// Advance lets time pass for the store.
	Advance func(d time.Duration)

	// SetBack sets the store's clock back.
	SetBack func(d time.Duration)

	// Level makes the bucket of key look as if its lock of that level had ended just now, quiet since.
	Level func(r *limits.Rule, key string, level int64)

	// Snapshot is all that the store holds, by any names and in any form: two are equal if and only if nothing was changed
	// between them.
	Snapshot func() map[string]string

	// Check reports what is wrong with the store's state, if anything. It is called after every step.
	Check func() error
}

// Harness calls test once with an Env of its own. Every Env starts at the same instant of its own clock.
type Harness func(t *testing.T, test func(*testing.T, *Env))

//go:embed testdata/*.txt
var files embed.FS

// Run runs the whole suite as subtests.
func Run(t *testing.T, h Harness) {
	cases, err := loadCases(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.file+"/"+c.name, func(t *testing.T) {
			h(t, func(t *testing.T, e *Env) {
				if err := play(e, c); err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("records", func(t *testing.T) { runRecords(t, h) })
	t.Run("random", func(t *testing.T) { runRandom(t, h) })
}

func loadCases(fsys fs.FS) ([]testCase, error) {
	names, err := fs.Glob(fsys, "testdata/*.txt")
	if err != nil {
		return nil, fmt.Errorf("listing cases: %w", err)
	}
	var all []testCase
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("reading cases: %w", err)
		}
		cases, err := parseCases(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return all, nil
}
