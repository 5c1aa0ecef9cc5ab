package device

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/valkeytest"
	"authgate/limits/memstore"
	"authgate/limits/valkeystore"
)

// Many at once, over each store: the bounds hold, facts and lists agree, and nothing that was done is lost.
func TestCrowdInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Config{MaxEntries: 1 << 20})
		defer s.Close()
		crowd(t, func() *world { return newWorld(t, s) })
	})
}

func TestCrowdInValkey(t *testing.T) {
	server := valkeytest.Start(t)
	s, err := valkeystore.New(valkeystore.Config{Addresses: []string{server.Addr()}, Timeout: 20 * time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	<-s.Probed()
	crowd(t, func() *world { return newWorld(t, s) })
}

func crowd(t *testing.T, open func() *world) {
	everybody(t, open())
	nothingIsLost(t, open())
}

const actors = 24

// together runs an actor's part in all of them at once.
func together(part func(n int, r *rand.Rand)) {
	var all sync.WaitGroup
	for n := range actors {
		all.Go(func() { part(n, rand.New(rand.NewPCG(1, uint64(n)))) })
	}
	all.Wait()
}

// pool is the browsers of all actors.
type pool struct {
	mu  sync.Mutex
	ids []ID
}

func (p *pool) add(id ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids = append(p.ids, id)
}

// some are up to three of the latest.
func (p *pool) some(r *rand.Rand) (ids []ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range min(r.IntN(4), len(p.ids)) {
		ids = append(ids, p.ids[len(p.ids)-1-r.IntN(min(len(p.ids), 40))])
	}
	return ids
}

// everybody does everything to a few users at once.
func everybody(t *testing.T, w *world) {
	var browsers pool
	together(func(_ int, r *rand.Rand) {
		for range 40 {
			u := User{realm, fmt.Sprint("user", r.IntN(14)), fmt.Sprint("s", r.IntN(2))}
			seen := browsers.some(r)
			var err error
			switch r.IntN(20) {
			case 0:
				_, err = w.RevokeUser(t.Context(), u.Realm, u.Target)
			case 1:
				for _, id := range seen {
					_, err = w.Revoke(t.Context(), u.Realm, id.Public())
				}
			case 2, 3:
				for _, id := range seen {
					_, err = w.Doubt(t.Context(), u, id)
				}
			case 4:
				_, _, err = w.List(t.Context(), u.Realm, "", "", 5)
			default:
				var id ID
				if id, _, err = w.Trust(t.Context(), u, seen); err == nil {
					browsers.add(id)
				}
			}
			if err != nil && !errors.Is(err, errBusy) {
				t.Error(err)
			}
		}
	})
	w.check()
	if len(w.list("")) == 0 {
		t.Error("nobody is trusted after all")
	}
	for _, id := range browsers.ids {
		if _, err := w.Revoke(t.Context(), realm, id.Public()); err != nil {
			t.Error(err)
		}
	}
	w.check()
	if left := w.list(""); len(left) != 0 {
		t.Errorf("%d devices are left after all were revoked", len(left))
	}
}

// nothingIsLost has all do the same to one user.
func nothingIsLost(t *testing.T, w *world) {
	var mu sync.Mutex
	var ids []ID
	together(func(int, *rand.Rand) {
		id, added, err := w.Trust(t.Context(), bob("bob"), nil)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil && !added:
			t.Error("a browser without cookies was known")
		case err == nil:
			ids = append(ids, id)
		case !errors.Is(err, errBusy):
			t.Error(err)
		}
	})
	for _, id := range ids {
		w.wantKnown("of all at once", id, bob("bob"), "exact")
	}
	if got := len(w.list("bob")); got != len(ids) || got < actors/2 {
		t.Errorf("got %d devices of %d successes", got, len(ids))
	}

	failures := 0
	together(func(int, *rand.Rand) {
		_, err := w.Doubt(t.Context(), bob("bob"), ids[0])
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			failures++
		} else if !errors.Is(err, errBusy) {
			t.Error(err)
		}
	})
	counted := slices.IndexFunc(w.list("bob"), func(e Entry) bool { return e.ID == ids[0].Public() && e.Failures == failures })
	if counted < 0 {
		t.Errorf("got list %v, want %d failures of %s", w.list("bob"), failures, ids[0].Public())
	}
	w.check()
}
