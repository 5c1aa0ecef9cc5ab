package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/caddyserver/certmagic"

	"authgate/clientip/proxyproto"
	"authgate/internal/certs"
	"authgate/internal/config"
	"authgate/internal/watch"
)

// edge is what stands between the network and the handlers: certificates, and the plain port that sends clients to https.
// The zero value is a gateway without TLS.
type edge struct {
	public certs.Source  // nil: plain
	admin  *certs.Files  // nil: plain
	files  *certs.Files  // public, if it is from files
	acme   *certs.ACME   // public, if an authority issues it; from Start on
	shared *certs.Valkey // where acme keeps what it has, unless that is on disk
	plain  *http.Server  // redirects; nil: there is no such port
}

// newEdge reads the certificates that are in files.
func newEdge(cfg *config.Config) (e edge, err error) {
	t := &cfg.Server.TLS
	if t.Mode == "files" {
		var pairs []certs.Pair
		for _, c := range t.Certificates {
			pairs = append(pairs, certs.Pair{Cert: c.Cert, Key: c.Key})
		}
		if e.files, err = certs.NewFiles(pairs); err != nil {
			return edge{}, fmt.Errorf("preparing server.tls: %w", err)
		}
		e.public = e.files
	}
	if cfg.Admin.TLS.Cert != "" {
		if e.admin, err = certs.NewFiles([]certs.Pair{{Cert: cfg.Admin.TLS.Cert, Key: cfg.Admin.TLS.Key}}); err != nil {
			return edge{}, fmt.Errorf("preparing admin.tls: %w", err)
		}
	}
	return e, nil
}

// fromFiles are the certificates that may be replaced on disk.
func (e *edge) fromFiles() (out []*certs.Files) {
	for _, f := range []*certs.Files{e.files, e.admin} {
		if f != nil {
			out = append(out, f)
		}
	}
	return out
}

// watchCertificates reads certificates again when their files change. What does not work is told, and the old ones stay.
func (g *Gateway) watchCertificates(ctx context.Context) {
	var paths []string
	for _, f := range g.edge.fromFiles() {
		paths = append(paths, f.Paths()...)
	}
	watch.New(0, paths).Run(ctx, func() []string { return paths }, func() {
		if err := certs.Reload(g.edge.fromFiles()...); err != nil {
			g.log.Error("certificates not reloaded; the old ones stay in use", "error", err)
			return
		}
		g.log.Info("certificates reloaded")
	})
}

// listeners are the sockets of a gateway.
type listeners struct {
	public []net.Listener
	admin  net.Listener
	plain  net.Listener // nil: there is none
}

func (l *listeners) close() {
	for _, one := range append(l.public, l.admin, l.plain) {
		if one != nil {
			_ = one.Close()
		}
	}
}

// listen opens every socket, or none. What was handed over is used in the place of the address that it listens at.
func (g *Gateway) listen(cfg *config.Config) (_ *listeners, err error) {
	l, given := &listeners{}, slices.Clone(g.given)
	defer func() {
		if err != nil {
			l.close()
			for _, one := range given {
				_ = one.Close()
			}
		}
	}()
	open := func(address string) net.Listener {
		if err != nil {
			return nil
		}
		if i := slices.IndexFunc(given, func(l net.Listener) bool { return listensAt(l, address) }); i >= 0 {
			one := given[i]
			given = slices.Delete(given, i, i+1)
			return one
		}
		var one net.Listener
		if one, err = net.Listen("tcp", address); err != nil {
			err = fmt.Errorf("listening: %w", err)
			return nil
		}
		return one
	}
	for _, address := range cfg.Server.Listen {
		if one := open(address); one != nil {
			l.public = append(l.public, one)
		}
	}
	l.admin = open(cfg.Admin.Listen)
	if t := &cfg.Server.TLS; t.Mode != "off" && t.RedirectFrom != "" {
		l.plain = open(t.RedirectFrom)
	}
	if err == nil && len(given) > 0 { // somebody expects to be served there
		err = fmt.Errorf("listening: the socket at %s was handed over, which is no address of the configuration", given[0].Addr())
	}
	return l, err
}

// listensAt reports whether a socket is the one that an address asks for. All ways to write every address of this machine
// are the same.
func listensAt(l net.Listener, address string) bool {
	own, ok := l.Addr().(*net.TCPAddr)
	wanted, err := net.ResolveTCPAddr("tcp", address)
	if !ok || err != nil || wanted.Port == 0 || wanted.Port != own.Port {
		return false
	}
	every := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	return every(wanted.IP) && every(own.IP) || wanted.IP.Equal(own.IP)
}

// Start listens and serves. The gateway is ready when it returns nil. One that is still without a certificate is ready as
// well: an authority can only validate what it can reach, and a balancer sends nothing to what is not ready.
func (g *Gateway) Start() error {
	cfg := g.cfg.Load()
	l, err := g.listen(cfg)
	if err != nil {
		return err
	}
	if err := g.beginACME(cfg, l); err != nil {
		l.close()
		return err
	}
	if g.edge.public != nil {
		g.public.TLSConfig = g.edge.public.TLS()
		g.metrics.Certificates(g.edge.public.Expiry)
	}
	if g.edge.admin != nil {
		g.private.TLSConfig = g.edge.admin.TLS()
	}
	g.ready.Store(true) // before a listener can end by itself
	for _, one := range l.public {
		g.addrs = append(g.addrs, one.Addr())
		guarded := g.guard(cfg, one)
		g.open = append(g.open, guarded)
		g.serving.Go(func() { g.serve(g.byWhom(), guarded) })
	}
	g.admin = l.admin.Addr()
	go g.serve(over(g.private, g.edge.admin != nil), l.admin)
	if l.plain != nil {
		g.redirect = l.plain.Addr()
		var challenge func(http.ResponseWriter, *http.Request) bool
		if g.edge.acme != nil {
			challenge = g.edge.acme.Challenge
		}
		g.edge.plain = newRedirectServer(cfg, certs.Redirect(g.edge.public.Covers, challenge), g.errorLog(cfg))
		go g.serve(g.edge.plain.Serve, g.guard(cfg, l.plain))
	}
	return nil
}

// beginACME starts to order certificates, if an authority is to issue them.
func (g *Gateway) beginACME(cfg *config.Config, l *listeners) error {
	t := &cfg.Server.TLS
	if t.Mode != "acme" {
		return nil
	}
	ac := certs.ACMEConfig{
		Domains: t.ACME.Domains, Email: t.ACME.Email, Directory: t.ACME.Directory, Log: g.log,
		TLSAddr: l.public[0].Addr(),
	}
	if l.plain != nil {
		ac.HTTPAddr = l.plain.Addr()
	}
	var err error
	if ac.Roots, err = moreRoots(t.ACME.CAFile); err != nil {
		return fmt.Errorf("preparing server.tls.acme: %w", err)
	}
	if ac.Storage, err = g.certStorage(cfg); err != nil {
		return fmt.Errorf("preparing server.tls.acme: %w", err)
	}
	g.edge.acme = certs.StartACME(ac)
	g.edge.public = g.edge.acme
	return nil
}

// certStorage is where an authority's certificates are kept.
func (g *Gateway) certStorage(cfg *config.Config) (certmagic.Storage, error) {
	if cfg.Server.TLS.ACME.Storage == "valkey" {
		v := &cfg.Store.Valkey
		vc := certs.ValkeyConfig{
			Addresses: v.Addresses, Username: v.Username, Password: v.Password.Reveal(), Database: v.Database,
			Prefix: v.Prefix, Log: g.log,
		}
		var err error
		if v.TLS {
			if vc.TLS, err = tlsConfig(v.CAFile, ""); err != nil {
				return nil, err
			}
		}
		g.edge.shared, err = certs.NewValkey(vc)
		return g.edge.shared, err
	}
	path := cfg.Server.TLS.ACME.Path
	if path == "" {
		data := os.Getenv("XDG_DATA_HOME")
		if data == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("finding a folder for certificates; set server.tls.acme.path: %w", err)
			}
			data = filepath.Join(home, ".local", "share")
		}
		path = filepath.Join(data, "authgate", "certificates")
	}
	if err := os.MkdirAll(path, 0o700); err != nil { // better now than after an order
		return nil, err
	}
	return &certmagic.FileStorage{Path: path}, nil
}

// moreRoots are the system's roots and those of a file; nil is the system's.
func moreRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}

// guard bounds a public listener, gives up on clients that take no answers, and has it read the balancers' headers. TLS goes on
// top: a balancer speaks before the client's handshake.
func (g *Gateway) guard(cfg *config.Config, l net.Listener) net.Listener {
	l = newGuarded(l, cfg.Server.ReadBodyTimeout, cfg.Server.MaxConnections)
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

// byWhom is what serves the public listeners.
func (g *Gateway) byWhom() func(net.Listener) error {
	if g.standard || g.edge.public != nil {
		return over(g.public, g.edge.public != nil)
	}
	return g.plain.Serve
}

// over is what serves a listener by a server. That it is to speak TLS the server's own TLSConfig does not tell: it makes itself
// one when it begins to serve.
func over(s *http.Server, secure bool) func(net.Listener) error {
	if secure {
		return func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	return s.Serve
}

// serve serves a listener until it ends.
func (g *Gateway) serve(by func(net.Listener) error, l net.Listener) {
	if err := by(l); !errors.Is(err, http.ErrServerClosed) && g.ready.Load() {
		select {
		case g.failures <- fmt.Errorf("serving %s: %w", l.Addr(), err):
		default:
		}
	}
}

// end ends what begins with Start, except the servers of requests.
func (e *edge) end(ctx context.Context) {
	if e.acme != nil {
		e.acme.Stop(ctx)
	}
	if e.shared != nil {
		e.shared.Close()
	}
	if e.plain != nil {
		_ = e.plain.Close()
	}
}
