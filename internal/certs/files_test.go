package certs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"authgate/internal/acmetest"
)

// keep writes a pair for names into a folder and gives its paths.
func keep(t *testing.T, dir, name string, names ...string) Pair {
	t.Helper()
	cert, key := acmetest.Pair(t, time.Hour, names...)
	p := Pair{Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+"-key.pem")}
	for path, data := range map[string][]byte{p.Cert: cert, p.Key: key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// shown is the names of the certificate that a handshake gets.
func shown(t *testing.T, source Source, host string, change func(*tls.Config)) (names []string, err error) {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	go func() {
		defer server.Close()
		_ = tls.Server(server, source.TLS()).Handshake()
	}()
	c := &tls.Config{ServerName: host, InsecureSkipVerify: true}
	if change != nil {
		change(c)
	}
	conn := tls.Client(client, c)
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if err := conn.Handshake(); err != nil {
		return nil, err
	}
	leaf := conn.ConnectionState().PeerCertificates[0]
	names = leaf.DNSNames
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names, nil
}

func TestFilesByName(t *testing.T) {
	dir := t.TempDir()
	f, err := NewFiles([]Pair{keep(t, dir, "first", "first.test"), keep(t, dir, "second", "second.test", "2.test", "192.0.2.7"), keep(t, dir, "wild", "*.wild.test")})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ host, want string }{
		{"first.test", "[first.test]"},
		{"second.test", "[second.test 2.test 192.0.2.7]"},
		{"2.TEST", "[second.test 2.test 192.0.2.7]"},
		{"a.wild.test", "[*.wild.test]"},
		{"a.b.wild.test", "[first.test]"},
		{"wild.test", "[first.test]"},
		{"unknown.test", "[first.test]"},
		{"", "[first.test]"},
	} {
		got, err := shown(t, f, c.host, nil)
		if fmt.Sprint(got) != c.want || err != nil {
			t.Errorf("%q: got %v, %v; want %s", c.host, got, err, c.want)
		}
	}
	for host, want := range map[string]bool{
		"first.test": true, "2.test": true, "192.0.2.7": true, "a.wild.test": true,
		"wild.test": false, "a.b.wild.test": false, "unknown.test": false, "": false, "*.wild.test": true,
	} {
		if got := f.Covers(host); got != want {
			t.Errorf("covers %q: got %v, want %v", host, got, want)
		}
	}
	if got := f.Expiry(); len(got) != 3 || time.Until(got["*.wild.test"]) > time.Hour || time.Until(got["first.test"]) < 50*time.Minute {
		t.Errorf("expiry: %v", got)
	}
	if got := f.Paths(); len(got) != 6 || !slices.Contains(got, filepath.Join(dir, "wild-key.pem")) {
		t.Errorf("paths: %v", got)
	}
}

// Of two pairs for a name a client gets the one whose key it can use.
func TestFilesByKey(t *testing.T) {
	dir := t.TempDir()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a.test", "rsa.test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	other := Pair{Cert: filepath.Join(dir, "rsa.pem"), Key: filepath.Join(dir, "rsa-key.pem")}
	for path, block := range map[string]*pem.Block{other.Cert: {Type: "CERTIFICATE", Bytes: der}, other.Key: {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := NewFiles([]Pair{keep(t, dir, "a", "a.test"), other})
	if err != nil {
		t.Fatal(err)
	}
	for suite, want := range map[uint16]string{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: "[a.test]", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: "[a.test rsa.test]",
	} {
		got, err := shown(t, f, "a.test", func(c *tls.Config) { c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{suite} })
		if fmt.Sprint(got) != want || err != nil {
			t.Errorf("%s: got %v, %v; want %s", tls.CipherSuiteName(suite), got, err, want)
		}
	}
}

func TestVersions(t *testing.T) {
	f, err := NewFiles([]Pair{keep(t, t.TempDir(), "a", "a.test")})
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		_, err := shown(t, f, "a.test", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, version })
		if got := err == nil; got != want {
			t.Errorf("%s: got %v (%v), want %v", tls.VersionName(version), got, err, want)
		}
	}
}

// A reload takes all pairs, or none.
func TestReloadWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	a, b := keep(t, dir, "a", "a.test"), keep(t, dir, "b", "b.test")
	first, err := NewFiles([]Pair{a})
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewFiles([]Pair{b})
	if err != nil {
		t.Fatal(err)
	}
	show := func() string {
		t.Helper()
		x, _ := shown(t, first, "", nil)
		y, _ := shown(t, second, "", nil)
		return fmt.Sprint(x, y)
	}
	keep(t, dir, "a", "a2.test")
	if err := os.WriteFile(b.Cert, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Reload(first, second); err == nil {
		t.Error("a torn certificate was taken")
	}
	if got := show(); got != "[a.test] [b.test]" {
		t.Errorf("after a bad reload: got %s, want the old ones", got)
	}
	keep(t, dir, "b", "b2.test")
	if err := Reload(first, second); err != nil {
		t.Error(err)
	}
	if got := show(); got != "[a2.test] [b2.test]" {
		t.Errorf("after a reload: got %s, want the new ones", got)
	}
	if _, err := NewFiles([]Pair{{Cert: a.Cert, Key: b.Key}}); err == nil {
		t.Error("a key of another certificate was taken")
	}
}
