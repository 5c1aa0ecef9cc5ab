package route

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// maxHost is the longest name that DNS allows (RFC 1035, 2.3.4), in its written form.
const maxHost = 253

// CanonicalHost gives the one spelling of a host, as a Host header or an address carries it: without port and trailing
// dots, in lower case, international names in their ASCII form, addresses as netip writes them without brackets. It reports
// false for a host that is empty or cannot be a host name; the name is then meaningless. A name that is
// canonical already costs no allocation.
func CanonicalHost(host string) (name string, ok bool) {
	if addr, ok := bracketed(host); ok {
		return addr, true
	}
	if before, port, found := strings.Cut(host, ":"); found {
		if !digits(port) {
			return "", false
		}
		host = before
	}
	host = strings.TrimRight(host, ".")
	if plainHost(host) && !strings.Contains(host, "xn--") {
		return host, host != "" && len(host) <= maxHost
	}
	profile := idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false))
	ascii, err := profile.ToASCII(host)
	ascii = strings.TrimRight(strings.ToLower(ascii), ".")
	return ascii, err == nil && plainHost(ascii) && ascii != "" && len(ascii) <= maxHost
}

// bracketed reads an IPv6 address in brackets, with or without a port.
func bracketed(host string) (string, bool) {
	inner, ok := strings.CutPrefix(host, "[")
	if !ok {
		return "", false
	}
	inner, port, closed := strings.Cut(inner, "]")
	if !closed || port != "" && (port[0] != ':' || !digits(port[1:])) {
		return "", false
	}
	addr, err := netip.ParseAddr(inner)
	if err != nil || !addr.Is6() {
		return "", false
	}
	return addr.WithZone("").Unmap().String(), true
}

// plainHost tells whether the host has only lower-case letters, digits, dashes, underscores, and dots
// between labels.
func plainHost(host string) bool {
	for i := range len(host) {
		c := host[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case c == '.' && i > 0 && host[i-1] != '.':
		default:
			return false
		}
	}
	return true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// hostProblem says what is wrong with a host of a Match, or "".
func hostProblem(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is6() {
		return fmt.Sprintf("is an IPv6 address without brackets; write %q", "["+host+"]")
	}
	name, ok := CanonicalHost(host)
	switch {
	case strings.Contains(host, "*"):
		return "has a wildcard; list the host names, or leave hosts out for every host"
	case strings.Contains(host, "/"):
		return `is not a host name; write it without scheme and path, such as "auth.example.org"`
	case !ok:
		return `is not a host name; write one such as "auth.example.org"`
	case strings.Contains(host, "]:"):
		return fmt.Sprintf("has a port, which is not compared; write %q", "["+name+"]")
	case !strings.HasPrefix(host, "[") && strings.Contains(host, ":"):
		return fmt.Sprintf("has a port, which is not compared; write %q", name)
	}
	return ""
}
