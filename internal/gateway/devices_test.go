package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"authgate/internal/gateway"
	"authgate/internal/valkeytest"
)

// people is a backend that signs in whoever has the password "right", by the very spelling of the name, and keeps the
// cookies that it was sent. Who is called "two" owes a second step; a passkey says in the answer whose it is.
type people struct {
	mu      sync.Mutex
	cookies []string
	asked   int
}

func (p *people) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.cookies = append(p.cookies, r.Header.Values("Cookie")...)
	p.asked++
	p.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	switch {
	case !bytes.Contains(body, []byte(`"right"`)):
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "wrong")
		return
	case r.URL.Path == "/login" && bytes.Contains(body, []byte(`"two"`)):
		http.SetCookie(w, &http.Cookie{Name: "pending", Value: "p2"})
		w.WriteHeader(http.StatusAccepted)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: "s"})
	_, _ = fmt.Fprintf(w, `{"welcome": true, "user": {"email": "bob"}}`)
}

func (p *people) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// twoPools is a login with an untrusted pool of 5 and so many failures for each trusted device.
func twoPools(device int) string {
	return strings.Replace(loginPolicy(fmt.Sprintf(`
source: {limit: 200, window: 1h, signal: true}
target: {limit: 5, window: 1h, refuse: uniform}
device: {limit: %d, window: 1h, refuse: uniform}
`, device)), "    outcome:\n", `    pending: {key: "set_cookie:pending"}
    uniform: {status: 401, body: wrong}
    outcome:
      - {is: pending, status: 202}
`, 1)
}

// browser is somebody's browser: it keeps the device cookie, and the backend's of a login half done.
type browser struct {
	site    *site
	device  string
	pending string
}

func (b *browser) post(path, body string) reply {
	b.site.t.Helper()
	r, _ := http.NewRequest("POST", "http://"+b.site.g.Addr().String()+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	var cookies []string
	if b.device != "" {
		cookies = append(cookies, "a=1", "gateway_device="+b.device, "z=26")
	}
	if b.pending != "" {
		cookies = append(cookies, "pending="+b.pending)
	}
	if len(cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(cookies, "; "))
	}
	a := b.site.do(r)
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		switch c.Name {
		case "gateway_device":
			b.device = c.Value
		case "pending":
			b.pending = c.Value
		}
	}
	return a
}

// tries signs in with passwords, one after the other, and returns the statuses.
func (b *browser) tries(user string, passwords ...string) string {
	b.site.t.Helper()
	var out []string
	for _, p := range passwords {
		out = append(out, fmt.Sprint(b.post("/login", fmt.Sprintf(`{"user":%q,"password":%q}`, user, p)).status))
	}
	return strings.Join(out, " ")
}

// fill has strangers use up the untrusted pool of a user.
func fill(s *site, user string) {
	s.t.Helper()
	expect(s.t, "strangers", (&browser{site: s}).tries(user, "a", "b", "c", "d", "e"), "401 401 401 401 401")
}

// Strangers use up their pool: the owner goes on signing in from a known browser, and nobody else does [D2].
func TestOwnDevicesKeepWorking(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		server := &people{}
		all := startAll(t, gateways, settings(backend(t, server), section+twoPools(10)))
		one, two := all[0], all[gateways-1]
		owner := &browser{site: one}
		a := owner.post("/login", `{"user":"alice","password":"right"}`)
		line := a.header.Get("Set-Cookie")
		for _, c := range a.header.Values("Set-Cookie") {
			if strings.HasPrefix(c, "gateway_device=") {
				line = c
			}
		}
		for _, want := range []string{"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=7776000"} {
			if !strings.Contains(line, want) {
				t.Errorf("the cookie is %q, want %s", line, want)
			}
		}
		if strings.Contains(line, "Secure") || strings.Contains(line, "alice") {
			t.Errorf("the cookie is %q", line)
		}
		fill(two, "alice")
		before := server.count()
		expect(t, "a stranger with the right password", (&browser{site: one}).tries("alice", "right"), "401")
		expect(t, "asked the backend", server.count()-before, 0)
		owner.site = two
		expect(t, "the owner", owner.tries("alice", "right", "typo", "right"), "200 401 200")
		expect(t, "a stranger still", (&browser{site: two}).tries("alice", "right"), "401")
		expect(t, "somebody else", (&browser{site: two}).tries("bob", "right"), "200")
		for _, c := range server.cookies {
			if strings.Contains(c, "gateway_device") {
				t.Errorf("the backend got the cookie: %q", c)
			}
			if c != "a=1; z=26" {
				t.Errorf("the backend got %q, want the other cookies as they were", c)
			}
		}
		if strings.Contains(one.log.String()+two.log.String(), owner.device) {
			t.Error("the cookie is in the log")
		}
		eventually(t, "the event", func() bool { return strings.Contains(one.log.String(), `"event":"device_trusted"`) })
	})
}

// What is no trusted device of that user is none at all.
func TestForeignCookies(t *testing.T) {
	yaml := settings(backend(t, &people{}), "realms: {acme: {hosts: [acme.test]}}\n"+twoPools(10))
	s := start(t, yaml)
	owner, bob := &browser{site: s}, &browser{site: s}
	expect(t, "signing in", owner.tries("alice", "right")+bob.tries("bob", "right"), "200200")
	foreign := start(t, yaml) // with keys of its own
	stranger := &browser{site: foreign}
	expect(t, "elsewhere", stranger.tries("alice", "right"), "200")
	r, _ := http.NewRequest("POST", "http://"+s.g.Addr().String()+"/login", strings.NewReader(`{"user":"alice","password":"right"}`))
	r.Host = "acme.test"
	r.Header.Set("Content-Type", "application/json")
	acme := ""
	for _, c := range (&http.Response{Header: s.do(r).header}).Cookies() {
		if c.Name == "gateway_device" {
			acme = c.Value
		}
	}
	fill(s, "alice")
	flipped := []byte(owner.device)
	flipped[len(flipped)/2] ^= 1
	for name, cookie := range map[string]string{
		"none": "", "of another user": bob.device, "with a byte flipped": string(flipped), "cut": owner.device[:len(owner.device)-1],
		"of another gateway": stranger.device, "of another realm": acme, "made up": "AAAAAAAAAAAAAAAAAAAAAAAAAAAA", "empty": `""`,
	} {
		if cookie == "" && name != "none" {
			t.Errorf("%s: there is no such cookie", name)
		}
		expect(t, "a cookie "+name, (&browser{site: s, device: cookie}).tries("alice", "right"), "401")
	}
	expect(t, "a name in another spelling", (&browser{site: s, device: owner.device}).tries("Alice", "right"), "401")
	expect(t, "a planted cookie before the real one", (&browser{site: s, device: bob.device + "; gateway_device=" + owner.device}).tries("alice", "right"), "200")
}

// A device that fails too often is shut out itself, and nobody else is.
func TestDeviceShutsItselfOut(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		s := start(t, settings(backend(t, &people{}), section+twoPools(10)))
		laptop, phone := &browser{site: s}, &browser{site: s}
		expect(t, "signing in", laptop.tries("alice", "right")+phone.tries("alice", "right"), "200200")
		expect(t, "ten failures", laptop.tries("alice", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"), strings.TrimSpace(strings.Repeat("401 ", 10)))
		expect(t, "the eleventh", laptop.tries("alice", "right"), "401")
		expect(t, "the phone", phone.tries("alice", "right"), "200")
		expect(t, "a stranger", (&browser{site: s}).tries("alice", "right"), "200")
		expect(t, "listed", s.locks("?include=all&scope=device").Tracked, 2) // of the laptop, and of all her devices
	})
}

// All devices of a user together get five times what one gets, and a device that goes on failing loses its trust.
func TestDevicesTogether(t *testing.T) {
	stores(t, func(t *testing.T, section string, _ int) {
		s := start(t, settings(backend(t, &people{}), section+twoPools(2)))
		var devices []*browser
		for range 7 {
			b := &browser{site: s}
			expect(t, "signing in", b.tries("alice", "right"), "200")
			devices = append(devices, b)
		}
		for i, b := range devices[:5] {
			expect(t, fmt.Sprint("device ", i), b.tries("alice", "x", "y", "right"), "401 401 401")
		}
		before := len(s.locks("?include=all&scope=user").Entries)
		expect(t, "the sixth", devices[5].tries("alice", "right"), "401")
		expect(t, "a stranger", (&browser{site: s}).tries("alice", "right"), "200")
		expect(t, "strangers' buckets", before, 0)
	})
}

func TestTrustEnds(t *testing.T) {
	stores(t, func(t *testing.T, section string, _ int) {
		s := start(t, settings(backend(t, &people{}), section+twoPools(40)))
		b := &browser{site: s}
		expect(t, "signing in", b.tries("alice", "right"), "200")
		for i := range 30 {
			b.tries("alice", fmt.Sprint("guess", i))
			eventually(t, "the count", func() bool {
				l := s.devices("")
				return len(l) == 0 && i == 29 || len(l) == 1 && l[0].Failures == i+1
			})
		}
		fill(s, "alice")
		expect(t, "no more trust", b.tries("alice", "right"), "401")
		eventually(t, "the event", func() bool { return strings.Contains(s.log.String(), `"reason":"failures"`) })
	})
}

// One browser is known for the ten who signed in last.
func TestManyUsersOfOneBrowser(t *testing.T) {
	stores(t, func(t *testing.T, section string, _ int) {
		s := start(t, settings(backend(t, &people{}), section+twoPools(10)))
		b := &browser{site: s}
		first := ""
		for i := range 12 {
			old := b.device
			expect(t, "signing in", b.tries(fmt.Sprint("user", i), "right"), "200")
			if b.device == old {
				t.Errorf("user %d got no fresh cookie", i)
			}
			if i == 2 {
				first = b.device
			}
		}
		for i := range 12 {
			user := fmt.Sprint("user", i)
			fill(s, user)
			if got, want := (&browser{site: s, device: b.device}).tries(user, "right"), map[bool]string{true: "200", false: "401"}[i >= 2]; got != want {
				t.Errorf("%s: got %s, want %s", user, got, want)
			}
		}
		expect(t, "an id that was replaced", (&browser{site: s, device: first}).tries("user2", "right"), "401")
	})
}

// What an attacker can do with cookies and accounts of his own gains him nothing, and costs the owner nothing.
func TestAttacksOnDevices(t *testing.T) {
	stores(t, func(t *testing.T, section string, _ int) {
		s := start(t, settings(backend(t, &people{}), section+twoPools(10)))
		// A cookie planted in the victim's browser.
		mallory := &browser{site: s}
		expect(t, "mallory", mallory.tries("mallory", "right"), "200")
		victim := &browser{site: s, device: mallory.device}
		expect(t, "the victim", victim.tries("alice", "right"), "200")
		if victim.device == mallory.device {
			t.Error("the victim goes on with the planted cookie")
		}
		// Accounts that look alike to the gateway and not to the backend.
		for range 40 {
			expect(t, "a look-alike", (&browser{site: s}).tries("ALICE", "right"), "200")
		}
		lookalike := &browser{site: s}
		lookalike.tries("ALICE", "right")
		for range 12 {
			lookalike.tries("ALICE", "x"+fmt.Sprint(len(lookalike.device)))
		}
		fill(s, "alice")
		expect(t, "with the planted cookie", (&browser{site: s, device: mallory.device}).tries("alice", "right"), "401")
		expect(t, "with the look-alike's", (&browser{site: s, device: lookalike.device}).tries("alice", "right"), "401")
		expect(t, "the victim, later", victim.tries("alice", "right"), "200")
	})
}

// events are those who caused the audit events of a name.
func (s *site) events(name string) string {
	var who []string
	for _, line := range s.log.lines("audit") {
		if line["event"] == name {
			who = append(who, fmt.Sprint(line["who"]))
		}
	}
	return strings.Join(who, " ")
}

// deviceRow is a device as /meta/devices has it.
type deviceRow struct {
	ID       string `json:"id"`
	Target   string `json:"target"`
	Realm    string `json:"realm"`
	Failures int    `json:"failures_since"`
}

func (s *site) devices(query string) []deviceRow {
	s.t.Helper()
	a := s.meta("GET", "/meta/devices"+query, "")
	var list struct{ Devices []deviceRow }
	if err := json.Unmarshal([]byte(a.body), &list); a.status != 200 || err != nil {
		s.t.Fatalf("listing devices: got %d %s", a.status, a.body)
	}
	return list.Devices
}

// Devices are listed and revoked, one by one and all of a user [D7].
func TestMetaDevices(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		all := startAll(t, gateways, settings(backend(t, &people{}), section+twoPools(10)))
		one, two := all[0], all[gateways-1]
		a, b, c := &browser{site: one}, &browser{site: one}, &browser{site: one}
		a.tries("alice", "right")
		b.tries("alice", "right")
		c.tries("carl", "right")
		expect(t, "all", len(two.devices("")), 3)
		hers := two.devices("?target=alice&realm=default")
		expect(t, "hers", len(hers), 2)
		for _, text := range []string{"?limit=0", "?who=x", "?cursor=nonsense", "?limit=1&limit=2"} {
			expect(t, text, two.meta("GET", "/meta/devices"+text, "").status, 400)
		}
		seen := map[string]bool{}
		for cursor, pages := "", 0; pages < 10; pages++ {
			var page struct {
				Devices []deviceRow
				Next    string `json:"next_cursor"`
			}
			_ = json.Unmarshal([]byte(two.meta("GET", "/meta/devices?limit=1&cursor="+cursor, "").body), &page)
			for _, d := range page.Devices {
				seen[d.ID] = true
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		expect(t, "page by page", len(seen), 3)
		expect(t, "a viewer", two.meta("DELETE", "/meta/devices/"+hers[0].ID, "", "Authorization: Bearer "+look).status, 403)
		expect(t, "revoking", two.meta("DELETE", "/meta/devices/"+hers[0].ID, "").body, "{\"revoked\":true}\n")
		expect(t, "again", two.meta("DELETE", "/meta/devices/"+hers[0].ID, "").status, 404)
		expect(t, "nonsense", two.meta("DELETE", "/meta/devices/nonsense", "").status, 400)
		expect(t, "without a user", two.meta("DELETE", "/meta/devices", "").status, 400)
		fill(one, "alice")
		got := a.tries("alice", "right") + " " + b.tries("alice", "right")
		if got != "200 401" && got != "401 200" {
			t.Errorf("after revoking one: got %s", got)
		}
		expect(t, "revoking all", two.meta("DELETE", "/meta/devices?realm=default&target=alice", "").body, "{\"revoked\":1}\n")
		expect(t, "then", a.tries("alice", "right")+" "+b.tries("alice", "right"), "401 401")
		expect(t, "carl", len(two.devices("")), 1)
		expect(t, "events", two.events("device_revoked"), "ops ops")
	})
}

// Every way of completing a login trusts the device, for whoever signed in; half a login does not [D1].
func TestOtherWaysToSignIn(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		all := startAll(t, gateways, settings(backend(t, &people{}), section+twoPools(10)+`  second:
    match: [{methods: [POST], path: /second}]
    pending: {key: "set_cookie:pending"}
    identity_from: [pending]
    trusts_device: true
    outcome: [{is: success, status: 200, cookie_set: session}, {is: factor_failure, status: 401}, {is: failure, status: 418}]
  passkey:
    match: [{methods: [POST], path: /passkey}]
    identity_from: ["response:json:/user/email"]
    trusts_device: true
    outcome: [{is: success, status: 200, cookie_set: session}, {is: failure, status: 401}]
  reset:
    match: [{methods: [POST], path: /reset}]
    identity_from: ["response:json:/user/email"]
    on_success: [clear_target, revoke_devices]
    outcome: [{is: success, status: 200, cookie_set: session}, {is: failure, status: 401}]
`))
		one, two := all[0], all[gateways-1]
		b := &browser{site: one}
		expect(t, "the first step", b.tries("two", "right"), "202")
		expect(t, "the cookie after half a login", b.device, "")
		b.site = two
		expect(t, "a wrong code", b.post("/second", `{"code":"wrong"}`).status, 401)
		expect(t, "the cookie", b.device, "")
		expect(t, "the second step", b.post("/second", `{"code":"right"}`).status, 200)
		list := two.devices("")
		if len(list) != 1 || list[0].Target != "two" || b.device == "" {
			t.Fatalf("got %v and the cookie %q, want a device of two", list, b.device)
		}
		fill(one, "two")
		expect(t, "a stranger", (&browser{site: one}).tries("two", "right"), "401")
		expect(t, "the owner", b.tries("two", "right"), "202")

		key := &browser{site: one}
		a := key.post("/passkey", `{"key":"right"}`)
		expect(t, "a passkey", fmt.Sprint(a.status, a.body), `200{"welcome": true, "user": {"email": "bob"}}`)
		fill(one, "bob")
		expect(t, "bob's browser", key.tries("bob", "right"), "200")
		expect(t, "a stranger at bob's", (&browser{site: one}).tries("bob", "right"), "401")

		expect(t, "a reset", (&browser{site: two}).post("/reset", `{"token":"right"}`).status, 200)
		expect(t, "the pool is empty again", (&browser{site: one}).tries("bob", "wrong"), "401")
		expect(t, "bob's devices", len(one.devices("?target=bob")), 0)
	})
}

// Where a login in two steps is remembered by a flow id, that of another user trusts nobody's device for that user.
func TestFlowOfAnotherUser(t *testing.T) {
	stores(t, func(t *testing.T, section string, _ int) {
		s := start(t, settings(backend(t, &people{}), section+strings.Replace(twoPools(10), `"set_cookie:pending"`, `"json:/flow"`, 1)+`  second:
    match: [{methods: [POST], path: /second}]
    pending: {key: "json:/flow"}
    identity_from: [pending]
    trusts_device: true
    outcome: [{is: success, status: 200, cookie_set: session}, {is: factor_failure, status: 401}, {is: failure, status: 418}]
`))
		owner, mallory := &browser{site: s}, &browser{site: s}
		first := func(b *browser, flow, password string) int {
			return b.post("/login", fmt.Sprintf(`{"user":"two","password":%q,"flow":%q}`, password, flow)).status
		}
		expect(t, "the owner's first step", first(owner, "hers", "right"), 202)
		expect(t, "a wrong password with a flow of his own", first(mallory, "his", "wrong"), 401)
		for _, body := range []string{`{"flow":"his","code":"right"}`, `{"flow":"hers","code":"wrong"}`, `{"flow":["hers","his"],"code":"right"}`, `{"flow":"hers","Flow":"his","code":"right"}`} {
			mallory.post("/second", body)
		}
		expect(t, "devices of hers", len(s.devices("?target=two")), 0)
		expect(t, "his cookie", mallory.device, "")
		expect(t, "her second step", owner.post("/second", `{"flow":"hers","code":"right"}`).status, 200)
		expect(t, "devices of hers", len(s.devices("?target=two")), 1)
		mallory.post("/second", `{"flow":"hers","code":"right"}`) // used up
		expect(t, "his cookie then", mallory.device, "")
		expect(t, "still", len(s.devices("?target=two")), 1)
	})
}

// What a request claims is nobody's login where the policy says who signed in, and in the preset modgud: there the second step
// goes by the server's session alone.
func TestClaimedName(t *testing.T) {
	session := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // signs in whoever its own cookie says
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/api/account/login" && bytes.Contains(body, []byte("right")):
			http.SetCookie(w, &http.Cookie{Name: "Identity.TwoFactorUserId", Value: "mallory"})
			_, _ = io.WriteString(w, `{"requiresMfa":true}`)
		case strings.HasSuffix(r.URL.Path, "/login") && bytes.Contains(body, []byte("right")):
			http.SetCookie(w, &http.Cookie{Name: "Modgud.Auth", Value: "s"})
		default:
			w.WriteHeader(401)
		}
	})
	stores(t, func(t *testing.T, section string, _ int) {
		s := start(t, settings(backend(t, session), section+"presets: [modgud]\n"))
		send := func(path, cookie, body string) string {
			r, _ := http.NewRequest("POST", "http://"+s.g.Addr().String()+path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Cookie", cookie)
			for _, c := range (&http.Response{Header: s.do(r).header}).Cookies() {
				if c.Name == "gateway_device" {
					return c.Value
				}
			}
			return ""
		}
		const own = "Identity.TwoFactorUserId=mallory"
		for _, cookie := range []string{own, "Identity.TwoFactorUserId=invented", ""} {
			for _, path := range []string{"/api/account/mfa/login", "/api/account/email-otp/login", "/api/account/passkey/login"} {
				expect(t, path+" with "+cookie, send(path, cookie, `{"Email":"alice@x.org","UserName":"alice@x.org","Code":"right"}`), "")
			}
		}
		expect(t, "half a login", send("/api/account/login", "", `{"UserName":"mallory@x.org","Password":"right"}`), "")
		if send("/api/account/email-otp/login", own, `{"Email":"alice@x.org","Code":"right"}`) != "" && len(s.devices("?target=alice@x.org")) > 0 {
			t.Error("a claimed name is trusted")
		}
		expect(t, "devices of alice", len(s.devices("?target=alice@x.org")), 0)
		expect(t, "half a login again", send("/api/account/login", "", `{"UserName":"mallory@x.org","Password":"right"}`), "")
		if send("/api/account/mfa/login", own, `{"Code":"right"}`) == "" || len(s.devices("?target=mallory@x.org")) == 0 {
			t.Errorf("the second step trusts nobody: %v", s.devices(""))
		}
		if send("/api/account/passwordless-otp/login", "", `{"Email":"carl@x.org","Code":"right"}`) == "" || len(s.devices("?target=carl@x.org")) != 1 {
			t.Errorf("a mailed code trusts nobody: %v", s.devices(""))
		}
	})
}

// A login that a page elsewhere has the browser send takes nothing from it: the cookies do not come along, and none is set.
func TestForeignPageTakesNoTrust(t *testing.T) {
	s := start(t, settings(backend(t, &people{}), twoPools(10)))
	for header, trusted := range map[string]bool{
		"Sec-Fetch-Site: cross-site": false, "Origin: https://evil.test": false, "Origin: null": false,
		"Sec-Fetch-Site: same-origin": true, "Sec-Fetch-Site: same-site": true, "Sec-Fetch-Site: none": true,
		"Origin: http://127.0.0.1": true, "X-Nothing: x": true,
	} {
		r, _ := http.NewRequest("POST", "http://"+s.g.Addr().String()+"/login", strings.NewReader(`{"user":"mallory","password":"right"}`))
		r.Header.Set("Content-Type", "application/json")
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
		a := s.do(r)
		if got := strings.Contains(strings.Join(a.header.Values("Set-Cookie"), " "), "gateway_device="); got != trusted || a.status != 200 {
			t.Errorf("%s: got %d, a cookie: %v; want %v", header, a.status, got, trusted)
		}
	}
}

// Devices that no longer count leave nothing behind, however many there were.
func TestForgottenDevicesLeaveNothing(t *testing.T) {
	v := valkeytest.Start(t)
	s := start(t, settings(backend(t, &people{}), shared(v)+twoPools(10)))
	for range 100 {
		(&browser{site: s}).tries("alice", "right")
	}
	expect(t, "devices", len(s.devices("")), 32)
	keys, _ := v.Do("KEYS", "gateway:record:device:*").([]any)
	expect(t, "records", len(keys), 1+32+32) // of the user, of each device, and a fact for each
}

// Keys are rotated by putting a new one first: what an old one has signed is good until that is dropped.
func TestDeviceKeysRotate(t *testing.T) {
	url := backend(t, &people{})
	with := func(keys string) string { return settings(url, "device: {keys: ["+keys+"]}\n"+twoPools(10)) }
	s := start(t, with("old-old-old-old-1"))
	b := &browser{site: s}
	expect(t, "signing in", b.tries("alice", "right"), "200")
	fill(s, "alice")
	old := b.device
	if err := s.g.Reload(parse(t, with("new-new-new-new-2, old-old-old-old-1"))); err != nil {
		t.Fatal(err)
	}
	expect(t, "with the old key", b.tries("alice", "right"), "200")
	if b.device == old {
		t.Error("the cookie was not signed anew")
	}
	if err := s.g.Reload(parse(t, with("new-new-new-new-2"))); err != nil {
		t.Fatal(err)
	}
	expect(t, "a cookie of the key that was dropped", (&browser{site: s, device: old}).tries("alice", "right"), "401")
	expect(t, "one of the new key", b.tries("alice", "right"), "200")
}

// While the shared store is out a device that was seen lately is still trusted, and others are not [S4].
func TestDevicesInAnOutage(t *testing.T) {
	v := valkeytest.Start(t)
	s := start(t, settings(backend(t, &people{}), shared(v)+twoPools(10)))
	other := start(t, settings(backend(t, &people{}), shared(v)+twoPools(10)))
	b, unseen := &browser{site: s}, &browser{site: other}
	expect(t, "signing in", b.tries("alice", "right")+unseen.tries("alice", "right"), "200200")
	fill(s, "alice")
	v.Kill()
	expect(t, "the owner", b.tries("alice", "right"), "200")
	expect(t, "a stranger", (&browser{site: s}).tries("alice", "right"), "401")
	expect(t, "a device that this instance never saw", (&browser{site: s, device: unseen.device}).tries("alice", "right"), "401")
	for _, ask := range []string{"GET /meta/devices", "GET /meta/devices?target=alice&realm=default", "DELETE /meta/devices?target=alice&realm=default"} {
		method, path, _ := strings.Cut(ask, " ")
		expect(t, ask, s.meta(method, path, "").status, 503) // one instance's view would mislead [A4]
	}
	expect(t, "the owner still", b.tries("alice", "right"), "200")
}

// A single gateway with a file keeps devices, locks and what it knows over a restart [S1].
func TestFileOutlivesARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	yaml := settings(backend(t, &people{}), fmt.Sprintf("store: {file: %q}\n", file)+strings.Replace(twoPools(10), "limit: 5, window: 1h, refuse", "limit: 5, window: 1h, lockout: {base: 1h, max: 1h}, refuse", 1))
	s := start(t, yaml)
	b := &browser{site: s}
	expect(t, "signing in", b.tries("alice", "right"), "200")
	fill(s, "alice")
	expect(t, "a stranger", (&browser{site: s}).tries("alice", "right"), "401")
	if _, err := gateway.New(parse(t, yaml), gateway.Options{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a second gateway on the file: got %v, want an error that names it", err)
	}
	s.stop()
	again := start(t, yaml)
	expect(t, "a stranger after the restart", (&browser{site: again}).tries("alice", "right"), "401")
	b.site = again
	expect(t, "the owner", b.tries("alice", "right"), "200")
	expect(t, "her devices", len(again.devices("?target=alice")), 1)
}

// A spray over 300 accounts from one source is one event, and refuses nobody [D4].
func TestSprayIsTold(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		all := startAll(t, gateways, settings(backend(t, &people{}), section+twoPools(10)))
		for i := range 300 {
			b := &browser{site: all[i%gateways]}
			expect(t, "a guess", b.tries(fmt.Sprint("name", i), "Spring2026"), "401")
		}
		expect(t, "the last of them", (&browser{site: all[0]}).tries("name299", "right"), "200")
		events := 0
		for _, s := range all {
			for _, line := range s.log.lines("audit") {
				if line["event"] == "login_spray_detected" {
					events++
				}
			}
		}
		expect(t, "events", events, 1)
	})
}
