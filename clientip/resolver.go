// Package clientip finds out who really sent a request: from the address of the connection's peer and the lines of one header.
//
// The chain is [header elements, left to right ..., peer]. Element k was written by the hop to its right, so an element is
// worth believing only if every hop to its right is trusted. From that one sentence follow the walk from the peer inward, the
// stop at the first thing that cannot be read, and the rule that nothing left of the deciding element is ever looked at.
//
// The package knows no HTTP: header lines come in as text, addresses go out as netip.Addr. Addresses that it returns carry
// no zone, and an IPv4-mapped IPv6 address is returned as IPv4 [C3].
package clientip

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"strings"
)

// Config says which addresses and which header are believed. The zero value believes the peer only.
type Config struct {
	TrustHeaders   bool      // false: the peer is the client
	TrustedProxies TrustList // hops whose word is believed
	TrustedHops    int       // 0..MaxHops hops skipped from the right, the peer being the first; ignored with a list
	Header         string    // X-Forwarded-For (when empty), Forwarded, or a header that holds one address; in any case
}

// Resolver finds the client of one request after another. It is immutable and safe for concurrent use.
type Resolver struct {
	mode    mode
	header  string
	parse   func(element string) (netip.Addr, Reason)
	trusted TrustList
	hops    int
}

const (
	// DefaultHeader is the header that is read when Config.Header is empty.
	DefaultHeader = "X-Forwarded-For"
	// MaxHops is the largest hop count and the largest number of elements that one walk examines [C3].
	MaxHops = 32

	forwardedHeader  = "Forwarded"
	cloudFrontHeader = "Cloudfront-Viewer-Address" // canonical form; it alone always carries a port
)

// mode is what Config comes down to.
type mode uint8

const (
	modeOff         mode = iota // headers are not trusted
	modeNoMechanism             // they are, but nothing says from whom
	modeList
	modeHops
	modeSingle
)

// New compiles cfg. The warnings are for the operator, to be logged once: settings that are allowed but rarely meant. An
// error names a hop count outside 0..MaxHops or a header that is not a field name.
func New(cfg Config) (*Resolver, []string, error) {
	if cfg.TrustedHops < 0 || cfg.TrustedHops > MaxHops {
		return nil, nil, fmt.Errorf("compiling client address rules: trusted hops %d is not within 0..%d", cfg.TrustedHops, MaxHops)
	}
	header := cfg.Header
	if header == "" {
		header = DefaultHeader
	}
	if !isToken(header) {
		return nil, nil, fmt.Errorf("compiling client address rules: header %q is not a field name", header)
	}
	r := &Resolver{
		header:  textproto.CanonicalMIMEHeaderKey(header),
		trusted: cfg.TrustedProxies,
		hops:    cfg.TrustedHops,
	}
	r.mode, r.parse = r.compile(cfg.TrustHeaders)
	return r, r.warnings(), nil
}

func (r *Resolver) compile(trustHeaders bool) (mode, func(string) (netip.Addr, Reason)) {
	single := false
	parse := parseForwardedForEntry
	switch r.header {
	case DefaultHeader:
	case forwardedHeader:
		parse = parseForwardedElement
	case cloudFrontHeader:
		single, parse = true, parseCloudFrontValue
	default:
		single, parse = true, parseSingleValue
	}
	switch {
	case !trustHeaders:
		return modeOff, parse
	case single && !r.trusted.Empty():
		return modeSingle, parse
	case !r.trusted.Empty():
		return modeList, parse
	case r.hops > 0 && !single: // a hop count cannot tell who sent a single-value header
		return modeHops, parse
	}
	return modeNoMechanism, parse
}

// Header returns the canonical name of the one header whose lines Resolve wants.
func (r *Resolver) Header() string { return r.header }

// Resolve finds the client. peer is the text of the connection's remote address as Go gives it: ip:port, a bare address, or
// "@" or a path for a unix socket. lines are the lines of the header named by Header, in wire order. The result keeps none
// of that text. The time is linear in the bytes of lines; at most MaxHops elements are parsed. Nothing is allocated unless a
// second hop is walked or a value is malformed.
func (r *Resolver) Resolve(peer string, lines []string) Result {
	addr, unix := parsePeer(peer)
	res := Result{Addr: addr, Peer: addr}
	if !addr.IsValid() && !unix {
		return res.because(ReasonNoPeer)
	}
	switch r.mode {
	case modeOff:
		return res.peerOnly(ReasonHeadersOff)
	case modeNoMechanism:
		return res.peerOnly(ReasonNoMechanism)
	case modeHops:
		return r.countHops(res, lines)
	}
	if !r.trusted.trusts(addr, unix) {
		return res.peerOnly(ReasonUntrustedPeer)
	}
	res.Trusted = true
	if r.mode == modeSingle {
		return r.readSingle(res, lines)
	}
	return r.walkList(res, lines)
}

// walkList skips trusted hops from the peer inward; the first other one is the client [C1].
func (r *Resolver) walkList(res Result, lines []string) Result {
	elements := r.walk(lines)
	var leftmost netip.Addr
	for n := 0; ; n++ {
		element, ok := elements.next()
		if !ok {
			break
		}
		if leftmost.IsValid() {
			res.Hops = append(res.Hops, leftmost)
		}
		if n == MaxHops {
			return res.because(ReasonTooMany)
		}
		hop, failure := r.parse(element)
		if !hop.IsValid() {
			return res.because(failure)
		}
		if !r.trusted.set.contains(hop) {
			res.Addr = hop
			return res.because(ReasonForwarded)
		}
		leftmost = hop
	}
	if !leftmost.IsValid() {
		return res.because(ReasonNoHeader)
	}
	res.Addr = leftmost
	return res.because(ReasonAllTrusted)
}

// countHops takes the element that lies r.hops places left of the peer. What is skipped counts whether or not it can be
// read: dropping junk before counting would move the count towards the sender.
func (r *Resolver) countHops(res Result, lines []string) Result {
	elements := r.walk(lines)
	for n := 1; ; n++ {
		element, ok := elements.next()
		if !ok {
			return res.because(ReasonShortChain)
		}
		hop, failure := r.parse(element)
		if n < r.hops {
			res.Hops = append(res.Hops, hop)
			continue
		}
		if !hop.IsValid() {
			return res.because(failure)
		}
		res.Addr = hop
		return res.because(ReasonHops)
	}
}

// readSingle takes the value of a header that holds one address. Two of them show that the proxy adds where it should
// replace, so neither is believed.
func (r *Resolver) readSingle(res Result, lines []string) Result {
	switch {
	case len(lines) == 0:
		return res.because(ReasonNoHeader)
	case len(lines) > 1 || strings.Contains(lines[0], ","):
		return res.because(ReasonSingleMultiple)
	}
	addr, failure := r.parse(trimBlanks(lines[0]))
	if !addr.IsValid() {
		return res.because(failure)
	}
	res.Addr = addr
	return res.because(ReasonSingle)
}

func (r *Resolver) walk(lines []string) walker {
	return walker{lines: lines, quotes: r.header == forwardedHeader}
}

// warnings lists settings that start but probably do not do what was meant.
func (r *Resolver) warnings() []string {
	if r.mode == modeOff {
		return nil
	}
	var warnings []string
	switch {
	case r.mode == modeNoMechanism && r.hops > 0:
		warnings = append(warnings, fmt.Sprintf("header %s is only believed from listed proxies, not by a hop count: "+
			"every client address is the peer's until trusted_proxies is set", r.header))
	case r.mode == modeNoMechanism:
		warnings = append(warnings, "headers are trusted, but neither trusted_proxies nor trusted_hops is set: "+
			"every client address is the peer's")
	case r.hops > 0 && r.mode != modeHops:
		warnings = append(warnings, "trusted_hops is ignored because trusted_proxies is set")
	}
	switch r.header {
	case DefaultHeader, forwardedHeader, cloudFrontHeader, "X-Real-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Fly-Client-Ip",
		"X-Azure-Socketip", "X-Azure-Clientip", "X-Envoy-External-Address", "X-Appengine-User-Ip":
	case "True-Client-Ip", "Fastly-Client-Ip", "X-Client-Ip":
		warnings = append(warnings, fmt.Sprintf("header %s can be sent through a CDN by the client, unless the CDN is told to "+
			"overwrite it", r.header))
	default:
		warnings = append(warnings, fmt.Sprintf("header %s is not a well-known one; it is read as a single address", r.header))
	}
	return warnings
}
