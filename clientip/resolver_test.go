package clientip

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const proxy = "203.0.113.1:41000"

func listed(header string, proxies ...string) vectorConfig {
	return vectorConfig{TrustHeaders: true, TrustedProxies: proxies, Header: header}
}

func counted(header string, hops int) vectorConfig {
	return vectorConfig{TrustHeaders: true, Hops: hops, Header: header}
}

func TestResolve(t *testing.T) {
	list := listed("", "203.0.113.0/24")
	forwarded := listed("Forwarded", "203.0.113.0/24")
	cases := []struct {
		name   string
		config vectorConfig
		peer   string
		lines  []string
		want   string
		reason Reason
	}{
		{"no header at all", list, proxy, nil, "203.0.113.1", ReasonNoHeader},
		{"unspecified peer", list, "0.0.0.0:80", []string{"198.51.100.9"}, "", ReasonNoPeer},
		{"peer zone of any text", listed("", "fe80::/10"), "[fe80::1%Ethernet 2]:80", []string{"198.51.100.9"}, "198.51.100.9", ReasonForwarded},
		{"bare mapped peer", list, "::ffff:203.0.113.1", []string{"198.51.100.9"}, "198.51.100.9", ReasonForwarded},
		{"unix path", listed("", "unix"), "/run/gateway.sock", []string{"198.51.100.9"}, "198.51.100.9", ReasonForwarded},
		{"unix peer, deciding element malformed", listed("", "unix"), "@", []string{"junk"}, "", ReasonMalformed},
		{"unix peer, hop mode, short", counted("", 1), "@", nil, "", ReasonShortChain},
		{"unix peer, no mechanism", counted("", 0), "@", []string{"198.51.100.9"}, "", ReasonNoPeer},
		{"malformed element behind 32 trusted ones is not parsed", list, proxy, []string{"junk" + strings.Repeat(",203.0.113.2", 32)}, "203.0.113.1", ReasonTooMany},
		{"blanks are not counted", list, proxy, []string{"198.51.100.9" + strings.Repeat(", ,", 100) + "203.0.113.2"}, "198.51.100.9", ReasonForwarded},
		{"obfuscated name is not of this header", list, proxy, []string{"_hidden"}, "203.0.113.1", ReasonMalformed},
		{"mapped unspecified", list, proxy, []string{"::ffff:0.0.0.0"}, "203.0.113.1", ReasonMalformed},
		{"form feed is no blank", list, proxy, []string{"198.51.100.9\f"}, "203.0.113.1", ReasonMalformed},
		{"signed port", list, proxy, []string{"198.51.100.9:+80"}, "203.0.113.1", ReasonMalformed},
		{"nine groups", list, proxy, []string{"1:2:3:4:5:6:7:8:443"}, "203.0.113.1", ReasonMalformed},
		{"doubled brackets", list, proxy, []string{"[[2001:db8::1]]"}, "203.0.113.1", ReasonMalformed},
		{"zone of 32 bytes", list, proxy, []string{"fe80::1%" + strings.Repeat("z", 32)}, "fe80::1", ReasonForwarded},
		{"empty zone", list, proxy, []string{"fe80::1%"}, "203.0.113.1", ReasonMalformed},
		{"zone on a mapped address in brackets", list, proxy, []string{"[::ffff:198.51.100.9%a]:1"}, "198.51.100.9", ReasonForwarded},
		{"hop mode, every skipped element counts", counted("", 3), proxy, []string{"198.51.100.9, junk, unknown"}, "198.51.100.9", ReasonHops},
		{"quotes mean nothing in this header", counted("", 3), proxy, []string{`198.51.100.9, "x, y"`}, "198.51.100.9", ReasonHops},
		{"hop mode, header absent", counted("", 1), proxy, nil, "203.0.113.1", ReasonShortChain},
		{"hop mode, Forwarded without for", counted("forwarded", 1), proxy, []string{"for=192.0.2.66, by=203.0.113.1"}, "203.0.113.1", ReasonUnknown},
		{"quoted comma of a trusted hop", forwarded, proxy, []string{`for=198.51.100.9, for=203.0.113.2;host="a,b"`}, "198.51.100.9", ReasonForwarded},
		{"escaped quote", forwarded, proxy, []string{`for=198.51.100.9;x="a\",b"`}, "198.51.100.9", ReasonForwarded},
		{"comma left of an escaped quote", forwarded, proxy, []string{`for=198.51.100.9;x="a,b\"c"`}, "198.51.100.9", ReasonForwarded},
		{"escaped backslash before the quote", forwarded, proxy, []string{`for=192.0.2.66;x="\\", for=198.51.100.9;x="a,\\"`}, "198.51.100.9", ReasonForwarded},
		{"first character escaped", forwarded, proxy, []string{`for="\198.51.100.9"`}, "198.51.100.9", ReasonForwarded},
		{"escape decodes the text between", forwarded, proxy, []string{`for="19\8.51.1\00.9:80"`}, "198.51.100.9", ReasonForwarded},
		{"control character in quotes", forwarded, proxy, []string{"for=198.51.100.9;x=\"\x01\""}, "203.0.113.1", ReasonMalformed},
		{"escaped control character", forwarded, proxy, []string{"for=198.51.100.9;x=\"\\\x01\""}, "203.0.113.1", ReasonMalformed},
		{"duplicate of another name", forwarded, proxy, []string{`for=198.51.100.9;by=a;BY=b`}, "203.0.113.1", ReasonMalformed},
		{"blank around equals", forwarded, proxy, []string{`for =198.51.100.9`}, "203.0.113.1", ReasonMalformed},
		{"blank after equals", forwarded, proxy, []string{`for= 198.51.100.9`}, "203.0.113.1", ReasonMalformed},
		{"two pairs without semicolon", forwarded, proxy, []string{`for=198.51.100.9 by=a`}, "203.0.113.1", ReasonMalformed},
		{"value missing", forwarded, proxy, []string{`for=`}, "203.0.113.1", ReasonMalformed},
		{"value of another name missing", forwarded, proxy, []string{`host=;for=198.51.100.9`}, "203.0.113.1", ReasonMalformed},
		{"unknown with a port", forwarded, proxy, []string{`for="Unknown:8080"`}, "203.0.113.1", ReasonUnknown},
		{"unknown with a bad port", forwarded, proxy, []string{`for="unknown:x"`}, "203.0.113.1", ReasonMalformed},
		{"quoted IPv6 without brackets", forwarded, proxy, []string{`for="2001:db8::1"`}, "2001:db8::1", ReasonForwarded},
		{"only semicolons", forwarded, proxy, []string{`;;`}, "203.0.113.1", ReasonUnknown},
		{"oversized element", forwarded, proxy, []string{`for=198.51.100.9;x=` + strings.Repeat("a", maxForwardedBytes)}, "203.0.113.1", ReasonMalformed},
		{"long host beside the address", forwarded, proxy, []string{`for=198.51.100.9;host=` + strings.Repeat("a", 200)}, "198.51.100.9", ReasonForwarded},
		{"too many pairs", forwarded, proxy, []string{`for=198.51.100.9` + pairs(maxForwardedPairs)}, "203.0.113.1", ReasonMalformed},
		{"as many pairs as allowed", forwarded, proxy, []string{`for=198.51.100.9` + pairs(maxForwardedPairs-1)}, "198.51.100.9", ReasonForwarded},
		{"single value in the trusted range", listed("x-real-ip", "203.0.113.0/24"), proxy, []string{"203.0.113.9"}, "203.0.113.9", ReasonSingle},
		{"single value twice, one blank", listed("x-real-ip", "203.0.113.0/24"), proxy, []string{"198.51.100.9", ""}, "203.0.113.1", ReasonSingleMultiple},
		{"single value unknown", listed("x-real-ip", "203.0.113.0/24"), proxy, []string{"unknown"}, "203.0.113.1", ReasonSingleInvalid},
		{"CloudFront IPv4", listed("CloudFront-Viewer-Address", "203.0.113.0/24"), proxy, []string{"198.51.100.9:46532"}, "198.51.100.9", ReasonSingle},
		{"CloudFront without port", listed("CloudFront-Viewer-Address", "203.0.113.0/24"), proxy, []string{"198.51.100.9"}, "203.0.113.1", ReasonSingleInvalid},
		{"CloudFront with two ports", listed("CloudFront-Viewer-Address", "203.0.113.0/24"), proxy, []string{"198.51.100.9:1:2"}, "203.0.113.1", ReasonSingleInvalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			res := c.config.resolver(t).Resolve(c.peer, c.lines)
			if text(res.Addr) != c.want || res.Reason != c.reason {
				t.Errorf("got %q %s, want %q %s", text(res.Addr), res.Reason, c.want, c.reason)
			}
		})
	}
}

// pairs returns n further Forwarded pairs with different names.
func pairs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(";x" + strings.Repeat("y", i) + "=1")
	}
	return b.String()
}

func TestResultCarriesTheWalk(t *testing.T) {
	cases := []struct {
		name    string
		config  vectorConfig
		lines   []string
		trusted bool
		hops    []string // nearest the peer first; "" unreadable
	}{
		{"list", listed("", "203.0.113.0/24"), []string{"198.51.100.9, 203.0.113.3", "203.0.113.2"}, true, []string{"203.0.113.2", "203.0.113.3"}},
		{"all trusted", listed("", "203.0.113.0/24"), []string{"203.0.113.4, 203.0.113.3, 203.0.113.2"}, true, []string{"203.0.113.2", "203.0.113.3"}},
		{"one element", listed("", "203.0.113.0/24"), []string{"198.51.100.9"}, true, nil},
		{"walked up to the failure", listed("", "203.0.113.0/24"), []string{"198.51.100.9, junk, 203.0.113.2"}, true, []string{"203.0.113.2"}},
		{"hop count keeps places", counted("", 3), []string{"192.0.2.66, 198.51.100.9, junk, 203.0.113.2"}, false, []string{"203.0.113.2", ""}},
		{"untrusted", listed("", "192.0.2.0/24"), []string{"198.51.100.9, 192.0.2.1"}, false, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			res := c.config.resolver(t).Resolve(proxy, c.lines)
			var hops []string
			for _, hop := range res.Hops {
				hops = append(hops, text(hop))
			}
			if !slices.Equal(hops, c.hops) || res.Trusted != c.trusted {
				t.Errorf("got hops %q trusted %t, want %q %t", hops, res.Trusted, c.hops, c.trusted)
			}
			if got := text(res.Peer); got != "203.0.113.1" {
				t.Errorf("peer = %q", got)
			}
		})
	}
}

func TestNew(t *testing.T) {
	cases := []struct {
		name     string
		config   vectorConfig
		warnings []string // a part of each
	}{
		{"off", vectorConfig{}, nil},
		{"off, whatever else is set", vectorConfig{Hops: 2, Header: "X-Odd"}, nil},
		{"list", listed("", "203.0.113.0/24"), nil},
		{"hops", counted("forwarded", 2), nil},
		{"no mechanism", counted("", 0), []string{"neither trusted_proxies nor trusted_hops"}},
		{"hops beside a list", vectorConfig{TrustHeaders: true, TrustedProxies: []string{"203.0.113.1"}, Hops: 1}, []string{"trusted_hops is ignored"}},
		{"hops with a single-value header", counted("x-real-ip", 1), []string{"only believed from listed proxies"}},
		{"client may send it", listed("True-Client-IP", "203.0.113.1"), []string{"True-Client-Ip can be sent through a CDN"}},
		{"unheard of", listed("X-Forwaded-For", "203.0.113.1"), []string{"X-Forwaded-For is not a well-known one"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			list, _, err := ParseTrustList(c.config.TrustedProxies)
			if err != nil {
				t.Fatal(err)
			}
			_, got, err := New(Config{c.config.TrustHeaders, list, c.config.Hops, c.config.Header})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, c.warnings, strings.Contains) {
				t.Errorf("warnings %q, want %q", got, c.warnings)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	cases := []struct {
		config Config
		want   string
	}{
		{Config{TrustedHops: -1}, "compiling client address rules: trusted hops -1 is not within 0..32"},
		{Config{TrustedHops: 33}, "compiling client address rules: trusted hops 33 is not within 0..32"},
		{Config{Header: "X-Real IP"}, `compiling client address rules: header "X-Real IP" is not a field name`},
	}
	for _, c := range cases {
		if _, _, err := New(c.config); err == nil || err.Error() != c.want {
			t.Errorf("New(%+v): error %v, want %s", c.config, err, c.want)
		}
	}
	if _, _, err := New(Config{TrustedHops: MaxHops}); err != nil {
		t.Errorf("hops %d: %v", MaxHops, err)
	}
}

func TestParseTrustListReports(t *testing.T) {
	_, _, err := ParseTrustList([]string{"203.0.113.1", "oops,::ffff:10.0.0.0/95", "*", "10.0.0.1-10.0.0.9", "fe80::1%a"})
	want := `parsing address list: "oops" is not an address, "::ffff:10.0.0.0/95" is an IPv4-mapped prefix of fewer than 96 bits, ` +
		`"*" is not an address, "10.0.0.1-10.0.0.9" is not an address, "fe80::1%a" has a zone; ` +
		`want addresses (192.0.2.1), prefixes (192.0.2.0/24) or unix`
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	cases := []struct {
		entry   string
		warning string // a part; "" for none
	}{
		{"203.0.113.77/24", "203.0.113.77/24 has host bits set; 203.0.113.0/24 is used"},
		{"::ffff:203.0.113.77/120", "203.0.113.0/24 is used"},
		{"::ffff:0:0/96", "0.0.0.0/0 trusts everyone"},
		{"::/0", "::/0 trusts everyone"},
		{"8.0.0.0/7", "very wide"},
		{"10.0.0.0/8", ""},
		{"2000::/15", "very wide"},
		{"2001::/16", ""},
		{"unix", ""},
	}
	for _, c := range cases {
		_, warnings, err := ParseTrustList([]string{c.entry})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(warnings, "\n"); (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) {
			t.Errorf("%s: warnings %q, want %q", c.entry, got, c.warning)
		}
	}
}

func TestPrefixSetContains(t *testing.T) {
	set, _, err := ParsePrefixes([]string{
		"10.0.0.0/8", "10.1.0.0/16", "11.0.0.0/8,255.255.255.255", // one inside another, one next to another, the last of all
		"192.0.2.1", "2001:db8::/32", "ffff::/16",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(set.ranges), 5; got != want {
		t.Errorf("merged into %d ranges, want %d: %v", got, want, set.ranges)
	}
	cases := map[string]bool{
		"9.255.255.255": false, "10.0.0.0": true, "10.1.2.3": true, "10.255.255.255": true, "11.255.255.255": true, "12.0.0.0": false,
		"192.0.2.0": false, "192.0.2.1": true, "192.0.2.2": false, "255.255.255.254": false, "255.255.255.255": true,
		"::ffff:10.0.0.1": true, "::a00:1": false, "64:ff9b::10.0.0.1": false,
		"2001:db7:ffff::": false, "2001:db8::": true, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff": true, "2001:db9::": false,
		"2001:db8::1%eth0": true, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff": true,
	}
	for address, want := range cases {
		if got := set.Contains(netip.MustParseAddr(address)); got != want {
			t.Errorf("Contains(%s) = %t, want %t", address, got, want)
		}
	}
	if set.Contains(netip.Addr{}) || (PrefixSet{}).Contains(netip.MustParseAddr("10.0.0.1")) {
		t.Error("the invalid address or the empty set matched")
	}
}

func TestParseAllow(t *testing.T) {
	everyone, _, err := ParseAllow([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	if !everyone.Allows(Result{}) || !everyone.Contains(netip.Addr{}) || everyone.Empty() || !slices.Equal(everyone.Entries(), []string{"*"}) {
		t.Error("* must admit a sender without an address")
	}
	if _, _, err := ParsePrefixes([]string{"*"}); err == nil {
		t.Error("ParsePrefixes accepted *")
	}
	if _, _, err := ParseAllow([]string{"unix"}); err == nil {
		t.Error("ParseAllow accepted unix")
	}
}

func TestParseLiteral(t *testing.T) {
	good := map[string]string{"198.51.100.9": "198.51.100.9", "2001:DB8::9": "2001:db8::9", "::ffff:198.51.100.9": "198.51.100.9"}
	for in, want := range good {
		if got, err := ParseLiteral(in); err != nil || got.String() != want {
			t.Errorf("ParseLiteral(%q) = %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", " 198.51.100.9", "198.51.100.9 ", "198.51.100.9:80", "[2001:db8::9]", "[2001:db8::9]:80", "fe80::1%eth0", "fe80::1%",
		"198.51.100.9,198.51.100.10", "0.0.0.0", "::", "::ffff:0.0.0.0", "198.51.100.09", "127.1", "localhost", "198.51.100.0/24",
		strings.Repeat("1", 200),
	} {
		if got, err := ParseLiteral(in); err == nil {
			t.Errorf("ParseLiteral(%q) = %s, want an error", in, got)
		}
	}
}

func TestSubnetRefuses(t *testing.T) {
	v4 := netip.MustParseAddr("198.51.100.9")
	for _, got := range []netip.Prefix{Subnet(netip.Addr{}, 24, 64), Subnet(v4, 33, 64), Subnet(v4, -1, 64)} {
		if got.IsValid() {
			t.Errorf("got %s, want the zero Prefix", got)
		}
	}
	if got := Subnet(netip.MustParseAddr("fe80::1%eth0"), 24, 64).String(); got != "fe80::/64" {
		t.Errorf("zoned address: %s", got)
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := ReasonNoPeer; r <= ReasonSingleMultiple; r++ {
		seen[r.String()] = true
	}
	if len(seen) != 15 || seen["invalid"] || Reason(200).String() != "invalid" {
		t.Errorf("names %v", seen)
	}
}
