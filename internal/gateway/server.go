package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"time"

	"authgate/internal/config"
	"authgate/proxy"
)

// newServer makes the public server.
func newServer(cfg *config.Config, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            cfg.Server.ReadHeaderTimeout,
		IdleTimeout:                  cfg.Server.IdleTimeout,
		MaxHeaderBytes:               int(cfg.Server.MaxHeaderBytes),
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: cfg.Server.MaxStreams},
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug), // what clients do wrong
		DisableGeneralOptionsHandler: true,                                              // "OPTIONS *" is for the backend
	}
}

// newAdminServer makes the admin server. Its clients are few and its answers small.
func newAdminServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// newUpstream makes the backend's side.
func newUpstream(cfg *config.Config, transport http.RoundTripper) (*proxy.Upstream, error) {
	u := &cfg.Upstream
	out := proxy.UpstreamConfig{
		URL: u.URL, OwnHost: u.Host == "upstream", ConnectTimeout: u.ConnectTimeout, ResponseTimeout: u.ResponseTimeout,
		MaxIdle: u.MaxIdle, MaxInFlight: cfg.Server.MaxUpstream, Transport: transport,
	}
	out.SecretHeader.Name, out.SecretHeader.Value = u.SecretHeader.Name, u.SecretHeader.Value.Reveal()
	if u.URL.Scheme == "https" {
		t, err := tlsConfig(u.TLS.CAFile, u.TLS.ServerName)
		if err != nil {
			return nil, fmt.Errorf("preparing upstream.tls: %w", err)
		}
		if u.TLS.Cert != "" {
			pair, err := tls.LoadX509KeyPair(u.TLS.Cert, u.TLS.Key)
			if err != nil {
				return nil, fmt.Errorf("preparing upstream.tls: %w", err)
			}
			t.Certificates = []tls.Certificate{pair}
		}
		out.TLS = t
	}
	return proxy.NewUpstream(out), nil
}

// tlsConfig is that of a client that trusts the CAs of a file, or the system's.
func tlsConfig(caFile, serverName string) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if caFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	return t, nil
}

// needsRestart reports what differs between two configurations that a running process cannot change.
func needsRestart(old, next *config.Config) error {
	var errs []error
	fixed := func(path string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			errs = append(errs, fmt.Errorf("%s changed, which needs a restart", path))
		}
	}
	fixed("server", old.Server, next.Server)
	fixed("upstream", old.Upstream, next.Upstream)
	fixed("store.backend", old.Store.Backend, next.Store.Backend)
	fixed("store.max_entries", old.Store.MaxEntries, next.Store.MaxEntries)
	fixed("store.hash_key", old.Store.HashKey, next.Store.HashKey)
	fixed("store.valkey", old.Store.Valkey, next.Store.Valkey)
	fixed("admin", old.Admin, next.Admin)
	fixed("log", old.Log, next.Log)
	fixed("audit", old.Audit, next.Audit)
	return errors.Join(errs...)
}
