package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/internal/lookup"
)

// mailman is the operator's service that gets notices.
type mailman struct {
	t   *testing.T
	mu  sync.Mutex
	got []notice
}

type notice struct{ Event, Realm, Target, Link, Expires string }

const hookSecret = "a secret of the hook"

func (m *mailman) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var unix int64
	signature := r.Header.Get("Gateway-Signature")
	if _, err := fmt.Sscanf(signature, "t=%d,", &unix); err != nil || signature != lookup.Sign(hookSecret, time.Unix(unix, 0), body) {
		m.t.Errorf("the notice is signed %q", signature)
	}
	var n notice
	if err := json.Unmarshal(body, &n); err != nil {
		m.t.Errorf("%v in %s", err, body)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got = append(m.got, n)
}

func (m *mailman) notices() []notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]notice(nil), m.got...)
}

// follow opens a link, or sends its form.
func (b *browser) follow(method, link string, header ...string) reply {
	b.site.t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		b.site.t.Fatal(err)
	}
	target, body := "http://"+b.site.g.Addr().String()+u.RequestURI(), ""
	if method == "POST" {
		target, body = "http://"+b.site.g.Addr().String()+u.Path, u.RawQuery
	}
	r, _ := http.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if b.device != "" {
		r.Header.Set("Cookie", "gateway_device="+b.device)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	a := b.site.do(r)
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == "gateway_device" {
			b.device = c.Value
		}
	}
	return a
}

// The owner of a known account is told once that strangers have filled its bucket; the link lets one browser in, once [D3].
func TestUnlock(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		hook := &mailman{t: t}
		all := startAll(t, gateways, settings(backend(t, &people{}), section+twoPools(10)+fmt.Sprintf(`
unlock: {via: webhook, url: %q, secret: %q, public_url: "https://auth.test"}
`, backend(t, hook), hookSecret)))
		one, two := all[0], all[gateways-1]
		expect(t, "the owner", (&browser{site: one}).tries("alice", "right"), "200")
		eventually(t, "the memory of it", func() bool { return one.g.Wait(t.Context()) == nil })
		fill(one, "nobody")
		expect(t, "a look-alike", (&browser{site: one}).tries("groß", "right"), "200")
		fill(one, "gross") // one to the gateway, but mail to this one may be another's
		fill(one, "alice")
		eventually(t, "the notice", func() bool { return len(hook.notices()) > 0 })
		n := hook.notices()[0]
		if n.Event != "login_unlock" || n.Realm != "default" || n.Target != "alice" || !strings.HasPrefix(n.Link, "https://auth.test/.gateway/unlock?token=") {
			t.Fatalf("got the notice %+v", n)
		}
		expires, err := time.Parse(time.RFC3339, n.Expires)
		if left := time.Until(expires); err != nil || left < 14*time.Minute || left > 15*time.Minute {
			t.Errorf("the link ends in %v, %v", left, err)
		}

		fresh := &browser{site: two}
		expect(t, "before", fresh.tries("alice", "right"), "401")
		for _, method := range []string{"GET", "HEAD", "GET"} { // scanners of mail
			a := fresh.follow(method, n.Link)
			if a.status != 200 || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: got %d %v", method, a.status, a.header)
			}
		}
		expect(t, "a foreign page", fresh.follow("POST", n.Link, "Sec-Fetch-Site: cross-site").status, 403)
		expect(t, "still nothing", fresh.device, "")
		a := fresh.follow("POST", n.Link)
		expect(t, "the button", fmt.Sprint(a.status, a.header.Get("Location"), fresh.device != ""), "303/true")
		expect(t, "then", fresh.tries("alice", "right", "typo", "right"), "200 401 200")
		for _, method := range []string{"GET", "POST"} {
			expect(t, "the link is dead", (&browser{site: one}).follow(method, n.Link).status, 410)
		}
		expect(t, "a stranger", (&browser{site: one}).tries("alice", "right"), "401")
		expect(t, "another account from that browser", fresh.tries("nobody", "right"), "401")
		for _, link := range []string{"/.gateway/unlock", "/.gateway/unlock?token=x", strings.Replace(n.Link, "token=", "token=A", 1), n.Link + "&token=x"} {
			expect(t, link, fresh.follow("GET", link).status, 410)
		}
		expect(t, "methods", fresh.follow("DELETE", n.Link).status, 405)

		// Released and filled again within the window: no second notice.
		one.meta("DELETE", "/meta/login-rate-limit", "")
		fill(one, "alice")
		eventually(t, "the end of the work", func() bool { return one.g.Wait(t.Context()) == nil })
		time.Sleep(50 * time.Millisecond) // for a notice that must not come
		expect(t, "notices", len(hook.notices()), 1)
		sent, used := 0, 0
		for _, s := range all {
			sent += len(strings.Fields(s.events("unlock_sent")))
			used += len(strings.Fields(s.events("unlock_used")))
			if token := n.Link[strings.Index(n.Link, "=")+1:]; strings.Contains(s.log.String(), token) {
				t.Error("the token is in the log")
			}
		}
		expect(t, "events", fmt.Sprint(sent, used), "1 1")
		expect(t, "the metric", one.metric(`gateway_unlock_notices_total{result="sent"}`), "1")
	})
}

// Nobody is told in log-only, and a link of one realm opens nothing in another.
func TestUnlockStaysInItsRealm(t *testing.T) {
	hook := &mailman{t: t}
	s := start(t, settings(backend(t, &people{}), twoPools(10)+fmt.Sprintf(`
realms: {acme: {hosts: [acme.test]}, dry: {hosts: [dry.test], mode: log-only}}
unlock: {via: webhook, url: %q, secret: %q, public_url: "https://auth.test:8443"}
`, backend(t, hook), hookSecret)))
	at := func(host, password string) int {
		r, _ := http.NewRequest("POST", "http://"+s.g.Addr().String()+"/login", strings.NewReader(fmt.Sprintf(`{"user":"bob","password":%q}`, password)))
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		return s.do(r).status
	}
	for _, host := range []string{"dry.test", "acme.test"} {
		expect(t, "signing in", at(host, "right"), 200)
		_ = s.g.Wait(t.Context())
		for i := range 5 {
			expect(t, host, at(host, fmt.Sprint(i)), 401)
		}
	}
	eventually(t, "the notice", func() bool { return len(hook.notices()) > 0 })
	n := hook.notices()[0]
	if n.Realm != "acme" || !strings.HasPrefix(n.Link, "https://acme.test:8443/.gateway/unlock?token=") {
		t.Errorf("got %+v", n)
	}
	expect(t, "elsewhere", (&browser{site: s}).follow("GET", n.Link).status, 410)
	expect(t, "notices", len(hook.notices()), 1)
}

// Audit events go to a webhook as well.
func TestAuditWebhook(t *testing.T) {
	var mu sync.Mutex
	var got []string
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(body)+r.Header.Get("Gateway-Signature"))
	}))
	defer hook.Close()
	s := start(t, settings(backend(t, &people{}), twoPools(10)+fmt.Sprintf("audit: {webhook: %q, secret: %q}\n", hook.URL, hookSecret)))
	(&browser{site: s}).tries("alice", "right")
	eventually(t, "the event", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) == 1 && strings.Contains(got[0], `"event":"device_trusted"`) && strings.Contains(got[0], "v1=") && !strings.Contains(got[0], "alice")
	})
}
