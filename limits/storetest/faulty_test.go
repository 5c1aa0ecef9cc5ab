package storetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

// faultyCalls are all operations of a store, each with what it leaves behind if it is done: a text that show can see.
func faultyCalls(f *Faulty) map[string]func(ctx context.Context) error {
	rule := &limits.Rule{Policy: "f", Class: limits.Failures, Dimension: limits.Target, Limit: 5, Window: time.Hour}
	key := limits.NewScope(rule, "r").Key("x")
	a := &limits.Attempt{ID: 1, Charges: []limits.Charge{{Rule: rule, Key: key}}}
	return map[string]func(context.Context) error{
		"decide":  func(ctx context.Context) error { _, err := f.Decide(ctx, a); return err },
		"settle":  func(ctx context.Context) error { _, err := f.Settle(ctx, a.Release()); return err },
		"renew":   func(ctx context.Context) error { return f.Renew(ctx, a) },
		"entries": func(ctx context.Context) error { _, _, err := f.Entries(ctx, "", 9); return err },
		"release": func(ctx context.Context) error { _, err := f.Release(ctx, key); return err },
		"clear":   func(ctx context.Context) error { _, err := f.Clear(ctx); return err },
		"load":    func(ctx context.Context) error { _, err := f.Load(ctx, "n"); return err },
		"swap":    func(ctx context.Context) error { _, err := f.Swap(ctx, nil, keep("n", "text")); return err },
		"list":    func(ctx context.Context) error { _, _, err := f.List(ctx, "l", "", 9); return err },
		"merge":   func(ctx context.Context) error { return f.Merge(ctx, []limits.Record{{Key: key}}) },
	}
}

func keep(key, text string) limits.Change {
	return limits.Change{Key: key, Text: text, TTL: time.Hour}
}

func faulty(t *testing.T, test func(*testing.T, *Faulty)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := NewFaulty(memstore.New(memstore.Config{}))
		defer f.Close()
		test(t, f)
	})
}

func TestFaultyFailsEveryCall(t *testing.T) {
	const budget = 50 * time.Millisecond
	for _, tt := range []struct {
		name  string
		fault Fault
		takes time.Duration
		cause error // beside ErrUnavailable
	}{
		{"works", Works, 0, nil},
		{"before", Before, 0, errFault},
		{"after", After, 0, errFault},
		{"hang", Hang, budget, context.DeadlineExceeded},
		{"late", Late, budget, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			faulty(t, func(t *testing.T, f *Faulty) {
				f.Always(tt.fault)
				for operation, call := range faultyCalls(f) {
					ctx, cancel := context.WithTimeout(context.Background(), budget)
					start := time.Now()
					err := call(ctx)
					if took := time.Since(start); took != tt.takes {
						t.Errorf("%s took %s, want %s", operation, took, tt.takes)
					}
					if tt.cause == nil && err != nil || tt.cause != nil && (!errors.Is(err, limits.ErrUnavailable) || !errors.Is(err, tt.cause)) {
						t.Errorf("%s: got %v, want %v", operation, err, tt.cause)
					}
					if n := f.Calls(operation); n != 1 {
						t.Errorf("%s: got %d calls, want 1", operation, n)
					}
					cancel()
				}
			})
		})
	}
}

func TestFaultyDoesOrDoesNot(t *testing.T) {
	for fault, done := range map[Fault]bool{Works: true, Before: false, After: true, Hang: false, Late: true} {
		faulty(t, func(t *testing.T, f *Faulty) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			f.Next(fault)
			_, _ = f.Swap(ctx, nil, keep("n", "text"))
			got, err := f.Load(context.Background(), "n") // no fault is due any more
			if err != nil || (got[0] == "text") != done {
				t.Errorf("fault %d: got %q %v, want it done: %t", fault, got, err, done)
			}
			f.Next(fault)
			_ = f.Merge(ctx, []limits.Record{{Key: "k"}})
			if got := len(f.Merged()); (got == 1) != done {
				t.Errorf("fault %d: got %d records, want them merged: %t", fault, got, done)
			}
		})
	}
}

func TestFaultyGivesNoResultWithAnError(t *testing.T) {
	faulty(t, func(t *testing.T, f *Faulty) {
		rule := &limits.Rule{Policy: "w", Dimension: limits.Source, Limit: 1, Window: time.Hour}
		a := &limits.Attempt{Charges: []limits.Charge{{Rule: rule, Key: "r:w:source:r:x"}}}
		f.Next(After)
		if d, err := f.Decide(context.Background(), a); err == nil || d.Admitted {
			t.Errorf("got %+v %v, want an error and no admission", d, err)
		}
		if d, err := f.Decide(context.Background(), a); err != nil || d.Admitted {
			t.Errorf("got %+v %v, want a refusal: the first one was charged", d, err)
		}
	})
}

func TestFaultyPlan(t *testing.T) {
	faulty(t, func(t *testing.T, f *Faulty) {
		ctx := context.Background()
		f.Always(Before)
		f.Next(Works, After)
		f.Next(Works)
		var got []bool
		for range 5 {
			_, err := f.Swap(ctx, nil, keep("n", "text"))
			got = append(got, err == nil)
		}
		f.Always(Works)
		_, err := f.Swap(ctx, nil, keep("n", "text"))
		got = append(got, err == nil)
		want := []bool{true, false, true, false, false, true}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("worked: got %v, want %v", got, want)
			}
		}
	})
}
