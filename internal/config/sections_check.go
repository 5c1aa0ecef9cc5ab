package config

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"authgate/clientip"
	"authgate/internal/route"

	"golang.org/x/net/http/httpguts"
)

// builder turns a document into a Config and reports what contradicts itself.
type builder struct {
	*report
	doc     *document
	options Options
	broken  map[string]bool // paths whose value could not be decoded
}

// wrong reports a mistake, unless the value at the path could not even be decoded: then what it means now is not what
// was written.
func (b *builder) wrong(path, format string, args ...any) {
	if !b.broken[path] {
		b.errorf(path, format, args...)
	}
}

func (b *builder) checkServer(s *Server) {
	if len(s.Listen) == 0 {
		b.wrong("server.listen", "is empty; use an address such as 127.0.0.1:8080")
	}
	seen := map[string]bool{}
	for i, addr := range s.Listen {
		path := b.itemPath("server.listen", i)
		b.checkListen(path, addr)
		if seen[addr] && !strings.HasSuffix(addr, ":0") {
			b.wrong(path, "%s is there twice; keep one", quote(addr))
		}
		seen[addr] = true
	}
	b.checkServerTLS(s)
}

// checkListen takes host:port, where the host may be empty and the port 0.
func (b *builder) checkListen(path, addr string) {
	if _, err := splitAddress(addr, true); err != nil {
		b.wrong(path, "%v; use host:port such as 127.0.0.1:8080 or :8080", err)
	}
}

// splitAddress checks host:port and gives the host.
func splitAddress(addr string, listen bool) (host string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%s is no address", quote(addr))
	}
	if n, err := parseInt(port); err != nil || n < 0 || n > 65535 || n == 0 && !listen {
		return "", fmt.Errorf("%s has no valid port", quote(addr))
	}
	if host == "" && listen {
		return host, nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host, nil
	}
	if _, ok := route.CanonicalHost(host); !ok || strings.Contains(host, ":") {
		return "", fmt.Errorf("%s has no valid host", quote(addr))
	}
	return host, nil
}

const urlForm = "use http://host:port, https://host:port, h2c://host:port or unix:///path"

func (b *builder) checkUpstream(u *Upstream) {
	if *u.URL == (url.URL{}) {
		b.wrong("upstream.url", "is missing; %s", urlForm)
	} else if problem := upstreamProblem(u.URL); problem != "" {
		b.wrong("upstream.url", "%s", problem)
	}
	if u.TLS != (UpstreamTLS{}) && u.URL.Scheme != "https" && !b.broken["upstream.url"] {
		b.wrong("upstream.tls", "is set, but upstream.url is not https; use an https:// URL, or leave tls out")
	}
	b.checkRoots("upstream.tls.ca_file", u.TLS.CAFile)
	b.checkPair("upstream.tls", u.TLS.Cert, u.TLS.Key)
	if name := u.TLS.ServerName; name != "" {
		b.checkHost("upstream.tls.server_name", name)
	}
	b.checkSecretHeader(&u.SecretHeader)
}

// upstreamProblem never quotes the URL: it may hold a password where none belongs.
func upstreamProblem(u *url.URL) string {
	switch {
	case u.User != nil:
		return "holds a user name; the backend gets the credentials of each client, leave it out"
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "has a query or a fragment; leave it out"
	}
	switch u.Scheme {
	case "http", "https", "h2c":
		if u.Path != "" && u.Path != "/" {
			return "has a path; the backend gets the path of each request, leave it out"
		}
		if u.Hostname() == "" {
			return "has no host; " + urlForm
		}
		addr := u.Host
		if u.Port() == "" && !strings.HasSuffix(addr, ":") {
			addr += ":80"
		}
		if _, err := splitAddress(addr, false); err != nil {
			return "has no valid host and port; " + urlForm
		}
	case "unix":
		if u.Host != "" || u.Path == "" || u.Path == "/" {
			return "names no socket; write three slashes before the path"
		}
	default:
		return "has no scheme that is known; " + urlForm
	}
	return ""
}

func (b *builder) checkSecretHeader(h *SecretHeader) {
	const path = "upstream.secret_header"
	switch {
	case h.Name == "" && h.Value == "":
		return
	case h.Name == "":
		b.wrong(path+".name", "is missing; name the header that carries the value")
	case h.Value == "":
		b.wrong(path+".value", "is missing; use env:NAME or file:PATH")
	}
	if h.Name != "" {
		b.checkHeaderName(path+".name", h.Name)
	}
	if !httpguts.ValidHeaderFieldValue(h.Value.Reveal()) {
		b.wrong(path+".value", "cannot stand in a header; use printable characters on one line")
	}
}

// checkHeaderName takes the name of a header that may be set on the way to the backend.
func (b *builder) checkHeaderName(path, name string) {
	if !httpguts.ValidHeaderFieldName(name) {
		b.wrong(path, "%s is no header name; use letters, digits and dashes", quote(name))
		return
	}
	switch strings.ToLower(name) {
	case "host", "content-length", "content-encoding", "transfer-encoding", "connection", "upgrade", "te", "trailer",
		"keep-alive", "proxy-connection", "proxy-authorization", "expect", "authorization", "cookie":
		b.wrong(path, "%s belongs to the connection or to the client; use another header", quote(name))
	}
}

func (b *builder) checkClientIP(c *ClientIP) {
	_, warnings, err := clientip.New(c.Walk())
	if err != nil {
		b.wrong("client_ip.header", "%s is no header name; use X-Forwarded-For, Forwarded, or a header that holds one address", quote(c.Header))
	}
	for _, w := range warnings {
		b.warnf("client_ip", "%s", w)
	}
	if c.Allow.Empty() {
		b.wrong("client_ip.allow", `admits nobody; use "*" for everyone, or addresses and CIDRs`)
	}
}

func (b *builder) checkStore(s *Store) {
	const path = "store.valkey"
	if len(s.Valkey.Addresses) == 0 {
		b.wrong(path+".addresses", "is empty; use an address such as 127.0.0.1:6379")
	}
	for i, addr := range s.Valkey.Addresses {
		if _, err := splitAddress(addr, false); err != nil {
			b.wrong(b.itemPath(path+".addresses", i), "%v; use host:port such as 127.0.0.1:6379", err)
		}
	}
	if !validPrefix(s.Valkey.Prefix) {
		b.wrong(path+".prefix", "%s cannot begin a key; use 1 to 32 of a-z, A-Z, 0-9, dot, dash and underscore", quote(s.Valkey.Prefix))
	}
	b.checkRoots(path+".ca_file", s.Valkey.CAFile)
	if s.Valkey.CAFile != "" && !s.Valkey.TLS {
		b.wrong(path+".ca_file", "is set, but store.valkey.tls is false; set tls: true, or leave it out")
	}
	b.checkSecret("store.hash_key", s.HashKey)
	if s.File != "" && s.Backend != "memory" {
		b.wrong("store.file", "is for the memory store, but store.backend is %s, which keeps everything itself; leave file out", s.Backend)
	}
	if _, set := b.origins[path]; set && s.Backend != "valkey" {
		b.warnf(path, "is set, but store.backend is %s; set backend: valkey to use it", s.Backend)
	}
}

func validPrefix(s string) bool {
	odd := func(r rune) bool { return !isAlphanumeric(r) && !strings.ContainsRune("._-", r) }
	return s != "" && len(s) <= 32 && !strings.ContainsFunc(s, odd)
}

func isAlphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

func (b *builder) checkAdmin(a *Admin) {
	b.checkListen("admin.listen", a.Listen)
	host, err := splitAddress(a.Listen, true)
	if err == nil && len(a.Tokens) == 0 && !isLoopback(host) {
		b.warnf("admin.listen", "listens beyond this machine without a token: one is made for each run and shown on a terminal only; configure admin.tokens")
	}
	for i, addr := range b.doc.Server.Listen {
		if addr == a.Listen && !strings.HasSuffix(addr, ":0") {
			b.wrong("admin.listen", "is the address of %s too; use another port", b.itemPath("server.listen", i))
		}
	}
	seen := map[string]bool{}
	for i, t := range a.Tokens {
		path := fmt.Sprintf("admin.tokens[%d]", i)
		if err := checkName(t.Name); err != nil {
			b.wrong(path+".name", "%v", err)
		} else if seen[t.Name] {
			b.wrong(path+".name", "%s is there twice; give each token a name of its own", quote(t.Name))
		}
		seen[t.Name] = true
		if _, err := t.digest(); err != nil {
			b.wrong(path+".hash", "%v", err)
		}
	}
	for i, host := range a.Hosts {
		b.checkHost(b.itemPath("admin.hosts", i), host)
	}
	b.checkPair("admin.tls", a.TLS.Cert, a.TLS.Key)
}

// Digest is the SHA-256 of the token.
func (t *Token) Digest() [sha256.Size]byte {
	d, _ := t.digest() // checked when the configuration was built
	return d
}

func (t *Token) digest() (out [sha256.Size]byte, err error) {
	digits, ok := strings.CutPrefix(t.Hash.Reveal(), "sha256:")
	if n, err := hex.Decode(out[:], []byte(digits[:min(len(digits), 2*len(out))])); !ok || err != nil || n != len(out) || len(digits) != 2*n {
		return out, errors.New("is no digest; use sha256: and the 64 hex digits of the token's SHA-256")
	}
	return out, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// checkHost takes a host name or address with or without a port.
func (b *builder) checkHost(path, host string) {
	if _, ok := route.CanonicalHost(host); !ok {
		b.wrong(path, "%s is no host; use a name such as auth.example.org", quote(host))
	}
}

// checkRoots takes a PEM file with at least one certificate; an empty name is none.
func (b *builder) checkRoots(path, file string) {
	if file == "" {
		return
	}
	pem, err := b.options.readFile(file)
	switch {
	case err != nil:
		b.wrong(path, "cannot be read; name a PEM file with certificates: %v", err)
	case !x509.NewCertPool().AppendCertsFromPEM(pem):
		b.wrong(path, "%s holds no certificate; name a PEM file with certificates", quote(file))
	}
}

// checkPair takes a certificate and its key, or neither.
func (b *builder) checkPair(path, certFile, keyFile string) {
	switch {
	case certFile == "" && keyFile == "":
		return
	case keyFile == "":
		b.wrong(path+".key", "is missing; name the key of the certificate")
		return
	case certFile == "":
		b.wrong(path+".cert", "is missing; name the certificate of the key")
		return
	}
	cert, err := b.options.readFile(certFile)
	if err != nil {
		b.wrong(path+".cert", "cannot be read; name a PEM file: %v", err)
	}
	key, keyErr := b.options.readFile(keyFile)
	if keyErr != nil {
		b.wrong(path+".key", "cannot be read; name a PEM file: %v", keyErr)
	}
	if err != nil || keyErr != nil {
		return
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		b.wrong(path+".cert", "does not work with the key: %v", err)
	}
}

// itemPath is where item i of a list stands, which may have been written without brackets.
func (b *builder) itemPath(list string, i int) string {
	if path := list + "[" + strconv.Itoa(i) + "]"; b.origins[path].Line > 0 {
		return path
	}
	return list
}
