package limits

import (
	"context"
	"sync"
	"time"
)

// leases renews what reservations hold in the store as long as they last. There is one timer for all that are renewed equally
// often, and not one for each: nearly all end long before it is their turn.
type leases struct {
	mu     sync.Mutex
	queues []*leaseQueue
}

// leaseQueue is the reservations that are renewed equally often, those whose turn comes first in front. The leases' lock guards
// it.
type leaseQueue struct {
	every       time.Duration
	first, last *Reservation
	timer       *time.Timer
	armed       bool // the timer runs
}

// lease is the place of a reservation in its queue.
type lease struct {
	queue          *leaseQueue // nil: it is in none
	before, behind *Reservation
	due            time.Time
}

// keep renews the leases of a reservation after a quarter of the shortest each time, so that two renewals in a row may be
// lost [L6].
func (l *leases) keep(r *Reservation) {
	every := time.Minute
	for i := range r.attempt.Charges {
		if rule := r.attempt.Charges[i].Rule; rule.Kind() == KindFailures {
			every = min(every, rule.Lease())
		}
	}
	every /= 4
	due := time.Now().Add(every)
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queue(every)
	r.lease = lease{queue: q, before: q.last, due: due}
	if q.last != nil {
		q.last.lease.behind = r
	} else {
		q.first = r
	}
	q.last = r
	q.arm(every)
}

// queue finds the queue of an interval. There are as many as rules have different windows, at most.
func (l *leases) queue(every time.Duration) *leaseQueue {
	for _, q := range l.queues {
		if q.every == every {
			return q
		}
	}
	q := &leaseQueue{every: every}
	l.queues = append(l.queues, q)
	q.timer = time.AfterFunc(every, func() { l.turn(q) })
	q.armed = true
	return q
}

// drop ends the renewal of a reservation.
func (l *leases) drop(r *Reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.lease.queue != nil {
		r.lease.queue.remove(r)
	}
}

// turn renews the leases whose turn has come.
func (l *leases) turn(q *leaseQueue) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	q.armed = false
	for q.first != nil && !q.first.lease.due.After(now) {
		r := q.first
		q.remove(r)
		go r.renew()
	}
	if q.first != nil {
		q.arm(q.first.lease.due.Sub(now))
	}
}

func (q *leaseQueue) arm(after time.Duration) {
	if !q.armed {
		q.armed = true
		q.timer.Reset(after)
	}
}

func (q *leaseQueue) remove(r *Reservation) {
	before, behind := r.lease.before, r.lease.behind
	if before != nil {
		before.lease.behind = behind
	} else {
		q.first = behind
	}
	if behind != nil {
		behind.lease.before = before
	} else {
		q.last = before
	}
	r.lease = lease{}
}

// renew renews the leases of a reservation, and sees to it that this happens again. One that ends meanwhile is found out at its
// next turn.
func (r *Reservation) renew() {
	l := r.limiter
	l.open.Add(1)
	defer l.open.Done()
	if r.over.Load() {
		return
	}
	_ = l.store.Renew(context.Background(), r.attempt) // the next one may work; the store tells of its failures
	l.leases.keep(r)
}
