package limits_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

// renewing notes when each attempt is renewed.
type renewing struct {
	*memstore.Store
	mu    sync.Mutex
	times map[uint64][]time.Time
}

func (s *renewing) Renew(ctx context.Context, a *limits.Attempt) error {
	s.mu.Lock()
	s.times[a.ID] = append(s.times[a.ID], time.Now())
	s.mu.Unlock()
	return s.Store.Renew(ctx, a)
}

// Each of many reservations is renewed after every quarter of its own shortest lease as long as it lives, whatever others begin and
// end meanwhile and in whatever order [L6].
func TestRenewalOfMany(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			store := &renewing{Store: memstore.New(memstore.Config{}), times: map[uint64][]time.Time{}}
			defer store.Close()
			l := limits.NewLimiter(store)
			var wg sync.WaitGroup
			for range 300 {
				begin, life := time.Duration(random.Int64N(int64(2*time.Minute))), time.Duration(random.Int64N(1+random.Int64N(int64(time.Minute))))
				lease := []time.Duration{time.Second, 8 * time.Second, 20 * time.Second, time.Hour}[random.IntN(4)]
				wg.Go(func() {
					time.Sleep(begin)
					r := admit(t, l, attempt("bob", rule(limits.Target, 1000, windowed(lease)), rule(limits.Source, 1000)))
					began := time.Now()
					time.Sleep(life)
					r.Release()
					every := min(max(lease, 5*time.Second), time.Minute) / 4
					store.mu.Lock()
					times := store.times[r.Attempt().ID]
					store.mu.Unlock()
					if want := int(life / every); len(times) != want {
						t.Errorf("renewed %d times in %s, want every %s", len(times), life, every)
					}
					for i, at := range times {
						if want := time.Duration(i+1) * every; at.Sub(began) != want {
							t.Errorf("renewal %d was after %s, want %s", i, at.Sub(began), want)
						}
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			n := renewals(store)
			time.Sleep(time.Hour)
			if got := renewals(store); got != n {
				t.Errorf("%d renewals after the end", got-n)
			}
		})
	}
}

func renewals(s *renewing) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.times {
		n += len(times)
	}
	return n
}

// A reservation that ends while it is being renewed is renewed no more.
func TestEndDuringRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &ending{Store: memstore.New(memstore.Config{})}
		defer store.Close()
		store.reservation.Store(admit(t, limits.NewLimiter(store), attempt("bob", rule(limits.Target, 1))))
		time.Sleep(time.Hour)
		if n := store.renewed.Load(); n != 1 {
			t.Errorf("renewed %d times", n)
		}
	})
}

type ending struct {
	*memstore.Store
	reservation atomic.Pointer[limits.Reservation]
	renewed     atomic.Int32
}

func (s *ending) Renew(ctx context.Context, a *limits.Attempt) error {
	s.renewed.Add(1)
	s.reservation.Load().Release()
	return s.Store.Renew(ctx, a)
}
