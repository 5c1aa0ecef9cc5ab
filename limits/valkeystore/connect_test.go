package valkeystore

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"testing"

	"authgate/internal/valkeytest"
)

func TestConnects(t *testing.T) {
	trust := func(t *testing.T, s *valkeytest.Server) *tls.Config {
		pem, err := os.ReadFile(s.CAFile())
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	for name, tt := range map[string]struct {
		options []valkeytest.Option
		config  func(*testing.T, *valkeytest.Server, *Config)
		fails   bool
	}{
		"tcp":  {nil, nil, false},
		"unix": {[]valkeytest.Option{valkeytest.UnixSocket()}, nil, false},
		"tls": {[]valkeytest.Option{valkeytest.TLS()}, func(t *testing.T, s *valkeytest.Server, c *Config) {
			c.TLS = trust(t, s)
		}, false},
		"tls of an unknown authority": {[]valkeytest.Option{valkeytest.TLS()}, func(_ *testing.T, _ *valkeytest.Server, c *Config) {
			c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}, true},
		"plain to tls": {[]valkeytest.Option{valkeytest.TLS()}, nil, true},
		"password": {[]valkeytest.Option{valkeytest.Flag("requirepass", "secret")}, func(_ *testing.T, _ *valkeytest.Server, c *Config) {
			c.Password = "secret"
		}, false},
		"wrong password": {[]valkeytest.Option{valkeytest.Flag("requirepass", "secret")}, func(_ *testing.T, _ *valkeytest.Server, c *Config) {
			c.Password = "guess"
		}, true},
		"no password": {[]valkeytest.Option{valkeytest.Flag("requirepass", "secret")}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := valkeytest.Start(t, tt.options...)
			w := open(t, server.Addr(), func(c *Config) {
				if tt.config != nil {
					tt.config(t, server, c)
				}
			})
			if w.Degraded() != tt.fails {
				t.Fatalf("degraded: %t, want %t", w.Degraded(), tt.fails)
			}
			if !tt.fails {
				w.admit(t, attempt("x", windowRule, failRule))
			}
		})
	}
}

func TestDatabaseAndPrefix(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), func(c *Config) { c.Database, c.Prefix = 3, "mine" })
	w.admit(t, attempt("x", windowRule))
	if all := keys(server); len(all) != 0 {
		t.Errorf("database 0 holds %v", all)
	}
	if info, _ := server.Do("INFO", "keyspace").(string); !strings.Contains(info, "db3:keys=2,") { // the bucket and the probe
		t.Errorf("got %s, want two keys in database 3", info)
	}
}

func TestSecondAddressAnswers(t *testing.T) {
	server := valkeytest.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	l.Close()
	w := open(t, gone, func(c *Config) { c.Addresses = append(c.Addresses, server.Addr()) })
	valkeytest.Eventually(t, "the second address", func() bool { return !w.Degraded() })
	w.admit(t, attempt("x", windowRule))
}

func TestNewRefusesNoAddress(t *testing.T) {
	if s, err := New(Config{}, nil); err == nil {
		s.Close()
		t.Error("got a store without a server's address")
	}
}
