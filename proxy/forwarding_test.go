package proxy

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"authgate/clientip"
)

// outboundConfig is how the vectors write what Forwarding depends on.
type outboundConfig struct {
	TrustHeaders   bool     `json:"trust_headers"`
	TrustedProxies []string `json:"trusted_proxies"`
	Hops           int
	Header         string
	XFFMode        string `json:"xff_mode"`
}

func (c outboundConfig) resolver(t testing.TB) *clientip.Resolver {
	t.Helper()
	list, _, err := clientip.ParseTrustList(c.TrustedProxies)
	if err != nil {
		t.Fatal(err)
	}
	resolver, _, err := clientip.New(clientip.Config{
		TrustHeaders: c.TrustHeaders, TrustedProxies: list, TrustedHops: c.Hops, Header: c.Header,
	})
	if err != nil {
		t.Fatal(err)
	}
	return resolver
}

// inbound is a request as it was received.
type inbound struct {
	peer, host string
	secure     bool
	header     http.Header
}

// rewrite resolves the client of a request and returns that and the header for upstream.
func (c outboundConfig) rewrite(t testing.TB, r inbound, own ...string) (clientip.Result, http.Header) {
	t.Helper()
	mode, err := ParseOutbound(c.XFFMode)
	if err != nil {
		t.Fatal(err)
	}
	resolver := c.resolver(t)
	res := resolver.Resolve(r.peer, r.header[resolver.Header()])
	return res, NewForwarding(mode, resolver.Header(), own...).Rewrite(r.header, res, r.host, r.secure)
}

func trusting(proxies ...string) outboundConfig {
	return outboundConfig{TrustHeaders: true, TrustedProxies: proxies}
}

// headerOf builds a header out of names, each followed by a value.
func headerOf(fields ...string) http.Header {
	h := http.Header{}
	for pair := range slices.Chunk(fields, 2) {
		h.Add(pair[0], pair[1])
	}
	return h
}

func TestForwardingVectors(t *testing.T) {
	text, err := os.ReadFile("../clientip/testdata/clientip.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Outbound []struct {
			ID, Peer, Host, Note string
			TLS                  bool
			Config               outboundConfig
			Headers              [][2]string
			WantHeaders          map[string][]string `json:"want_headers"`
			WantAbsent           []string            `json:"want_absent"`
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Outbound) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range file.Outbound {
		t.Run(v.ID, func(t *testing.T) {
			in := http.Header{}
			for _, field := range v.Headers {
				in.Add(field[0], field[1])
			}
			before := in.Clone()
			_, out := v.Config.rewrite(t, inbound{v.Peer, v.Host, v.TLS, in})
			for name, want := range v.WantHeaders {
				if got := out[http.CanonicalHeaderKey(name)]; !slices.Equal(got, want) {
					t.Errorf("%s = %q, want %q: %s", name, got, want, v.Note)
				}
			}
			for _, name := range v.WantAbsent {
				for got := range out {
					if strings.EqualFold(got, name) {
						t.Errorf("%s = %q went upstream: %s", got, out[got], v.Note)
					}
				}
			}
			if !reflect.DeepEqual(in, before) {
				t.Errorf("the received header was changed to %v", in)
			}
		})
	}
}

func TestForwarding(t *testing.T) {
	list := trusting("203.0.113.0/24")
	single := list
	single.Header = "cf-connecting-ip"
	cloudFront := list
	cloudFront.Header = "cloudfront-viewer-address"
	realIP := list
	realIP.Header = "x-real-ip"
	unlisted := list
	unlisted.Header = "X-Own.Client"
	counted := outboundConfig{TrustHeaders: true, Hops: 1}
	mode := func(c outboundConfig, mode string) outboundConfig { c.XFFMode = mode; return c }
	const trusted, stranger = "203.0.113.1:1", "198.51.100.77:1"
	cases := []struct {
		name   string
		config outboundConfig
		r      inbound
		want   http.Header // all of it, but for the fields that are like those of a plain request
	}{
		{"plain", list, inbound{stranger, "a.test", false, nil}, nil},
		{"own TLS", list, inbound{stranger, "a.test", true, nil}, headerOf("X-Forwarded-Proto", "https", "X-Forwarded-Port", "443")},
		{"own port", list, inbound{stranger, "a.test:8443", true, nil}, headerOf("X-Forwarded-Proto", "https", "X-Forwarded-Port", "8443", "X-Forwarded-Host", "a.test:8443")},
		{"own port beside an IPv6 host", list, inbound{stranger, "[2001:db8::1]:81", false, nil}, headerOf("X-Forwarded-Port", "81", "X-Forwarded-Host", "[2001:db8::1]:81")},
		{"IPv6 host without port", list, inbound{stranger, "[2001:db8::1]", false, nil}, headerOf("X-Forwarded-Host", "[2001:db8::1]")},
		{"no host", list, inbound{stranger, "", false, nil}, headerOf("X-Forwarded-Host", "")},
		{
			"kept from a trusted peer", list,
			inbound{trusted, "a.test", false, headerOf("X-Forwarded-For", "198.51.100.77", "X-Forwarded-Proto", "HTTPS", "X-Forwarded-Host", "b.test:8443", "X-Forwarded-Port", "444")},
			headerOf("X-Forwarded-For", "198.51.100.77, 203.0.113.1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "b.test:8443", "X-Forwarded-Port", "444"),
		},
		{
			"the port follows what is kept", list,
			inbound{trusted, "a.test:8080", false, headerOf("X-Forwarded-For", "198.51.100.77", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "b.test")},
			headerOf("X-Forwarded-For", "198.51.100.77, 203.0.113.1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "b.test", "X-Forwarded-Port", "443"),
		},
		{
			"nothing kept that could mean two things", list,
			inbound{trusted, "a.test", false, headerOf("X-Forwarded-For", "198.51.100.77", "X-Forwarded-Proto", "https", "X-Forwarded-Proto", "http", "X-Forwarded-Host", "b.test, c.test", "X-Forwarded-Port", "0")},
			headerOf("X-Forwarded-For", "198.51.100.77, 203.0.113.1"),
		},
		{
			"hop mode keeps the list only", counted,
			inbound{stranger, "a.test", false, headerOf("X-Forwarded-For", "192.0.2.66", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "b.test", "X-Forwarded-Port", "444")},
			headerOf("X-Forwarded-For", "192.0.2.66, 198.51.100.77", "X-Real-Ip", "192.0.2.66"),
		},
		{
			"degraded", list,
			inbound{trusted, "a.test", false, headerOf("X-Forwarded-For", "198.51.100.77, junk, 203.0.113.2")},
			headerOf("X-Forwarded-For", "203.0.113.1", "X-Real-Ip", "203.0.113.1"),
		},
		{
			"degraded, append", mode(list, "append"),
			inbound{trusted, "a.test", false, headerOf("X-Forwarded-For", "198.51.100.77, junk")},
			headerOf("X-Forwarded-For", "203.0.113.1", "X-Real-Ip", "203.0.113.1"),
		},
		{
			"append joins lines", mode(list, "append"),
			inbound{trusted, "a.test", false, headerOf("X-Forwarded-For", " 192.0.2.66,", "X-Forwarded-For", "", "X-Forwarded-For", "198.51.100.77")},
			headerOf("X-Forwarded-For", "192.0.2.66, 198.51.100.77, 203.0.113.1"),
		},
		{
			"append for a stranger", mode(list, "append"),
			inbound{stranger, "a.test", false, headerOf("X-Forwarded-For", "192.0.2.66")},
			nil,
		},
		{
			"append by hop count", mode(counted, "append"),
			inbound{stranger, "a.test", false, headerOf("X-Forwarded-For", "192.0.2.1, 192.0.2.66")},
			headerOf("X-Forwarded-For", "192.0.2.1, 192.0.2.66, 198.51.100.77", "X-Real-Ip", "192.0.2.66"),
		},
		{
			"append does not trust a list that is not read", mode(single, "append"),
			inbound{trusted, "a.test", false, headerOf("X-Forwarded-For", "192.0.2.66", "CF-Connecting-IP", "198.51.100.77")},
			headerOf("X-Forwarded-For", "198.51.100.77, 203.0.113.1", "Cf-Connecting-Ip", "198.51.100.77"),
		},
		{
			"append for a trusted unix peer", mode(trusting("unix"), "append"),
			inbound{"@", "a.test", false, headerOf("X-Forwarded-For", "192.0.2.66, 198.51.100.77")},
			headerOf("X-Forwarded-For", "192.0.2.66, 198.51.100.77"),
		},
		{
			"replace", mode(list, "replace"),
			inbound{trusted, "a.test", false, headerOf("X-Forwarded-For", "192.0.2.66, 198.51.100.77, 203.0.113.2")},
			nil,
		},
		{
			"single value, accepted", cloudFront,
			inbound{trusted, "a.test", false, headerOf("CloudFront-Viewer-Address", "198.51.100.77:46532")},
			headerOf("X-Forwarded-For", "198.51.100.77, 203.0.113.1", "Cloudfront-Viewer-Address", "198.51.100.77:46532"),
		},
		{
			"single value, degraded", single,
			inbound{trusted, "a.test", false, headerOf("CF-Connecting-IP", "junk")},
			headerOf("X-Forwarded-For", "203.0.113.1", "X-Real-Ip", "203.0.113.1"),
		},
		{
			"single value of another name, from a stranger", unlisted,
			inbound{stranger, "a.test", false, headerOf("X-Own.Client", "192.0.2.66", "X_Own_Client", "192.0.2.66")},
			nil,
		},
		{
			"hops from left to right", list,
			inbound{trusted, "a.test", false, headerOf("X-Forwarded-For", "198.51.100.77, 203.0.113.4, 203.0.113.3", "X-Forwarded-For", "203.0.113.2")},
			headerOf("X-Forwarded-For", "198.51.100.77, 203.0.113.4, 203.0.113.3, 203.0.113.2, 203.0.113.1"),
		},
		{
			"X-Real-IP is read and written", realIP,
			inbound{trusted, "a.test", false, headerOf("X-Real-IP", "[::ffff:198.51.100.77]:1")},
			headerOf("X-Forwarded-For", "198.51.100.77, 203.0.113.1"),
		},
		{
			"zone and mapped form", trusting("fe80::/10"),
			inbound{"[fe80::1%eth0]:1", "a.test", false, headerOf("X-Forwarded-For", "::ffff:198.51.100.77, fe80::2%x")},
			headerOf("X-Forwarded-For", "198.51.100.77, fe80::2, fe80::1"),
		},
		{
			"hop-by-hop", list,
			inbound{stranger, "a.test", false, headerOf(
				"Connection", " , close", "Connection", "X-Extra,\tUpgrade , content-type", "X-Extra", "1", "Content-Type", "a/b",
				"Upgrade", "websocket", "TE", "gzip, Trailers", "Keep-Alive", "1", "Proxy-Connection", "1", "Trailer", "a",
				"Transfer-Encoding", "chunked", "Transfer_Encoding", "x", "Proxy-Authorization", "1", "Proxy-Authenticate", "1", "Accept", "a/b")},
			headerOf("Te", "trailers", "Accept", "a/b"),
		},
		{
			"TE without trailers", list,
			inbound{stranger, "a.test", false, headerOf("TE", "gzip")},
			nil,
		},
		{
			"families and their neighbours", list,
			inbound{stranger, "a.test", false, headerOf(
				"X-Forwarded-Tls-Client-Cert", "1", "X_Forwarded.TLS-Client-Cert-Info", "1", "X-Forwarded-Tls-Client", "kept",
				"X-Forwarded-Forty", "kept", "Forwarded-For", "kept", "CF_Connecting_IPv6", "1", "PROXY", "1", "X-Request-Start", "kept")},
			headerOf("X-Forwarded-Tls-Client", "kept",
				"X-Forwarded-Forty", "kept", "Forwarded-For", "kept", "X-Request-Start", "kept"),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want := headerOf("X-Forwarded-For", "198.51.100.77", "X-Forwarded-Proto", "http", "X-Forwarded-Host", "a.test", "X-Forwarded-Port", "80", "X-Real-Ip", "198.51.100.77")
			for name, lines := range c.want {
				want[name] = lines
				if lines[0] == "" {
					delete(want, name)
				}
			}
			if _, got := c.config.rewrite(t, c.r); !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestForwardingRemovesOwnFields(t *testing.T) {
	in := headerOf("X-Auth-User", "root", "x.auth_USER", "root", "Gateway-Forwarded-For", "192.0.2.66", "Connection", "X-Auth-User")
	if _, out := trusting("203.0.113.1").rewrite(t, inbound{"203.0.113.1:1", "", false, in}, "X-Auth-User", "", "Gateway-Forwarded-For"); len(out) != 4 {
		t.Errorf("got %q, want the four fields about the sender", out)
	}
}

func TestDropNominated(t *testing.T) {
	h := headerOf("Connection", "Content-Type, X-Forwarded-For, Upgrade", "Content-Type", "a/b", "X-Forwarded-For", "192.0.2.66", "Upgrade", "websocket")
	want := headerOf("Connection", "Content-Type, X-Forwarded-For, Upgrade", "X-Forwarded-For", "192.0.2.66", "Upgrade", "websocket")
	NewForwarding(OutboundVerified, "X-Forwarded-For").DropNominated(h)
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got %v, want %v", h, want)
	}
}

func TestForwardedHost(t *testing.T) {
	for _, host := range []string{"a", "a.test", "A-1_b.test:65535", "192.0.2.1", "192.0.2.1:80", "[2001:db8::1]", "[2001:db8::1]:443"} {
		if !isForwardedHost(host) {
			t.Errorf("%q was refused", host)
		}
	}
	for _, host := range []string{
		"", ":80", "a:", "a:0", "a:080", "a:65536", "a:+8", "a b", "a,b", "a/b", "a@b", "a?b", "a\\b", "a%41", "ä.test", "2001:db8::1",
		"[192.0.2.1]", "[fe80::1%eth0]", "[2001:db8::1", "[2001:db8::1]80", "[2001:db8::1]:", "[]", strings.Repeat("a", 254),
	} {
		if isForwardedHost(host) {
			t.Errorf("%q was accepted", host)
		}
	}
}

func TestParseOutbound(t *testing.T) {
	for text, want := range map[string]Outbound{"": OutboundVerified, "verified": OutboundVerified, "append": OutboundAppend, "replace": OutboundReplace} {
		if got, err := ParseOutbound(text); got != want || err != nil {
			t.Errorf("ParseOutbound(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	want := `parsing outbound mode: "Verified" is not one of verified, append, replace`
	if _, err := ParseOutbound("Verified"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// FuzzStrangersSayNothing gives a request of an untrusted peer one more field about the sender, in some spelling, and
// nominates it: neither the result nor what goes upstream may change.
func FuzzStrangersSayNothing(f *testing.F) {
	names := strings.Fields(senderFields)
	f.Add(uint8(0), uint64(0), "192.0.2.66", "x-forwarded-for")
	f.Add(uint8(11), uint64(0x5555), `for="[::1]"`, "forwarded")
	f.Add(uint8(2), uint64(1)<<40-1, "https", "x-real-ip")
	f.Fuzz(func(t *testing.T, pick uint8, spelling uint64, value, header string) {
		name := []byte(names[int(pick)%len(names)])
		for i, b := range name {
			switch odd := spelling>>(2*i%64)&3 != 0; {
			case odd && b == '-':
				name[i] = "_._"[spelling>>(2*i%64)&3-1]
			case odd:
				name[i] = strings.ToUpper(string(b))[0]
			}
		}
		for _, config := range []outboundConfig{trusting("203.0.113.0/24"), {}, {TrustHeaders: true}} {
			config.Header = map[bool]string{true: header, false: ""}[slices.Contains(names, header)]
			plain := inbound{"198.51.100.77:1", "a.test", false, headerOf("Accept", "a/b")}
			claimed := plain
			claimed.header = headerOf("Accept", "a/b", "Connection", "close, "+string(name))
			claimed.header[string(name)] = []string{value} // as written
			claimed.header.Add(string(name), value)        // as net/http writes it
			wantResult, want := config.rewrite(t, plain)
			gotResult, got := config.rewrite(t, claimed)
			if !reflect.DeepEqual(gotResult, wantResult) || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q gives %+v %q, want %+v %q", name, value, gotResult, got, wantResult, want)
			}
		}
	})
}

// FuzzSecondGateway lets a gateway behind this one, which trusts it and the same list, resolve what this one sent.
func FuzzSecondGateway(f *testing.F) {
	f.Add("203.0.113.1:1", "192.0.2.66, 198.51.100.77, 203.0.113.2", false)
	f.Add("203.0.113.1:1", `for=198.51.100.77, for="[::ffff:203.0.113.2]"`, true)
	f.Add("[fe80::1%eth0]:1", "junk", false)
	f.Add("203.0.113.1:1", "203.0.113.2,203.0.113.3", false)
	f.Fuzz(func(t *testing.T, peer, value string, forwarded bool) {
		config := trusting("203.0.113.0/24", "fe80::/10", "unix")
		in := http.Header{"X-Forwarded-For": {value}}
		if forwarded {
			config.Header, in = "forwarded", http.Header{"Forwarded": {value}}
		}
		first, out := config.rewrite(t, inbound{peer, "a.test", false, in})
		if len(first.Hops) > clientip.MaxHops-3 {
			return // with this gateway and its peer the walk would be too long
		}
		second := trusting(append(config.TrustedProxies, "192.0.2.250")...).resolver(t).Resolve("192.0.2.250:1", out["X-Forwarded-For"])
		if first.Addr.IsValid() && second.Addr != first.Addr {
			t.Errorf("%q from %s: %s, and behind it %s (%q)", value, peer, first.Addr, second.Addr, out["X-Forwarded-For"])
		}
	})
}

// browserHeader is an ordinary request behind a proxy.
func browserHeader() http.Header {
	return headerOf(
		"Accept", "text/html", "Accept-Encoding", "gzip, br", "Accept-Language", "en", "Content-Length", "27", "Content-Type",
		"application/json", "Cookie", "session=1", "Connection", "keep-alive", "Origin", "https://a.test", "Referer", "https://a.test/",
		"Sec-Fetch-Mode", "cors", "Sec-Fetch-Site", "same-origin", "User-Agent", "browser", "X-Forwarded-For", "198.51.100.77",
		"X-Forwarded-Proto", "https", "X-Requested-With", "fetch")
}

func TestForwardingAllocations(t *testing.T) {
	resolver := trusting("203.0.113.0/24").resolver(t)
	in, f := browserHeader(), NewForwarding(OutboundVerified, resolver.Header())
	res := resolver.Resolve("203.0.113.1:1", in["X-Forwarded-For"])
	var out http.Header
	bare := testing.AllocsPerRun(100, func() { out = make(http.Header, len(in)+6); maps.Copy(out, in) })
	got := testing.AllocsPerRun(100, func() { out = f.Rewrite(in, res, "a.test", false) })
	if got > bare+2 { // one for the values, one for the text of the list
		t.Errorf("%.0f allocations, the map alone takes %.0f", got, bare)
	}
}

func BenchmarkForwarding(b *testing.B) {
	resolver := trusting("203.0.113.0/24").resolver(b)
	nominations := headerOf("Connection", strings.Repeat("x-extra,", 8<<10))
	for name, in := range map[string]http.Header{"browser": browserHeader(), "64 KiB of nominations": nominations} {
		b.Run(name, func(b *testing.B) {
			f := NewForwarding(OutboundVerified, resolver.Header())
			res := resolver.Resolve("203.0.113.1:1", in["X-Forwarded-For"])
			b.ReportAllocs()
			for b.Loop() {
				f.Rewrite(in, res, "a.test", false)
			}
		})
	}
}
