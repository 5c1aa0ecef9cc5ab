package clientip

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

// vectorFile is testdata/clientip.json; the parts for other packages are read there.
type vectorFile struct {
	Vectors   []vector
	Allowlist []struct {
		ID, Vector, Want, Note string
		Allow                  []string
	}
	Subnet []struct {
		ID, IP, Want, Note string
		V4Bits             int `json:"v4_bits"`
		V6Bits             int `json:"v6_bits"`
	}
	Config []struct {
		ID, Value, Note string
		Valid           bool
		Want            []string
	}
}

type vector struct {
	ID, Peer, Want, Reason, Note string
	Degraded                     bool
	Config                       vectorConfig
	Headers                      [][2]string
	HeadersRepeat                *struct {
		Header, Unit, Suffix string
		Count                int
	} `json:"headers_repeat"`
}

type vectorConfig struct {
	TrustHeaders   bool     `json:"trust_headers"`
	TrustedProxies []string `json:"trusted_proxies"`
	Hops           int
	Header         string
}

func loadVectors(t *testing.T) vectorFile {
	t.Helper()
	text, err := os.ReadFile("testdata/clientip.json")
	if err != nil {
		t.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) == 0 || len(file.Allowlist) == 0 || len(file.Subnet) == 0 || len(file.Config) == 0 {
		t.Fatal("a section of the vectors is empty")
	}
	return file
}

func (c vectorConfig) resolver(t testing.TB) *Resolver {
	t.Helper()
	list, _, err := ParseTrustList(c.TrustedProxies)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := New(Config{TrustHeaders: c.TrustHeaders, TrustedProxies: list, TrustedHops: c.Hops, Header: c.Header})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lines picks the lines of one header, whose name matches in any case.
func (v vector) lines(header string) []string {
	var lines []string
	for _, field := range v.Headers {
		if strings.EqualFold(field[0], header) {
			lines = append(lines, field[1])
		}
	}
	if repeat := v.HeadersRepeat; repeat != nil && strings.EqualFold(repeat.Header, header) {
		lines = append(lines, strings.Repeat(repeat.Unit, repeat.Count)+repeat.Suffix)
	}
	return lines
}

func (v vector) resolve(t *testing.T) Result {
	r := v.Config.resolver(t)
	return r.Resolve(v.Peer, v.lines(r.Header()))
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func TestVectors(t *testing.T) {
	for _, v := range loadVectors(t).Vectors {
		t.Run(v.ID, func(t *testing.T) {
			res := v.resolve(t)
			got := fmt.Sprintf("%q %s %t", text(res.Addr), res.Reason, res.Degraded)
			want := fmt.Sprintf("%q %s %t", v.Want, v.Reason, v.Degraded)
			if got != want {
				t.Errorf("got %s, want %s: %s", got, want, v.Note)
			}
		})
	}
}

func TestAllowlistVectors(t *testing.T) {
	file := loadVectors(t)
	for _, a := range file.Allowlist {
		t.Run(a.ID, func(t *testing.T) {
			allow, _, err := ParseAllow(a.Allow)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(file.Vectors, func(v vector) bool { return v.ID == a.Vector })
			res := file.Vectors[i].resolve(t)
			if got, want := allow.Allows(res), a.Want == "allow"; got != want {
				t.Errorf("Allows(%+v) = %t, want %t: %s", res, got, want, a.Note)
			}
		})
	}
}

func TestSubnetVectors(t *testing.T) {
	for _, s := range loadVectors(t).Subnet {
		t.Run(s.ID, func(t *testing.T) {
			if got := Subnet(netip.MustParseAddr(s.IP), s.V4Bits, s.V6Bits).String(); got != s.Want {
				t.Errorf("Subnet(%s, %d, %d) = %s, want %s: %s", s.IP, s.V4Bits, s.V6Bits, got, s.Want, s.Note)
			}
		})
	}
}

func TestConfigVectors(t *testing.T) {
	for _, c := range loadVectors(t).Config {
		t.Run(c.ID, func(t *testing.T) {
			list, _, err := ParseTrustList([]string{c.Value})
			if (err == nil) != c.Valid {
				t.Fatalf("ParseTrustList(%q): error %v, want valid %t: %s", c.Value, err, c.Valid, c.Note)
			}
			if got := list.Entries(); !slices.Equal(got, c.Want) {
				t.Errorf("ParseTrustList(%q) = %q, want %q: %s", c.Value, got, c.Want, c.Note)
			}
		})
	}
}
