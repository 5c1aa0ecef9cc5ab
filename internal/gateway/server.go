package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	"authgate/internal/config"
	"authgate/internal/redact"
	"authgate/proxy"
)

// newServer makes the public server. Without TLS it also takes HTTP/2 from clients that begin with it; no request can switch
// to that.
func newServer(cfg *config.Config, h http.Handler, errorLog *log.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	if cfg.Server.TLS.Mode == "off" {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
		h = strictTransport(cfg.Server.TLS.HSTS, h)
	}
	return &http.Server{
		Handler:                      h,
		Protocols:                    protocols,
		ReadHeaderTimeout:            cfg.Server.ReadHeaderTimeout,
		IdleTimeout:                  cfg.Server.IdleTimeout,
		MaxHeaderBytes:               int(cfg.Server.MaxHeaderBytes),
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: cfg.Server.MaxStreams},
		ErrorLog:                     errorLog,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is for the backend
	}
}

// newAdminServer makes the admin server. Its clients are few and its answers small.
func newAdminServer(h http.Handler, errorLog *log.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          errorLog,
	}
}

// newRedirectServer makes the server of the plain port. It answers once a connection, and takes no body.
func newRedirectServer(cfg *config.Config, h http.Handler, errorLog *log.Logger) *http.Server {
	return &http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            cfg.Server.ReadHeaderTimeout,
		ReadTimeout:                  cfg.Server.ReadHeaderTimeout,
		WriteTimeout:                 cfg.Server.ReadHeaderTimeout,
		MaxHeaderBytes:               int(cfg.Server.MaxHeaderBytes),
		ErrorLog:                     errorLog,
		DisableGeneralOptionsHandler: true,
	}
}

// strictTransport adds Strict-Transport-Security to every answer, in the place of what the backend may say. Empty adds nothing.
func strictTransport(value string, next http.Handler) http.Handler {
	if value == "" {
		return next
	}
	list := []string{value}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&strictWriter{ResponseWriter: w, value: list}, r)
	})
}

// strictWriter writes the header last, so that nobody takes it away.
type strictWriter struct {
	http.ResponseWriter
	value []string
	done  bool
}

func (w *strictWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.done = true
		w.Header()["Strict-Transport-Security"] = w.value
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *strictWriter) Write(p []byte) (int, error) {
	if !w.done {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets an [http.ResponseController] reach the connection.
func (w *strictWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// errorLog takes what servers say of connections: mostly what clients do wrong, which is for debugging. Addresses are logged
// as all are.
func (g *Gateway) errorLog(cfg *config.Config) *log.Logger {
	return log.New(&connectionLog{log: g.log, names: g.names(cfg)}, "", 0)
}

type connectionLog struct {
	log   *slog.Logger
	names redact.Names
}

// peerInLog finds the address in a line such as "http: TLS handshake error from 192.0.2.1:5678: EOF".
var peerInLog = regexp.MustCompile(` (?:from|serving) (\[[^\]]*\]:\d+|[0-9.]+:\d+)`)

func (c *connectionLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	var attrs []slog.Attr
	if at := peerInLog.FindStringSubmatchIndex(text); at != nil {
		if peer, err := netip.ParseAddrPort(text[at[2]:at[3]]); err == nil {
			attrs = append(attrs, c.names.Address("peer", peer.Addr()))
		}
		text = text[:at[0]] + text[at[1]:]
	}
	attrs = append(attrs, slog.String("error", text))
	switch ctx := context.Background(); {
	case strings.HasPrefix(text, "http: panic"):
		c.log.LogAttrs(ctx, slog.LevelError, "panic", attrs...)
	case strings.HasPrefix(text, "http: Accept error"): // such as too many open files
		c.log.LogAttrs(ctx, slog.LevelWarn, "no connection can be accepted", attrs...)
	default:
		c.log.LogAttrs(ctx, slog.LevelDebug, "connection failed", attrs...)
	}
	return len(line), nil
}

// newUpstream makes the backend's side.
func newUpstream(cfg *config.Config, opts Options) (*proxy.Upstream, error) {
	u := &cfg.Upstream
	out := proxy.UpstreamConfig{
		URL: u.URL, OwnHost: u.Host == "upstream", ConnectTimeout: u.ConnectTimeout, ResponseTimeout: u.ResponseTimeout,
		MaxIdle: u.MaxIdle, MaxInFlight: cfg.Server.MaxUpstream, Transport: opts.Transport, Standard: opts.Standard,
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
	fixed("store.file", old.Store.File, next.Store.File)
	fixed("store.max_entries", old.Store.MaxEntries, next.Store.MaxEntries)
	fixed("store.hash_key", old.Store.HashKey, next.Store.HashKey)
	fixed("store.valkey", old.Store.Valkey, next.Store.Valkey)
	fixed("admin", old.Admin, next.Admin)
	fixed("log", old.Log, next.Log)
	fixed("audit", old.Audit, next.Audit)
	fixed("telemetry", old.Telemetry, next.Telemetry)
	fixed("unlock", old.Unlock, next.Unlock)
	return errors.Join(errs...)
}
