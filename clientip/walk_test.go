package clientip

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func FuzzWhatIsPrependedNeverCounts(f *testing.F) {
	f.Add("192.0.2.66", "198.51.100.9, 203.0.113.2", uint8(0), false)
	f.Add(`"`, `198.51.100.9"`, uint8(1), false)
	f.Add(`for=x;by="`, `for=198.51.100.9, for=203.0.113.2;host="a,b"`, uint8(0), true)
	f.Add(`for="\`, `for="198.51.100.9", for=unknown`, uint8(2), true)
	f.Fuzz(func(t *testing.T, prefix, value string, hops uint8, forwarded bool) {
		config := counted("x-forwarded-for", int(hops%4))
		if config.Hops == 0 {
			config.TrustedProxies = []string{"203.0.113.0/24"}
		}
		if forwarded {
			config.Header = "forwarded"
		}
		r := config.resolver(t)
		want := r.Resolve(proxy, []string{value})
		if want.Reason != ReasonForwarded && want.Reason != ReasonHops {
			return
		}
		for _, lines := range [][]string{{prefix + "," + value}, {prefix, value}, {prefix + "\"", ",", prefix + "," + value}} {
			if got := r.Resolve(proxy, lines); !reflect.DeepEqual(got, want) {
				t.Errorf("%q gives %+v, want %+v", lines, got, want)
			}
		}
	})
}

// FuzzLinesAreOneList builds headers from elements whose commas, if any, are inside quotes, and cuts them into lines.
func FuzzLinesAreOneList(f *testing.F) {
	elements := []string{
		"", "for=198.51.100.9", "for=203.0.113.2", `for=203.0.113.3;host="a,b"`, `for="203.0.113.4:1";x="\",\\"`, "for=unknown",
		"junk", "198.51.100.9", "203.0.113.2", "[2001:db8::1]:80",
	}
	f.Add([]byte{1, 2, 3, 4}, uint64(5), true)
	f.Add([]byte{7, 8, 0, 8}, uint64(2), false)
	f.Fuzz(func(t *testing.T, picks []byte, cuts uint64, forwarded bool) {
		if len(picks) == 0 || len(picks) > 40 {
			return
		}
		header, hops := "x-forwarded-for", 0
		if forwarded {
			header, hops = "forwarded", len(picks)%3
		}
		lines := []string{""}
		var whole []string
		for i, pick := range picks {
			element := elements[int(pick)%len(elements)]
			whole = append(whole, element)
			switch last := len(lines) - 1; {
			case i == 0:
				lines[0] = element
			case cuts>>(i%64)&1 == 1:
				lines = append(lines, element)
			default:
				lines[last] += ", " + element
			}
		}
		config := counted(header, hops)
		if hops == 0 {
			config.TrustedProxies = []string{"203.0.113.0/24"}
		}
		r := config.resolver(t)
		got, want := r.Resolve(proxy, lines), r.Resolve(proxy, []string{strings.Join(whole, ", ")})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q gives %+v, joined %+v", lines, got, want)
		}
	})
}

func FuzzResolve(f *testing.F) {
	for _, header := range []string{"x-forwarded-for", "forwarded", "x-real-ip", "cloudfront-viewer-address"} {
		f.Add(header, proxy, "fe80::1%eth0, 203.0.113.2", "::ffff:198.51.100.9")
		f.Add(header, "[fe80::1%x]:1", `for="[::ffff:198.51.100.9%x]:_p"`, "")
		f.Add(header, "@", "", "198.51.100.9:80")
	}
	f.Fuzz(func(t *testing.T, header, peer, first, second string) {
		if !isToken(header) {
			return
		}
		for _, config := range []vectorConfig{listed(header, "203.0.113.0/24", "fe80::/10", "unix"), counted(header, 2), counted(header, 0)} {
			r := config.resolver(t)
			res := r.Resolve(peer, []string{first, second})
			for _, addr := range append(slices.Clone(res.Hops), res.Addr, res.Peer) {
				if addr.Zone() != "" || addr.Is4In6() || addr.IsValid() && addr.IsUnspecified() {
					t.Errorf("address %s in %+v", addr, res)
				}
			}
			fallback := res.Addr == res.Peer
			found := slices.Contains([]Reason{ReasonForwarded, ReasonAllTrusted, ReasonHops, ReasonSingle}, res.Reason)
			if !fallback && !found || found && !res.Addr.IsValid() || len(res.Hops) > MaxHops {
				t.Errorf("result %+v", res)
			}
			if found && !wrote(r, []string{first, second}, res) {
				t.Errorf("%+v names an address that no element holds", res)
			}
			if !res.Addr.IsValid() && !res.Degraded {
				t.Errorf("nobody, yet not degraded: %+v", res)
			}
		}
	})
}

// wrote reports whether an element between any two commas, or a line, reads as the client's address.
func wrote(r *Resolver, lines []string, res Result) bool {
	for _, line := range lines {
		ends := []int{-1}
		for i := range len(line) {
			if line[i] == ',' {
				ends = append(ends, i)
			}
		}
		ends = append(ends, len(line))
		for i, start := range ends {
			for _, end := range ends[i+1:] {
				if addr, _ := r.parse(trimBlanks(line[start+1 : end])); addr == res.Addr {
					return true
				}
			}
		}
	}
	return false
}

func FuzzParseTrustList(f *testing.F) {
	f.Add("203.0.113.77/24, ::ffff:10.0.0.0/104,unix")
	f.Add("fe80::1%eth0,[::1],10.0.0.0/33")
	f.Fuzz(func(t *testing.T, list string) {
		once, _, err := ParseTrustList([]string{list})
		if err != nil {
			return
		}
		twice, warnings, err := ParseTrustList(once.Entries())
		if err != nil || !reflect.DeepEqual(once, twice) {
			t.Errorf("%q reads as %q, and that as %q, %v", list, once.Entries(), twice.Entries(), err)
		}
		for _, warning := range warnings {
			if strings.Contains(warning, "host bits") {
				t.Errorf("%q: host bits survived: %s", list, warning)
			}
		}
	})
}

func TestResolveAllocatesNothing(t *testing.T) {
	cases := []struct {
		name   string
		config vectorConfig
		peer   string
		lines  []string
	}{
		{"trust off", vectorConfig{}, proxy, []string{"198.51.100.9"}},
		{"untrusted peer", listed("", "203.0.113.0/24"), "192.0.2.1:80", []string{"198.51.100.9"}},
		{"no header", listed("", "203.0.113.0/24"), proxy, nil},
		{"one hop", listed("", "203.0.113.0/24"), proxy, []string{"192.0.2.66, 198.51.100.9"}},
		{"one hop, IPv6 and a zone", listed("", "2001:db8::/32"), "[2001:db8::1]:443", []string{"[fe80::9%eth0]:80"}},
		{"hop count of one", counted("", 1), proxy, []string{"192.0.2.66, 198.51.100.9"}},
		{"Forwarded", listed("forwarded", "203.0.113.0/24"), proxy, []string{`for=x, for="198.51.100.9:80";proto=https`}},
		{"single", listed("cf-connecting-ip", "203.0.113.0/24"), proxy, []string{"198.51.100.9"}},
	}
	for _, c := range cases {
		r := c.config.resolver(t)
		if got := testing.AllocsPerRun(100, func() { r.Resolve(c.peer, c.lines) }); got != 0 {
			t.Errorf("%s: %.0f allocations", c.name, got)
		}
	}
}

// BenchmarkResolve covers the ordinary requests and the worst headers of 64 KiB, which must stay below 100 microseconds.
func BenchmarkResolve(b *testing.B) {
	const size = 64 << 10
	fill := func(unit string) []string { return []string{strings.Repeat(unit, size/len(unit))} }
	list, forwarded := listed("", "203.0.113.0/24"), listed("forwarded", "203.0.113.0/24")
	cases := []struct {
		name   string
		config vectorConfig
		lines  []string
	}{
		{"no header", list, nil},
		{"one hop", list, []string{"198.51.100.9"}},
		{"two hops", list, []string{"198.51.100.9, 203.0.113.2"}},
		{"Forwarded", forwarded, []string{`for=198.51.100.9;proto=https;host=example.test`}},
		{"64 KiB of commas", list, fill(",")},
		{"64 KiB of blank lines", list, slices.Repeat([]string{""}, size/len("X-Forwarded-For:\r\n"))},
		{"64 KiB of one trusted address", list, fill("203.0.113.2,")},
		{"64 KiB of one element", list, fill("1")},
		{"64 KiB of short elements, counted", counted("", MaxHops), fill("1 ,")},
		{"64 KiB of commas, Forwarded", forwarded, fill(",")},
		{"64 KiB of quotes, Forwarded", forwarded, fill(`"`)},
		{"64 KiB of backslashes, Forwarded", forwarded, fill(`\`)},
		{"64 KiB of quotes and backslashes, Forwarded", forwarded, fill(`\\\"`)},
		{"64 KiB of an escaped quote, Forwarded", forwarded, []string{`"` + strings.Repeat(`\`, size) + `"`}},
		{"64 KiB of one trusted address, Forwarded", forwarded, fill("for=203.0.113.2,")},
		{"an element of many pairs, Forwarded", forwarded, []string{"for=198.51.100.9" + pairs(maxForwardedPairs-1)}},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			r := c.config.resolver(b)
			b.ReportAllocs()
			for b.Loop() {
				r.Resolve(proxy, c.lines)
			}
		})
	}
}
