package config

import (
	"fmt"
	"os"
	"testing"
	"time"

	"authgate/internal/acmetest"
)

func TestServerTLS(t *testing.T) {
	cert, key := acmetest.Pair(t, time.Hour)
	_, otherKey := acmetest.Pair(t, time.Hour)
	files := map[string][]byte{"cert": cert, "key": key, "other": otherKey}
	opts := Options{ReadFile: func(path string) ([]byte, error) {
		if data, ok := files[path]; ok {
			return data, nil
		}
		return nil, os.ErrNotExist
	}}
	for _, c := range []struct{ name, section, err, warning string }{
		{"off", "server: {tls: {mode: 'off'}}", "", ""},
		{"files", "server: {tls: {mode: files, certificates: [{cert: cert, key: key}], hsts: max-age=31536000; includeSubDomains; preload, redirect_from: ':80'}}", "", ""},
		{"acme", "server: {tls: {mode: acme, acme: {domains: [auth.example.test, xn--bcher-kva.test], email: ops@example.test, directory: 'https://ca.test:14000/dir', ca_file: cert}}}", "", ""},
		{"acme in valkey", "server: {tls: {mode: acme, acme: {domains: auth.example.test, storage: valkey}}}\nstore: {backend: valkey}", "", ""},
		{"redirect without TLS", "server: {tls: {redirect_from: ':80'}}", "", "x:2: server.tls.redirect_from: is set, but server.tls.mode is off; it has no effect"},
		{"hsts without TLS", "server: {tls: {hsts: max-age=0}}", "", "x:2: server.tls.hsts: is set, but server.tls.mode is off; it has no effect"},
		{"domains with files", "server: {tls: {mode: files, certificates: [{cert: cert, key: key}], acme: {domains: [a.test]}}}", "", "x:2: server.tls.acme.domains: is set, but server.tls.mode is files; it has no effect"},
		{"files with domains", "server: {tls: {mode: acme, certificates: [{cert: cert, key: key}], acme: {domains: [a.test]}}}", "", "x:2: server.tls.certificates: is set, but server.tls.mode is acme; it has no effect"},
		{"key of another certificate", "server: {tls: {mode: files, certificates: [{cert: cert, key: other}]}}", "x:2: server.tls.certificates[0].cert: does not work with the key: tls: private key does not match public key", ""},
		{"admin", "admin: {tls: {cert: cert, key: key}}", "", ""},
		{"key of another certificate for admin", "admin: {tls: {cert: cert, key: other}}", "x:2: admin.tls.cert: does not work with the key: tls: private key does not match public key", ""},
		{"address of admin", "server: {tls: {mode: acme, acme: {domains: a.test}, redirect_from: '127.0.0.1:9901'}}", "x:2: server.tls.redirect_from: is the address of admin.listen too; use another port", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, warnings, err := Parse("x", []byte(backend+c.section+"\npolicies: {a: {match: [{path: /}], requests: {source: {limit: 1, window: 1s}}}}\n"), opts)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.err || warnings.String() != c.warning {
				t.Errorf("got  %q, warnings %q\nwant %q, warnings %q", got, warnings, c.err, c.warning)
			}
		})
	}
}

// Whoever wants to follow a configuration has to look at the files of its values as well.
func TestFiles(t *testing.T) {
	opts := Options{ReadFile: func(path string) ([]byte, error) {
		if path == "/run/nets" {
			return []byte("192.0.2.0/24"), nil
		}
		return []byte("0123456789abcdef0123"), nil
	}}
	cfg, _, err := Parse("x", []byte(backend+"client_ip: {deny: 'file:/run/nets', allow: ['file:/run/nets', 10.0.0.0/8]}\nstore: {hash_key: 'file:/run/key', valkey: {username: file}}\n"), opts)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(cfg.Files()); got != "[/run/key /run/nets]" {
		t.Errorf("got %s", got)
	}
}
