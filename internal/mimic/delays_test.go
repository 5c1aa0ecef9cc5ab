package mimic

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// distance is that of Kolmogorov and Smirnov: the largest difference of the shares of two samples below any time.
func distance(a, b []time.Duration) float64 {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	i, j, most := 0, 0, 0.0
	for i < len(a) && j < len(b) {
		at := min(a[i], b[j])
		for i < len(a) && a[i] == at {
			i++
		}
		for j < len(b) && b[j] == at {
			j++
		}
		most = max(most, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return most
}

// backends are the ways in which wrong passwords take their time.
func backends(r *rand.Rand) map[string]func() time.Duration {
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	normal := func(mean, deviation float64) float64 { return max(mean/2, mean+deviation*r.NormFloat64()) }
	return map[string]func() time.Duration{
		"a steady hash":       func() time.Duration { return ms(normal(60, 0.5)) },
		"a busy machine":      func() time.Duration { return ms(20 * math.Exp(0.7*r.NormFloat64())) },
		"anything in a range": func() time.Duration { return ms(20 + 80*r.Float64()) },
		"unknown names are quicker": func() time.Duration {
			if r.IntN(3) == 0 {
				return ms(normal(2, 0.1))
			}
			return ms(normal(80, 1))
		},
		"a throttle": func() time.Duration { return ms(float64(200*r.IntN(5))) + ms(normal(30, 3)) },
	}
}

// 1000 wrong passwords, and then 1000 refusals, in virtual time: nobody can tell which is which by the time they take.
func TestSameTime(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(backends(nil))) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			backend := backends(r)[name]
			synctest.Test(t, func(t *testing.T) {
				b := learning(t, Config{Random: r.Float64})
				d := NewDelayer(0)
				var real, refused []time.Duration
				for i := range 2000 {
					start := time.Now()
					time.Sleep(backend())
					took := time.Since(start)
					s := login(raw(jsonFailure), uint64(i), 1)
					s.Took = took
					b.Observe(key, s)
					if i >= 1000 { // the first thousand are what was there before
						real = append(real, took)
					}
				}
				for range 1000 {
					start := time.Now()
					time.Sleep(100 * time.Microsecond) // deciding
					if !d.Wait(t.Context(), start, b.Delay(key)) {
						t.Fatal("not delayed")
					}
					refused = append(refused, time.Since(start))
				}
				if got := distance(real, refused); got >= 0.1 {
					t.Errorf("got a distance of %.3f, want less than 0.1", got)
				}
			})
		})
	}
}

// The same with refusals for fresh answers, of which none was seen.
func TestSameTimeAsFresh(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(backends(nil))) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			backend := backends(r)[name]
			var all delays
			for range 3000 {
				all.add(backend())
			}
			var real, refused []time.Duration
			for range 1000 {
				real = append(real, backend())
				refused = append(refused, all.draw(r.Float64(), r.Float64()))
			}
			if got := distance(real, refused); got >= 0.1 {
				t.Errorf("got a distance of %.3f, want less than 0.1", got)
			}
		})
	}
}

func TestDelayFollowsTheBackend(t *testing.T) {
	b := learning(t, Config{})
	other := key
	other.Kind = 5
	unknown := key
	unknown.Policy = "other"
	within := func(k Key, low, high time.Duration) {
		t.Helper()
		for range 100 {
			if got := b.Delay(k); got < low || got > high {
				t.Fatalf("got a delay of %v, want %v to %v", got, low, high)
			}
		}
	}
	see := func(k Key, n int, took time.Duration) {
		for range n {
			b.Observe(k, Sample{Answer: raw(jsonFailure), Took: took})
		}
	}
	within(key, 50*time.Millisecond, 150*time.Millisecond) // nothing known
	see(key, 3, 0)
	within(key, 50*time.Millisecond, 150*time.Millisecond)
	see(key, fewDelays-1, 10*time.Millisecond)
	within(other, 10*time.Millisecond, 10*time.Millisecond) // that of the policy
	see(other, 1, 20*time.Millisecond)
	within(key, 5*time.Millisecond, 25*time.Millisecond)
	see(key, 1, 10*time.Millisecond)
	within(key, 10*time.Millisecond, 10*time.Millisecond) // its own
	within(unknown, 50*time.Millisecond, 150*time.Millisecond)
	see(key, maxDelays+sortEvery, time.Hour) // the backend has changed
	within(key, maxDelay, maxDelay)
	if got := len(b.entries[key].Value.(*entry).delays.recent); got != maxDelays {
		t.Errorf("got %d times remembered, want %d", got, maxDelays)
	}
}

// A gap between two groups of times stays empty, and no time is repeated exactly more often than it was there.
func TestDraw(t *testing.T) {
	var d delays
	for i := range 50 {
		d.add(time.Duration(1000+10*i) * time.Microsecond)
		d.add(time.Duration(90000+100*i) * time.Microsecond)
	}
	r := rand.New(rand.NewPCG(5, 6))
	seen := make(map[time.Duration]int)
	for range 1000 {
		got := d.draw(r.Float64(), r.Float64())
		if seen[got]++; got < 995*time.Microsecond || got > 1495*time.Microsecond && got < 89950*time.Microsecond || got > 94950*time.Microsecond {
			t.Fatalf("got %v, want something near the times seen", got)
		}
	}
	if len(seen) < 950 {
		t.Errorf("got %d different times in 1000, want nearly all different", len(seen))
	}
	for _, u := range []float64{0, 0.5, math.Nextafter(1, 0)} {
		var one delays
		one.add(time.Second)
		if got := one.draw(u, u); got != time.Second {
			t.Errorf("got %v from a single time, want 1s", got)
		}
	}
}

func TestDelayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDelayer(2)
		start := time.Now()
		took := func(ctx context.Context, total time.Duration) (time.Duration, bool) {
			began := time.Now()
			delayed := d.Wait(ctx, start, total)
			return time.Since(began), delayed
		}
		time.Sleep(30 * time.Millisecond)
		if got, ok := took(t.Context(), 100*time.Millisecond); got != 70*time.Millisecond || !ok {
			t.Errorf("got %v %v, want what is left of 100ms", got, ok)
		}
		if got, ok := took(t.Context(), 100*time.Millisecond); got != 0 || !ok {
			t.Errorf("got %v %v, want nothing left", got, ok)
		}

		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { d.Wait(ctx, time.Now(), time.Minute) })
		}
		synctest.Wait()
		if got := d.Waiting(); got != 2 {
			t.Errorf("got %d waiting, want 2", got)
		}
		if got, ok := took(t.Context(), time.Hour); got != 0 || ok {
			t.Errorf("got %v %v, want no delay when the room is full", got, ok)
		}
		if got := d.Dropped(); got != 1 {
			t.Errorf("got %d dropped, want 1", got)
		}
		began := time.Now()
		cancel() // they have hung up
		wg.Wait()
		if got := time.Since(began); got != 0 || d.Waiting() != 0 {
			t.Errorf("got %v and %d waiting after the clients are gone, want nothing", got, d.Waiting())
		}
		if got := d.late.Load(); got != 0 {
			t.Errorf("got timers late by %dns in virtual time, want 0", got)
		}
	})
}

// Timers that fire late are set early, within reason.
func TestDelayerLate(t *testing.T) {
	var d Delayer
	for range 200 {
		d.learn(400 * time.Microsecond)
	}
	if got := time.Duration(d.late.Load()); got < 390*time.Microsecond || got > 400*time.Microsecond {
		t.Errorf("got %v, want about 400µs", got)
	}
	for range 200 {
		d.learn(time.Second) // the machine was busy
	}
	if got := time.Duration(d.late.Load()); got > 2*time.Millisecond {
		t.Errorf("got %v, want at most 2ms", got)
	}
	synctest.Test(t, func(t *testing.T) {
		d := NewDelayer(0)
		d.late.Store(int64(time.Millisecond))
		start := time.Now()
		d.Wait(t.Context(), start, 10*time.Millisecond)
		if got := time.Since(start); got != 9*time.Millisecond {
			t.Errorf("got %v, want the timer 1ms earlier", got)
		}
		d.Wait(t.Context(), time.Now(), time.Microsecond)
		if got := time.Since(start); got != 9*time.Millisecond {
			t.Errorf("got %v, want no wait for less than timers can tell", got)
		}
	})
}
