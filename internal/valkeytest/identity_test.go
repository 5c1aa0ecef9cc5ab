package valkeytest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
)

func TestTLS(t *testing.T) {
	s := Start(t, TLS())
	s.Do("SET", "k", "v")
	s.Restart()
	s.Do("PING")

	if conn, err := tls.Dial("tcp", s.Addr(), &tls.Config{}); err == nil {
		conn.Close()
		t.Error("a client without the authority believed the server")
	}
	pem, err := os.ReadFile(s.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("%s holds no certificate", s.CAFile())
	}
	for _, name := range []string{"127.0.0.1", "localhost"} {
		conn, err := tls.Dial("tcp", s.Addr(), &tls.Config{RootCAs: roots, ServerName: name})
		if err != nil {
			t.Errorf("a client with the authority, asking for %s: %v", name, err)
			continue
		}
		conn.Close()
	}
}

func TestWithoutTLSThereIsNoAuthority(t *testing.T) {
	if got := Start(t).CAFile(); got != "" {
		t.Errorf("CAFile = %q, want none", got)
	}
}
