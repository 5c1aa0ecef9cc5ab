package valkeystore

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/internal/logtest"
	"authgate/internal/valkeytest"
	"authgate/limits"
)

// Tests in real time, against a real server and the real scripts.

// logbook keeps what was logged.
type logbook struct{ logtest.Buffer }

// count is how many lines have the message.
func (l *logbook) count(message string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		var fields struct{ Msg string }
		if json.Unmarshal([]byte(line), &fields) == nil && fields.Msg == message {
			n++
		}
	}
	return n
}

// watched is a store and what it told.
type watched struct {
	*Store
	log      logbook
	mu       sync.Mutex
	degraded []bool
	failed   map[string]int
}

// open makes a store on a server and waits until it knows whether the server answers.
func open(t *testing.T, addr string, change func(*Config)) *watched {
	t.Helper()
	w := &watched{failed: map[string]int{}}
	cfg := Config{
		Addresses: []string{addr},
		Timeout:   valkeytest.Patience, // tests of the budget set their own
		Logger:    slog.New(slog.NewJSONHandler(&w.log, nil)),
		Events: Events{
			Degraded: func(on bool) { w.mu.Lock(); w.degraded = append(w.degraded, on); w.mu.Unlock() },
			Failed:   func(operation string) { w.mu.Lock(); w.failed[operation]++; w.mu.Unlock() },
		},
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if w.Store, err = New(cfg, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	<-w.Probed()
	return w
}

func (w *watched) told() []bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]bool(nil), w.degraded...)
}

func (w *watched) failures(operation string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed[operation]
}

var (
	windowRule = &limits.Rule{Policy: "w", Dimension: limits.Source, Limit: 5, Window: time.Hour}
	tokenRule  = &limits.Rule{Policy: "t", Dimension: limits.Client, Limit: 60, Window: time.Hour, Burst: 5}
	failRule   = &limits.Rule{Policy: "f", Class: limits.Failures, Dimension: limits.Target, Limit: 5, Window: 10 * time.Minute}
	lockRule   = &limits.Rule{
		Policy: "l", Class: limits.Failures, Dimension: limits.TargetSource, Limit: 1, Window: time.Hour,
		Lockout: limits.Lockout{Base: limits.MaxLockout, Max: limits.MaxLockout},
	}
	signalRule = &limits.Rule{Policy: "s", Class: limits.Failures, Dimension: limits.Source, Limit: 5, Window: time.Hour, Signal: true}
)

var ids atomic.Uint64

// attempt is an attempt on the bucket of value of each rule.
func attempt(value string, rules ...*limits.Rule) *limits.Attempt {
	a := &limits.Attempt{ID: ids.Add(1)}
	for _, r := range rules {
		a.Charges = append(a.Charges, limits.Charge{Rule: r, Key: limits.NewScope(r, "realm").Key(value)})
	}
	return a
}

// admit makes an attempt that must be admitted.
func (w *watched) admit(t *testing.T, a *limits.Attempt) {
	t.Helper()
	if d, err := w.Decide(context.Background(), a); err != nil || !d.Admitted {
		t.Fatalf("got %+v %v, want it admitted", d, err)
	}
}

// settleAll closes all failure buckets and signals of an attempt in one way.
func (w *watched) settleAll(t *testing.T, a *limits.Attempt, do limits.Action) limits.Settled {
	t.Helper()
	st := &limits.Settlement{ID: a.ID}
	for _, c := range a.Charges {
		if c.Rule.Class != limits.Requests {
			st.Closings = append(st.Closings, limits.Closing{Rule: c.Rule, Key: c.Key, Do: do})
		}
	}
	out, err := w.Settle(context.Background(), st)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// keys are all keys of the server, with how long they live on in ms (-1: for ever).
func keys(s *valkeytest.Server) map[string]int64 {
	out := map[string]int64{}
	all, _ := s.Do("KEYS", "*").([]any)
	for _, k := range all {
		key, _ := k.(string)
		if ttl, _ := s.Do("PTTL", key).(int64); ttl != -2 {
			out[key] = ttl
		}
	}
	return out
}

// slow stands between a store and its server, and can hold back what the server answers.
type slow struct {
	listener net.Listener
	held     atomic.Pointer[chan struct{}] // closed when answers go on
}

func newSlow(t *testing.T, server string) *slow {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &slow{listener: l}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, client, up)
			mu.Unlock()
			all.Go(func() { _, _ = io.Copy(up, client); up.Close() })
			all.Go(func() { s.answers(client, up); client.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.release()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return s
}

func (s *slow) answers(client io.Writer, up io.Reader) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := up.Read(buffer)
		if wait := s.held.Load(); wait != nil {
			<-*wait
		}
		if n > 0 {
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (s *slow) hold() {
	wait := make(chan struct{})
	s.held.Store(&wait)
}

func (s *slow) release() {
	if wait := s.held.Swap(nil); wait != nil {
		close(*wait)
	}
}

func (s *slow) addr() string { return s.listener.Addr().String() }
