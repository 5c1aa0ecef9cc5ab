package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"authgate/internal/acmetest"
)

func TestUpstreamTLS(t *testing.T) {
	cert, key := acmetest.Pair(t, time.Hour)
	_, otherKey := acmetest.Pair(t, time.Hour)
	files := map[string][]byte{"cert": cert, "key": key, "other": otherKey}
	opts := Options{ReadFile: func(path string) ([]byte, error) {
		if data, ok := files[path]; ok {
			return data, nil
		}
		return nil, os.ErrNotExist
	}}
	for _, c := range []struct{ name, tls, want string }{
		{"nothing", "", ""},
		{"all", "ca_file: cert, cert: cert, key: key, server_name: backend.test", ""},
		{"roots that are a key", "ca_file: key", `upstream.tls.ca_file: "key" holds no certificate`},
		{"key of another certificate", "cert: cert, key: other", "upstream.tls.cert: does not work with the key"},
		{"no key", "cert: cert", "upstream.tls.key: is missing"},
		{"no certificate", "key: key", "upstream.tls.cert: is missing"},
		{"no such file", "cert: cert, key: none", "upstream.tls.key: cannot be read"},
		{"odd server name", "server_name: a b", "upstream.tls.server_name: \"a b\" is no host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := fmt.Sprintf("upstream: {url: https://10.0.0.1, tls: {%s}}\n", c.tls)
			cfg, _, err := Parse("x", []byte(text), opts)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%v", err)
			case c.want == "" && c.tls != "" && cfg.Upstream.TLS != UpstreamTLS{CAFile: "cert", Cert: "cert", Key: "key", ServerName: "backend.test"}:
				t.Errorf("got %+v", cfg.Upstream.TLS)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestUpstreamURLs(t *testing.T) {
	for url, sound := range map[string]bool{
		"http://backend": true, "http://backend:8080/": true, "https://backend.test:443": true, "h2c://127.0.0.1:1": true,
		"http://[::1]:80": true, "http://[::1]": true, "unix:///run/b.sock": true, "HTTP://backend": true,
		"backend:8080": false, "http://backend:0": false, "http://backend:99999": false, "http://": false, "http:///x": false,
		"http://a b": false, "http://backend?x": false, "http://backend#x": false, "http://backend:": false, "unix:///": false,
		"unix:/run/b.sock": true, "http:backend": false, "http://back_end": true, "ws://backend": false, "http://u@backend": false,
	} {
		_, _, err := Parse("x", []byte("upstream: {url: '"+url+"'}"), Options{})
		if got := err == nil; got != sound {
			t.Errorf("%s: sound is %v, want %v (%v)", url, got, sound, err)
		}
	}
}
