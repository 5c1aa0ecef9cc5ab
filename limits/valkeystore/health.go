package valkeystore

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/limits"
)

// health is the breaker, and what is known of the server's clock. While the breaker is open nobody asks the server
// but the probe, so a request never waits for a server that is known to be out [S4].
type health struct {
	store *Store

	isOpen   atomic.Bool
	failures atomic.Int32 // in a row
	clock    atomic.Pointer[reading]
	until    atomic.Int64 // log-only until then, in the server's time
	now      chan struct{}
	probed   chan struct{} // closed after the first probe

	mu     sync.Mutex // of changes of isOpen, so that the log tells them in order
	warned bool       // of an eviction policy that forgets locks
}

// reading is the server's clock as it was read once.
type reading struct {
	server limits.Millis
	at     time.Time // with the monotonic clock, so that a step of the local one does no harm
}

const (
	// tripAfter is how many operations in a row must fail before the server is taken to be out: one slow call is
	// no outage, and three budgets are soon over.
	tripAfter = 3
	// probeEvery is how often the clock is read and an outage is checked to be over.
	probeEvery = time.Second
	probeOpen  = 200 * time.Millisecond
)

// newHealth starts open: the first probe, made at once, closes it.
func newHealth(s *Store) *health {
	h := &health{store: s, now: make(chan struct{}, 1), probed: make(chan struct{})}
	h.isOpen.Store(true)
	return h
}

func (h *health) open() bool { return h.isOpen.Load() }

func (h *health) answered() {
	if h.failures.Load() != 0 {
		h.failures.Store(0)
	}
}

func (h *health) failed(cause error) {
	if h.failures.Add(1) >= tripAfter {
		h.set(true, cause)
	}
}

// back closes an open breaker, after what was recorded meanwhile was brought in.
func (h *health) back(ctx context.Context) {
	if f := h.store.cfg.Events.Returning; f != nil {
		f(ctx)
	}
	if h.open() {
		h.set(false, nil)
	} else {
		h.answered() // a probe that fails now and then is no outage
	}
}

// set opens or closes the breaker, and tells so once.
func (h *health) set(open bool, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isOpen.Load() == open {
		return
	}
	h.isOpen.Store(open)
	if open {
		h.store.cfg.Logger.Error("store degraded", "error", cause)
		h.resync()
	} else {
		h.failures.Store(0)
		h.store.cfg.Logger.Warn("store recovered") // as loud as the way in, so that no level shows half of it
	}
	if f := h.store.cfg.Events.Degraded; f != nil {
		f(open)
	}
}

// resync asks for a probe now.
func (h *health) resync() {
	select {
	case h.now <- struct{}{}:
	default:
	}
}

// run probes the server until ctx is done.
func (h *health) run(ctx context.Context) {
	first := true
	for ctx.Err() == nil {
		err := h.probe(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && first:
			h.isOpen.Store(false) // the usual start is nothing to tell
			h.tell(false)
		case err == nil:
			h.back(ctx)
		case first:
			h.store.cfg.Logger.Error("store degraded", "error", err)
			h.tell(true)
		default:
			h.failed(err)
		}
		if first {
			close(h.probed)
			first = false
		}
		wait := probeEvery
		if h.open() {
			wait = probeOpen + rand.N(probeOpen/4)
		}
		select {
		case <-ctx.Done():
		case <-h.now:
		case <-time.After(wait):
		}
	}
}

func (h *health) tell(open bool) {
	if f := h.store.cfg.Events.Degraded; f != nil {
		f(open)
	}
}

// probe reads the server's clock and the kill switch, and shows that the server can be written to.
func (h *health) probe(ctx context.Context) error {
	c := h.store.client
	ctx, cancel := context.WithTimeout(ctx, max(h.store.cfg.Timeout, 250*time.Millisecond))
	defer cancel()
	sent := time.Now()
	replies := c.DoMulti(
		ctx,
		c.B().Time().Build(),
		c.B().Get().Key(h.store.key(modeKey)).Build(),
		c.B().Set().Key(h.store.key(probeKey)).Value("1").PxMilliseconds(60_000).Build(),
	)
	server, err := serverTime(replies[0])
	if err != nil {
		return err
	}
	took := time.Since(sent)
	h.clock.Store(&reading{server: server, at: sent.Add(took / 2)})
	until, err := replies[1].AsInt64()
	if err != nil && !valkey.IsValkeyNil(err) {
		return err
	}
	h.until.Store(until)
	if err := replies[2].Error(); err != nil {
		return err // out of memory, read-only: an outage as well
	}
	h.checkEviction(ctx)
	return nil
}

func serverTime(reply valkey.ValkeyResult) (limits.Millis, error) {
	parts, err := reply.AsStrSlice()
	if err != nil {
		return 0, err
	}
	var n [2]int64
	for i := range min(len(parts), 2) {
		if n[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return 0, err
		}
	}
	return n[0]*1000 + n[1]/1000, nil
}

// checkEviction warns once if the server would forget locks to make room.
func (h *health) checkEviction(ctx context.Context) {
	if h.warned {
		return
	}
	c := h.store.client
	reply, err := c.Do(ctx, c.B().ConfigGet().Parameter("maxmemory-policy").Build()).AsStrMap()
	if err != nil {
		return // not allowed to ask: nothing to say
	}
	h.warned = true
	if p := reply["maxmemory-policy"]; p != "" && p != "noeviction" {
		h.store.cfg.Logger.Warn("store may evict live buckets: set maxmemory-policy to noeviction", "maxmemory_policy", p)
	}
}

// deadline is the server's time after which a call of that budget made now must do nothing, or 0 while its clock is not known.
func (h *health) deadline(budget time.Duration) limits.Millis {
	if h.store.cfg.Now != nil {
		return 0
	}
	server, ok := h.serverNow()
	if !ok {
		return 0
	}
	return server + budget.Milliseconds() + clockSlack
}

// clockSlack is how far the estimate of the server's clock may be off, in milliseconds.
const clockSlack = 5

func (h *health) serverNow() (limits.Millis, bool) {
	r := h.clock.Load()
	if r == nil {
		return 0, false
	}
	return r.server + time.Since(r.at).Milliseconds(), true
}
