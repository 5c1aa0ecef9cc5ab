package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/clientip"
	"authgate/internal/logtest"
	"authgate/internal/outcome"
	"authgate/internal/redact"
	"authgate/internal/route"
	"authgate/internal/selector"
	"authgate/limits"
	"authgate/limits/memstore"
	"authgate/proxy"
)

// gate is a handler in front of a backend, on a memory store of its own.
type gate struct {
	t       testing.TB
	handler *proxy.Handler
	limiter *limits.Limiter
	store   *memstore.Store
	mode    *limits.KillSwitch
	events  *events
	log     *logs
}

// setup is what a gate is made of. The zero value guards nothing and has no backend.
type setup struct {
	policies  []policy
	backend   http.RoundTripper // or:
	url       string
	clientIP  clientip.Config
	allow     []string // who may talk; none: everyone
	deny      []string
	allowlist []string
	names     redact.Mode // default Hashed
	upstream  func(*proxy.UpstreamConfig)
	bodyTime  time.Duration
	store     limits.Store // default: a memory store
}

// policy is a policy as these tests write it down.
type policy struct {
	name      string
	match     []route.Match // default: POST /NAME
	form      map[string]string
	target    []string // selectors
	onMissing proxy.Missing
	client    []string
	secret    []string
	pending   string
	rules     []limits.Rule // Policy is filled in
	outcome   []outcome.Rule
	global    bool
	off       bool
	edit      func(*proxy.Policy)
}

// verdicts are outcome rules by the status alone, for tests that care what a verdict does and not how it is reached.
var verdicts = []outcome.Rule{
	{Is: "success", Status: []string{"200"}},
	{Is: "failure", Status: []string{"401"}},
	{Is: "pending", Status: []string{"202"}},
	{Is: "factor_failure", Status: []string{"403"}},
	{Is: "client_failure", Status: []string{"400"}},
	{Is: "locked", Status: []string{"423"}},
}

var digestKey = []byte("a key of tests, of 32 bytes size")

func newGate(t testing.TB, s setup) *gate {
	t.Helper()
	g := &gate{t: t, mode: &limits.KillSwitch{}, events: &events{counts: map[string]int{}}, log: &logs{}}
	if s.store == nil {
		g.store = memstore.New(memstore.Config{MaxEntries: 100_000})
		s.store = g.store
		t.Cleanup(func() { _ = g.store.Close() })
	}
	g.limiter = limits.NewLimiter(s.store)
	g.handler = proxy.NewHandler(newPlan(t, s), proxy.Deps{
		Looks:   proxy.NewLooks(),
		Limiter: g.limiter, Mode: g.mode, Events: g.events, Record: func(string, string, ...slog.Attr) {}, Log: slog.New(slog.NewJSONHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	return g
}

func newPlan(t testing.TB, s setup) *proxy.Plan {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	resolver, _, err := clientip.New(s.clientIP)
	must(err)
	upstream := proxy.UpstreamConfig{URL: &url.URL{Scheme: "http", Host: "backend.test"}, Transport: s.backend, MaxInFlight: 1000, MaxIdle: 100, Standard: *standard}
	if s.url != "" {
		upstream.URL, err = url.Parse(s.url)
		must(err)
	}
	if s.upstream != nil {
		s.upstream(&upstream)
	}
	if s.names == redact.Omit {
		s.names = redact.Hashed
	}
	u := proxy.NewUpstream(upstream)
	t.Cleanup(u.Close)
	cfg := proxy.PlanConfig{
		Resolver: resolver, Forwarding: proxy.NewForwarding(proxy.OutboundVerified, resolver.Header(), "X-Request-Id", upstream.SecretHeader.Name),
		Upstream: u, Names: redact.New(s.names, digestKey), BodyTimeout: s.bodyTime, Rest: &proxy.Realm{Name: "default"},
	}
	if s.allow == nil {
		s.allow = []string{"*"}
	}
	cfg.Allow, _, err = clientip.ParseAllow(s.allow)
	must(err)
	cfg.Deny, _, err = clientip.ParsePrefixes(s.deny)
	must(err)
	cfg.Rest.Allowlist, _, err = clientip.ParsePrefixes(s.allowlist)
	must(err)
	for i := range s.policies {
		p := &s.policies[i]
		cfg.Rest.Policies = append(cfg.Rest.Policies, p.compile(t))
		cfg.Routes = append(cfg.Routes, p.routes(t, i)...)
	}
	plan, err := proxy.NewPlan(cfg)
	must(err)
	return plan
}

func (p *policy) routes(t testing.TB, index int) []proxy.Route {
	t.Helper()
	if p.match == nil {
		p.match = []route.Match{{Methods: []string{"POST"}, Path: "/" + p.name}}
	}
	var out []proxy.Route
	for _, m := range p.match {
		r := proxy.Route{Route: route.Route{Policy: index, Match: m}}
		for name, value := range p.form {
			predicate, err := selector.NewPredicate(selectors(t, "form:"+name)[0], value)
			if err != nil {
				t.Fatal(err)
			}
			r.Body = append(r.Body, predicate)
		}
		out = append(out, r)
	}
	return out
}

func (p *policy) compile(t testing.TB) *proxy.Policy {
	t.Helper()
	if p.off {
		return nil
	}
	compile := func(cfg selector.Config, from ...string) *selector.Spec {
		if len(from) == 0 || from[0] == "" {
			return nil
		}
		cfg.From, cfg.DigestKey = selectors(t, from...), digestKey
		spec, err := selector.Compile(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	normal, err := selector.ParseNormalize(nil)
	if err != nil {
		t.Fatal(err)
	}
	out := &proxy.Policy{Name: p.name, MaxBody: 64 << 10, PendingWait: 2 * time.Second, PendingTTL: 10 * time.Minute}
	realm := "default"
	if p.global {
		realm = limits.GlobalRealm
	}
	for i := range p.rules {
		r := &p.rules[i]
		r.Policy = p.name
		if r.PrefixV6 == 0 {
			r.PrefixV4, r.PrefixV6 = 32, 64
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		out.Cells = append(out.Cells, proxy.Cell{Rule: r, Scope: limits.NewScope(r, realm)})
	}
	if spec := compile(selector.Config{Normalize: normal}, p.target...); spec != nil {
		out.Target = &proxy.Identity{Spec: spec, OnMissing: p.onMissing}
	}
	if spec := compile(selector.Config{Basic: selector.BasicClient}, p.client...); spec != nil {
		out.Client = &proxy.Identity{Spec: spec, OnMissing: proxy.Skip}
	}
	if out.Secret = compile(selector.Config{Basic: selector.BasicPassword, Digest: true}, p.secret...); out.Secret != nil {
		out.RepeatScope, out.RepeatWindow = limits.RepeatScope(p.name, realm), 15*time.Minute
	}
	out.Pending = compile(selector.Config{Digest: true}, p.pending)
	out.PendingFirst = slices.ContainsFunc(p.outcome, func(r outcome.Rule) bool { return r.Is == "pending" })
	if out.Pending != nil && out.Target == nil {
		out.Target = &proxy.Identity{OnMissing: p.onMissing}
	}
	if p.outcome != nil {
		classifier, problems := outcome.Compile(outcome.Config{Rules: p.outcome})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		out.Outcome = classifier
		if out.Views, err = proxy.Views(p.outcome); err != nil {
			t.Fatal(err)
		}
	}
	if p.edit != nil {
		p.edit(out)
	}
	return out
}

func selectors(t testing.TB, texts ...string) []selector.Selector {
	t.Helper()
	var out []selector.Selector
	for _, text := range texts {
		s, err := selector.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

var loginRoute = route.Match{Methods: []string{"POST"}, Path: "/login"}

// allOf is every request for a path.
func allOf(path string) []route.Match { return []route.Match{{Path: path}} }

// ask has the handler answer one request.
func (g *gate) ask(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		g.handler.ServeHTTP(w, r)
	}()
	return w
}

// post is a POST with a JSON body from 192.0.2.1.
func post(path, body string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return with(r, header...)
}

// with adds header fields, given as "Name: value"; the type of the body takes the place of another.
func with(r *http.Request, header ...string) *http.Request {
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Content-Type" {
			r.Header.Del(name)
		}
		r.Header.Add(name, value)
	}
	return r
}

// from gives a request another sender.
func from(address string, r *http.Request) *http.Request {
	r.RemoteAddr = net.JoinHostPort(address, "4711")
	return r
}

// serve puts the handler behind a real listener and returns its address.
func (g *gate) serve() string {
	s := httptest.NewUnstartedServer(g.handler)
	s.Config.DisableGeneralOptionsHandler = true
	s.Start()
	g.t.Cleanup(s.Close)
	g.t.Cleanup(g.handler.Close)
	return s.Listener.Addr().String()
}

// backendFunc is a backend without a network.
type backendFunc func(*http.Request) (*http.Response, error)

func (f backendFunc) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	return f(r)
}

// answering is a backend that always gives the same answer, and counts.
func answering(status int, body string) (backendFunc, *counter) {
	var n counter
	return func(r *http.Request) (*http.Response, error) {
		n.add()
		return answer(r, status, body), nil
	}, &n
}

func answer(r *http.Request, status int, body string, header ...string) *http.Response {
	res := &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	res.Header.Set("Content-Length", fmt.Sprint(len(body)))
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		res.Header.Add(name, value)
	}
	return res
}

// counter counts what happens in several goroutines.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() { c.mu.Lock(); c.n++; c.mu.Unlock() }

func (c *counter) count() int { c.mu.Lock(); defer c.mu.Unlock(); return c.n }

// events counts what the handler tells, each as a line of words.
type events struct {
	mu     sync.Mutex
	counts map[string]int
}

func (e *events) note(words ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[strings.TrimSpace(fmt.Sprintln(words...))]++
}

func (e *events) count(line string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts[line]
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprint(e.counts)
}

func (e *events) Served(policy string, status int) { e.note("served", policy, status) }
func (e *events) Rejected(r *limits.Rule, mode, realm string) {
	e.note("rejected", r.Policy, r.Dimension, mode, realm)
}
func (e *events) MissingKey(policy, reason string) { e.note("missing", policy, reason) }
func (e *events) Verdict(policy, verdict string)   { e.note("verdict", policy, verdict) }
func (e *events) Settled(r *limits.Rule, f limits.Effect) {
	if f.Locked > 0 {
		e.note("locked", r.Policy, r.Dimension)
	}
	if f.Crossed {
		e.note("crossed", r.Policy, r.Dimension)
	}
}
func (e *events) Decided(time.Duration)  {}
func (e *events) Upstream(time.Duration) {}

// logs keeps what is logged.
type logs struct{ logtest.Buffer }

// lines are the records with a message.
func (l *logs) lines(message string) []map[string]any {
	var out []map[string]any
	s := bufio.NewScanner(strings.NewReader(l.String()))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var record map[string]any
		if json.Unmarshal(s.Bytes(), &record) == nil && record["msg"] == message {
			out = append(out, record)
		}
	}
	return out
}
