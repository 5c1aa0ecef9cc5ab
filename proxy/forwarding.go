package proxy

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"

	"authgate/clientip"
)

// Forwarding makes the header that goes upstream out of the one that was received [C6]. It is immutable and safe for
// concurrent use.
type Forwarding struct {
	mode    Outbound
	header  string // canonical name of the field that the resolver reads
	removed fieldSet
}

// NewForwarding prepares for a resolver that reads header (its canonical name). Beside the fields about the sender and the
// hop-by-hop ones, the fields named in own are removed in every spelling: those that the gateway sets itself or that must
// not reach the backend; empty names are skipped. The caller sets its own ones after Rewrite.
func NewForwarding(mode Outbound, header string, own ...string) *Forwarding {
	f := &Forwarding{mode: mode, header: header}
	f.removed.add(strings.Fields(connectionFields)...)
	f.removed.add(strings.Fields(senderFields)...)
	f.removed.add(header)
	f.removed.add(own...)
	return f
}

// Rewrite returns a new header for upstream. in is the header as it was received, res what was resolved from it, host the
// request's Host, and secure whether it came over TLS. in is not changed; the values that pass are shared with it.
//
// What concerns the connection only does not pass, nor what Connection names, nor what is about the sender, nor any name
// that equals such a one once "_" and "." are read as "-" and case is ignored. The gateway's own fields come last, so
// that Connection cannot remove them. TE passes as far as it says trailers. A caller that passes an Upgrade handshake on
// sets Connection and Upgrade again.
func (f *Forwarding) Rewrite(in http.Header, res clientip.Result, host string, secure bool) http.Header {
	out := make(http.Header, len(in)+6) // room for what describe adds
	for name, lines := range in {
		if !f.removed.has(name) {
			out[name] = lines
		}
	}
	f.dropNominated(out, in["Connection"])
	if takesTrailers(in["Te"]) {
		out["Te"] = []string{"trailers"}
	}
	f.describe(in, res, host, secure).set(out)
	return out
}

// Removes reports whether a field of that name never goes upstream as the client sent it.
func (f *Forwarding) Removes(name string) bool { return f.removed.has(name) }

// DropNominated removes from h the fields that its Connection lines name, except those that Rewrite removes or replaces
// anyway. Run it once the client is resolved and before policies read h: else they would judge by a field, such as
// Content-Type, that the backend is not going to see.
func (f *Forwarding) DropNominated(h http.Header) { f.dropNominated(h, h["Connection"]) }

func (f *Forwarding) dropNominated(h http.Header, connection []string) {
	for _, line := range connection {
		for option := range strings.SplitSeq(line, ",") {
			option = textproto.TrimString(option)
			if option != "" && !strings.EqualFold(option, "close") && !f.removed.has(option) {
				h.Del(option)
			}
		}
	}
}

func takesTrailers(lines []string) bool {
	for _, line := range lines {
		for option := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(option), "trailers") {
				return true
			}
		}
	}
	return false
}

// Canonical names of the fields that the gateway itself sends upstream [C6].
const (
	forwardedForField   = "X-Forwarded-For"
	forwardedProtoField = "X-Forwarded-Proto"
	forwardedHostField  = "X-Forwarded-Host"
	forwardedPortField  = "X-Forwarded-Port"
	realIPField         = "X-Real-Ip"
)

// Outbound says what X-Forwarded-For holds upstream. The zero value is OutboundVerified.
type Outbound uint8

const (
	OutboundVerified Outbound = iota // the client, the walked hops and the peer: nothing unverified
	OutboundAppend                   // what a trusted peer sent, unverified parts included, and the peer
	OutboundReplace                  // the client alone
)

// ParseOutbound reads the value of client_ip.outbound; empty is verified.
func ParseOutbound(s string) (Outbound, error) {
	switch s {
	case "", "verified":
		return OutboundVerified, nil
	case "append":
		return OutboundAppend, nil
	case "replace":
		return OutboundReplace, nil
	}
	return 0, fmt.Errorf("parsing outbound mode: %q is not one of verified, append, replace", s)
}

// description is what the gateway tells upstream about the sender. Empty fields are not sent.
type description struct {
	forwardedFor, realIP, proto, host, port string
	single                                  string // name of the single-value field that was believed
	value                                   string // and what it said
}

func (f *Forwarding) describe(in http.Header, res clientip.Result, host string, secure bool) description {
	d := description{proto: "http", host: host}
	if secure {
		d.proto = "https"
	}
	d.forwardedFor, d.realIP = f.forwardedFor(in, res)
	if res.Reason == clientip.ReasonSingle {
		d.single, d.value = f.header, only(in, f.header)
	}
	if res.Trusted {
		d.proto = keptProto(in, d.proto)
		d.host = keptHost(in, d.host)
		d.port = keptPort(in)
	}
	if d.port == "" {
		d.port = ownPort(d.host, d.proto)
	}
	return d
}

// Secure reports whether the client's connection is https, by what a trusted peer says of it or by our own listener.
func (f *Forwarding) Secure(in http.Header, res clientip.Result, secure bool) bool {
	return f.describe(in, res, "", secure).proto == "https"
}

// set writes the fields. One array carries all their values.
func (d description) set(out http.Header) {
	var values [6]string
	list := values[:0:len(values)]
	put := func(name, value string) {
		if value == "" {
			return
		}
		list = append(list, value)
		out[name] = list[len(list)-1 : len(list) : len(list)]
	}
	put(d.single, d.value) // may be X-Real-IP, which is written again below
	put(forwardedForField, d.forwardedFor)
	put(forwardedProtoField, d.proto)
	put(forwardedHostField, d.host)
	put(forwardedPortField, d.port)
	put(realIPField, d.realIP)
}

// forwardedFor returns the values of X-Forwarded-For and X-Real-IP. Both are empty for a sender without an address.
func (f *Forwarding) forwardedFor(in http.Header, res clientip.Result) (list, client string) {
	var buffer [256]byte // enough for four IPv6 hops; longer lists move to the heap
	text := buffer[:0]
	if res.Addr.IsValid() {
		text = res.Addr.AppendTo(text)
	}
	length := len(text)
	walked := false // the client was found in the header, not taken from the connection
	switch res.Reason {
	case clientip.ReasonForwarded, clientip.ReasonAllTrusted, clientip.ReasonHops, clientip.ReasonSingle:
		walked = true
	}
	switch {
	case !walked || f.mode == OutboundReplace:
	case f.mode == OutboundAppend && f.header == forwardedForField:
		return appendPeer(joinLines(in[forwardedForField]), res.Peer), string(text)
	default:
		for i := len(res.Hops) - 1; i >= 0; i-- {
			text = appendHop(text, res.Hops[i])
		}
		if res.Peer.IsValid() {
			text = appendHop(text, res.Peer)
		}
	}
	list = string(text)
	return list, list[:length]
}

// appendHop adds one element. A hop that could not be read keeps its place, for a backend that counts.
func appendHop(text []byte, hop netip.Addr) []byte {
	text = append(text, ", "...)
	if !hop.IsValid() {
		return append(text, "unknown"...)
	}
	return hop.AppendTo(text)
}

// appendPeer adds the peer, if it has an address, to a list that was received.
func appendPeer(list string, peer netip.Addr) string {
	if !peer.IsValid() {
		return list
	}
	return string(appendHop([]byte(list), peer))
}

// joinLines makes one line of several, since some backends read only one.
func joinLines(lines []string) string {
	var joined []string
	for _, line := range lines {
		if line = strings.Trim(line, " \t,"); line != "" {
			joined = append(joined, line)
		}
	}
	return strings.Join(joined, ", ")
}

// only returns the value of a field that has exactly one line.
func only(in http.Header, name string) string {
	if lines := in[name]; len(lines) == 1 {
		return textproto.TrimString(lines[0])
	}
	return ""
}

func keptProto(in http.Header, own string) string {
	switch value := only(in, forwardedProtoField); {
	case strings.EqualFold(value, "http"):
		return "http"
	case strings.EqualFold(value, "https"):
		return "https"
	}
	return own
}

func keptHost(in http.Header, own string) string {
	if value := only(in, forwardedHostField); isForwardedHost(value) {
		return value
	}
	return own
}

func keptPort(in http.Header) string {
	if value := only(in, forwardedPortField); isForwardedPort(value) {
		return value
	}
	return ""
}

// ownPort returns the port of host, else the usual one.
func ownPort(host, proto string) string {
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && isForwardedPort(host[colon+1:]) {
		return host[colon+1:]
	}
	if proto == "https" {
		return "443"
	}
	return "80"
}

// isForwardedHost reports whether s is one name or address with an optional port, and nothing that a backend could take for more.
func isForwardedHost(s string) bool {
	const maxName = 253 // of a domain name
	if inner, bracketed := strings.CutPrefix(s, "["); bracketed {
		address, port, closed := strings.Cut(inner, "]")
		addr, err := netip.ParseAddr(address)
		return closed && err == nil && addr.Is6() && addr.Zone() == "" &&
			(port == "" || port[0] == ':' && isForwardedPort(port[1:]))
	}
	name, port, ported := strings.Cut(s, ":")
	if name == "" || len(name) > maxName || ported && !isForwardedPort(port) {
		return false
	}
	for i := range len(name) {
		b := name[i]
		if !('a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '-' || b == '.' || b == '_') {
			return false
		}
	}
	return true
}

// isForwardedPort reports whether s is a number of 1..65535 without leading zeros.
func isForwardedPort(s string) bool {
	if s == "" || s[0] == '0' {
		return false
	}
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// connectionFields concern one connection and never the next (RFC 9110, 7.6.1, RFC 7540, 3.2.1, and two that older software sends).
const connectionFields = "connection proxy-connection keep-alive te trailer transfer-encoding upgrade proxy-authenticate " +
	"proxy-authorization http2-settings"

// senderFields say something about the sender that some backend might believe. "proxy" becomes HTTP_PROXY in CGI.
const senderFields = "x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port x-forwarded-server x-forwarded-prefix " +
	"x-forwarded-uri x-forwarded-method x-forwarded-by x-forwarded-scheme x-forwarded-ssl forwarded x-real-ip " +
	"x-client-ip client-ip x-cluster-client-ip x-original-forwarded-for x-original-host x-original-proto " +
	"x-original-url x-rewrite-url x-envoy-external-address x-envoy-internal x-proxyuser-ip true-client-ip " +
	"cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 fly-client-ip fastly-client-ip x-azure-clientip " +
	"x-azure-socketip x-appengine-user-ip cloudfront-viewer-address x-scheme front-end-https proxy"

// certificatePrefix begins the names of a whole family of fields about the sender.
const certificatePrefix = "x-forwarded-tls-client-cert"

// fieldSet is a set of field names, and of the certificate family, in which names that some backend cannot tell apart are
// one. A lookup allocates nothing.
type fieldSet struct {
	names [32][]string // folded, by the first byte
}

func (s *fieldSet) add(names ...string) {
	for _, name := range names {
		if name == "" {
			continue
		}
		folded := []byte(name)
		for i, b := range folded {
			folded[i] = foldNameByte(b)
		}
		place := &s.names[folded[0]%32]
		*place = append(*place, string(folded))
	}
}

func (s *fieldSet) has(name string) bool {
	if name == "" {
		return false
	}
	for _, folded := range s.names[foldNameByte(name[0])%32] {
		if len(folded) == len(name) && sameSpelling(folded, name) {
			return true
		}
	}
	return len(name) >= len(certificatePrefix) && sameSpelling(certificatePrefix, name[:len(certificatePrefix)])
}

// sameSpelling compares a folded name with another of the same length.
func sameSpelling(folded, name string) bool {
	for i := range len(name) {
		if foldNameByte(name[i]) != folded[i] {
			return false
		}
	}
	return true
}

// foldNameByte maps what CGI-like backends map together.
func foldNameByte(b byte) byte {
	switch {
	case 'A' <= b && b <= 'Z':
		return b | 0x20
	case b == '_' || b == '.':
		return '-'
	}
	return b
}
