package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"authgate/internal/acmetest"
	"authgate/internal/logtest"
	"authgate/internal/valkeytest"
)

// replica is one instance: its listeners, its certificates, and what it logged.
type replica struct {
	*ACME
	t          testing.TB
	addr       string
	challenges atomic.Int32 // answered on the plain port
	log        lines
}

type lines struct{ logtest.Buffer }

// run starts a replica at ports of its own; httpPort 0 is no plain listener.
func run(t *testing.T, cfg ACMEConfig, tlsPort, httpPort int) *replica {
	t.Helper()
	r := &replica{t: t}
	listen := func(port int) net.Listener {
		t.Helper()
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	secure := listen(tlsPort)
	cfg.TLSAddr, r.addr = secure.Addr(), secure.Addr().String()
	var plain net.Listener
	if httpPort != 0 {
		plain = listen(httpPort)
		cfg.HTTPAddr = plain.Addr()
	}
	cfg.Log = slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.ACME = StartACME(cfg)
	server := &http.Server{TLSConfig: r.TLS(), Handler: http.NotFoundHandler(), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.ServeTLS(secure, "", "") }()
	if plain != nil {
		redirect := &http.Server{Handler: Redirect(r.Covers, func(w http.ResponseWriter, q *http.Request) bool {
			answered := r.Challenge(w, q)
			if answered {
				r.challenges.Add(1)
			}
			return answered
		})}
		go func() { _ = redirect.Serve(plain) }()
		t.Cleanup(func() { _ = redirect.Close() })
	}
	t.Cleanup(func() {
		_ = server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		r.Stop(ctx)
		if t.Failed() {
			t.Logf("log of %s:\n%s", r.addr, r.log.String())
		}
	})
	return r
}

// leaf is the certificate that a client gets who believes roots, or nil.
func (r *replica) leaf(host string, roots *x509.CertPool) (*x509.Certificate, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", r.addr, &tls.Config{ServerName: host, RootCAs: roots})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}

// waitLeaf waits for a certificate other than old.
func (r *replica) waitLeaf(host string, roots *x509.CertPool, old *x509.Certificate) *x509.Certificate {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if c, err := r.leaf(host, roots); err == nil && (old == nil || c.SerialNumber.Cmp(old.SerialNumber) != 0) {
			return c
		}
	}
	r.t.Fatal("waited in vain for a certificate")
	return nil
}

func directory(t *testing.T, a *acmetest.Authority) ACMEConfig {
	t.Helper()
	pem, err := os.ReadFile(a.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return ACMEConfig{Directory: a.Directory, Roots: roots, Domains: []string{t.Name() + ".example.test"}, Email: "ops@example.test"}
}

// domain is a name of this test alone: the library remembers names for the whole process.
func domain(t *testing.T) string {
	return strings.ToLower(t.Name()) + ".example.test"
}

// Validation over TLS alone; and nothing is ordered for a name that is no domain, whoever asks for it.
func TestACMEOverTLS(t *testing.T) {
	t.Parallel()
	ports := acmetest.FreePorts(t, 2)
	a := acmetest.Start(t, acmetest.Settings{TLSPort: ports[0], HTTPPort: ports[1]})
	cfg := directory(t, a)
	storage := &counting{Storage: &certmagic.FileStorage{Path: t.TempDir()}}
	cfg.Storage = storage
	r := run(t, cfg, ports[0], 0)
	c := r.waitLeaf(domain(t), a.Roots(), nil)
	if err := c.VerifyHostname(domain(t)); err != nil {
		t.Error(err)
	}
	if got := r.Expiry()[domain(t)]; !got.Equal(c.NotAfter) {
		t.Errorf("expiry: got %v, want %v", got, c.NotAfter)
	}
	if names, err := shown(t, r, "", nil); fmt.Sprint(names) != "["+domain(t)+"]" {
		t.Errorf("who names no host gets %v, %v; want the first domain", names, err)
	}
	before := storage.loads.Load()
	for _, protos := range [][]string{nil, {challengeProtocol}} {
		for _, host := range []string{"other.example.test", "x." + domain(t), "no-host"} {
			if names, err := shown(t, r, host, func(c *tls.Config) { c.NextProtos = protos }); err == nil {
				t.Errorf("%s %v: got a certificate for %v", host, protos, names)
			}
		}
	}
	if n := storage.loads.Load() - before; n != 0 {
		t.Errorf("strangers' names were looked up %d times", n)
	}
	if a.Orders() != 1 || a.Issued() != 1 {
		t.Errorf("%d orders, %d issued; want 1 of each", a.Orders(), a.Issued())
	}
	if _, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", ports[1]), time.Second); err == nil {
		t.Error("somebody listens at the plain port")
	}
	for _, want := range []string{"no certificate yet", `msg="certificate obtained" name=` + domain(t) + ` renewal=false`, `msg="certificate in use"`} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log does not say %s", want)
		}
	}
}

// counting counts what is read of challenges.
type counting struct {
	certmagic.Storage
	loads atomic.Int32
}

func (c *counting) Load(ctx context.Context, key string) ([]byte, error) {
	c.loads.Add(1)
	return c.Storage.Load(ctx, key)
}

// Validation over the plain port, where nothing of TLS can be reached; afterwards it redirects.
func TestACMEOverHTTP(t *testing.T) {
	t.Parallel()
	ports := acmetest.FreePorts(t, 3)
	a := acmetest.Start(t, acmetest.Settings{TLSPort: ports[0], HTTPPort: ports[1]})
	cfg := directory(t, a)
	cfg.Storage = &certmagic.FileStorage{Path: t.TempDir()}
	r := run(t, cfg, ports[2], ports[1])
	r.waitLeaf(domain(t), a.Roots(), nil)
	if r.challenges.Load() == 0 {
		t.Error("no challenge was answered on the plain port")
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	q, _ := http.NewRequest("GET", fmt.Sprintf("http://127.0.0.1:%d/.well-known/acme-challenge/abc", ports[1]), nil)
	q.Host = domain(t)
	res, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 301 || res.Header.Get("Location") != "https://"+domain(t)+"/.well-known/acme-challenge/abc" {
		t.Errorf("a challenge that nobody began: got %d %s", res.StatusCode, res.Header.Get("Location"))
	}
}

// Two instances share one certificate, and its renewal.
func TestACMERenewal(t *testing.T) {
	t.Parallel()
	ports := acmetest.FreePorts(t, 3)
	a := acmetest.Start(t, acmetest.Settings{TLSPort: ports[0], HTTPPort: ports[1], Validity: 12 * time.Second})
	s := valkeytest.Start(t)
	cfg := directory(t, a)
	cfg.CheckEvery = 100 * time.Millisecond
	instance := func(tlsPort, httpPort int) *replica {
		c := cfg
		c.Storage = open(t, s, 0)
		return run(t, c, tlsPort, httpPort)
	}
	first, second := instance(ports[0], ports[1]), instance(ports[2], 0)
	roots := a.Roots()
	c1 := first.waitLeaf(domain(t), roots, nil)
	second.waitLeaf(domain(t), roots, nil)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the authority may want renewals at any time
		n1, n2 := first.waitLeaf(domain(t), roots, c1), second.waitLeaf(domain(t), roots, c1)
		if n1.SerialNumber.Cmp(n2.SerialNumber) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("renewed: two instances have %v and %v", n1.SerialNumber, n2.SerialNumber)
		}
	}
	orders := func(renewal string) int {
		return strings.Count(first.log.String()+second.log.String(), `msg="certificate obtained" name=`+domainOf(cfg)+" renewal="+renewal)
	}
	begun, renewed, issued := orders("false"), orders("true"), a.Issued()
	if begun != 1 || renewed == 0 {
		t.Errorf("two instances began with %d orders, and renewed %d times; want one order, and renewals", begun, renewed)
	}
	if issued < begun+renewed {
		t.Errorf("%d were issued, and %d obtained", issued, begun+renewed)
	}
	if late := time.Now().After(c1.NotAfter); late {
		t.Error("the renewal came when the certificate had ended")
	}
}

// A certificate that is old already when it is loaded is renewed at once, not at the next look.
func TestACMEOldAtStart(t *testing.T) {
	t.Parallel()
	ports := acmetest.FreePorts(t, 2)
	a := acmetest.Start(t, acmetest.Settings{TLSPort: ports[0], HTTPPort: ports[1], Validity: time.Hour})
	cfg := directory(t, a)
	cfg.Storage = &certmagic.FileStorage{Path: t.TempDir()}
	var old *x509.Certificate
	t.Run("first", func(t *testing.T) {
		cfg.CheckEvery = time.Minute
		old = run(t, cfg, ports[0], 0).waitLeaf(domainOf(cfg), a.Roots(), nil)
	})
	cfg.CheckEvery = 30 * time.Minute // an hour left is too close to the end for a look every half
	run(t, cfg, ports[0], 0).waitLeaf(domainOf(cfg), a.Roots(), old)
	if a.Issued() != 2 {
		t.Errorf("%d issued, want 2", a.Issued())
	}
}

func domainOf(cfg ACMEConfig) string { return strings.ToLower(cfg.Domains[0]) }

// An authority or a storage that is away at the start is asked again.
func TestACMEStorageBack(t *testing.T) {
	t.Parallel()
	ports := acmetest.FreePorts(t, 2)
	a := acmetest.Start(t, acmetest.Settings{TLSPort: ports[0], HTTPPort: ports[1]})
	s := valkeytest.Start(t)
	s.Kill()
	cfg := directory(t, a)
	cfg.Storage = open(t, s, 0)
	r := run(t, cfg, ports[0], ports[1])
	for end := time.Now().Add(20 * time.Second); !strings.Contains(r.log.String(), "certificate not available; trying again"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the outage was not told")
		}
	}
	if got, ok := r.Expiry()[domain(t)]; !ok || !got.IsZero() {
		t.Errorf("expiry of what is not there: %v, %v", got, ok)
	}
	s.Restart()
	r.waitLeaf(domain(t), a.Roots(), nil)
	if a.Issued() != 1 {
		t.Errorf("%d issued, want 1", a.Issued())
	}
}

func TestListening(t *testing.T) {
	addr := func(text string) net.Addr {
		if text == "" {
			return nil
		}
		a, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []struct{ tls, http, want string }{
		{"0.0.0.0:443", "0.0.0.0:80", " 443 80"},
		{"[::]:8443", "", " 8443 0"},
		{"192.0.2.1:443", "192.0.2.1:80", "192.0.2.1 443 80"},
		{"0.0.0.0:443", "192.0.2.2:80", "192.0.2.2 443 80"},
		{"192.0.2.1:443", "[::]:80", "192.0.2.1 443 80"},
	} {
		host, tlsPort, httpPort := listening(addr(c.tls), addr(c.http))
		if got := fmt.Sprint(host, " ", tlsPort, " ", httpPort); got != c.want {
			t.Errorf("%s and %s: got %q, want %q", c.tls, c.http, got, c.want)
		}
	}
}
