package limits

import (
	"net/netip"
	"testing"
)

func TestScopeKey(t *testing.T) {
	tests := []struct {
		name  string
		rule  Rule
		realm string
		value string
		want  string
	}{
		{"requests", Rule{Policy: "native-otp", Dimension: Target}, "acme", "bob@example.com", "r:native-otp:target:acme:bob@example.com"},
		{"failures", Rule{Policy: "login", Class: Failures, Dimension: TargetSource}, "acme", "bob|192.0.2.1", "f:login:target_source:acme:bob|192.0.2.1"},
		{"factors", Rule{Policy: "login", Class: Factors, Dimension: Source}, "acme", "2001:db8::/64", "k:login:source:acme:2001:db8::/64"},
		{"second in a list", Rule{Policy: "p", Dimension: Source, Index: 1}, "acme", "x", "r:p:source.1:acme:x"},
		{"global", Rule{Policy: "bootstrap", Dimension: App}, GlobalRealm, "all", "r:bootstrap:app:*:all"},
		{"no value", Rule{Policy: "p", Dimension: Client}, "acme", "", "r:p:client:acme:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key := NewScope(&tt.rule, tt.realm).Key(tt.value)
			if key != tt.want {
				t.Errorf("got %q, want %q", key, tt.want)
			}
			want := KeyParts{tt.rule.Class, tt.rule.Policy, tt.rule.Dimension, tt.rule.Index, tt.realm, tt.value}
			if got, ok := ParseKey(key); !ok || got != want {
				t.Errorf("taken apart: got %+v %t, want %+v", got, ok, want)
			}
		})
	}
}

func TestScopeLeavesTheLimitOut(t *testing.T) {
	a := Rule{Policy: "p", Dimension: Source, Limit: 1, Window: MinWindow}
	b := Rule{Policy: "p", Dimension: Source, Limit: 9, Window: MaxWindow, Burst: 4, Refuse: Silent, PrefixV4: 8}
	if x, y := NewScope(&a, "r"), NewScope(&b, "r"); x != y {
		t.Errorf("got %q and %q, want one scope", x, y)
	}
}

func TestParseKeyRefuses(t *testing.T) {
	for _, key := range []string{
		"", ":", "::::", "r", "r:p:source:acme", "x:p:source:acme:v", "rf:p:source:acme:v", "r:p:sauce:acme:v", "r:p::acme:v",
		"r:p:source.:acme:v", "r:p:source.0:acme:v", "r:p:source.-1:acme:v", "r:p:source.x:acme:v", "r:p:source.01:acme:v", "r:p:source.+1:acme:v",
		"r:p:source.99999999999999999999:acme:v", "R:p:source:acme:v",
	} {
		if p, ok := ParseKey(key); ok {
			t.Errorf("%q: got %+v, want it refused", key, p)
		}
	}
}

// FuzzParseKey: what can be taken apart is exactly what its parts make.
func FuzzParseKey(f *testing.F) {
	f.Add("f:login:target_source:acme:bob|192.0.2.1")
	f.Add("r:p:source.12:*:2001:db8::/64")
	f.Add("k:p:target.01:r:")
	f.Add("r:p:source:r")
	f.Fuzz(func(t *testing.T, key string) {
		p, ok := ParseKey(key)
		if !ok {
			return
		}
		r := Rule{Policy: p.Policy, Class: p.Class, Dimension: p.Dimension, Index: p.Index}
		if got := NewScope(&r, p.Realm).Key(p.Value); got != key {
			t.Errorf("%+v: got %q, want %q", p, got, key)
		}
	})
}

func TestAddressValue(t *testing.T) {
	tests := []struct {
		name   string
		v4, v6 int
		addr   netip.Addr
		want   string
	}{
		{"whole IPv4", 32, 64, netip.MustParseAddr("192.0.2.7"), "192.0.2.7"},
		{"masked IPv4", 24, 64, netip.MustParseAddr("192.0.2.7"), "192.0.2.0/24"},
		{"odd mask", 27, 64, netip.MustParseAddr("192.0.2.77"), "192.0.2.64/27"},
		{"all IPv4", 0, 64, netip.MustParseAddr("192.0.2.7"), "0.0.0.0/0"},
		{"mapped IPv4 is IPv4", 32, 64, netip.MustParseAddr("::ffff:192.0.2.7"), "192.0.2.7"},
		{"mapped IPv4, masked", 24, 64, netip.MustParseAddr("::ffff:192.0.2.7"), "192.0.2.0/24"},
		{"whole IPv6", 32, 128, netip.MustParseAddr("2001:db8::7"), "2001:db8::7"},
		{"masked IPv6", 32, 64, netip.MustParseAddr("2001:db8:1:2:3::7"), "2001:db8:1:2::/64"},
		{"wider IPv6", 32, 56, netip.MustParseAddr("2001:db8:1:2ff::7"), "2001:db8:1:200::/56"},
		{"all IPv6", 32, 0, netip.MustParseAddr("2001:db8::7"), "::/0"},
		{"zone is dropped", 32, 128, netip.MustParseAddr("fe80::1%eth0"), "fe80::1"},
		{"zone is dropped, masked", 32, 64, netip.MustParseAddr("fe80::1%eth0"), "fe80::/64"},
		{"no address", 32, 64, netip.Addr{}, "none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Rule{PrefixV4: tt.v4, PrefixV6: tt.v6}
			if got := r.AddressValue(tt.addr); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPairValue(t *testing.T) {
	if got, want := PairValue("bob|x", "192.0.2.1"), "bob|x|192.0.2.1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
