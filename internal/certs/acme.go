package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"authgate/internal/route"
)

// ACME are certificates that an authority issues, one for each domain, ordered and renewed in the background. Nothing is
// ever ordered for another name. Use [StartACME]. All methods may be used by any number of goroutines.
type ACME struct {
	cfg    ACMEConfig
	cache  *certmagic.Cache
	magic  *certmagic.Config
	issuer *certmagic.ACMEIssuer
	stop   context.CancelFunc
	work   sync.WaitGroup
}

// ACMEConfig says what to order, where, and how the authority reaches this gateway.
type ACMEConfig struct {
	Domains   []string // host names
	Email     string   // of the account; empty: none
	Directory string   // of the authority; empty: Let's Encrypt production
	Roots     *x509.CertPool
	Storage   certmagic.Storage
	Log       *slog.Logger

	TLSAddr  net.Addr // of the TLS listener, which answers TLS-ALPN-01
	HTTPAddr net.Addr // of the plain listener, which answers HTTP-01; nil: there is none

	CheckEvery time.Duration // how often certificates are looked at for renewal; default 10 minutes
}

// StartACME begins to load, order and renew, and does not wait for any of it. The listeners must be there already, or the
// library would make its own; they need not be served yet.
func StartACME(cfg ACMEConfig) *ACME {
	cfg.Domains = slices.Clone(cfg.Domains)
	for i, name := range cfg.Domains {
		if host, ok := route.CanonicalHost(name); ok {
			cfg.Domains[i] = host
		}
	}
	a := &ACME{cfg: cfg}
	log := newZap(cfg.Log)
	a.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return a.magic, nil },
		RenewCheckInterval: cfg.CheckEvery,
		Logger:             log,
	})
	template := certmagic.Config{
		Storage: cfg.Storage, Logger: log, OnEvent: a.event, DefaultServerName: cfg.Domains[0],
		Issuers: []certmagic.Issuer{}, // or New would make one of its own
	}
	a.magic = certmagic.New(a.cache, template)
	issuer := certmagic.ACMEIssuer{
		CA: cfg.Directory, Email: cfg.Email, Agreed: true, TrustedRoots: cfg.Roots, Logger: log,
		DisableHTTPChallenge: cfg.HTTPAddr == nil,
	}
	// The library listens by itself at these addresses unless it finds somebody there, which is us.
	issuer.ListenHost, issuer.AltTLSALPNPort, issuer.AltHTTPPort = listening(cfg.TLSAddr, cfg.HTTPAddr)
	a.issuer = certmagic.NewACMEIssuer(a.magic, issuer)
	a.magic.Issuers = []certmagic.Issuer{a.issuer}
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	for _, name := range cfg.Domains {
		a.work.Go(func() { a.manage(ctx, name) })
	}
	return a
}

// listening is where somebody listens: a host that both listeners have, as far as they can agree, and their ports.
func listening(tlsAddr, httpAddr net.Addr) (host string, tlsPort, httpPort int) {
	for _, a := range []struct {
		addr net.Addr
		port *int
	}{{tlsAddr, &tlsPort}, {httpAddr, &httpPort}} {
		tcp, ok := a.addr.(*net.TCPAddr)
		if !ok {
			continue
		}
		*a.port = tcp.Port
		if host == "" && !tcp.IP.IsUnspecified() {
			host = tcp.IP.String()
		}
	}
	return host, tlsPort, httpPort
}

// Between two tries to reach the storage.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// manage loads the certificate of a name, or orders it, and tries until there is one; from then on the cache renews
// it. An order that fails is repeated by the library itself; what it gives up on, as while the storage is down,
// is repeated here.
func (a *ACME) manage(ctx context.Context, name string) {
	told := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		c, err := a.magic.CacheManagedCertificate(ctx, name)
		if err == nil {
			a.cfg.Log.Info("certificate in use", "name", name, "until", c.Leaf.NotAfter)
			// One that is old already must not wait for the next look of the cache.
			_ = a.cache.RenewManagedCertificates(ctx) // reports nothing
			return
		}
		if errors.Is(err, fs.ErrNotExist) {
			if !told {
				a.cfg.Log.Warn("no certificate yet; https is not answered for this name until there is one", "name", name)
				told = true
			}
			if err = a.magic.ObtainCertAsync(ctx, name); err == nil {
				continue
			}
		}
		if ctx.Err() != nil {
			return
		}
		a.cfg.Log.Error("certificate not available; trying again", "name", name, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Stop ends ordering and renewing, and waits for that until ctx is done.
func (a *ACME) Stop(ctx context.Context) {
	a.stop()
	ended := make(chan bool)
	go func() {
		defer close(ended)
		a.work.Wait()
		a.cache.Stop() // may be in the middle of a question to the authority, which it does not break off
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// event tells what became of orders.
func (a *ACME) event(_ context.Context, event string, data map[string]any) error {
	attrs := []any{"name", data["identifier"], "renewal", data["renewal"]}
	switch event {
	case "cert_obtained":
		a.cfg.Log.Info("certificate obtained", append(attrs, "issuer", data["issuer"])...)
	case "cert_failed":
		a.cfg.Log.Error("certificate not obtained", append(attrs, "error", fmt.Sprint(data["error"]))...)
	}
	return nil
}

// TLS is the configuration of the listener, which also answers TLS-ALPN-01.
func (a *ACME) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: a.certificate,
		NextProtos: []string{"h2", "http/1.1", challengeProtocol},
	}
}

// challengeProtocol is what an authority asks for that validates by TLS-ALPN-01 [RFC 8737].
const challengeProtocol = "acme-tls/1"

func (a *ACME) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Contains(hello.SupportedProtos, challengeProtocol) {
		// The library would look into the storage for whatever name a stranger asks for.
		if host, _ := route.CanonicalHost(hello.ServerName); !a.Covers(host) {
			return nil, errNotOurs
		}
	}
	return a.magic.GetCertificate(hello)
}

var errNotOurs = errors.New("finding a certificate: the name is none of the domains")

// Covers reports whether a host is one of the domains.
func (a *ACME) Covers(host string) bool { return slices.Contains(a.cfg.Domains, host) }

// Challenge answers HTTP-01, whichever instance has begun it, and reports whether it has. Ask only for hosts that are
// covered.
func (a *ACME) Challenge(w http.ResponseWriter, r *http.Request) bool {
	return a.issuer.HandleHTTPChallenge(w, r)
}

// Expiry is when the certificates end; the zero time for a domain that has none yet.
func (a *ACME) Expiry() map[string]time.Time {
	out := map[string]time.Time{}
	for _, name := range a.cfg.Domains {
		out[name] = time.Time{}
		for _, c := range a.cache.AllMatchingCertificates(name) {
			if c.Leaf != nil && c.Leaf.NotAfter.After(out[name]) {
				out[name] = c.Leaf.NotAfter
			}
		}
	}
	return out
}
