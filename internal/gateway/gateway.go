// Package gateway is the program: the one place that knows every part, makes them, joins them, and ends them.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/net/netutil"

	"authgate/admin"
	"authgate/clientip/proxyproto"
	"authgate/internal/config"
	"authgate/internal/metrics"
	"authgate/internal/notify"
	"authgate/internal/redact"
	"authgate/limits"
	"authgate/proxy"
)

// Gateway is a running gateway, or one about to run. Use [New], then [Gateway.Start]; it ends with [Gateway.Stop].
type Gateway struct {
	cfg     atomic.Pointer[config.Config]
	log     *slog.Logger
	build   map[string]string
	keys    keys
	stores  *stores
	limiter *limits.Limiter
	metrics *metrics.Metrics
	audit   *notify.Audit

	looks      *proxy.Looks
	strangers  atomic.Pointer[strangers]
	background context.CancelFunc // ends what runs beside requests
	work       sync.WaitGroup

	upstream *proxy.Upstream
	handler  *proxy.Handler
	public   *http.Server
	private  *http.Server
	addrs    []net.Addr
	admin    net.Addr

	ready    atomic.Bool
	failures chan error // of a listener that ended by itself
}

// Options are what the program adds to the configuration. All fields may be left empty.
type Options struct {
	Log        *slog.Logger      // default: discards
	Build      map[string]string // shown by /meta/version
	AdminToken string            // a token for this run, when none is configured
	Transport  http.RoundTripper // in place of the network to the backend, for tests

	// Now takes the place of the stores' clock; only tests of rules over time set it.
	Now func() limits.Millis
}

// New makes a gateway without listening yet. It does not wait for the store or the backend to be there.
func New(cfg *config.Config, opts Options) (*Gateway, error) {
	g, err := assemble(cfg, opts)
	if err != nil {
		return nil, err
	}
	if g.audit, err = notify.NewAudit(g.log, g.names(cfg), cfg.Audit.File); err != nil {
		_ = g.stores.Close()
		return nil, err
	}
	g.public = newServer(cfg, g.handler, g.log)
	ctx, cancel := context.WithCancel(context.Background())
	g.background = cancel
	g.work.Go(func() { g.learn(ctx) })
	g.warnLooks()
	g.private = newAdminServer(g.adminHandler(cfg, opts.AdminToken), g.log)
	return g, nil
}

// assemble makes everything that a request goes through, and nothing else: no file is opened, nothing listens.
func assemble(cfg *config.Config, opts Options) (_ *Gateway, err error) {
	g := &Gateway{log: opts.Log, build: opts.Build, failures: make(chan error, 8), looks: proxy.NewLooks()}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	g.cfg.Store(cfg)
	g.metrics = metrics.New(func() (live, pinned, coarse int64) { return g.stores.entries() })
	if g.stores, err = openStores(cfg, g.log, g.metrics, opts.Now); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = g.stores.Close()
		}
	}()
	g.limiter = limits.NewLimiter(g.stores.limits)
	if g.keys, err = newKeys(cfg, g.stores, g.log); err != nil {
		return nil, err
	}
	if g.upstream, err = newUpstream(cfg, opts.Transport); err != nil {
		return nil, err
	}
	plan, err := g.plan(cfg)
	if err != nil {
		return nil, err
	}
	g.handler = proxy.NewHandler(plan, proxy.Deps{Limiter: g.limiter, Mode: g.stores.mode, Looks: g.looks, Events: g.metrics, Log: g.log})
	return g, nil
}

// names is how identities appear in logs and audit events.
func (g *Gateway) names(cfg *config.Config) redact.Names {
	mode := redact.Hashed
	if cfg.Log.Identifiers == "plain" {
		mode = redact.Plain
	}
	return redact.New(mode, g.keys.names)
}

// Start listens and serves. The gateway is ready when it returns nil.
func (g *Gateway) Start() error {
	cfg := g.cfg.Load()
	var listeners []net.Listener
	fail := func(err error) error {
		for _, l := range listeners {
			_ = l.Close()
		}
		return err
	}
	for _, address := range append(append([]string(nil), cfg.Server.Listen...), cfg.Admin.Listen) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fail(fmt.Errorf("listening: %w", err))
		}
		listeners = append(listeners, l)
	}
	last := len(listeners) - 1
	for _, l := range listeners[:last] {
		g.addrs = append(g.addrs, l.Addr())
		go g.serve(g.public, g.guard(cfg, l))
	}
	g.admin = listeners[last].Addr()
	go g.serve(g.private, listeners[last])
	g.ready.Store(true)
	return nil
}

// guard bounds a public listener and has it read the balancers' headers.
func (g *Gateway) guard(cfg *config.Config, l net.Listener) net.Listener {
	l = netutil.LimitListener(l, cfg.Server.MaxConnections)
	if cfg.Server.ProxyProtocol.Empty() {
		return l
	}
	names := g.names(cfg)
	return proxyproto.NewListener(l, cfg.Server.ProxyProtocol, func(peer net.Addr, err error) {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // without the addresses
		}
		addr, _ := netip.ParseAddrPort(peer.String())
		g.log.LogAttrs(context.Background(), slog.LevelDebug, "connection refused", names.Address("peer", addr.Addr()), slog.Any("error", err))
	})
}

func (g *Gateway) serve(s *http.Server, l net.Listener) {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		select {
		case g.failures <- fmt.Errorf("serving %s: %w", l.Addr(), err):
		default:
		}
	}
}

// Handler is the public side without a listener, for programs and tests that bring their own.
func (g *Gateway) Handler() http.Handler { return g.handler }

// Wait blocks until the verdicts of answered requests are settled and remembered, or ctx is done.
func (g *Gateway) Wait(ctx context.Context) error { return g.limiter.Wait(ctx) }

// Failed delivers the error of a listener that ended by itself, which a program should end with.
func (g *Gateway) Failed() <-chan error { return g.failures }

// Addr is the address of the first public listener. It is nil before Start.
func (g *Gateway) Addr() net.Addr {
	if len(g.addrs) == 0 {
		return nil
	}
	return g.addrs[0]
}

// Addrs are the addresses of the public listeners.
func (g *Gateway) Addrs() []net.Addr { return g.addrs }

// AdminAddr is the address of the admin listener. It is nil before Start.
func (g *Gateway) AdminAddr() net.Addr { return g.admin }

// Stop ends the gateway: not ready first, then no new connections, then it waits for requests and settlements under way
// until ctx is done, and closes what is left.
func (g *Gateway) Stop(ctx context.Context) error {
	g.ready.Store(false)
	err := g.public.Shutdown(ctx)
	if err != nil {
		_ = g.public.Close()
		err = fmt.Errorf("stopping: some requests were cut off: %w", err)
	}
	g.handler.Close()
	if werr := g.limiter.Wait(ctx); werr != nil && err == nil {
		err = fmt.Errorf("stopping: some verdicts were not settled: %w", werr)
	}
	g.background()
	g.work.Wait()
	_ = g.private.Close()
	g.upstream.Close()
	return errors.Join(err, g.stores.Close(), g.audit.Close())
}

// Reload makes the gateway follow another configuration, whole or not at all [A7]. Counters live on. What a running process
// cannot change is an error that says so.
func (g *Gateway) Reload(cfg *config.Config) (err error) {
	defer func() { g.metrics.Reloaded(err == nil) }()
	if err := needsRestart(g.cfg.Load(), cfg); err != nil {
		return err
	}
	plan, err := g.plan(cfg)
	if err != nil {
		return err
	}
	g.handler.Swap(plan)
	g.cfg.Store(cfg)
	return nil
}

// ReopenFiles opens the audit file anew after it was rotated.
func (g *Gateway) ReopenFiles() error { return g.audit.Reopen() }

// Ready is nil when traffic is welcome.
func (g *Gateway) Ready() error {
	if !g.ready.Load() {
		return errors.New("stopping")
	}
	return nil
}

// ReloadFailed counts a reload that did not come as far as Reload: the file was bad.
func (g *Gateway) ReloadFailed() { g.metrics.Reloaded(false) }

var _ admin.State = (*state)(nil)
