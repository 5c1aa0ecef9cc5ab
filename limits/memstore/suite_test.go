package memstore_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
	"authgate/limits/storetest"
)

// harness runs a test in a bubble, where time passes by sleeping and starts at the same instant each time.
func harness(t *testing.T, test func(*testing.T, *storetest.Env)) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64 // the sweeper reads the clock as well
		s := memstore.New(memstore.Config{
			MaxEntries: 4 * memstore.MinEntries,
			Now:        func() limits.Millis { return limits.ToMillis(time.Now()) - back.Load() },
		})
		defer s.Close()
		test(t, &storetest.Env{
			Store: s,
			Advance: func(d time.Duration) {
				time.Sleep(d)
				synctest.Wait() // for a sweep of that very moment
			},
			SetBack: func(d time.Duration) {
				synctest.Wait() // a sweep under way has read the clock before
				back.Add(d.Milliseconds())
			},
			Level:    s.SetLevel,
			Snapshot: s.Snapshot,
			Check:    s.Check,
		})
	})
}

func TestConformance(t *testing.T) { storetest.Run(t, harness) }

// Two stores of one kind must agree before two of different kinds can.
func TestSameSequenceSameAnswers(t *testing.T) { storetest.Same(t, harness, harness) }
