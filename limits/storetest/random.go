package storetest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Environment variables that make random tests longer. Seeds are counted from the first one, so that a failure that names
// its seed can be repeated alone.
const (
	envFirst = "STORETEST_FIRST" // default 1
	envSeeds = "STORETEST_SEEDS" // default 5
	envSteps = "STORETEST_STEPS" // of each seed; default 700
)

// runRandom checks what must always hold on random sequences.
func runRandom(t *testing.T, h Harness) {
	forSeeds(t, func(t *testing.T, seed uint64, steps int) {
		h(t, func(t *testing.T, e *Env) {
			s := newSequence(e, seed)
			s.thorough = true
			if err := s.run(steps); err != nil {
				t.Errorf("%v\nthe last steps:\n%s", err, s.tail(12))
			}
		})
	})
}

// Same runs random sequences on two stores and fails where they answer differently.
func Same(t *testing.T, a, b Harness) {
	forSeeds(t, func(t *testing.T, seed uint64, steps int) {
		var traces [2][]string
		for i, h := range []Harness{a, b} {
			h(t, func(t *testing.T, e *Env) {
				s := newSequence(e, seed)
				if err := s.run(steps); err != nil {
					t.Fatalf("%v\nthe last steps:\n%s", err, s.tail(12))
				}
				traces[i] = s.trace
			})
		}
		for i := range traces[0] {
			if got, want := traces[1][i], traces[0][i]; got != want {
				t.Fatalf("step %d differs:\n  first  %s\n  second %s\nbefore it:\n%s",
					i, want, got, strings.Join(traces[0][max(0, i-12):i], "\n"))
			}
		}
	})
}

func forSeeds(t *testing.T, test func(t *testing.T, seed uint64, steps int)) {
	first, seeds, steps := fromEnv(t, envFirst, 1), fromEnv(t, envSeeds, 5), fromEnv(t, envSteps, 700)
	for n := range seeds {
		seed := uint64(first + n)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { test(t, seed, steps) })
	}
}

func fromEnv(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: use a whole number from 1", name, text)
	}
	return n
}
