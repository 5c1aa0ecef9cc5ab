package valkeystore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Each call has nearly all of the time, and none more; those that begin together share a context.
func TestAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 80 * time.Millisecond
		a := allowance{most: most}
		contexts := map[context.Context]bool{}
		for range 1000 {
			began := time.Now()
			ctx := a.context()
			contexts[ctx] = true
			end, ok := ctx.Deadline()
			if left := end.Sub(began); !ok || ctx.Err() != nil || left > most || left < most*7/8 {
				t.Fatalf("a call has %s, %v", left, ctx.Err())
			}
			time.Sleep(time.Millisecond)
		}
		if n := len(contexts); n < 90 || n > 110 {
			t.Errorf("1000 calls of a second share %d contexts", n)
		}
		last := a.context()
		time.Sleep(most)
		synctest.Wait()
		if last.Err() == nil {
			t.Error("the time is over, and the context lives")
		}
	})
}
