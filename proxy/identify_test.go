package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/clientip"
	"authgate/internal/route"
	"authgate/limits"
	"authgate/proxy"
)

// codes sends requests one after the other and returns their statuses.
func (g *gate) codes(requests ...*http.Request) string {
	var out []string
	for _, r := range requests {
		out = append(out, fmt.Sprint(g.ask(r).Code))
	}
	return strings.Join(out, " ")
}

// expect compares what several requests got.
func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// mail is a policy that counts every request, with one request a name, or as the rules say.
func mail(edit func(*policy), rules ...limits.Rule) policy {
	if rules == nil {
		rules = []limits.Rule{requests(limits.Target, 1, time.Hour)}
	}
	p := policy{name: "mail", target: []string{"json:/email", "form:email"}, rules: rules}
	if edit != nil {
		edit(&p)
	}
	return p
}

// guarded is a gate with a backend that says 200 to everything.
func guarded(t *testing.T, policies ...policy) *gate {
	backend, _ := answering(200, "ok")
	return newGate(t, setup{backend: backend, policies: policies})
}

// One name is one bucket, however it is spelled and wherever it comes from; another one is another.
func TestTarget(t *testing.T) {
	g := guarded(t, mail(nil))
	expect(t, g.codes(
		post("/mail", `{"email":"bob@example.org"}`),
		from("198.51.100.7", post("/MAIL/", `{"EMAIL":" Bob@Example.ORG "}`)),
		post("/mail", "email=BOB%40example.org", "Content-Type: application/x-www-form-urlencoded"),
		post("/mail", `{"email":"eve@example.org"}`),
	), "200 429 429 200")
}

// A missing name never means no limit [I5].
func TestMissingTarget(t *testing.T) {
	nothing := func(address string) *http.Request { return from(address, post("/mail", `{}`)) }
	for _, test := range []struct {
		name      string
		onMissing proxy.Missing
		requests  []*http.Request
		want      string
		log       string // of missing keys
	}{
		{"share: one source, one bucket", proxy.Share, []*http.Request{nothing("192.0.2.1"), nothing("192.0.2.1"), nothing("192.0.2.2")}, "200 429 200", "missing mail absent"},
		{"share: empty, null and absent are one", proxy.Share, []*http.Request{post("/mail", `{"email":" "}`), post("/mail", `{"email":null}`), post("/mail", "")}, "200 429 429", "missing mail empty"},
		{"share: a body of another kind", proxy.Share, []*http.Request{post("/mail", "hello", "Content-Type: text/plain"), nothing("192.0.2.1")}, "200 429", "missing mail unread"},
		{"share: an IPv6 source is its /64", proxy.Share, []*http.Request{nothing("2001:db8::1"), nothing("2001:db8::2"), nothing("2001:db8:0:1::1")}, "200 429 200", "missing mail absent"},
		{"reject", proxy.Reject, []*http.Request{nothing("192.0.2.1"), post("/mail", `{"email":"bob"}`)}, "400 200", "missing mail absent"},
		{"skip", proxy.Skip, []*http.Request{nothing("192.0.2.1"), nothing("192.0.2.1"), post("/mail", `{"email":"bob"}`), post("/mail", `{"email":"bob"}`)}, "200 200 200 429", "missing mail absent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := guarded(t, mail(func(p *policy) { p.onMissing = test.onMissing }))
			expect(t, g.codes(test.requests...), test.want)
			if g.events.count(test.log) == 0 {
				t.Errorf("got %v, want %q told", g.events, test.log)
			}
		})
	}
}

// The name of the shared bucket cannot be taken by naming it.
func TestMissingTargetHasNoName(t *testing.T) {
	g := guarded(t, mail(nil))
	expect(t, g.codes(post("/mail", `{}`), post("/mail", `{"email":"\u0000missing|192.0.2.1"}`), post("/mail", `{"email":"missing|192.0.2.1"}`)), "200 400 200")
}

// A request must not be read one way here and another way behind [I3], nor carry several credentials [I7].
func TestAmbiguousTarget(t *testing.T) {
	const two = `{"email":"bob","Email":"eve"}`
	for _, test := range []struct {
		name string
		edit func(*policy)
		kill bool
		body string
		want string // that request, then bob, eve and one without a name
		word string
	}{
		{"reject", nil, false, two, "400 200 200 200", "target_ambiguous"},
		{"charge all", func(p *policy) { p.edit = func(p *proxy.Policy) { p.ChargeAll = true } }, false, two, "200 429 429 200", ""},
		{"log-only charges all", func(p *policy) { p.edit = func(p *proxy.Policy) { p.LogOnly = true } }, false, two, "200 200 200 200", ""},
		{"kill switch", nil, true, two, "200 429 429 200", ""},
		{"malformed", nil, false, `{"email":["bob"]}`, "400 200 200 200", "target_malformed"},
		{"malformed is not charged to all", func(p *policy) { p.edit = func(p *proxy.Policy) { p.ChargeAll = true } }, false, `[{"email":"bob"},{"email":"eve"}]`, "400 200 200 200", "target_malformed"},
		{"malformed, kill switch: as nobody", nil, true, `{"email":["bob"]}`, "200 200 200 429", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := guarded(t, mail(test.edit))
			if test.kill {
				_ = g.mode.SetLogOnly(t.Context(), time.Minute)
			}
			w := g.ask(post("/mail", test.body))
			_ = g.mode.SetLogOnly(t.Context(), 0)
			got := fmt.Sprint(w.Code, " ", g.codes(post("/mail", `{"email":"bob"}`), post("/mail", `{"email":"eve"}`), post("/mail", `{}`)))
			expect(t, got, test.want)
			if test.word != "" && w.Body.String() != `{"error":"`+test.word+`"}` {
				t.Errorf("got %s", w.Body)
			}
		})
	}
}

// A client is a bucket of its own; one that cannot be made out is refused.
func TestClient(t *testing.T) {
	p := policy{name: "token", client: []string{"basic", "form:client_id"}, rules: []limits.Rule{requests(limits.Client, 1, time.Hour)}}
	form := func(body string, header ...string) *http.Request {
		r := post("/token", body, header...)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	const basic = "Authorization: Basic c2hvcDpzZWNyZXQ=" // shop:secret
	g := guarded(t, p)
	expect(t, g.codes(
		form("", basic), from("198.51.100.7", form("client_id=shop")), form("client_id=other"),
		form("client_id=other", basic), form("", "Authorization: Basic !"), form(""), form(""),
	), "200 429 200 400 400 200 200")
	store := &spying{Store: g.store}
	newGate(t, setup{store: store, backend: &accounts{}, policies: []policy{p}}).ask(form("", basic))
	if len(store.charged) != 1 || store.charged[0] != "r:token:client:default:~shop" {
		t.Errorf("got %q charged, want a client that is marked as merely claimed", store.charged)
	}
	if g.events.count("missing token disagree") != 1 {
		t.Errorf("got %v, want the disagreement told", g.events)
	}
}

// The allowlist exempts rules by address, and no others [L15].
func TestAllowlist(t *testing.T) {
	signal := failures(limits.Source, 1, time.Hour)
	signal.Signal, signal.Index = true, 1
	subnet := func(r limits.Rule) limits.Rule { r.PrefixV4, r.PrefixV6 = 24, 56; return r }
	hops, _, err := clientip.ParseTrustList([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		rule limits.Rule
		// Statuses of three requests for three names from a listed address, then from others of one network.
		listed, other string
	}{
		{"source", requests(limits.Source, 1, time.Hour), "401 401 401", "401 429 429"},
		{"subnet", subnet(requests(limits.Subnet, 1, time.Hour)), "401 401 401", "401 429 429"},
		{"source failures", failures(limits.Source, 1, time.Hour), "401 401 401", "401 429 429"},
		{"subnet failures", subnet(failures(limits.Subnet, 1, time.Hour)), "401 401 401", "401 429 429"},
		{"app", requests(limits.App, 1, time.Hour), "401 429 429", "401 429 429"},
		{"client", requests(limits.Client, 1, time.Hour), "401 429 429", "401 429 429"},
		{"source signal", signal, "401 401 401", "401 401 401"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, sender := range []struct{ name, address, header, want string }{
				{"listed", "192.0.2.9", "", test.listed},
				{"not listed", "198.51.100.7", "", test.other},
				{"listed by a proxy that cannot be believed", "10.0.0.1", "192.0.2.9, nonsense", test.other},
			} {
				backend, _ := answering(401, "no")
				g := newGate(t, setup{
					backend: backend, allowlist: []string{"192.0.2.9", "10.0.0.1"}, clientIP: clientip.Config{TrustHeaders: true, TrustedProxies: hops},
					policies: []policy{{name: "login", target: []string{"json:/user"}, client: []string{"json:/client"}, rules: []limits.Rule{test.rule}, outcome: verdicts}},
				})
				var rs []*http.Request
				for i := range 3 {
					r := from(sender.address, post("/login", fmt.Sprintf(`{"user":"u%d","client":"shop"}`, i)))
					if sender.header != "" {
						r.Header.Set("X-Forwarded-For", sender.header)
					}
					rs = append(rs, r)
				}
				if got := g.codes(rs...); got != sender.want {
					t.Errorf("%s: got %s, want %s", sender.name, got, sender.want)
				}
				if crossed := g.events.count("crossed login source"); test.rule.Signal && (crossed == 0) != (sender.name == "listed") {
					t.Errorf("%s: the signal was told %d times", sender.name, crossed)
				}
			}
		})
	}
	t.Run("target", func(t *testing.T) {
		backend, _ := answering(200, "ok")
		g := newGate(t, setup{backend: backend, allowlist: []string{"192.0.2.1"}, policies: []policy{mail(nil)}})
		expect(t, g.codes(post("/mail", `{"email":"bob"}`), post("/mail", `{"email":"bob"}`)), "200 429")
	})
}

// All policies that cover a request have to agree; none is charged if another refuses [L1].
func TestSeveralPolicies(t *testing.T) {
	one := mail(nil, requests(limits.Target, 2, time.Hour))
	two := policy{name: "all", match: allOf("/*"), rules: []limits.Rule{requests(limits.Source, 3, time.Hour)}}
	g := guarded(t, one, two)
	expect(t, g.codes(
		post("/mail", `{"email":"bob"}`), post("/mail", `{"email":"bob"}`),
		post("/mail", `{"email":"bob"}`), post("/mail", `{"email":"bob"}`), // refused by name: the source is not charged
		post("/mail", `{"email":"eve"}`), post("/mail", `{"email":"eve"}`), // refused by source: the name is not charged
		from("198.51.100.7", post("/mail", `{"email":"eve"}`)),
		httptest.NewRequest("GET", "/elsewhere", nil),
	), "200 200 429 429 200 429 200 429")
	if g.events.count("served mail 200") != 4 || g.events.count("served all 429") != 1 {
		t.Errorf("got %v, want requests told by their first policy", g.events)
	}
}

// A dimension may hold a list of rules, and each of them counts.
func TestListOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short, long := requests(limits.Target, 2, time.Minute), requests(limits.Target, 3, time.Hour)
		long.Index = 1
		g := guarded(t, mail(nil, short, long))
		send := func() string {
			w := g.ask(post("/mail", `{"email":"bob"}`))
			return fmt.Sprint(w.Code, " ", w.Header().Get("Retry-After"))
		}
		expect(t, send()+", "+send()+", "+send(), "200 , 200 , 429 60")
		time.Sleep(time.Minute)
		expect(t, send()+", "+send(), "200 , 429 3540")
	})
}

// One policy with several routes counts once, and a preflight not at all.
func TestRoutes(t *testing.T) {
	p := mail(func(p *policy) { p.match = []route.Match{{Path: "/mail"}, {Path: "/mail/*"}} }, requests(limits.Source, 2, time.Hour))
	g := guarded(t, p)
	preflight := with(httptest.NewRequest("OPTIONS", "/mail", nil), "Origin: https://a.test", "Access-Control-Request-Method: POST")
	expect(t, g.codes(preflight, post("/mail", ""), preflight, post("/m%61il;x/", ""), post("/mail", "")), "200 200 200 200 429")
}

// A route may ask for a field of the body, and a field may override the method.
func TestRoutesByBody(t *testing.T) {
	form := func(body string) *http.Request {
		r := post("/token", body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	p := policy{name: "token", form: map[string]string{"grant_type": "password"}, rules: []limits.Rule{requests(limits.Source, 1, time.Hour)}}
	g := guarded(t, p)
	expect(t, g.codes(form("grant_type=refresh_token"), form("grant_type=password"), form("grant_type=refresh_token"), form("grant_type=Password"), form("grant_type=refresh_token&grant_type=password")), "200 200 200 429 429")

	p = policy{name: "token", match: []route.Match{{Methods: []string{"DELETE"}, Path: "/token"}}, rules: []limits.Rule{requests(limits.Source, 1, time.Hour)}}
	g = guarded(t, p)
	expect(t, g.codes(form("_method=PUT"), form("_method=delete"), form("_method=put"), form("_method=DELETE"), with(form(""), "X-Http-Method-Override: DELETE")), "200 200 200 429 429")
	g = guarded(t, p)
	expect(t, g.codes(form(".method=DELETE"), form("%2Emethod=DELETE"), form("X-HTTP-Method-Override=DELETE"), form("x-http-method-override=delete"), form("method=DELETE")), "200 429 429 429 200")
}

// A policy that is not enabled in the realm does nothing.
func TestPolicyThatIsOff(t *testing.T) {
	g := guarded(t, mail(func(p *policy) { p.off = true }))
	expect(t, g.codes(post("/mail", `{"email":"bob"}`), post("/mail", `{"email":"bob"}`)), "200 200")
}

// Who may talk at all is asked first: others are neither counted nor read [C7].
func TestWhoMayTalk(t *testing.T) {
	for _, test := range []struct {
		name        string
		allow, deny []string
		hops        int
		sender      string
		want        string
	}{
		{"everyone", nil, nil, 0, "192.0.2.1", "200"},
		{"denied", nil, []string{"192.0.2.0/24"}, 0, "192.0.2.1", "403"},
		{"not denied", nil, []string{"192.0.2.0/24"}, 0, "198.51.100.1", "200"},
		{"allowed", []string{"192.0.2.0/24"}, nil, 0, "192.0.2.1", "200"},
		{"not allowed", []string{"192.0.2.0/24"}, nil, 0, "198.51.100.1", "403"},
		{"denied wins", []string{"192.0.2.0/24"}, []string{"192.0.2.1"}, 0, "192.0.2.1", "403"},
		{"denied, past the proxy", nil, []string{"192.0.2.0/24"}, 1, "192.0.2.1", "403"},
		{"allowed, past the proxy", []string{"192.0.2.0/24"}, nil, 1, "192.0.2.1", "403"},
	} {
		t.Run(test.name, func(t *testing.T) {
			backend, sent := answering(200, "ok")
			g := newGate(t, setup{
				backend: backend, allow: test.allow, deny: test.deny, policies: []policy{mail(nil)},
				clientIP: clientip.Config{TrustHeaders: test.hops > 0, TrustedHops: test.hops},
			})
			w := g.ask(from(test.sender, post("/mail", `{"email":"bob"}`)))
			expect(t, fmt.Sprint(w.Code), test.want)
			if test.want != "403" {
				return
			}
			if w.Body.String() != `{"error":"forbidden"}` || sent.count() != 0 {
				t.Errorf("got %s, and the backend %d requests", w.Body, sent.count())
			}
			expect(t, g.events.String(), "map[served  403:1]")
		})
	}
}

// A sender that may not talk is not waited for either.
func TestWhoMayNotTalkIsNotRead(t *testing.T) {
	backend, _ := answering(200, "ok")
	g := newGate(t, setup{backend: backend, deny: []string{"127.0.0.1"}})
	c := dial(t, g.serve())
	began := time.Now()
	c.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
	if res, _ := c.read(); res.StatusCode != 403 {
		t.Errorf("got %d, want 403", res.StatusCode)
	}
	if _, err := c.in.ReadByte(); err == nil || time.Since(began) > time.Second {
		t.Errorf("got %v after %v, want the connection closed", err, time.Since(began))
	}
}

// What is asked of the gateway itself never reaches the backend.
func TestOwnPaths(t *testing.T) {
	backend, sent := answering(200, "the backend")
	g := newGate(t, setup{backend: backend})
	for _, test := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/.gateway/healthz", 200, "ok\n"},
		{"HEAD", "/.gateway/healthz", 200, ""},
		{"POST", "/.gateway/healthz", 405, `{"error":"method_not_allowed"}`},
		{"GET", "/.gateway/x", 404, `{"error":"not_found"}`},
		{"GET", "/%2Egateway/x", 404, `{"error":"not_found"}`},
	} {
		if w := g.ask(httptest.NewRequest(test.method, test.path, nil)); w.Code != test.code || w.Body.String() != test.body {
			t.Errorf("%s %s: got %d %q, want %d %q", test.method, test.path, w.Code, w.Body, test.code, test.body)
		}
	}
	if sent.count() != 0 {
		t.Errorf("the backend got %d requests", sent.count())
	}
}
