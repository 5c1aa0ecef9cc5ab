package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"authgate/proxy/transport"
)

// Upstream is the backend: where it is, how it is reached, and how many calls it gets at once. It belongs to
// the program rather than to a plan, so that connections outlive a reload that does not concern them.
type Upstream struct {
	cfg      UpstreamConfig
	via      http.RoundTripper
	inFlight atomic.Int64
}

// UpstreamConfig says where the backend is and what it is given. Zero times mean no limit.
type UpstreamConfig struct {
	// URL is http://, https://, h2c:// or unix:///path. A path of the first three is put before that of every request.
	URL *url.URL
	// OwnHost sends the URL's host as the Host header instead of the client's.
	OwnHost bool

	ConnectTimeout  time.Duration
	ResponseTimeout time.Duration // until the response header
	MaxIdle         int           // connections kept for the next request
	MaxInFlight     int           // calls at once; beyond that a request is refused with 503

	TLS *tls.Config // for https; nil: the system's roots

	// SecretHeader, unless its name is empty, proves to the backend that a request came through here.
	SecretHeader struct{ Name, Value string }

	// Transport takes the place of the network in tests.
	Transport http.RoundTripper

	// Standard has the standard library carry every request, so that tests can see that nothing depends on who does.
	Standard bool
}

// NewUpstream makes the backend's side. Nothing is dialled until the first request.
func NewUpstream(cfg UpstreamConfig) *Upstream {
	cfg.SecretHeader.Name = http.CanonicalHeaderKey(cfg.SecretHeader.Name)
	cfg.MaxInFlight = max(1, cfg.MaxInFlight)
	u := &Upstream{cfg: cfg, via: cfg.Transport}
	if u.via == nil {
		u.via = newTransport(cfg)
	}
	return u
}

// newTransport makes what carries requests: plain HTTP/1.1 in the request's own goroutine, and everything that is rare
// (TLS, HTTP/2, upgrades) by the standard library.
func newTransport(cfg UpstreamConfig) http.RoundTripper {
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 30 * time.Second}
	network, address := "tcp", hostPort(cfg.URL)
	switch cfg.URL.Scheme {
	case "http":
	case "unix":
		network, address = "unix", cfg.URL.Path
	default:
		cfg.Standard = true
	}
	if cfg.Standard {
		return standardTransport(cfg, dialer)
	}
	return transport.New(transport.Config{
		Dial:            func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, network, address) },
		ResponseTimeout: cfg.ResponseTimeout, IdleTimeout: idleTime, MaxIdle: cfg.MaxIdle,
		Fallback: standardTransport(cfg, dialer),
	})
}

// idleTime is how long a connection waits for its next request.
const idleTime = 90 * time.Second

// hostPort is where to dial for an http URL.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func standardTransport(cfg UpstreamConfig, dialer *net.Dialer) *http.Transport {
	t := &http.Transport{
		DialContext:           dialer.DialContext,
		TLSClientConfig:       cfg.TLS,
		TLSHandshakeTimeout:   cfg.ConnectTimeout,
		ResponseHeaderTimeout: cfg.ResponseTimeout,
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          cfg.MaxIdle,
		MaxIdleConnsPerHost:   cfg.MaxIdle,
		IdleConnTimeout:       idleTime,
		DisableCompression:    true, // what the client asked for is what it gets
		WriteBufferSize:       16 << 10,
		ReadBufferSize:        16 << 10,
		Protocols:             new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	switch cfg.URL.Scheme {
	case "https":
		t.Protocols.SetHTTP2(true)
	case "h2c":
		t.Protocols.SetHTTP1(false)
		t.Protocols.SetUnencryptedHTTP2(true)
	case "unix":
		path := cfg.URL.Path
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	}
	return t
}

// Close closes idle connections; calls in flight go on.
func (u *Upstream) Close() {
	if t, ok := u.via.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// take takes a slot for one call; false when all are taken.
func (u *Upstream) take() bool {
	if u.inFlight.Add(1) > int64(u.cfg.MaxInFlight) {
		u.give()
		return false
	}
	return true
}

func (u *Upstream) give() { u.inFlight.Add(-1) }

// orphanTime is how long a call may go on after its client has hung up.
func (u *Upstream) orphanTime() time.Duration {
	if u.cfg.ResponseTimeout > 0 {
		return u.cfg.ResponseTimeout
	}
	return time.Minute
}

// address fills in where a request goes.
func (u *Upstream) address(out *http.Request, in *http.Request) {
	requestURL(out.URL, in)
	switch u.cfg.URL.Scheme {
	case "unix":
		out.URL.Scheme, out.URL.Host = "http", "unix"
	case "h2c":
		out.URL.Scheme, out.URL.Host = "http", u.cfg.URL.Host
	default:
		out.URL.Scheme, out.URL.Host = u.cfg.URL.Scheme, u.cfg.URL.Host
	}
	if base := u.cfg.URL.EscapedPath(); u.cfg.URL.Scheme != "unix" && base != "" && base != "/" {
		prefix(out.URL, u.cfg.URL)
	}
	out.Host = in.Host
	if u.cfg.OwnHost {
		out.Host = u.cfg.URL.Host
	}
	if n := u.cfg.SecretHeader.Name; n != "" {
		out.Header[n] = []string{u.cfg.SecretHeader.Value}
	}
}

// requestURL makes u the path and query of a request, spelled as they came.
func requestURL(u *url.URL, in *http.Request) {
	*u = url.URL{Path: in.URL.Path, RawPath: in.URL.RawPath, RawQuery: in.URL.RawQuery, ForceQuery: in.URL.ForceQuery}
	if in.RequestURI == "*" {
		u.Opaque = "*"
		return
	}
	// Path and RawPath lose a spelling that Go would not have chosen. Opaque keeps it, but cannot begin with
	// two slashes, which would make it an authority.
	if raw := in.RequestURI; len(raw) > 1 && raw[0] == '/' && raw[1] != '/' {
		for i := range len(raw) {
			if raw[i] == '?' {
				raw = raw[:i]
				break
			}
		}
		if u.EscapedPath() != raw {
			u.Opaque = raw
		}
	}
}

// prefix puts the base's path in front, without doubling or losing a slash.
func prefix(u, base *url.URL) {
	left := base.EscapedPath()
	for len(left) > 0 && left[len(left)-1] == '/' {
		left = left[:len(left)-1]
	}
	right := u.Opaque
	if right == "" {
		right = u.EscapedPath()
	}
	if right == "" || right == "*" {
		right = "/"
	}
	u.Path, u.RawPath, u.Opaque = "", "", left+right
}
