package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/clientip"
	"authgate/limits"
	"authgate/limits/memstore"
	"authgate/proxy"
)

// lines writes an explanation down, for comparing.
func lines(e *proxy.Explanation) string {
	var out []string
	add := func(format string, args ...any) { out = append(out, strings.TrimSpace(fmt.Sprintf(format, args...))) }
	add("from %s %s", e.Client.Addr, e.Client.Reason)
	if e.Allowlisted {
		add("allowlisted")
	}
	if e.Own {
		add("own")
	}
	for _, c := range e.Covers {
		mode := ""
		if c.LogOnly {
			mode = " log-only"
		}
		pending := ""
		if c.Pending {
			pending = " pending"
		}
		add("%s%s by %s: %s%s %s %q %s", c.Policy, mode, c.Route, c.Target, pending, c.Reason, c.Targets, c.Client)
	}
	if e.Early != nil {
		add("early %d %s %s", e.Early.Status, e.Early.Code, e.Early.Cause)
	}
	for _, b := range e.Buckets {
		if b.Key != string(limits.NewScope(b.Rule, "default"))+b.Value {
			add("the key %q is not that of the value", b.Key)
		}
		add("%s.%s %q", b.Rule.Class, b.Rule.Dimension, b.Value)
	}
	for _, s := range e.Skipped {
		add("no %s.%s: %s", s.Rule.Class, s.Rule.Dimension, s.Why)
	}
	return strings.Join(out, "\n")
}

func TestExplain(t *testing.T) {
	full := policy{
		name: "login", target: []string{"json:/user"}, client: []string{"json:/client"}, outcome: verdicts,
		rules: []limits.Rule{
			requests(limits.Source, 9, time.Hour), requests(limits.Client, 9, time.Hour),
			failures(limits.TargetSource, 5, time.Hour),
		},
	}
	edited := func(edit func(*proxy.Policy)) policy {
		p := full
		p.rules = slices.Clone(full.rules)
		p.edit = edit
		return p
	}
	second := policy{
		name: "second", pending: "cookie:flow", outcome: verdicts,
		rules: []limits.Rule{failures(limits.Target, 5, time.Hour)},
	}
	skipping := second
	skipping.onMissing = proxy.Skip
	for _, c := range []struct {
		name    string
		setup   setup
		request *http.Request
		want    string
	}{
		{
			"everything is named",
			setup{policies: []policy{full}},
			post("/login", `{"user":" Bob","client":"app"}`),
			`from 192.0.2.1 headers_off
login by /login: named  ["bob"] ~app
requests.source "192.0.2.1"
requests.client "~app"
failures.target_source "bob|192.0.2.1"`,
		},
		{
			"behind a proxy, log-only, allowlisted",
			setup{
				policies: []policy{edited(func(p *proxy.Policy) { p.LogOnly = true })}, allowlist: []string{"198.51.100.0/24"},
				clientIP: clientip.Config{TrustHeaders: true, TrustedHops: 1},
			},
			post("/login", `{"user":"bob"}`, "X-Forwarded-For: 203.0.113.1, 198.51.100.7"),
			`from 198.51.100.7 hops
allowlisted
login log-only by /login: named  ["bob"]
failures.target_source "bob|198.51.100.7"
no requests.source: the source is on the allowlist
no requests.client: the request names no client`,
		},
		{
			"nobody is named",
			setup{policies: []policy{full}},
			post("/login", `{"user":""}`),
			`from 192.0.2.1 headers_off
login by /login: missing empty ["\x00missing|192.0.2.1"]
requests.source "192.0.2.1"
failures.target_source "\x00missing|192.0.2.1|192.0.2.1"
no requests.client: the request names no client`,
		},
		{
			"nobody is named, and need not be",
			setup{policies: []policy{{name: "login", target: []string{"json:/user"}, onMissing: proxy.Skip, rules: []limits.Rule{requests(limits.Target, 1, time.Hour)}}}},
			post("/login", `{}`),
			`from 192.0.2.1 headers_off
login by /login: missing absent []
no requests.target: the request names nobody`,
		},
		{
			"two names",
			setup{policies: []policy{full}},
			post("/login", `{"user":"bob","User":"eve"}`),
			`from 192.0.2.1 headers_off
login by /login: ambiguous duplicate ["bob" "eve"]
early 400 target_ambiguous duplicate`,
		},
		{
			"two names, all charged",
			setup{policies: []policy{edited(func(p *proxy.Policy) { p.ChargeAll = true })}},
			post("/login", `{"user":"bob","User":"eve"}`),
			`from 192.0.2.1 headers_off
login by /login: ambiguous duplicate ["bob" "eve"]
requests.source "192.0.2.1"
failures.target_source "bob|192.0.2.1"
failures.target_source "eve|192.0.2.1"
no requests.client: the request names no client`,
		},
		{
			"a second step",
			setup{policies: []policy{second}},
			post("/second", ``, "Cookie: flow=x"),
			`from 192.0.2.1 headers_off
second by /second: missing pending absent ["\x00missing|192.0.2.1"]
failures.target "\x00missing|192.0.2.1"`,
		},
		{
			"a second step without the first",
			setup{policies: []policy{second}},
			post("/second", ``),
			`from 192.0.2.1 headers_off
second by /second: missing absent ["\x00missing|192.0.2.1"]
failures.target "\x00missing|192.0.2.1"`,
		},
		{
			"a second step that need not be known",
			setup{policies: []policy{skipping}},
			post("/second", ``, "Cookie: flow=x"),
			`from 192.0.2.1 headers_off
second by /second: missing pending absent []
no failures.target: only a running gateway knows whom the second step is about`,
		},
		{"no policy", setup{policies: []policy{full}}, post("/elsewhere", `{}`), "from 192.0.2.1 headers_off"},
		{"who may not talk", setup{policies: []policy{full}, deny: []string{"192.0.2.1"}}, post("/login", `{}`), "from 192.0.2.1 headers_off\nearly 403 forbidden"},
		{"the gateway's own", setup{policies: []policy{full}}, post("/.gateway/healthz", ``), "from 192.0.2.1 headers_off\nown"},
		{
			"too large",
			setup{policies: []policy{edited(func(p *proxy.Policy) { p.MaxBody = 5 })}},
			post("/login", `{"user":"bob"}`),
			"from 192.0.2.1 headers_off\nearly 413 body_too_large reading body: 14 bytes: body too large",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, c.setup)
			e := g.handler.Explain(c.request)
			got := lines(&e)
			if got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

// recorder is a store that keeps what it was asked.
type recorder struct {
	*memstore.Store
	asked []limits.Charge
}

func (r *recorder) Decide(ctx context.Context, a *limits.Attempt) (limits.Decision, error) {
	r.asked = append(r.asked, a.Charges...)
	return r.Store.Decide(ctx, a)
}

// What is explained is what a live request is counted by, bucket for bucket, and nothing is counted by explaining.
func TestExplainIsWhatHappens(t *testing.T) {
	store := &recorder{Store: memstore.New(memstore.Config{})}
	t.Cleanup(func() { _ = store.Close() })
	backend, calls := answering(200, "ok")
	g := newGate(t, setup{
		store: store, backend: backend, clientIP: clientip.Config{TrustHeaders: true, TrustedHops: 1},
		policies: []policy{
			mail(nil, requests(limits.Source, 9, time.Hour), requests(limits.Subnet, 9, time.Hour), requests(limits.Target, 9, time.Hour), requests(limits.App, 9, time.Hour)),
			{
				name: "all", match: allOf("/*"), target: []string{"form:email", "query:email"}, client: []string{"form:app"}, outcome: verdicts,
				rules: []limits.Rule{requests(limits.Client, 9, time.Hour), failures(limits.Target, 9, time.Hour), {Class: limits.Factors, Dimension: limits.TargetSource, Limit: 9, Window: time.Hour}},
				edit:  func(p *proxy.Policy) { p.ChargeAll = true },
			},
		},
	})
	form := "Content-Type: application/x-www-form-urlencoded"
	for i, request := range []func() *http.Request{
		func() *http.Request {
			return post("/mail", "email=Bob%40a.test&app=x", form, "X-Forwarded-For: 1.1.1.1, 2001:db8::1")
		},
		func() *http.Request { return post("/mail/", "", form) },
		func() *http.Request { return post("/other?email=a", "email=b", form) },
		func() *http.Request { return post("//MAIL", `{"email":"x"}`, "X-Forwarded-For: nonsense") },
	} {
		e := g.handler.Explain(request())
		if len(store.asked) > 0 || calls.count() > 0 {
			t.Fatal("explaining counts or forwards")
		}
		g.ask(request())
		var got, want []string
		for _, b := range e.Buckets {
			got = append(got, b.Rule.Policy+" "+b.Key)
		}
		for _, c := range store.asked {
			want = append(want, c.Rule.Policy+" "+c.Key)
		}
		if len(want) < 2 || !slices.Equal(got, want) {
			t.Errorf("request %d: explained %q, counted %q", i, got, want)
		}
		store.asked = nil
		calls.mu.Lock()
		calls.n = 0
		calls.mu.Unlock()
	}
}
