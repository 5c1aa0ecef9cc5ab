package outcome

import (
	"slices"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"a*", "ab", true},
		{"*b", "ab", true},
		{"a*b", "ab", true},
		{"ab*ba", "aba", false},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"*b*", "abc", true},
		{"*", "", true},
		{"**", "x", true},
		{"", "", true},
		{"", "x", false},
		{"a**c", "abc", true},
	} {
		if got := parseGlob(tc.pattern).match(tc.text); got != tc.want {
			t.Errorf("%q matches %q: %v, want %v", tc.pattern, tc.text, got, tc.want)
		}
	}
}

func TestGlobSpans(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          []span
	}{
		{"ab", "ab", []span{{0, 2}}},
		{"/a/*", "/a/b", []span{{0, 3}}},
		{"*b", "bbb", []span{{2, 3}}},
		{"a*b*c", "a-b-b-c", []span{{0, 1}, {2, 3}, {6, 7}}},
		{"*", "x", []span{}},
	} {
		if got := parseGlob(tc.pattern).spans(tc.text); !slices.Equal(got, tc.want) {
			t.Errorf("%q in %q stands at %v, want %v", tc.pattern, tc.text, got, tc.want)
		}
	}
}

func TestGlobCoversAndMeets(t *testing.T) {
	for _, tc := range []struct {
		a, b          string
		covers, meets bool
	}{
		{"/a*", "/ab", true, true},
		{"/a*", "/ab*", true, true},
		{"/ab*", "/a*", false, true},
		{"a*", "*b", false, true},
		{"a*c", "b*", false, false},
		{"*a*", "b*", false, true},
		{"*", "x*y", true, true},
		{"x", "x", true, true},
		{"x", "y", false, false},
		{"*", "", false, false},
		{"", "*", false, false},
		{"", "", true, true},
		{"a*b", "ab", true, true},
		{"*ab", "*b", false, true},
	} {
		a, b := parseGlob(tc.a), parseGlob(tc.b)
		if got := a.covers(b); got != tc.covers {
			t.Errorf("%q covers %q: %v, want %v", tc.a, tc.b, got, tc.covers)
		}
		if got := a.meets(b); got != tc.meets || b.meets(a) != tc.meets {
			t.Errorf("%q meets %q: %v and %v, want %v", tc.a, tc.b, got, b.meets(a), tc.meets)
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b", "a*", "aab")
	f.Add("*a*a", "a*a*", "aaaa")
	f.Fuzz(func(t *testing.T, one, other, text string) {
		if strings.Contains(text, "*") || one == "" || other == "" || len(one)+len(other) > 200 {
			return
		}
		a, b := parseGlob(one), parseGlob(other)
		inA, inB := a.match(text), b.match(text)
		if inB && a.covers(b) && !inA {
			t.Errorf("%q covers %q, but only the latter matches %q", one, other, text)
		}
		if inA && inB && !a.meets(b) {
			t.Errorf("%q and %q are said not to meet, but both match %q", one, other, text)
		}
		if inA {
			for _, s := range a.spans(text) {
				if !strings.Contains(one, text[s.start:s.end]) {
					t.Errorf("%q in %q: %v holds %q", one, text, s, text[s.start:s.end])
				}
			}
		}
	})
}

func TestStatusSet(t *testing.T) {
	var s statusSet
	for _, text := range []string{"200", "3xx", "999", "100"} {
		if err := s.addText(text); err != nil {
			t.Errorf("addText(%q): %v", text, err)
		}
	}
	for code, want := range map[int]bool{100: true, 101: false, 199: false, 200: true, 201: false, 299: false, 300: true, 399: true, 400: false, 998: false, 999: true, 1000: false, 99: false, 0: false, -1: false, 1 << 40: false} {
		if got := s.has(code); got != want {
			t.Errorf("has(%d) = %v, want %v", code, got, want)
		}
	}
	for _, text := range []string{"", "20", "2000", "0200", "099", "2x", "xxx", "6xx", "0xx", "2xX", "-200", "+20", "OK"} {
		if err := s.addText(text); err == nil {
			t.Errorf("addText(%q) gives no error", text)
		}
	}
}

func TestParseLocation(t *testing.T) {
	for _, tc := range []struct {
		raw, base, path, query string
	}{
		{"/a/b?x=1#f", "/login", "/a/b", "x=1"},
		{"https://host.example/a?x", "/login", "/a", "x"},
		{"https://host.example", "/login", "/", ""},
		{"https://host.example?x=1", "/login", "/", "x=1"},
		{"//host.example/a", "/login", "/a", ""},
		{"///a", "/login", "/a", ""},
		{"HTTPS://host.example:8443/a/", "/login", "/a/", ""},
		{"zabbix.php?action=a", "/zabbix/index.php", "/zabbix/zabbix.php", "action=a"},
		{"./?_task=mail", "/mail/", "/mail/", "_task=mail"},
		{"../up", "/a/b/c", "/a/up", ""},
		{"../../../up", "/a", "/up", ""},
		{"?error", "/login", "/login", "error"},
		{"", "/login", "/login", ""},
		{"#top", "/login", "/login", ""},
		{" /a ", "/", "/a", ""},
		{"/a;jsessionid=1?error", "/", "/a", "error"},
		{"/a;x=1/b;y", "/", "/a/b", ""},
		{"/a%2Fb%3f", "/", "/a/b?", ""},
		{"/a%zz%4", "/", "/a%zz%4", ""},
		{"/a//b/./c/../d", "/", "/a/b/d", ""},
		{"/login:8080/x", "/", "/login:8080/x", ""},
		{"mailto:x", "/a/b", "/a/x", ""},
		{"/a b\x01", "/", "/a b\x01", ""},
	} {
		got := parseLocation(tc.raw, tc.base)
		if got != (location{tc.path, tc.query}) {
			t.Errorf("parseLocation(%q, %q) = %+v, want %s and %s", tc.raw, tc.base, got, tc.path, tc.query)
		}
	}
}

func TestLocationParam(t *testing.T) {
	l := location{"/", "a=1&b&c=x%20y+z&d%65=%zz&a=2&=9"}
	for name, want := range map[string]string{"a": "1", "b": "", "c": "x y z", "de": "%zz", "none": "-", "A": "-"} {
		got, ok := l.param(name)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("param(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzParseLocation(f *testing.F) {
	f.Add("https://h/a;b/../c?d=e&f#g", "/x/y")
	f.Add("%2e%2e//..;/:", "/")
	f.Fuzz(func(t *testing.T, raw, base string) {
		l := parseLocation(raw, cleanPath(base))
		if !strings.HasPrefix(l.path, "/") || strings.Contains(l.path, "//") || strings.Contains(l.path, "/../") {
			t.Errorf("parseLocation(%q, %q) leads to %q", raw, base, l.path)
		}
		l.param("a")
	})
}

func TestLower(t *testing.T) {
	for text, want := range map[string]string{"aBc": "abc", "ÉÀ": "éà", "A\xffÉ\xc3": "a\xffé\xc3", "\u212aİ": "ki", "": ""} {
		if got := lower(text); got != want {
			t.Errorf("lower(%q) = %q, want %q", text, got, want)
		}
	}
}
