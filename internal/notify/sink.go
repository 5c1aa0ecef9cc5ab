package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// sink takes events to a webhook, one after another, in their order. What waits is bounded; what finds no room is lost.
type sink struct {
	hook *Webhook
	log  *slog.Logger
	lost func()

	queue   chan []byte
	missing atomic.Int64 // lost since the last delivery

	once    sync.Once
	closing chan struct{} // closed: nothing waits any more
	cancel  context.CancelFunc
	done    chan struct{}
}

const (
	maxQueued = 1000
	maxEvent  = 8 << 10 // bytes; with maxQueued, at most 8 MB wait
	// keepTrying bounds the time that one event may hold up those behind it.
	keepTrying = 15 * time.Minute
	// drainWithin bounds the wait for the last events at the end.
	drainWithin = 2 * time.Second
)

func newSink(hook *Webhook, log *slog.Logger, lost func()) *sink {
	if lost == nil {
		lost = func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &sink{
		hook: hook, log: log, lost: lost, cancel: cancel,
		queue: make(chan []byte, maxQueued), closing: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run(ctx)
	return s
}

// put adds an event. It never waits.
func (s *sink) put(event []byte) {
	if len(event) > maxEvent {
		s.lose("the event is too large")
		return
	}
	select {
	case s.queue <- event:
	default:
		s.lose("too many events are waiting")
	}
}

func (s *sink) run(ctx context.Context) {
	defer close(s.done)
	for {
		select {
		case <-s.closing:
			s.drain(ctx)
			return
		case event := <-s.queue:
			s.deliver(ctx, event)
		}
	}
}

// drain delivers what is left at the end; deliver tries only once now.
func (s *sink) drain(ctx context.Context) {
	for {
		select {
		case event := <-s.queue:
			s.deliver(ctx, event)
		default:
			return
		}
	}
}

// deliver posts an event until that succeeds, is no use, or has taken too long.
func (s *sink) deliver(ctx context.Context, event []byte) {
	delivery, until := rand.Text(), time.Now().Add(keepTrying)
	for failures := 1; ; failures++ {
		err := s.hook.Post(ctx, delivery, event)
		if err == nil {
			if n := s.missing.Swap(0); n > 0 {
				s.log.LogAttrs(ctx, slog.LevelWarn, "audit webhook recovered", slog.Int64("lost", n))
			}
			return
		}
		var f *Failure
		final := errors.As(err, &f) && f.Final
		pause := Backoff(failures)
		if final || time.Now().Add(pause).After(until) || !s.wait(pause) {
			s.lose(err.Error())
			return
		}
	}
}

// wait reports whether the pause is over before the end has come.
func (s *sink) wait(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.closing:
		return false
	}
}

// lose counts an event that will not be delivered, and says so once until one is.
func (s *sink) lose(cause string) {
	s.lost()
	if s.missing.Add(1) == 1 {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "audit webhook loses events", slog.String("cause", cause))
	}
}

// close delivers what is left, for a moment, and ends. It may be called again.
func (s *sink) close() {
	s.once.Do(func() { close(s.closing) })
	timer := time.NewTimer(drainWithin)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
	}
	s.cancel()
	<-s.done
}
