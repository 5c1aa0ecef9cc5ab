package clientip

import "net/netip"

// Result says who sent a request and how that was found. The zero value names nobody and satisfies no prefix.
type Result struct {
	Addr     netip.Addr // the client; invalid when there is none. Never zoned, never IPv4-mapped
	Reason   Reason     // how Addr was found, or why it is only the peer
	Degraded bool       // Addr is a fallback or missing: it may key a bucket, but satisfies no allowlist [C2]
	Peer     netip.Addr // the effective peer; invalid for a unix socket or when unknown
	Trusted  bool       // the peer is in the trusted list; never set by a hop count, which cannot tell who the peer is

	// Hops are the elements walked between the peer and the client, both excluded, the one nearest the peer first. In hop
	// mode an element that could not be read is an invalid address, so that places are kept. At most MaxHops.
	Hops []netip.Addr
}

// because completes a result. Addr must be set before, since a result without an address is degraded whatever the reason.
func (r Result) because(reason Reason) Result {
	r.Reason = reason
	r.Degraded = reason.degrades() || !r.Addr.IsValid()
	return r
}

// peerOnly completes a result for which no header was read: without an address of its own, the peer leaves nobody.
func (r Result) peerOnly(reason Reason) Result {
	if !r.Peer.IsValid() {
		reason = ReasonNoPeer
	}
	return r.because(reason)
}

// Reason says how a client address was found. Its text is stable and fit for a metric label.
type Reason uint8

// The reasons. NoPeer is the zero value, so that a zero Result claims nothing.
const (
	ReasonNoPeer         Reason = iota // no usable peer address and nothing that may stand in for it; degraded
	ReasonHeadersOff                   // headers are not trusted: the peer
	ReasonNoMechanism                  // headers are trusted, but nothing says from whom: the peer
	ReasonUntrustedPeer                // the peer is not in the list: the peer
	ReasonNoHeader                     // a trusted peer sent no element: the peer
	ReasonForwarded                    // the first hop that is not trusted
	ReasonAllTrusted                   // every element is trusted: the leftmost one
	ReasonHops                         // the element that the hop count points at
	ReasonSingle                       // the value of a single-value header
	ReasonShortChain                   // fewer elements than the hop count: the peer, degraded
	ReasonMalformed                    // the deciding element cannot be parsed: the peer, degraded
	ReasonUnknown                      // the deciding element names nobody: the peer, degraded
	ReasonTooMany                      // more than MaxHops elements to walk: the peer, degraded
	ReasonSingleInvalid                // a single-value header that is not an address: the peer, degraded
	ReasonSingleMultiple               // a single-value header with several values: the peer, degraded
)

// String returns the name in words joined by underscores, such as "untrusted_peer".
func (r Reason) String() string {
	switch r {
	case ReasonNoPeer:
		return "no_peer"
	case ReasonHeadersOff:
		return "headers_off"
	case ReasonNoMechanism:
		return "no_mechanism"
	case ReasonUntrustedPeer:
		return "untrusted_peer"
	case ReasonNoHeader:
		return "no_header"
	case ReasonForwarded:
		return "forwarded"
	case ReasonAllTrusted:
		return "all_trusted"
	case ReasonHops:
		return "hops"
	case ReasonSingle:
		return "single"
	case ReasonShortChain:
		return "short_chain"
	case ReasonMalformed:
		return "malformed"
	case ReasonUnknown:
		return "unknown"
	case ReasonTooMany:
		return "too_many"
	case ReasonSingleInvalid:
		return "single_invalid"
	case ReasonSingleMultiple:
		return "single_multiple"
	}
	return "invalid"
}

// degrades reports whether the address is a fallback rather than a finding.
func (r Reason) degrades() bool { return r == ReasonNoPeer || r >= ReasonShortChain }
