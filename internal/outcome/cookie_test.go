package outcome

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestCookies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)))
		for _, tc := range []struct {
			name         string
			lines        []string
			set, deleted bool
		}{
			{"none", nil, false, false},
			{"set", []string{"s=1"}, true, false},
			{"set, with all there is", []string{` s = "1" ; Path=/; Domain=.x.test; Max-Age=60; Expires=Fri, 01 May 2026 12:00:01 GMT; Secure; HttpOnly`}, true, false},
			{"other name", []string{"S=1", "ss=1", "x=s", "s2=1"}, false, false},
			{"empty", []string{"s=; Path=/"}, false, true},
			{"empty in quotes", []string{`s=""`}, false, true},
			{"no equals sign", []string{"s; Path=/"}, false, true},
			{"a name alone", []string{"s"}, false, true},
			{"no name", []string{"=s"}, false, false},
			{"Max-Age 0", []string{"s=1; max-age=0"}, false, true},
			{"Max-Age 00", []string{"s=1; Max-Age=00"}, false, true},
			{"Max-Age below", []string{"s=1; Max-Age=-1"}, false, true},
			{"Max-Age huge", []string{"s=1; Max-Age=99999999999999999999"}, true, false},
			{"Max-Age no number", []string{"s=1; Max-Age=soon"}, true, false},
			{"Max-Age no number, expired", []string{"s=1; Max-Age=soon; Expires=Thu, 01 Jan 1970 00:00:00 GMT"}, false, true},
			{"Max-Age empty, expired", []string{"s=1; Max-Age=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"}, false, true},
			{"expired", []string{"s=1; Expires=Fri, 01 May 2026 12:00:00 GMT"}, false, true},
			{"expired, with dashes", []string{"s=deleted; expires=Thu, 01-Jan-1970 00:00:01 GMT; path=/"}, false, true},
			{"expired, short year", []string{"s=x; expires=Thu, 01-Jan-70 00:00:01 GMT"}, false, true},
			{"expires later", []string{"s=1; Expires=Fri, 01 May 2026 12:00:01 GMT"}, true, false},
			{"expires no date", []string{"s=1; Expires=never"}, true, false},
			{"Max-Age outranks Expires", []string{"s=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT"}, true, false},
			{"in any order", []string{"s=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60"}, true, false},
			{"set, then deleted", []string{"s=1; Path=/", "s=; Path=/"}, false, true},
			{"set, then another, then deleted", []string{"s=1; Path=/", "t=1; Path=/", "s=; Path=/"}, false, true},
			{"deleted, then set", []string{"s=; Path=/", "s=1; Path=/"}, true, false},
			{"deleted at another path", []string{"s=1; Path=/", "s=; Path=/old"}, true, true},
			{"deleted at another domain", []string{"s=1; Domain=x.test", "s=; Domain=.X.test", "s=1; Domain=y.test"}, true, true},
			{"behind very many", append(slices.Repeat([]string{"x=1"}, 500), "s=1"), true, false},
			{"before very many", append([]string{"s=1"}, slices.Repeat([]string{"x=1"}, 500)...), false, false},
		} {
			if got := hasCookie(tc.lines, parseGlob("s"), false); got != tc.set {
				t.Errorf("%s: set %v, want %v", tc.name, got, tc.set)
			}
			if got := hasCookie(tc.lines, parseGlob("s"), true); got != tc.deleted {
				t.Errorf("%s: deleted %v, want %v", tc.name, got, tc.deleted)
			}
		}
	})
}

func TestCookieValue(t *testing.T) {
	h := http.Header{"Set-Cookie": {`flow="f-1"; Path=/`, "gone=; Max-Age=0", "flow=f-2; Path=/", "x=1"}}
	for name, want := range map[string]string{"flow": "f-2", "x": "1", "gone": "-", "none": "-"} {
		got, ok := CookieValue(h, name)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("CookieValue(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzParseSetCookie(f *testing.F) {
	f.Add("s=1; Path=/; Expires=Thu, 01-Jan-1970 00:00:01 GMT; Max-Age=-0")
	f.Fuzz(func(t *testing.T, line string) {
		c := parseSetCookie(line)
		if c.name != cookieName(line) {
			t.Errorf("parseSetCookie(%q) is named %q, cookieName %q", line, c.name, cookieName(line))
		}
		// Where the standard library reads a cookie, it reads the same one.
		std, err := http.ParseSetCookie(line)
		if err == nil && (std.Name != c.name || std.MaxAge < 0 && !c.deleted) {
			t.Errorf("parseSetCookie(%q) = %+v, the standard library reads %+v", line, c, std)
		}
	})
}
