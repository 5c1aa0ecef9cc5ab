package clientip

import (
	"errors"
	"net/netip"
	"strings"
)

const (
	maxAddressBytes = 128 // the longest legal form, zone and port included, has about 86 bytes
	maxZoneBytes    = 32
)

var errLiteral = errors.New("parsing address literal: want exactly one IPv4 or IPv6 address without port, zone or brackets")

// ParseLiteral reads exactly one IPv4 or IPv6 address, as the trusted forwarder states it [M5]: no port, no zone, no
// brackets, no blanks. An IPv4-mapped address is returned as IPv4; the unspecified addresses are refused. The error does
// not repeat the text.
func ParseLiteral(s string) (netip.Addr, error) {
	if len(s) > maxAddressBytes || strings.IndexByte(s, '%') >= 0 {
		return netip.Addr{}, errLiteral
	}
	addr, ok := parseAddress(s)
	if !ok {
		return netip.Addr{}, errLiteral
	}
	return addr, nil
}

// Subnet masks a to v4 (0..32) or v6 (0..128) bits, whichever its family asks for, after dropping the zone and folding an
// IPv4-mapped address. It returns the zero Prefix for an invalid address or a number of bits out of range.
func Subnet(a netip.Addr, v4, v6 int) netip.Prefix {
	a = fold(a)
	bits := v6
	if a.Is4() {
		bits = v4
	}
	prefix, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// fold makes equal addresses equal [C3]: netip compares neither mapped with plain nor zoned with unzoned ones as equal.
func fold(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// parsePeer reads a remote address as Go writes it. Its zone comes from our own kernel and may be any text. unix reports a
// socket without an address, named or not; an empty text is no such thing.
func parsePeer(peer string) (addr netip.Addr, unix bool) {
	if strings.HasPrefix(peer, "@") || strings.HasPrefix(peer, "/") {
		return netip.Addr{}, true
	}
	if endpoint, err := netip.ParseAddrPort(peer); err == nil {
		addr = endpoint.Addr()
	} else if addr, err = netip.ParseAddr(peer); err != nil {
		return netip.Addr{}, false
	}
	addr = fold(addr)
	if addr.IsUnspecified() {
		return netip.Addr{}, false
	}
	return addr, false
}

// parseForwardedForEntry reads one element of X-Forwarded-For. The header has no quoted strings and no obfuscated names,
// but a hop that does not know may say so.
func parseForwardedForEntry(element string) (netip.Addr, Reason) {
	if strings.EqualFold(element, "unknown") {
		return netip.Addr{}, ReasonUnknown
	}
	addr, ok := parseEndpoint(element, isPort)
	if !ok {
		return netip.Addr{}, ReasonMalformed
	}
	return addr, ReasonForwarded
}

// parseSingleValue reads the value of a header that holds one address.
func parseSingleValue(value string) (netip.Addr, Reason) {
	addr, ok := parseEndpoint(value, isPort)
	if !ok {
		return netip.Addr{}, ReasonSingleInvalid
	}
	return addr, ReasonSingle
}

// parseCloudFrontValue reads an address that always carries a port and never brackets, so the last colon begins the port.
func parseCloudFrontValue(value string) (netip.Addr, Reason) {
	colon := strings.LastIndexByte(value, ':')
	if colon < 0 || len(value) > maxAddressBytes || !isPort(value[colon+1:]) {
		return netip.Addr{}, ReasonSingleInvalid
	}
	addr, ok := parseAddress(value[:colon])
	if !ok {
		return netip.Addr{}, ReasonSingleInvalid
	}
	return addr, ReasonSingle
}

// parseEndpoint reads an address with an optional port: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1],
// [2001:db8::1]:80. A port after an IPv6 address without brackets cannot be told from its last group; it is never guessed.
func parseEndpoint(s string, isPort func(string) bool) (netip.Addr, bool) {
	if len(s) > maxAddressBytes {
		return netip.Addr{}, false
	}
	host := s
	if inner, bracketed := strings.CutPrefix(s, "["); bracketed {
		address, port, closed := strings.Cut(inner, "]")
		if !closed || strings.IndexByte(address, ':') < 0 { // brackets mean IPv6
			return netip.Addr{}, false
		}
		if port != "" && (port[0] != ':' || !isPort(port[1:])) {
			return netip.Addr{}, false
		}
		host = address
	} else if address, port, found := strings.Cut(s, ":"); found && strings.IndexByte(port, ':') < 0 {
		if !isPort(port) {
			return netip.Addr{}, false
		}
		host = address
	}
	return parseAddress(host)
}

// parseAddress reads an address with an optional zone, and returns it without. The zone is cut off before netip sees the
// text, because netip takes nearly anything for a zone and keeps it.
func parseAddress(s string) (netip.Addr, bool) {
	address, zone, zoned := strings.Cut(s, "%")
	if zoned && !isZone(zone) {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(address)
	if err != nil || zoned && !addr.Is6() {
		return netip.Addr{}, false
	}
	addr = addr.Unmap()
	if addr.IsUnspecified() { // no packet comes from there
		return netip.Addr{}, false
	}
	return addr, true
}

// isPort reports whether s is 1 to 5 digits and at most 65535.
func isPort(s string) bool {
	if len(s) < 1 || len(s) > 5 {
		return false
	}
	port := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		port = port*10 + int(s[i]-'0')
	}
	return port <= 65535
}

func isZone(s string) bool {
	if len(s) < 1 || len(s) > maxZoneBytes {
		return false
	}
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && strings.IndexByte("_.~-", s[i]) < 0 {
			return false
		}
	}
	return true
}

func isAlphanumeric(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}
