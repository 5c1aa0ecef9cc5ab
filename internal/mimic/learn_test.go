package mimic

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Each answer comes twice, to two people in two places. Reason "" is one that is learned.
func TestLearnable(t *testing.T) {
	page := func(inner string) string {
		return "200\nContent-Type: text/html; charset=utf-8\nVary: Cookie\n\n<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">" +
			"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"></head><body>" + inner + "</body></html>"
	}
	for _, tc := range []struct {
		name string
		raw  string
		want Reason
	}{
		{"JSON", jsonFailure, ""},
		{"a page", page(`<p class="error">Invalid username or password.</p><input name="username"><input name="password" type="password">`), ""},
		{"a redirect", "302\nLocation: https://auth.acme.test/login?error\n\n", ""},
		{"nothing but a status", "401\n\n", ""},
		{"a fault of SOAP", "500\nContent-Type: text/xml\n\n<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Fault>no</s:Fault></s:Envelope>", ""},
		{"headers of a careful server", "401\nStrict-Transport-Security: max-age=31536000; includeSubDomains\nX-Frame-Options: DENY\nServer: nginx/1.18.0\n" +
			"Content-Security-Policy: default-src 'self'; img-src https: data:\nExpires: Thu, 19 Nov 1981 08:52:00 GMT\nWWW-Authenticate: Basic realm=\"staff\"\n\nno", ""},
		{"an ETag of the content", "401\nEtag: W/\"2b-6Zg7q3JmNn1sYt0aPzRwQkXv9Ls\"\n\nno", ""},
		{"volatile headers", "401\nDate: Mon, 05 Jan 2026 10:00:00 GMT\nX-Request-Id: 8f14e45fceea167a5a36dedd4bea2543\nX-Runtime: 0.004123\n\nno", ""},
		{"long words", page("Internationalization failed: invalid_username_or_password_combination, tryAnotherPasswordPlease"), ""},
		{"a year", page("© 2026 Acme"), ""},

		{"a cookie", "401\nSet-Cookie: session=abc\n\nno", Cookie},
		{"asks to wait", "401\nRetry-After: 5\n\nno", RetryAfter},
		{"compressed", "401\nContent-Encoding: gzip\n\nno", Encoded},
		{"a part", "206\nContent-Range: bytes 0-1/2\n\nno", Status},
		{"not modified", "304\n\n", Status},
		{"broken off", "401\nContent-Length: 900\n\nno", TooLong},
		{"too long", page(strings.Repeat("no ", MaxBody/3)), TooLong},
		{"no UTF-8", "401\n\nm\xfcde", NoText},
		{"UTF-16", "401\n\n\xff\xfen\x00o\x00", NoText},
		{"NUL", "401\n\nn\x00o", NoText},

		{"a date", page("Last try: 2026-01-05"), Date},
		{"a date of ISO 8601", "401\n\n{\"timestamp\":\"2026-01-05T10:00:00Z\"}", Date},
		{"a date without joints", "401\n\n{\"timestamp\":\"20260105T100000Z\"}", Date},
		{"a date in words", page("On 5 January 2026 somebody"), Date},
		{"a date in words, American", page("On Jan 5, 2026 somebody"), Date},
		{"a time", page("Try again at 14:35"), Date},
		{"a date among other numbers", page(strings.Repeat("<p>Number 7 of many.</p>", 50) + "2026-01-05"), Date},
		{"a long name of a month", "401\n\nseptember 5th, 2026", Date},
		{"a day, and the rest far behind", "401\n\n5. september  2026", Date},
		{"a date in a header", "401\nLast-Modified: " + "Mon, 05 Jan 2099 10:00:00 GMT" + "\n\nno", Date},
		{"seconds", "401\n\n{\"at\":1767607200}", Token},
		{"hex", page(`<input type="hidden" name="csrf" value="8f14e45fceea167a5a36dedd4bea2543">`), Token},
		{"base 64", page(`<input type="hidden" value="q83vEjRWeJq83vEjRWeJqw==">`), Token},
		{"base 36, short", page(`<input type="hidden" value="k3f9x2qa">`), Token},
		{"an id", "401\n\n{\"trace\":\"550e8400-e29b-41d4-a716-446655440000\"}", Token},
		{"a JWT", "401\n\n{\"state\":\"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U\"}", Token},
		{"a nonce in a header", "401\nContent-Security-Policy: script-src 'nonce-4AEemGb0xJptoIGFP3Nd'\n\nno", Token},
		{"a token in a Location", "302\nLocation: /login?flow=c5f1b3a0d2e84f6f\n\n", Token},
		{"a digest to sign in by", "401\nWWW-Authenticate: Digest realm=\"x\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"\n\nno", Token},
		{"what is left of a mailbox", "200\n\nSent to a***@example.com", RequestValue},
		{"what is left of a number", "200\n\nSent to ••••34", RequestValue},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := learning(t, Config{})
			a := raw(tc.raw)
			if tc.name == "broken off" {
				a.Header["Content-Length"] = []string{"900"}
			}
			b.Observe(key, login(a, 1, 1))
			shows(t, b, key, plain(Failure)) // one answer is none
			b.Observe(key, login(a, 2, 2))
			if tc.want == "" {
				shows(t, b, key, a)
				if got := state(t, b); got.Shows != Learned || got.Reason != "" && got.Reason != VolatileHeader {
					t.Errorf("got %+v, want it learned", got)
				}
				return
			}
			shows(t, b, key, plain(Failure))
			if got := state(t, b); got.Shows != Plain || got.Reason != tc.want {
				t.Errorf("got %s and reason %q, want plain and %q", got.Shows, got.Reason, tc.want)
			}
		})
	}
}

// An attacker in two places sends the same crafted value twice, so that the backend gives the same answer twice. It must not
// become everybody's.
func TestPoison(t *testing.T) {
	const evil = `Call <b>0900</b> & say "yes"`
	const long = "Your account was closed. Call our friendly service line and tell them your password."
	show := func(inner string) string { return "401\nContent-Type: text/html\n\n<p>Wrong: " + inner + "</p>" }
	with := func(change func(s *Sample)) func(s *Sample) { return change }
	header := func(name, value string) func(s *Sample) {
		return with(func(s *Sample) { s.Header[name] = []string{value} })
	}
	sends := func(vv ...string) func(s *Sample) {
		return with(func(s *Sample) { s.Values = values(vv...) })
	}
	for _, tc := range []struct {
		name string
		do   func(s *Sample)
		raw  string
	}{
		{"as it is", sends(evil), show(evil)},
		{"three bytes", sends("abc"), show("abc")},
		{"one byte, as a word", sends("7"), show("7 tries")},
		{"two bytes in a redirect", sends("xy"), "302\nLocation: /login?u=xy\n\n"},
		{"in a redirect, escaped", sends(evil), "302\nLocation: /login?u=" + url.QueryEscape(evil) + "\n\n"},
		{"as the host that a proxy passes on", header("X-Forwarded-Host", "evil.example"), show("<a href=https://evil.example/>")},
		{"in a header", sends("secret-word"), "401\nX-User: secret-word\n\nno"},
		{"for HTML", sends(evil), show(html.EscapeString(evil))},
		{"for HTML, twice", sends(evil), show(html.EscapeString(html.EscapeString(evil)))},
		{"for HTML, all of it", sends("evil"), show("&#101;&#x76;il")},
		{"for JSON", sends("<evil> & \"co\""), "401\n\n" + `{"message":"\u003cevil\u003e \u0026 \"co\""}`},
		{"for JSON, beyond the first plane", sends("𝐞𝐯𝐢𝐥"), "401\n\n" + `{"m":"\ud835\udc1e\ud835\udc2f\ud835\udc22\ud835\udc25"}`},
		{"for a script", sends(`evil"`), show(`\x65vil\"`)},
		{"for a URL", sends(evil), show(url.QueryEscape(evil))},
		{"in other case", sends("Evil.Name"), show("EVIL.NAME")},
		{"decoded once more", sends("%3Ci%3Eevil"), show("<i>evil")},
		{"without its tags", sends("e<i>v</i>il"), show("evil")},
		{"without its blanks", sends("  ev il  name"), show("evil name")},
		{"in wide letters", sends("ｅｖｉｌ"), show("evil")},
		{"without accents", sends("évîl"), show("evil")},
		{"cut short", sends(long), show(long[:40])},
		{"cut short, without tags", sends(strings.ReplaceAll(long, "c", "<x>c")), show(long[8:60])},
		{"the mailbox's domain", sends("me@evil.example"), show("mail was not sent to evil.example")},
		{"a name of a field", sends("name=evil_field", "x"), show("unknown field evil_field")},
		{"a field's name as a value", sends("password"), show("user password is unknown")},
		{"a constant once more", sends("constant", "constant"), show("user constant is unknown")},
		{"true in a string", sends("true"), "401\n\n{\"message\":\"user true is unknown\"}"},
		{"true in a text", sends("true"), show("true")},
		{"more than can be looked into", sends(strings.Repeat("x", maxValueBytes+1)), show("no")},
		{"too many values", sends(strings.Split(strings.Repeat("zzz,", maxValues+1), ",")...), show("no")},
		{"nobody knows", func(s *Sample) { s.Values = nil }, show("no")},
		{"a cookie", header("Cookie", `a=b; theme="evil theme"`), show("evil theme")},
		{"a cookie of a word", header("Cookie", "lang=xy"), show("xy")},
		{"the browser's name", header("User-Agent", "evil/1.0"), show("evil/1.0")},
		{"back to where it came from", header("Referer", "https://evil.test/login"), "302\nLocation: https://evil.test/login\n\n"},
		{"back to another page", header("Referer", "https://auth.acme.test/elsewhere"), "302\nLocation: https://auth.acme.test/elsewhere\n\n"},
		{"back to this page with a query", header("Referer", "https://auth.acme.test/login?next=//evil.test"), "302\nLocation: /login?next=//evil.test\n\n"},
		{"an origin", header("Origin", "https://evil.test"), "401\nAccess-Control-Allow-Origin: https://evil.test\n\nno"},
		{"Basic credentials", header("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("evil:word"))), show("evil")},
		{"a bearer's token", header("Authorization", "Bearer evilevil"), show("Bearer evilevil")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := New(Config{})
			b.Configure([]Policy{{Name: "login", Uniform: &Answer{}, Fields: []string{"username", "password"}, Constants: []string{"constant"}}})
			// The answer would be learned if the request had not brought it along.
			innocent := learning(t, Config{})
			for i := range uint64(2) {
				s := login(raw(tc.raw), 7, 20+i)
				innocent.Observe(key, s)
				tc.do(&s)
				b.Observe(key, s)
			}
			if tc.name != "nobody knows" && state(t, innocent).Shows != Learned {
				t.Fatalf("not learned for another reason: %+v", state(t, innocent))
			}
			shows(t, b, key, plain(Failure))

			// Nor does it get in the way of what is learned, or take its place.
			for range 3 {
				for i := range uint64(2) {
					b.Observe(key, login(raw(jsonFailure), 1+i, 1+i))
					s := login(raw(tc.raw), 7, 20+i)
					tc.do(&s)
					b.Observe(key, s)
				}
				shows(t, b, key, raw(jsonFailure))
			}
		})
	}
}

// What every request has anyway must not keep an answer from being learned.
func TestWhatEverybodySends(t *testing.T) {
	b := New(Config{})
	b.Configure([]Policy{{Name: "login", Uniform: &Answer{}, Fields: []string{"username", "password", "grant_type"}, Constants: []string{"password"}}})
	a := raw("400\nContent-Type: application/json\nCache-Control: no-cache\n\n{\"success\":false,\"error\":\"invalid_grant\",\"error_description\":\"Invalid username or password\"}")
	for i := range uint64(2) {
		s := login(a, 1+i, 1, "name=grant_type", "password", "false", "", "q", "name=id")
		s.Header["Cache-Control"] = []string{"no-cache"}
		s.Header["Sec-Fetch-Site"] = []string{"same-origin"}
		b.Observe(key, s)
	}
	shows(t, b, key, a)
}

func TestIndependent(t *testing.T) {
	jar := http.Header{"Cookie": {"session=one-and-the-same"}}
	for _, tc := range []struct {
		name         string
		first, other Sample
		want         Origin
	}{
		{"another target", Sample{Target: 1, Source: 1}, Sample{Target: 2, Source: 1}, Learned},
		{"another source", Sample{Target: 1, Source: 1}, Sample{Target: 1, Source: 2}, Learned},
		{"both others", Sample{Target: 1, Source: 1}, Sample{Target: 2, Source: 2}, Learned},
		{"another source, no target", Sample{Source: 1}, Sample{Source: 2}, Learned},
		{"the same", Sample{Target: 1, Source: 1}, Sample{Target: 1, Source: 1}, Plain},
		{"a target and none", Sample{Target: 1, Source: 1}, Sample{Source: 1}, Plain},
		{"nothing known", Sample{}, Sample{}, Plain},
		{"another target in one session", Sample{Target: 1, Source: 1, Header: jar}, Sample{Target: 2, Source: 1, Header: jar}, Plain},
		{"another target in another session", Sample{Target: 1, Source: 1, Header: jar}, Sample{Target: 2, Source: 1}, Learned},
		{"the same cookies elsewhere", Sample{Target: 1, Source: 1, Header: jar}, Sample{Target: 1, Source: 2, Header: jar}, Learned},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := learning(t, Config{})
			for _, s := range []Sample{tc.first, tc.other, tc.first} {
				s.Answer, s.Values = raw(jsonFailure), values()
				b.Observe(key, s)
			}
			got := state(t, b)
			if got.Shows != tc.want {
				t.Errorf("got %s, want %s", got.Shows, tc.want)
			}
			if tc.want == Plain && got.Reason != OnlyOne {
				t.Errorf("got reason %q, want %q", got.Reason, OnlyOne)
			}
		})
	}
}

// A learned answer gives way to a new one only when the backend gives nothing else any more.
func TestReplace(t *testing.T) {
	answer := func(n int) Answer { return raw(fmt.Sprintf("401\n\nno, in version %d", n)) }
	for _, tc := range []struct {
		name   string
		serves []int // after 1 has been learned
		want   int
	}{
		{"one sample", []int{2}, 1},
		{"two in a row", []int{2, 2}, 2},
		{"two, and the old one between", []int{2, 1, 2}, 1},
		{"two, and the old one between, many times", []int{2, 1, 2, 1, 2, 1, 2, 1}, 1},
		{"several that do not agree", []int{2, 3, 4, 5, 6, 7}, 1},
		{"several, of which two agree", []int{2, 3, 4, 2}, 2},
		{"there and back", []int{2, 2, 1, 1}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := learning(t, Config{})
			person := uint64(0)
			for _, n := range append([]int{1, 1}, tc.serves...) {
				person++
				b.Observe(key, login(answer(n), person, 1))
			}
			shows(t, b, key, answer(tc.want))
		})
	}
	t.Run("two of one client", func(t *testing.T) {
		b := learning(t, Config{})
		for i := range uint64(2) {
			b.Observe(key, login(answer(1), 1+i, 1))
		}
		for range 8 {
			b.Observe(key, login(answer(2), 9, 9))
		}
		shows(t, b, key, answer(1))
	})
}

// When a backend makes nothing but answers that cannot be learned, few of them are looked at, and still one that can be is found.
func TestLooksLessOften(t *testing.T) {
	b := learning(t, Config{})
	looks := 0
	for i := range uint64(1600) {
		s := login(raw("401\n\nno"), i, i)
		s.Values = func(yield func(string, bool) bool) {
			looks++
			yield("no!", false)
			yield("no", false)
		}
		b.Observe(key, s)
	}
	if looks < manyRejected+50 || looks > manyRejected+150 {
		t.Errorf("got %d looks at 1600 answers, want about %d", looks, manyRejected+100)
	}
	for i := range uint64(2 * lookEvery) {
		b.Observe(key, login(raw(jsonFailure), 1+i, 1))
	}
	shows(t, b, key, raw(jsonFailure))
}
