// Package acmetest runs a real ACME authority, Pebble, for one test: it validates by HTTP-01 and TLS-ALPN-01 at ports of this
// machine, issues from a root of its own, and says how often.
//
// Pebble is pinned in tools/go.mod and built by the go command when a test first wants it. There is no stand-in and no
// skipping: where it cannot be built, the test fails and says why.
package acmetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// builtWithin bounds the first build, download included.
	builtWithin = 5 * time.Minute
	// readyWithin bounds the wait for an authority that is starting. It makes three keys.
	readyWithin = 30 * time.Second
)

// Authority is a running Pebble that belongs to one test. Its methods may be called from several goroutines.
type Authority struct {
	Directory string // its https:// address
	CAFile    string // the root that its own https is signed by

	t      testing.TB
	dir    string
	client *http.Client
	admin  string
	stop   func()
}

// Settings say where and how it validates.
type Settings struct {
	HTTPPort, TLSPort int           // of 127.0.0.1, where every name points to
	Validity          time.Duration // of what it issues; default 90 days
}

// Start runs an authority until the test ends.
func Start(t testing.TB, s Settings) *Authority {
	t.Helper()
	binary, err := find()
	if err != nil {
		t.Fatal(err)
	}
	if s.Validity == 0 {
		s.Validity = 90 * 24 * time.Hour
	}
	a := &Authority{t: t, dir: t.TempDir()}
	a.identity()
	ports := FreePorts(t, 2)
	a.Directory, a.admin = fmt.Sprintf("https://127.0.0.1:%d/dir", ports[0]), fmt.Sprintf("https://127.0.0.1:%d", ports[1])
	config, _ := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": fmt.Sprintf("127.0.0.1:%d", ports[0]), "managementListenAddress": fmt.Sprintf("127.0.0.1:%d", ports[1]),
		"certificate": a.path("own.pem"), "privateKey": a.path("own-key.pem"), "httpPort": s.HTTPPort, "tlsPort": s.TLSPort,
		"keyAlgorithm": "ecdsa",
		"profiles":     map[string]any{"default": map[string]any{"description": "for tests", "validityPeriod": int(s.Validity.Seconds())}},
	}})
	a.write("config.json", config)
	out, err := os.Create(a.path("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(binary, "-config", a.path("config.json"), "-dnsserver", names(t))
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = diesWithTest()
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting the authority: %v", err)
	}
	a.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // how it ended is of no interest
	})
	t.Cleanup(a.stop)
	a.waitReady()
	return a
}

// Stop ends the authority before the test does.
func (a *Authority) Stop() { a.stop() }

// Issued is how many certificates it has issued.
func (a *Authority) Issued() int { return strings.Count(a.Log(), "Issued certificate serial") }

// Orders is how many certificates have been ordered, issued or not.
func (a *Authority) Orders() int { return strings.Count(a.Log(), "Added order") }

// Log is what the authority has printed.
func (a *Authority) Log() string {
	text, err := os.ReadFile(a.path("log"))
	if err != nil {
		a.t.Fatal(err)
	}
	return string(text)
}

// Roots are the roots that its certificates lead to, and RootFile is a file that holds them.
func (a *Authority) Roots() *x509.CertPool {
	a.t.Helper()
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(a.RootFile())
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		a.t.Fatalf("reading the authority's root: %v", err)
	}
	return pool
}

// RootFile is a PEM file with the root that its certificates lead to.
func (a *Authority) RootFile() string {
	a.t.Helper()
	res, err := a.client.Get(a.admin + "/roots/0")
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	root, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write("root.pem", root)
	return a.path("root.pem")
}

func (a *Authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *Authority) write(name string, data []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name), data, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *Authority) waitReady() {
	a.t.Helper()
	for end := time.Now().Add(readyWithin); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		res, err := a.client.Get(a.Directory)
		if err == nil {
			res.Body.Close()
			if res, err = a.client.Get(a.admin + "/roots/0"); err == nil {
				res.Body.Close()
				return
			}
		}
	}
	a.t.Fatalf("the authority does not answer: %s", a.Log())
}

// identity makes the certificate of its own https, which signs itself.
func (a *Authority) identity() {
	a.t.Helper()
	cert, key := Pair(a.t, time.Hour, "127.0.0.1")
	a.write("own.pem", cert)
	a.write("own-key.pem", key)
	a.CAFile = a.path("own.pem")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	a.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: 5 * time.Second}
	a.t.Cleanup(a.client.CloseIdleConnections)
}

// Pair makes a certificate for hosts and addresses that signs itself and so is a root as well, and its key, both in PEM.
func Pair(t testing.TB, valid time.Duration, names ...string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: serial.String()}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// FreePorts are ports of 127.0.0.1 that nobody listens on right now, below those that systems give to outgoing connections.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	const lowest, highest = 10000, 20000
	var out []int
	for range 100 * n {
		if len(out) == n {
			break
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+mrand.IntN(highest-lowest))))
		if err == nil {
			defer l.Close() // after all are taken, so that none comes twice
			out = append(out, l.Addr().(*net.TCPAddr).Port)
		}
	}
	if len(out) < n {
		t.Fatal("finding free ports: there are none")
	}
	return out
}

// find gives the binary: that of PEBBLE, or the one that tools/go.mod pins.
func find() (string, error) {
	if path := os.Getenv("PEBBLE"); path != "" {
		return path, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), builtWithin)
	defer cancel()
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	if err != nil || root == "." {
		return "", fmt.Errorf("finding the ACME authority for tests: no go command, or no module; set PEBBLE to the path of a pebble: %v", err)
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=tools/go.mod", "-n", "pebble")
	cmd.Dir = root
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building the ACME authority for tests; run make pebble, or set PEBBLE to the path of a pebble: %w: %s", err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}
