// Package proxy is the way of a request: who sent it, which policies cover it, whom it is about, whether it may
// pass, what the backend answered, and what that costs.
package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"authgate/limits"
)

// Handler is the gateway's public face, an [http.Handler]. Use [NewHandler]. A new plan may be swapped in at any time;
// requests under way keep the one they began with.
type Handler struct {
	plan    atomic.Pointer[Plan]
	limiter *limits.Limiter
	mode    limits.Switchboard
	events  Events
	record  Record
	traces  Traces // nil: none are made
	near    bool
	log     *slog.Logger
	looks   *Looks
	orphans slots

	throttles sparing // refused logins that were taken down lately

	closing  context.Context // done when the handler is closed
	end      context.CancelFunc
	switched sync.WaitGroup // connections that speak another protocol now
}

// Deps is what a handler works with. All fields are required but Near and Traces.
type Deps struct {
	Limiter *limits.Limiter
	Mode    limits.Switchboard // the kill switch
	Looks   *Looks
	Events  Events
	Record  Record // of events that somebody may want to prove later
	Traces  Traces // may be nil: none are made
	Log     *slog.Logger

	// Near says that the store answers within this process: nothing is gained by not waiting for it.
	Near bool
}

// maxOrphans bounds the upstream calls that go on although their client has hung up [L9].
const maxOrphans = 256

// NewHandler makes a handler that serves by plan.
func NewHandler(plan *Plan, d Deps) *Handler {
	h := &Handler{limiter: d.Limiter, mode: d.Mode, looks: d.Looks, events: d.Events, record: d.Record, traces: d.Traces, near: d.Near, log: d.Log, orphans: newSlots(maxOrphans)}
	h.closing, h.end = context.WithCancel(context.Background())
	h.plan.Store(plan)
	return h
}

// Swap makes requests from now on follow another plan.
func (h *Handler) Swap(plan *Plan) { h.plan.Store(plan) }

// Drain waits until connections that were switched to another protocol have ended by themselves, or ctx is done.
func (h *Handler) Drain(ctx context.Context) {
	ended := make(chan struct{})
	go func() { h.switched.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// Close ends what a server's shutdown does not know: connections that were switched to another protocol, and calls to the
// backend that go on without their client. It returns when the former are closed.
func (h *Handler) Close() {
	h.end()
	h.switched.Wait()
}

// Plan is the plan in force.
func (h *Handler) Plan() *Plan { return h.plan.Load() }

// ServeHTTP takes one request from its arrival to its answer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.begin(w, r)
	defer x.end()
	if err := x.serve(); err != nil {
		x.fail(err)
	}
}

// serve is the whole way of a request. Each step leaves what the next one needs in the exchange.
func (x *exchange) serve() error {
	if err := x.resolveClient(); err != nil { // who sent it
		return err
	}
	if own(x.r) {
		return x.serveOwn()
	}
	if err := x.understand(); err != nil { // which policies, and whom it is about
		return err
	}
	if len(x.covers) == 0 {
		return x.forward()
	}
	refused, err := x.decide() // may it
	if err != nil {
		return err
	}
	if refused != nil {
		return x.refuse(refused)
	}
	return x.forward() // what came back, and settling it
}

// understand is the part of the way that only looks at the request; explaining one goes it as well.
func (x *exchange) understand() error {
	if x.r.Method == http.MethodConnect || x.r.Method == "PRI" { // a tunnel, or the beginning of HTTP/2 by another name
		return failure{status: http.StatusMethodNotAllowed, code: "method_not_allowed"}
	}
	if err := x.matchPolicies(); err != nil || len(x.covers) == 0 {
		return err
	}
	return x.identify()
}

// decide asks the limiter. The result is the refusal that the client is told about, or nil.
func (x *exchange) decide() (*refusal, error) {
	x.asked = time.Now()
	attempt := x.attempt()
	if len(attempt.Charges) == 0 {
		return nil, nil
	}
	d, reservation, err := x.h.limiter.Decide(x.r.Context(), attempt, x.pendingWait())
	x.storeTook = time.Since(x.asked)
	x.h.events.Decided(x.storeTook)
	if x.r.Context().Err() != nil {
		reservation.Release()
		return nil, errClientGone
	}
	if err != nil {
		return nil, failure{status: http.StatusServiceUnavailable, code: "unavailable", retryAfter: retryUnavailable, cause: err}
	}
	x.reservation, x.known = reservation, d.Known
	x.report(attempt, &d)
	if d.Admitted {
		return nil, nil
	}
	return x.refusalOf(attempt, &d), nil
}
