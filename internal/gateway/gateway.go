// Package gateway is the program: the one place that knows every part, makes them, joins them, and ends them.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"authgate/admin"
	"authgate/internal/certs"
	"authgate/internal/config"
	"authgate/internal/metrics"
	"authgate/internal/notify"
	"authgate/internal/redact"
	"authgate/internal/telemetry"
	"authgate/internal/unlock"
	"authgate/limits"
	"authgate/proxy"
	"authgate/proxy/server"
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
	unlock  *unlock.Service   // nil: owners are told nothing
	tracer  *telemetry.Tracer // nil: no traces are made

	looks      *proxy.Looks
	strangers  atomic.Pointer[strangers]
	background context.CancelFunc // ends what runs beside requests
	work       sync.WaitGroup

	upstream *proxy.Upstream
	handler  *proxy.Handler
	public   *http.Server
	plain    *server.Server // serves those of its connections that have no TLS
	private  *http.Server
	edge     edge
	standard bool           // Options.Standard
	conns    connections    // of the public server
	open     []net.Listener // of the public server
	serving  sync.WaitGroup // the goroutines that accept from them
	given    []net.Listener // Options.Listeners
	addrs    []net.Addr
	admin    net.Addr
	redirect net.Addr

	ready    atomic.Bool
	failures chan error // of a listener that ended by itself
}

// Options are what the program adds to the configuration. All fields may be left empty.
type Options struct {
	Log        *slog.Logger      // default: discards
	Build      map[string]string // shown by /meta/version
	AdminToken string            // a token for this run, when none is configured
	Transport  http.RoundTripper // in place of the network to the backend, for tests
	Listeners  []net.Listener    // handed over by who started the program; each stands for the address that it listens at

	// Standard has the standard library read every request and carry it to the backend, for tests that compare.
	Standard bool

	// Now takes the place of the stores' clock; only tests of rules over time set it.
	Now func() limits.Millis
}

// New makes a gateway without listening yet. It does not wait for the store or the backend to be there.
func New(cfg *config.Config, opts Options) (*Gateway, error) {
	tracer, err := newTracer(cfg, opts)
	if err != nil {
		return nil, err
	}
	g, err := assemble(cfg, opts, tracer)
	if err != nil {
		return nil, err
	}
	if err := g.startNotices(cfg); err != nil {
		_ = g.stores.Close()
		return nil, err
	}
	if g.edge, err = newEdge(cfg); err != nil {
		return nil, errors.Join(err, g.stopNotices(), g.stores.Close())
	}
	g.public = newServer(cfg, g.handler, g.errorLog(cfg))
	g.conns.watch(g.public)
	g.plain, g.standard = server.New(g.public), opts.Standard
	ctx, cancel := context.WithCancel(context.Background())
	g.background = cancel
	g.work.Go(func() { g.learn(ctx) })
	g.work.Go(func() { g.renewKeys(ctx) })
	g.warnLooks()
	if len(g.edge.fromFiles()) > 0 {
		g.work.Go(func() { g.watchCertificates(ctx) })
	}
	g.given = opts.Listeners
	g.private = newAdminServer(g.adminHandler(cfg, opts.AdminToken), g.errorLog(cfg))
	return g, nil
}

// assemble makes everything that a request goes through, and nothing else: no file is opened, nothing listens.
func assemble(cfg *config.Config, opts Options, tracer *telemetry.Tracer) (_ *Gateway, err error) {
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
	if g.upstream, err = newUpstream(cfg, opts); err != nil {
		return nil, err
	}
	plan, err := g.plan(cfg)
	if err != nil {
		return nil, err
	}
	deps := proxy.Deps{
		Limiter: g.limiter, Mode: g.stores.mode, Looks: g.looks, Events: g.metrics, Record: g.auditEvent, Log: g.log,
		Near: cfg.Store.Backend == "memory",
	}
	if g.tracer = tracer; tracer != nil {
		deps.Traces = tracer
	}
	g.handler = proxy.NewHandler(plan, deps)
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

// RedirectAddr is the address of the plain listener that redirects to https. It is nil where there is none.
func (g *Gateway) RedirectAddr() net.Addr { return g.redirect }

// Stop ends the gateway: not ready first, then no new connections, then it waits for requests and settlements under way
// until ctx is done, and closes what is left.
func (g *Gateway) Stop(ctx context.Context) error {
	g.ready.Store(false)
	for _, l := range g.open {
		_ = l.Close()
	}
	g.serving.Wait()
	g.conns.leave(ctx)
	err := g.plain.Shutdown(ctx)
	if err != nil {
		_ = g.plain.Close()
		err = fmt.Errorf("stopping: some requests were cut off: %w", err)
	}
	g.drain(ctx)
	g.handler.Close()
	if werr := g.limiter.Wait(ctx); werr != nil && err == nil {
		err = fmt.Errorf("stopping: some verdicts were not settled: %w", werr)
	}
	g.background()
	g.endWork(ctx)
	g.edge.end(ctx)
	_ = g.private.Close()
	g.upstream.Close()
	return errors.Join(err, g.stopNotices(), g.stores.Close())
}

// drain gives connections that speak another protocol the rest of the time, but for what settling and closing need.
func (g *Gateway) drain(ctx context.Context) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Second))
		defer cancel()
	}
	g.handler.Drain(ctx)
}

// endWork waits for what runs beside requests, but not for a read of a file that never ends.
func (g *Gateway) endWork(ctx context.Context) {
	ended := make(chan struct{})
	go func() { g.work.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-time.After(workGrace):
	}
}

// workGrace is how long that takes at most; nothing but a file keeps it longer than a call to the store.
const workGrace = 3 * time.Second

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
	if err := certs.Reload(g.edge.fromFiles()...); err != nil {
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
