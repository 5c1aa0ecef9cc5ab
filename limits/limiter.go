package limits

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter is what a request talks to: it asks a [Store], lets requests wait where only the verdicts of others are
// missing [L8], keeps the leases of those in flight alive [L6], and settles what came of them. Use [NewLimiter].
type Limiter struct {
	store  Store
	room   waitingRoom
	leases leases
	open   sync.WaitGroup // settlements and renewals under way
}

// NewLimiter makes a limiter over a store, which it does not own.
func NewLimiter(store Store) *Limiter {
	return &Limiter{store: store, room: waitingRoom{beds: make(map[string]*bed)}}
}

// Decide answers the attempt. If only live reservations are in the way it asks again, as a whole new decision, for up
// to wait. An admitted attempt with failure rules comes with a [Reservation], which the caller must settle or
// release; otherwise that is nil, whose methods do nothing. An error wraps [ErrUnavailable]: there is no decision.
func (l *Limiter) Decide(ctx context.Context, a *Attempt, wait time.Duration) (Decision, *Reservation, error) {
	reserves := a.Reserves()
	if reserves && a.ID == 0 {
		a.ID = newID()
	}
	d, err := l.store.Decide(ctx, a)
	if err == nil && !d.Admitted && wait > 0 && d.HeldOnly(a) {
		d, err = l.wait(ctx, a, d, wait)
	}
	if err != nil || !d.Admitted || !reserves {
		return d, nil, err
	}
	part := a.applying(d.Known)
	if part != a && !part.Reserves() {
		return d, nil, nil
	}
	r := &Reservation{limiter: l, attempt: part, alone: d.Alone, known: d.Known}
	l.leases.keep(r)
	return d, r, nil
}

// Records are what the store keeps beside the buckets.
func (l *Limiter) Records() Records { return l.store }

// Locks list and release failure buckets.
func (l *Limiter) Locks() Locks { return l.store }

// Go runs what nobody waits for but Wait.
func (l *Limiter) Go(f func()) {
	l.open.Add(1)
	go func() {
		defer l.open.Done()
		f()
	}()
}

// Wait blocks until the settlements and renewals under way are done, or ctx is.
func (l *Limiter) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { l.open.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newID is never 0, which stands for no reservation.
func newID() uint64 { return rand.Uint64() | 1<<63 }

// Pauses between two questions of a waiting request, unless a settlement here wakes it earlier [L8].
const (
	firstPause = 25 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// wait asks again and again until something else than a live reservation is the answer, or the time is over.
func (l *Limiter) wait(ctx context.Context, a *Attempt, d Decision, most time.Duration) (Decision, error) {
	over := time.NewTimer(most)
	defer over.Stop()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		key := a.Charges[firstHeld(a, &d)].Key
		woken, ok := l.room.enter(key)
		if !ok {
			return d, nil
		}
		again := time.NewTimer(pause/2 + rand.N(pause/2))
		last := false
		select {
		case <-woken:
		case <-again.C:
		case <-over.C:
			last = true
		case <-ctx.Done():
			last = true
		}
		again.Stop()
		l.room.leave(key)
		if ctx.Err() != nil {
			return d, nil
		}
		var err error
		if d, err = l.store.Decide(ctx, a); err != nil || d.Admitted || last || !d.HeldOnly(a) {
			return d, err
		}
	}
}

func firstHeld(a *Attempt, d *Decision) int {
	for _, r := range d.Refusals {
		if !a.Charges[r.Charge].LogOnly {
			return r.Charge
		}
	}
	return 0 // not reached: the caller knows that one is held
}

// Reservation is an admitted attempt whose verdict is not known yet. It ends by Settle or Release; whichever
// comes first counts, the rest does nothing. The nil Reservation does nothing at all.
type Reservation struct {
	limiter *Limiter
	attempt *Attempt // without the charges that take no part
	alone   bool
	known   uint32

	over  atomic.Bool
	lease lease
}

// Settle closes the account, whatever becomes of the request, and calls done, if not nil, with what came of it.
// Closings of other charges than the attempt's own are the caller's mistake.
func (r *Reservation) Settle(s *Settlement, done func(Settled)) {
	if r == nil || !r.end() {
		return
	}
	r.limiter.open.Add(1)
	r.settle(s, done)
}

// SettleLater is Settle off the caller's way, for verdicts that nobody waits for.
func (r *Reservation) SettleLater(s *Settlement, done func(Settled)) {
	if r == nil || !r.end() {
		return
	}
	r.limiter.open.Add(1)
	go r.settle(s, done)
}

func (r *Reservation) settle(s *Settlement, done func(Settled)) {
	l := r.limiter
	defer l.open.Done()
	s.ID, s.Alone = r.attempt.ID, r.alone
	out, err := l.store.Settle(context.Background(), s)
	l.room.wake(s.Closings)
	if err == nil && done != nil {
		done(out)
	}
}

// Attempt is what was admitted, without the charges that took no part; nil for the nil Reservation.
func (r *Reservation) Attempt() *Attempt {
	if r == nil {
		return nil
	}
	return r.attempt
}

// Known is what the decision knew of the attempt's facts; 0 for the nil Reservation. See [Decision.Known].
func (r *Reservation) Known() uint32 {
	if r == nil {
		return 0
	}
	return r.known
}

// Release gives every slot back: the attempt was never sent [L9].
func (r *Reservation) Release() {
	if r == nil || !r.end() {
		return
	}
	r.limiter.open.Add(1)
	go r.settle(r.attempt.Release(), nil)
}

// end reports whether this call is the one that ends the reservation.
func (r *Reservation) end() bool {
	if !r.over.CompareAndSwap(false, true) {
		return false
	}
	r.limiter.leases.drop(r)
	return true
}

// Bounds of the waiting room [L8].
const (
	maxWaiters       = 1024
	maxBucketWaiters = 64
)

// waitingRoom wakes requests that wait for a bucket.
type waitingRoom struct {
	mu    sync.Mutex
	beds  map[string]*bed
	total atomic.Int64
}

// bed is where the requests that wait for one bucket lie.
type bed struct {
	wake    chan struct{}
	waiters int
}

// enter takes a place; ok is false when there is none.
func (w *waitingRoom) enter(key string) (woken <-chan struct{}, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.beds[key]
	if w.total.Load() >= maxWaiters || (b != nil && b.waiters >= maxBucketWaiters) {
		return nil, false
	}
	if b == nil {
		b = &bed{wake: make(chan struct{})}
		w.beds[key] = b
	}
	b.waiters++
	w.total.Add(1)
	return b.wake, true
}

func (w *waitingRoom) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total.Add(-1)
	b := w.beds[key]
	if b.waiters--; b.waiters == 0 {
		delete(w.beds, key)
	}
}

// wake wakes whoever waits for one of the buckets. A bed stays until its last waiter has left.
func (w *waitingRoom) wake(closings []Closing) {
	if w.total.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range closings {
		if b := w.beds[closings[i].Key]; b != nil {
			close(b.wake)
			b.wake = make(chan struct{})
		}
	}
}
