package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"authgate/limits"
)

// runNotes checks what does not need time to pass; each store's own tests see that notes end.
func runNotes(t *testing.T, h Harness) {
	h(t, func(t *testing.T, e *Env) {
		ctx := context.Background()
		want := func(key, text string) {
			t.Helper()
			if got, err := e.Store.Noted(ctx, key); err != nil || got != text {
				t.Errorf("note %q: got %q %v, want %q", key, got, err, text)
			}
		}
		note := func(key, text string) {
			t.Helper()
			if err := e.Store.Note(ctx, key, text, time.Hour); err != nil {
				t.Errorf("note %q: %v", key, err)
			}
		}
		want("a", "")
		note("a", "one")
		note("b", "a text with\x00 any bytes \xff\n")
		want("a", "one")
		want("b", "a text with\x00 any bytes \xff\n")
		note("a", "two")
		want("a", "two")
		if err := e.Store.Forget(ctx, "a"); err != nil {
			t.Error(err)
		}
		want("a", "")
		want("b", "a text with\x00 any bytes \xff\n")
		if err := e.Store.Forget(ctx, "nobody knows"); err != nil {
			t.Errorf("forgetting what is not there: %v", err)
		}
		longest := strings.Repeat("x", limits.MaxNote)
		note("c", longest)
		want("c", longest)
		if err := e.Store.Note(ctx, "c", longest+"x", time.Hour); err == nil {
			t.Error("a note that is too long was kept")
		}
		want("c", longest)
		if n, err := e.Store.Clear(ctx); err != nil || n != 0 {
			t.Errorf("clearing buckets: got %d %v, want none", n, err)
		}
		want("c", longest)
	})
}
