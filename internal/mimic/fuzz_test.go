package mimic

import (
	"html"
	"net/url"
	"strings"
	"testing"
)

// Whatever two requests carry, and however a backend repeats it, no refusal shows it to others.
func FuzzObserve(f *testing.F) {
	f.Add("alice", "evil", "wrong: %s", uint8(0))
	f.Add("alice", `<b>"evil" & co</b>`, "wrong: %s", uint8(1))
	f.Add("alice", "évil name", "<p>%s</p>", uint8(2))
	f.Add("x", "\xff\xfe\x00", "{\"error\":\"%s\"}", uint8(3))
	f.Add("", "a%41\\u0041&#65;", "%s%s", uint8(4))
	show := []func(string) string{
		strings.TrimSpace, html.EscapeString, url.QueryEscape, strings.ToUpper,
		func(s string) string { return html.EscapeString(html.EscapeString(s)) },
	}
	f.Fuzz(func(t *testing.T, name, value, page string, how uint8) {
		if len(value) < wordBytes || len(value)+len(page)+len(name) > 4<<10 || strings.TrimSpace(value) != value {
			return
		}
		if strings.ContainsAny(strings.ReplaceAll(page, "%s", ""), `%\&`) {
			return // half an escape, which would swallow the beginning of the value
		}
		shown := show[int(how)%len(show)](value)
		b := learning(t, Config{})
		for i := range uint64(2) {
			s := login(Answer{Status: 401, Body: []byte(strings.ReplaceAll(page, "%s", shown))}, 1, 1+i)
			s.Values = values(name, value)
			b.Observe(key, s)
		}
		got := b.Answer(key)
		if state(t, b).Shows == Plain {
			if string(got.Body) != string(plain(Failure).Body) {
				t.Errorf("got a plain answer of %q", got.Body)
			}
			return
		}
		for _, v := range []string{name, value} {
			if len(v) >= wordBytes && strings.TrimSpace(v) == v && strings.Contains(string(got.Body), v) {
				t.Errorf("%q was learned from a request with %q", got.Body, v)
			}
		}
		if strings.Contains(page, "%s") && strings.IndexFunc(value, alphanumeric) >= 0 && strings.Contains(string(got.Body), shown) {
			t.Errorf("%q was learned from a request with %q", got.Body, value)
		}
	})
}
