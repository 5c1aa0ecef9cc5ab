// Package valkeystore keeps buckets and records in a Valkey that all instances share: the server's clock, one script call
// for each decision, every touched key declared, one key for each bucket [S2]. A refusal that is known is not asked for again [S7].
package valkeystore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/internal/socket"
	"authgate/limits"
)

// Store is a [limits.Store] in Valkey. Use [New]. All methods may be used by any number of goroutines.
type Store struct {
	cfg       Config
	client    valkey.Client
	allowance allowance // of calls that somebody waits for
	health    *health
	undo      *undo
	known     *known // nil in virtual time
	stop      context.CancelFunc
	done      sync.WaitGroup
}

var (
	_ limits.Store       = (*Store)(nil)
	_ limits.Switchboard = (*Store)(nil)
)

// Config says where the server is and how long it may take.
type Config struct {
	Addresses []string // host:port or /path of a unix socket; the first one that can be reached is used
	Username  string
	Password  string
	Database  int
	TLS       *tls.Config   // nil: plain
	Prefix    string        // of every key and channel; default "gateway"
	Timeout   time.Duration // budget of one call; default 50 ms

	Logger *slog.Logger // default: discards
	Events Events

	// Now replaces the server's clock; only tests of the arithmetic set it.
	Now func() limits.Millis
}

// Events tells the program what happens to the store. Every field may be nil; the functions must not block.
type Events struct {
	Degraded func(bool)             // the breaker opened or closed
	Failed   func(operation string) // one operation failed: decide, settle, renew, entries, release, clear, mode, merge, load, swap, list

	// Known is called for each refusal that was answered without asking the server [S7].
	Known func()

	// Returning is called when the server has answered a probe; after an outage before anybody else may ask it: the
	// moment to bring in what was recorded meanwhile, so that an outage is no amnesty [S5]. It may block, within ctx.
	Returning func(ctx context.Context)
}

// New makes a store. It never waits for the server and never fails because the server is down [S6]: until the
// first answer the store is degraded. Configuration that the client library refuses is an error. made, if not nil, gets the
// store before any event comes from it.
func New(cfg Config, made func(*Store)) (*Store, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "gateway"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 50 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	client, err := valkey.NewClient(clientOption(cfg))
	if client == nil { // with ForceSingleClient the client is usable even while the server is down
		return nil, fmt.Errorf("making the store's client: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{cfg: cfg, client: client, stop: stop}
	s.allowance.most = cfg.Timeout
	s.health = newHealth(s)
	s.undo = newUndo(s)
	if cfg.Now == nil {
		s.known = newKnown(s)
	}
	if made != nil {
		made(s)
	}
	s.done.Add(2)
	go func() { defer s.done.Done(); s.health.run(ctx) }()
	go func() { defer s.done.Done(); s.undo.run(ctx) }()
	if s.known != nil {
		s.done.Add(2)
		go func() { defer s.done.Done(); s.known.run(ctx) }()
		go func() { defer s.done.Done(); s.known.prove(ctx) }()
	}
	return s, nil
}

func clientOption(cfg Config) valkey.ClientOption {
	dialer := net.Dialer{Timeout: time.Second, KeepAlive: 15 * time.Second}
	return valkey.ClientOption{
		InitAddress:        cfg.Addresses,
		DialCtxFn:          Dial(cfg.Addresses),
		Username:           cfg.Username,
		Password:           cfg.Password,
		SelectDB:           cfg.Database,
		TLSConfig:          cfg.TLS,
		Dialer:             dialer,
		ClientName:         "authgate",
		ForceSingleClient:  true,
		AlwaysPipelining:   true, // a call that times out must not close the connection that others use
		DisableRetry:       true, // a charge that was sent twice would count twice
		DisableCache:       true,
		PipelineMultiplex:  -1, // one connection: more calls share one system call
		ConnWriteTimeout:   2 * time.Second,
		ReadBufferEachConn: 1 << 16, WriteBufferEachConn: 1 << 16,
	}
}

// Dial is for the DialCtxFn of a client: it connects to the first address that can be reached, where the library would try
// no other than the first. An address is host:port, or /path of a unix socket, which TLS is not for.
func Dial(addresses []string) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, _ string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		var errs []error
		for _, address := range addresses {
			var conn net.Conn
			var err error
			switch {
			case strings.HasPrefix(address, "/"):
				conn, err = d.DialContext(ctx, "unix", address)
			case t != nil:
				conn, err = (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", address)
			default:
				conn, err = d.DialContext(ctx, "tcp", address)
			}
			if err == nil {
				return socket.Wrap(conn), nil
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	}
}

// Close ends the background work and the connections. Attempts in flight elsewhere keep their leases until these end.
func (s *Store) Close() error {
	s.stop()
	s.done.Wait()
	s.client.Close()
	return nil
}

// Probed is closed once it is known whether the server answers; a program that waits for it, within a bound of its
// own, asks the shared store from its first request on.
func (s *Store) Probed() <-chan struct{} { return s.health.probed }

// Degraded reports whether the server is taken to be out.
func (s *Store) Degraded() bool { return s.health.open() }

// Decide asks the server, unless it is known how that would refuse; see [limits.Store].
func (s *Store) Decide(_ context.Context, a *limits.Attempt) (limits.Decision, error) {
	if s.known == nil {
		return s.decide(a)
	}
	if d, ok := s.known.answer(a); ok {
		return d, nil
	}
	asked := s.known.ask()
	d, err := s.decide(a)
	if err == nil {
		s.known.learn(a, &d, asked)
	}
	return d, err
}

func (s *Store) decide(a *limits.Attempt) (limits.Decision, error) {
	keys, args := s.encodeDecide(a)
	if len(keys) == 0 {
		return limits.Decision{Admitted: true}, nil
	}
	reply, err := s.run("decide", decideScript, keys, args)
	if err != nil {
		if !errors.Is(err, errNotAsked) {
			s.undo.add(a) // it may have been done all the same
		}
		return limits.Decision{}, err
	}
	if n, err := reply.AsInt64(); err == nil {
		if n >= 0 {
			return limits.Decision{Admitted: true, Known: uint32(n)}, nil
		}
		s.health.resync()
		return limits.Decision{}, s.failed("decide", errors.New("the server ran the script after its deadline"))
	}
	numbers, err := reply.AsIntSlice()
	if err != nil {
		return limits.Decision{}, s.failed("decide", err)
	}
	d, err := decodeDecision(numbers, a)
	if err != nil {
		return limits.Decision{}, s.failed("decide", err)
	}
	return d, nil
}

// Settle tells the server a verdict; see [limits.Store].
func (s *Store) Settle(_ context.Context, st *limits.Settlement) (limits.Settled, error) {
	if len(st.Closings) == 0 {
		return newSettled(st), nil
	}
	keys, args := s.encodeSettle(st)
	reply, err := s.run("settle", settleScript, keys, args)
	if err != nil {
		return limits.Settled{}, err
	}
	out, err := readSettled(&reply, st)
	if err != nil {
		return limits.Settled{}, s.failed("settle", err)
	}
	return out, nil
}

// Renew asks the server for new leases; see [limits.Store].
func (s *Store) Renew(_ context.Context, a *limits.Attempt) error {
	keys, args := s.encodeRenew(a)
	if len(keys) == 0 {
		return nil
	}
	_, err := s.run("renew", renewScript, keys, args)
	return err
}

// run makes one script call within the budget, unless the breaker is open. A caller that leaves does not take the question back:
// it is done all the same, and nobody would know what it did.
func (s *Store) run(operation string, script *valkey.Lua, keys, args []string) (valkey.ValkeyMessage, error) {
	return s.call(s.allowance.context(), operation, script, keys, args)
}

// runWithin is run within a budget of its own.
func (s *Store) runWithin(most time.Duration, operation string, script *valkey.Lua, keys, args []string) (valkey.ValkeyMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	return s.call(ctx, operation, script, keys, args)
}

func (s *Store) call(ctx context.Context, operation string, script *valkey.Lua, keys, args []string) (valkey.ValkeyMessage, error) {
	if s.health.open() {
		return valkey.ValkeyMessage{}, s.unavailable(operation, errNotAsked)
	}
	reply, err := script.Exec(ctx, s.client, keys, args).ToMessage()
	if err != nil {
		return reply, s.failed(operation, err)
	}
	s.health.answered()
	return reply, nil
}

// failed takes note of an operation that did not work, and wraps its cause.
func (s *Store) failed(operation string, cause error) error {
	s.health.failed(cause)
	return s.unavailable(operation, cause)
}

func (s *Store) unavailable(operation string, cause error) error {
	if s.cfg.Events.Failed != nil {
		s.cfg.Events.Failed(operation)
	}
	return fmt.Errorf("asking the store to %s: %w: %w", operation, limits.ErrUnavailable, cause)
}

// errNotAsked: the breaker is open.
var errNotAsked = errors.New("not asked: it did not answer lately")

func (s *Store) key(name string) string { return s.cfg.Prefix + ":" + name }

func (s *Store) now() limits.Millis {
	if s.cfg.Now == nil {
		return 0
	}
	return s.cfg.Now()
}
