package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"authgate/internal/route"
)

// Files are certificates from pairs of PEM files. A handshake gets the first pair whose certificate names the host that
// the client asks for and whose key the client can use; one that names no host, or none that is known, gets the first pair.
// All methods may be used by any number of goroutines.
type Files struct {
	pairs []Pair
	set   atomic.Pointer[set]
}

// Pair is a certificate with its chain, and its key, as paths of PEM files.
type Pair struct{ Cert, Key string }

// NewFiles reads the pairs, of which there must be at least one.
func NewFiles(pairs []Pair) (*Files, error) {
	f := &Files{pairs: pairs}
	return f, Reload(f)
}

// Reload reads all their files again. If any pair does not work, nothing changes.
func Reload(files ...*Files) error {
	sets := make([]*set, len(files))
	for i, f := range files {
		s, err := read(f.pairs)
		if err != nil {
			return err
		}
		sets[i] = s
	}
	for i, f := range files {
		f.set.Store(sets[i])
	}
	return nil
}

func read(pairs []Pair) (*set, error) {
	s := &set{byName: map[string][]*tls.Certificate{}}
	for _, p := range pairs {
		c, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			return nil, fmt.Errorf("reading certificate %s: %w", p.Cert, err)
		}
		s.add(&c)
	}
	return s, nil
}

// Paths are the files that the certificates come from.
func (f *Files) Paths() []string {
	var out []string
	for _, p := range f.pairs {
		out = append(out, p.Cert, p.Key)
	}
	return out
}

// TLS is the configuration of a listener that shows these certificates, those of a later Reload included.
func (f *Files) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: f.certificate}
}

// Covers reports whether one of the certificates is valid for a host, given as [route.CanonicalHost] writes it.
func (f *Files) Covers(host string) bool { return len(f.set.Load().named(host)) > 0 }

// Expiry is when the certificates end, by the first name of each. Of two with the same name the earlier counts.
func (f *Files) Expiry() map[string]time.Time {
	out := map[string]time.Time{}
	for _, c := range f.set.Load().all {
		name := nameOf(c.Leaf)
		if old, ok := out[name]; !ok || c.Leaf.NotAfter.Before(old) {
			out[name] = c.Leaf.NotAfter
		}
	}
	return out
}

func (f *Files) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	s := f.set.Load()
	host, _ := route.CanonicalHost(hello.ServerName)
	candidates := s.named(host)
	if len(candidates) == 0 {
		candidates = s.all
	}
	for _, c := range candidates {
		if hello.SupportsCertificate(c) == nil {
			return c, nil
		}
	}
	return candidates[0], nil
}

// set is one reading of all files.
type set struct {
	all    []*tls.Certificate
	byName map[string][]*tls.Certificate // by host; a wildcard is kept with its star
}

func (s *set) add(c *tls.Certificate) {
	s.all = append(s.all, c)
	names := append([]string(nil), c.Leaf.DNSNames...)
	for _, ip := range c.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	for _, name := range names {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		s.byName[name] = append(s.byName[name], c)
	}
}

// named are the certificates for a host: those that name it, else those with a star in the place of its first label.
func (s *set) named(host string) []*tls.Certificate {
	if host == "" {
		return nil
	}
	if c := s.byName[host]; len(c) > 0 {
		return c
	}
	_, parent, ok := strings.Cut(host, ".")
	if !ok || parent == "" {
		return nil
	}
	return s.byName["*."+parent]
}

// nameOf is what a certificate is called in logs and metrics.
func nameOf(leaf *x509.Certificate) string {
	switch {
	case len(leaf.DNSNames) > 0:
		return leaf.DNSNames[0]
	case len(leaf.IPAddresses) > 0:
		return leaf.IPAddresses[0].String()
	}
	return leaf.Subject.CommonName
}
