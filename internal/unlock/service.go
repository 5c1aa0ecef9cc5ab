// Package unlock tells the owner of an account that it is closed to unknown browsers, and opens it to the owner's [D3].
package unlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"authgate/internal/redact"
	"authgate/limits"
)

// Service sends notices and serves the links in them. Notices wait as records of the store: they survive a restart where the
// store does, and of several services on one store one sends each. Use [New]; it is safe for concurrent use.
type Service struct {
	cfg   Config
	owner string // this process, in jobs

	fills   chan fill
	results chan attempted

	once    sync.Once
	closing chan struct{}
	done    chan struct{}
	sending context.Context // of the tries under way
	abort   context.CancelFunc

	// Only the goroutine of work touches these.
	jobs    map[string]job // by key: those of this process that wait or are being sent
	running int            // tries under way
	due     *time.Timer    // of the next try
}

// Config says what is sent, to whom, and how often. All fields but MailboxDomain and Count are required.
type Config struct {
	Records limits.Records
	Way     Way
	// Known reports whether a target is known to exist [M6]: nobody else gets a notice. It may take a moment.
	Known         func(ctx context.Context, realm, target string) (bool, error)
	Link          func(realm string) string // where users reach the gateway, as in "https://auth.example.org"
	MailboxDomain string                    // completes a target that is no mailbox; "": such a target gets no mail
	PerDay        int                       // notices for a user in 24 h, at most
	LinkTTL       time.Duration             // of a link; a notice that cannot be sent that long is given up
	Log           *slog.Logger
	Names         redact.Names
	Audit         func(event, who string, details ...slog.Attr) // as [notify.Audit.Event]
	Count         func(Result)                                  // what became of a notice; nil: nobody counts
}

// Result is what became of a notice.
type Result string

// The results.
const (
	Sent    Result = "sent"
	Failed  Result = "failed"  // refused for good, or given up
	Dropped Result = "dropped" // too many wait, or the store is out
	Unsure  Result = "unsure"  // its process ended while it was being sent; it counts as sent
)

const (
	maxFills   = 1024 // that wait to be looked at
	maxJobs    = 1000 // of this process
	maxSenders = 4    // tries at a time
	maxTarget  = 320  // bytes; a mailbox has at most 254

	storeWithin = 2 * time.Second  // one call to the store
	knownWithin = 5 * time.Second  // one question whether a target is known
	sendWithin  = 30 * time.Second // one try
	adoptEvery  = 15 * time.Second // how often this process looks for jobs that others left
	drainWithin = 3 * time.Second  // for tries under way at the end
	abortWithin = 3 * time.Second  // for what was told to stop
)

// fill is a bucket that filled.
type fill struct {
	claim  Claim
	window time.Duration
}

// New makes a service and starts its work.
func New(cfg Config) (*Service, error) {
	if cfg.Way.send == nil || cfg.Records == nil || cfg.Known == nil || cfg.Link == nil || cfg.Log == nil || cfg.Audit == nil {
		return nil, errors.New("making the unlock service: something is missing")
	}
	if cfg.PerDay < 1 || cfg.LinkTTL <= 0 {
		return nil, fmt.Errorf("making the unlock service: %d notices a day, links for %s", cfg.PerDay, cfg.LinkTTL)
	}
	if cfg.Count == nil {
		cfg.Count = func(Result) {}
	}
	s := &Service{
		cfg: cfg, owner: rand.Text(), jobs: make(map[string]job),
		fills: make(chan fill, maxFills), results: make(chan attempted, maxSenders),
		closing: make(chan struct{}), done: make(chan struct{}), due: time.NewTimer(0),
	}
	s.sending, s.abort = context.WithCancel(context.Background())
	go s.work()
	return s, nil
}

// Filled says that the bucket of untrusted failures of a target, already normalised, has filled; window is the bucket's. The
// owner gets a notice, unless the target is not known or there was one lately. It never waits.
func (s *Service) Filled(realm, policy, target string, window time.Duration) {
	if target == "" || len(target) > maxTarget {
		return // nobody's name
	}
	select {
	case s.fills <- fill{Claim{realm, policy, strings.Clone(target)}, window}: // not the request's buffer
	default:
		s.cfg.Count(Dropped)
	}
}

// Close ends the service. Tries under way get a moment to end; what waits stays in the store, for a service that comes later.
// It takes at most a few seconds.
func (s *Service) Close() {
	s.once.Do(func() { close(s.closing) })
	timer := time.NewTimer(drainWithin + 2*abortWithin)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C: // a store that heeds no context
	}
	s.abort()
}

// work is the one goroutine that decides what happens when.
func (s *Service) work() {
	defer close(s.done)
	adopt := time.NewTimer(0) // at once: an earlier process may have left something
	defer adopt.Stop()
	defer s.due.Stop()
	for {
		select {
		case <-s.closing:
			s.finish()
			return
		case f := <-s.fills:
			s.take(f)
		case r := <-s.results:
			s.settle(r)
		case <-adopt.C:
			s.adopt()
			adopt.Reset(adoptEvery)
		case <-s.due.C:
			s.start()
		}
	}
}

// start begins the tries that are due, as far as there are senders, and sets the time for the next.
func (s *Service) start() {
	now, next := time.Now(), time.Hour
	for key, j := range s.jobs {
		switch {
		case j.Sending:
		case j.at.After(now):
			next = min(next, j.at.Sub(now))
		case s.running < maxSenders:
			s.running++
			j.Sending = true
			s.jobs[key] = j
			go func() { s.results <- s.attempt(j) }()
		}
	}
	s.due.Reset(next)
}

// settle takes note of how a try ended.
func (s *Service) settle(r attempted) {
	s.running--
	if r.over {
		delete(s.jobs, r.job.key())
	} else {
		s.jobs[r.job.key()] = r.job
	}
	s.start()
}

// finish ends the work: fills that wait become jobs in the store, and tries under way end, soon by themselves or else by force.
func (s *Service) finish() {
	timer := time.NewTimer(drainWithin)
	defer timer.Stop()
	for len(s.fills) > 0 {
		select {
		case <-timer.C:
			s.abort()
			return
		case f := <-s.fills:
			s.take(f)
		}
	}
	for _, force := range []bool{false, true} {
		if force {
			s.abort()
			timer.Reset(abortWithin)
		}
		for s.running > 0 {
			select {
			case <-s.results:
				s.running--
				continue
			case <-timer.C:
			}
			break
		}
	}
	s.abort()
}

// skip says, to who looks closely, why there is no notice.
func (s *Service) skip(c Claim, why string) {
	ctx := context.Background()
	if !s.cfg.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	s.cfg.Log.LogAttrs(ctx, slog.LevelDebug, "no unlock notice", slog.String("why", why),
		slog.String("realm", c.Realm), slog.String("policy", c.Policy), s.cfg.Names.Name("target", c.Target))
}
