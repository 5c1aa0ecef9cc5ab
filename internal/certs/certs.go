// Package certs is where TLS listeners get their certificates: from files that may be replaced at any time ([Files]), or
// from a certificate authority that speaks ACME ([ACME]), with what is kept of that on disk or in a Valkey that all instances
// share ([Valkey]). It also holds what the plain port answers ([Redirect]).
package certs

import (
	"crypto/tls"
	"strings"
	"time"
)

// Source is where a listener gets its certificates. Both [Files] and [ACME] are one.
type Source interface {
	// TLS is the configuration of a listener: version 1.2 at least, and Go's own choice of everything else.
	TLS() *tls.Config
	// Covers reports whether there is or will be a certificate for a host, given in canonical form.
	Covers(host string) bool
	// Expiry is when the certificates end, by name; the zero time where there is none yet.
	Expiry() map[string]time.Time
}

var (
	_ Source = (*Files)(nil)
	_ Source = (*ACME)(nil)
)

func isIPv6(host string) bool { return strings.Contains(host, ":") }
