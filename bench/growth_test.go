package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/internal/valkeytest"
	"authgate/limits"
	"authgate/limits/memstore"
	"authgate/limits/valkeystore"
)

// sizes are how many buckets are alive. GROWTH=10000000 adds the largest, which takes minutes, and gigabytes of memory.
func sizes() []int {
	list := []int{1_000, 10_000, 100_000, 1_000_000}
	if most, err := strconv.Atoi(os.Getenv("GROWTH")); err == nil && most > list[len(list)-1] {
		list = append(list, most)
	}
	return list
}

// bucketOf is the attempt of one of many people, who have an hour: their buckets stay alive.
func bucketOf(r *limits.Rule, scope limits.Scope, i int) *limits.Attempt {
	return &limits.Attempt{Charges: []limits.Charge{{Rule: r, Key: scope.Key(fmt.Sprintf("user%d@example.com", i))}}}
}

// fill makes so many live buckets, by many callers at once.
func fill(b *testing.B, s limits.Store, r *limits.Rule, from, to int) {
	scope := limits.NewScope(r, "default")
	const callers = 64
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := from + c; i < to; i += callers {
				if d, err := s.Decide(context.Background(), bucketOf(r, scope, i)); err != nil || !d.Admitted {
					b.Errorf("filling: got %v, %v", d, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkGrowth shows what a decision costs, and what a bucket weighs, with ever more of them alive: one target rule, a fixed window
// of an hour. The metric bytes/bucket is what the store grew by.
func BenchmarkGrowth(b *testing.B) {
	r := &limits.Rule{Policy: "mail", Dimension: limits.Target, Limit: 100_000, Window: time.Hour}
	scope := limits.NewScope(r, "default")
	ask := func(b *testing.B, s limits.Store, n int) {
		b.ResetTimer()
		step := 1
		for i := range b.N {
			step = (step*1103515245 + 12345) & 0x7fffffff
			if d, err := s.Decide(context.Background(), bucketOf(r, scope, step%n)); err != nil || !d.Admitted {
				b.Fatalf("decision %d: got %v, %v", i, d, err)
			}
		}
	}
	b.Run("memory", func(b *testing.B) {
		s := memstore.New(memstore.Config{MaxEntries: 15_000_000})
		defer s.Close()
		before, done := heap(), 0
		for _, n := range sizes() {
			fill(b, s, r, done, n)
			done = n
			weight := float64(heap()-before) / float64(n)
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				ask(b, s, n)
				b.ReportMetric(weight, "bytes/bucket")
			})
		}
	})
	b.Run("valkey", func(b *testing.B) {
		v := valkeytest.Start(b)
		s, err := valkeystore.New(valkeystore.Config{Addresses: []string{v.Addr()}, Timeout: 10 * time.Second}, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		<-s.Probed()
		before, done := used(v), 0
		for _, n := range sizes() {
			fill(b, s, r, done, n)
			done = n
			weight := float64(used(v)-before) / float64(n)
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				ask(b, s, n)
				b.ReportMetric(weight, "bytes/bucket")
			})
		}
	})
}

// BenchmarkFlood shows what a gateway's local store weighs while strangers invent names: the default bound, and so many targets that
// nobody asks for twice. The metric is what its heap grew by.
func BenchmarkFlood(b *testing.B) {
	r := &limits.Rule{Policy: "mail", Dimension: limits.Target, Limit: 5, Window: time.Hour}
	before := heap()
	s := memstore.New(memstore.Config{MaxEntries: 1_000_000})
	defer s.Close()
	names := sizes()[len(sizes())-1]
	done := 0
	for part := 1; part <= 5; part++ {
		fill(b, s, r, done, names/5*part)
		done = names / 5 * part
		b.Logf("%d names: %d MiB in use, %d buckets", done, (heap()-before)>>20, s.Stats().Entries)
	}
	b.ReportMetric(float64((heap()-before)>>20), "MiB")
	b.ReportMetric(float64(s.Stats().Entries), "buckets")
}

// heap is what is in use, garbage aside.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// used is what Valkey has in use.
func used(v *valkeytest.Server) int64 {
	info, _ := v.Do("INFO", "memory").(string)
	_, rest, _ := strings.Cut(info, "used_memory:")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
