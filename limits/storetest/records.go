package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/limits"
)

// allKeys reads a whole list, a page at a time, and returns it in order. No page may be larger than asked for, and no key
// may come twice as long as nothing is changed.
func allKeys(ctx context.Context, s limits.Records, list string, page int) ([]string, error) {
	var all []string
	cursor := ""
	for range 100_000 {
		keys, next, err := s.List(ctx, list, cursor, page)
		if err != nil {
			return nil, err
		}
		if len(keys) > page {
			return nil, fmt.Errorf("a page of %d has %d keys", page, len(keys))
		}
		all = append(all, keys...)
		if next == "" {
			slices.Sort(all)
			if n := len(all); n != len(slices.Compact(slices.Clone(all))) {
				return nil, fmt.Errorf("a list has keys twice: %v", all)
			}
			return all, nil
		}
		cursor = next
	}
	return nil, fmt.Errorf("the list has no end: cursor %q", cursor)
}

// runRecords checks what the cases cannot say: bounds, any bytes, long lists, and many at once.
func runRecords(t *testing.T, h Harness) {
	for _, test := range []struct {
		name string
		do   func(*testing.T, limits.Store)
	}{
		{"any bytes", anyBytes},
		{"bounds", recordBounds},
		{"refused", refusedSwaps},
		{"most at once", mostAtOnce},
		{"a long list", longList},
		{"a list that changes", changingList},
		{"cursors", recordCursors},
		{"one of many", oneOfMany},
		{"all or none", allOrNone},
		{"secret", keptSecret},
	} {
		t.Run(test.name, func(t *testing.T) {
			h(t, func(t *testing.T, e *Env) {
				test.do(t, e.Store)
				if err := e.Check(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func mustSwap(t *testing.T, s limits.Records, was []limits.Kept, changes ...limits.Change) {
	t.Helper()
	if done, err := s.Swap(context.Background(), was, changes...); err != nil || !done {
		t.Errorf("swapping %v for %v: got %t, %v", was, changes, done, err)
	}
}

func wantText(t *testing.T, s limits.Records, key, want string) {
	t.Helper()
	if got, err := s.Load(context.Background(), key); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("record %q: got %.40q, %v; want %.40q", key, got, err, want)
	}
}

func anyBytes(t *testing.T, s limits.Store) {
	const odd = "a text with\x00 any bytes \xff\n"
	mustSwap(t, s, nil, limits.Change{Key: odd, Text: odd, TTL: time.Hour, Index: odd})
	wantText(t, s, odd, odd)
	mustSwap(t, s, []limits.Kept{{Key: odd, Text: odd}}, limits.Change{Key: "x", Text: "\x00", TTL: time.Hour})
	wantText(t, s, "x", "\x00")
	if keys, err := allKeys(context.Background(), s, odd, 1); err != nil || !slices.Equal(keys, []string{odd}) {
		t.Errorf("got %q %v", keys, err)
	}
	if got, err := s.Load(context.Background()); err != nil || len(got) != 0 {
		t.Errorf("loading nothing: got %q %v", got, err)
	}
	mustSwap(t, s, nil)
	if n, err := s.Clear(context.Background()); err != nil || n != 0 {
		t.Errorf("clearing buckets: got %d %v, want none", n, err)
	}
	wantText(t, s, odd, odd)
}

func recordBounds(t *testing.T, s limits.Store) {
	key, text := strings.Repeat("k", limits.MaxRecordKey), strings.Repeat("t", limits.MaxRecord)
	mustSwap(t, s, nil, limits.Change{Key: key, Text: text, TTL: time.Millisecond * 1e12, Index: key})
	wantText(t, s, key, text)
	mustSwap(t, s, []limits.Kept{{Key: key, Text: text}}, limits.Change{Key: key})
	wantText(t, s, key, "")
}

func refusedSwaps(t *testing.T, s limits.Store) {
	mustSwap(t, s, nil, keepFor(time.Hour, "k", "before"))
	long := strings.Repeat("x", limits.MaxRecord+1)
	var many, large []limits.Change
	for i := range limits.MaxSwap + 1 {
		many = append(many, keepFor(time.Hour, "k"+strconv.Itoa(i), "x"))
	}
	for i := range limits.MaxSwapText/limits.MaxRecord + 1 {
		large = append(large, keepFor(time.Hour, "k"+strconv.Itoa(i), long[:limits.MaxRecord]))
	}
	for name, test := range map[string]struct {
		was     []limits.Kept
		changes []limits.Change
	}{
		"no key":            {nil, []limits.Change{keepFor(time.Hour, "", "x")}},
		"a long key":        {nil, []limits.Change{keepFor(time.Hour, long[:limits.MaxRecordKey+1], "x")}},
		"a long text":       {nil, []limits.Change{keepFor(time.Hour, "k", long)}},
		"a long condition":  {[]limits.Kept{{Key: "k", Text: long}}, nil},
		"no condition key":  {[]limits.Kept{{Key: ""}}, nil},
		"no end":            {nil, []limits.Change{keepFor(0, "k", "x")}},
		"an end before now": {nil, []limits.Change{keepFor(-time.Hour, "k", "x")}},
		"too short":         {nil, []limits.Change{keepFor(time.Millisecond-1, "k", "x")}},
		"twice":             {nil, []limits.Change{keepFor(time.Hour, "k", "x"), keepFor(time.Hour, "k", "y")}},
		"a long list":       {nil, []limits.Change{{Key: "k", Text: "x", TTL: time.Hour, Index: long[:limits.MaxRecordKey+1]}}},
		"too many":          {nil, many},
		"too much together": {nil, large},
		"many conditions":   {make([]limits.Kept, limits.MaxSwap), many[:1]},
	} {
		if done, err := s.Swap(context.Background(), test.was, test.changes...); err == nil || done || errors.Is(err, limits.ErrUnavailable) {
			t.Errorf("%s: got %t, %v; want it refused", name, done, err)
		}
	}
	wantText(t, s, "k", "before")
	wantText(t, s, "k0", "")
}

func keepFor(ttl time.Duration, key, text string) limits.Change {
	return limits.Change{Key: key, Text: text, TTL: ttl}
}

func mostAtOnce(t *testing.T, s limits.Store) {
	var was []limits.Kept
	var changes []limits.Change
	var keys []string
	for i := range limits.MaxSwap {
		key := fmt.Sprint("r", i)
		keys = append(keys, key)
		was = append(was, limits.Kept{Key: key, Text: "x"})
		changes = append(changes, limits.Change{Key: key, Text: "x", TTL: time.Hour, Index: fmt.Sprint("l", i)})
	}
	mustSwap(t, s, nil, changes...)
	mustSwap(t, s, was)
	texts, err := s.Load(context.Background(), slices.Concat(keys, keys, []string{"none"})...)
	if err != nil || len(texts) != 2*len(keys)+1 || texts[0] != "x" || texts[2*len(keys)-1] != "x" || texts[2*len(keys)] != "" {
		t.Errorf("got %d texts, %v", len(texts), err)
	}
}

func longList(t *testing.T, s limits.Store) {
	var want []string
	var changes []limits.Change
	for i := range 900 {
		want = append(want, fmt.Sprintf("r%03d", i))
		changes = append(changes, limits.Change{Key: want[i], Text: "x", TTL: time.Hour, Index: "l"})
	}
	for _, n := range []int{5, 900} { // as one kind of set, and as another
		mustSwap(t, s, nil, changes[:n]...)
		for _, page := range []int{1, 7, 1000} {
			if got, err := allKeys(context.Background(), s, "l", page); err != nil || !slices.Equal(got, want[:n]) {
				t.Errorf("%d keys, %d a page: got %d keys, %v", n, page, len(got), err)
			}
		}
	}
	if keys, _, err := s.List(context.Background(), "l", "", -1); err != nil || len(keys) > 1 {
		t.Errorf("a page of less than one: got %q %v", keys, err)
	}
	if keys, next, err := s.List(context.Background(), "nobody's", "", 5); err != nil || len(keys) != 0 || next != "" {
		t.Errorf("an empty list: got %q %q %v", keys, next, err)
	}
}

// changingList pages through a list on which others come and go: who stays is found.
func changingList(t *testing.T, s limits.Store) {
	ctx := context.Background()
	on := func(key string) limits.Change {
		return limits.Change{Key: key, Text: "x", TTL: time.Hour, Index: "l"}
	}
	for i := range 300 {
		mustSwap(t, s, nil, on(fmt.Sprintf("stays%03d", i)), on(fmt.Sprintf("goes%03d", i)))
	}
	seen := map[string]bool{}
	cursor := ""
	for n := 0; n == 0 || cursor != ""; n++ {
		keys, next, err := s.List(ctx, "l", cursor, 10)
		if err != nil || n > 1000 {
			t.Fatalf("page %d: %v", n, err)
		}
		for _, key := range keys {
			seen[key] = true
		}
		if n < 100 {
			mustSwap(t, s, nil, limits.Change{Key: fmt.Sprintf("goes%03d", 3*n)}, limits.Change{Key: fmt.Sprintf("goes%03d", 3*n+1), Index: "l"},
				on(fmt.Sprintf("new%03d", n)), on(fmt.Sprintf("stays%03d", n)))
		}
		cursor = next
	}
	for i := range 300 {
		if key := fmt.Sprintf("stays%03d", i); !seen[key] {
			t.Errorf("%s was not listed", key)
		}
	}
}

func recordCursors(t *testing.T, s limits.Store) {
	mustSwap(t, s, nil, limits.Change{Key: "k", Text: "x", TTL: time.Hour, Index: "l"})
	for _, cursor := range []string{"x", "-1", "1.5", "99999999999999999999 "} {
		if _, _, err := s.List(context.Background(), "l", cursor, 9); !errors.Is(err, limits.ErrCursor) {
			t.Errorf("cursor %q: got %v, want %v", cursor, err, limits.ErrCursor)
		}
	}
}

// oneOfMany has many count up the same record at once: none may be lost.
func oneOfMany(t *testing.T, s limits.Store) {
	ctx := context.Background()
	const each, many = 20, 8
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			for n := 0; n < each; {
				texts, err := s.Load(ctx, "count")
				if err != nil {
					t.Error(err)
					return
				}
				old, _ := strconv.Atoi(texts[0])
				done, err := s.Swap(ctx, []limits.Kept{{Key: "count", Text: texts[0]}}, keepFor(time.Hour, "count", strconv.Itoa(old+1)))
				if err != nil {
					t.Error(err)
					return
				}
				if done {
					n++
				}
			}
		})
	}
	all.Wait()
	wantText(t, s, "count", strconv.Itoa(each*many))
}

// allOrNone has two records changed together by many at once: whoever looks sees both alike.
func allOrNone(t *testing.T, s limits.Store) {
	ctx := context.Background()
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 30 {
				text := fmt.Sprintf("%d.%d", n, i)
				if _, err := s.Swap(ctx, nil, keepFor(time.Hour, "left", text), keepFor(time.Hour, "right", text)); err != nil {
					t.Error(err)
				}
				texts, err := s.Load(ctx, "left", "right")
				if err != nil || texts[0] != texts[1] {
					t.Errorf("got %q %v, want both alike", texts, err)
				}
			}
		})
	}
	all.Wait()
}

func keptSecret(t *testing.T, s limits.Store) {
	ctx := context.Background()
	for i, offered := range []string{"first\x00with any bytes\xff", "second"} {
		if got, err := limits.KeptSecret(ctx, s, "s", []byte(offered)); err != nil || string(got) != "first\x00with any bytes\xff" {
			t.Errorf("instance %d: got %q %v, want the first", i, got, err)
		}
	}
	if got, err := limits.KeptSecret(ctx, s, "other", []byte("o")); err != nil || string(got) != "o" {
		t.Errorf("another one: got %q %v", got, err)
	}
	if _, err := limits.KeptSecret(ctx, s, "s", nil); err == nil {
		t.Error("an empty secret was taken")
	}
	mustSwap(t, s, nil, limits.Change{Key: "secret:other"})
	if err := limits.RenewSecret(ctx, s, "other", []byte("o")); err != nil {
		t.Error(err)
	}
	wantText(t, s, "secret:other", "o")
	if err := limits.RenewSecret(ctx, s, "other", []byte("p")); !errors.Is(err, limits.ErrSecretChanged) {
		t.Errorf("got %v, want %v", err, limits.ErrSecretChanged)
	}
}
