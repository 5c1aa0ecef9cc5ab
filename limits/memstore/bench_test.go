package memstore_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

// wide is a rule that a benchmark does not fill.
func wide(policy string, d limits.Dimension, class limits.Class, burst int) *limits.Rule {
	r := &limits.Rule{Policy: policy, Dimension: d, Class: class, Limit: limits.MaxLimit, Window: time.Hour, Burst: burst}
	if class == limits.Failures {
		r.Limit = limits.MaxFailureLimit
	}
	return r
}

var (
	three = []*limits.Rule{
		wide("p", limits.Source, limits.Requests, limits.MaxLimit), wide("p", limits.Target, limits.Requests, 0), wide("p", limits.App, limits.Requests, 0),
	}
	six = append(three[:3:3],
		wide("p", limits.TargetSource, limits.Failures, 0), wide("p", limits.Source, limits.Failures, 0), wide("p", limits.Subnet, limits.Failures, 0))
)

// BenchmarkDecide is an admission by three request rules, with few and with many buckets in the store [S1].
func BenchmarkDecide(b *testing.B) {
	for _, buckets := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("buckets=%d", buckets), func(b *testing.B) {
			s := memstore.New(memstore.Config{MaxEntries: 4 * buckets})
			defer s.Close()
			values := buckets / len(three)
			for i := range values {
				decide(b, s, attempt(fmt.Sprint(i), three...))
			}
			var scopes []limits.Scope
			for _, r := range three {
				scopes = append(scopes, limits.NewScope(r, "realm"))
			}
			a := attempt("", three...) // made anew each time, so that the attempts themselves are no part of the difference
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				value := strconv.Itoa(i % values)
				for n := range a.Charges {
					a.Charges[n].Key = scopes[n].Key(value)
				}
				if !decide(b, s, a).Admitted {
					b.Fatal("refused")
				}
				i += 7919
			}
		})
	}
}

// BenchmarkDecideSettle is an admission by three request and three failure rules, and its settlement.
func BenchmarkDecideSettle(b *testing.B) {
	s := memstore.New(memstore.Config{MaxEntries: 1 << 16})
	defer s.Close()
	attempts := make([]*limits.Attempt, 1000)
	releases := make([]*limits.Settlement, len(attempts))
	for i := range attempts {
		attempts[i] = attempt(fmt.Sprint(i), six...)
		releases[i] = attempts[i].Release()
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		decide(b, s, attempts[i%len(attempts)])
		if _, err := s.Settle(context.Background(), releases[i%len(attempts)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkRefused is a refusal by a lock.
func BenchmarkRefused(b *testing.B) {
	s := memstore.New(memstore.Config{MaxEntries: 1 << 16})
	defer s.Close()
	fail(b, s, "x", locking)
	a := attempt("x", append(three[:3:3], locking)...)
	b.ReportAllocs()
	for b.Loop() {
		if decide(b, s, a).Admitted {
			b.Fatal("admitted")
		}
	}
}

// BenchmarkMemory reports what a live bucket costs; the bar is 250 bytes.
func BenchmarkMemory(b *testing.B) {
	failures := &limits.Rule{Policy: "p", Dimension: limits.TargetSource, Class: limits.Failures, Limit: 6, Window: time.Hour}
	for name, charge := range map[string]func(s *memstore.Store, value string){
		"window":    func(s *memstore.Store, value string) { decide(b, s, attempt(value, three[1])) },
		"tokens":    func(s *memstore.Store, value string) { decide(b, s, attempt(value, three[0])) },
		"1 failure": func(s *memstore.Store, value string) { fail(b, s, value, failures) },
		"5 failures": func(s *memstore.Store, value string) {
			for range 5 {
				fail(b, s, value, failures)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			const buckets = 200_000
			for b.Loop() {
				before := heap()
				s := memstore.New(memstore.Config{MaxEntries: 2 * buckets})
				for i := range buckets {
					charge(s, fmt.Sprintf("user%06d@example.com", i))
				}
				used := heap() - before
				if got := s.Stats().Entries; got != buckets {
					b.Fatalf("got %d buckets, want %d", got, buckets)
				}
				b.ReportMetric(float64(used)/buckets, "bytes/bucket")
				s.Close()
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkOffice is a login in a crowd of one address: dozens are in flight, and each waits in the same buckets by source, subnet
// and app as all others.
func BenchmarkOffice(b *testing.B) {
	const inFlight = 32 // for each processor
	s := memstore.New(memstore.Config{MaxEntries: 1 << 20})
	defer s.Close()
	rules := make([]*limits.Rule, len(six))
	for i := range six {
		r := *six[i]
		if r.Class == limits.Requests {
			r.Window = time.Millisecond // or it would be full soon
		}
		rules[i] = &r
	}
	attempts := make([]*limits.Attempt, 1<<14)
	for i := range attempts {
		attempts[i] = attempt("198.51.100.7", rules...)
		for n := range attempts[i].Charges {
			if c := &attempts[i].Charges[n]; c.Rule.Dimension == limits.Target || c.Rule.Dimension == limits.TargetSource {
				c.Key = limits.NewScope(c.Rule, "realm").Key(fmt.Sprint(i))
			}
		}
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var open []*limits.Settlement
		for pb.Next() {
			n := next.Add(1)
			a := *attempts[int(n)%len(attempts)]
			a.ID = uint64(n)
			if !decide(b, s, &a).Admitted {
				b.Error("refused")
				return
			}
			if open = append(open, a.Release()); len(open) == inFlight {
				_, _ = s.Settle(context.Background(), open[0])
				open = open[1:]
			}
		}
	})
}
