package admin_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/admin"
	"authgate/limits"
	"authgate/limits/memstore"
)

// desk is an admin handler over a state that tests make up.
type desk struct {
	limits.KillSwitch
	t       *testing.T
	handler *admin.Handler
	locks   limits.Locks
	store   *memstore.Store // locks, unless a test replaces it
	devices admin.Devices
	ready   error
	events  []string
}

func (d *desk) Locks() limits.Locks      { return d.locks }
func (d *desk) Devices() admin.Devices   { return d.devices }
func (d *desk) Policies() any            { return map[string]any{"policies": []string{"login"}} }
func (d *desk) Config() any              { return map[string]string{"password": "<secret>"} }
func (d *desk) Ready() error             { return d.ready }
func (d *desk) Build() map[string]string { return map[string]string{"version": "v1.2.3"} }

func (d *desk) Throttle(policy string) (admin.Throttle, bool) {
	t := admin.Throttle{
		Enabled: true, Backend: "memory", MaxAttempts: 5, MaxAttemptsPerIP: 20, MaxAttemptsPerSubnet: 100, WindowSeconds: 300,
		BackoffBaseSeconds: 300, BackoffMaxSeconds: 86400, SubnetPrefixV4: 24, SubnetPrefixV6: 64,
	}
	switch policy {
	case "", "login":
		return t, true
	case "other":
		t.MaxAttempts = 7
		return t, true
	}
	return admin.Throttle{}, false
}

const operator, viewer = "operator's", "viewer's"

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, store: memstore.New(memstore.Config{MaxEntries: 100_000})}
	t.Cleanup(func() { _ = d.store.Close() })
	d.locks = d.store
	d.handler = admin.New(admin.Config{
		Tokens: []admin.Token{{Name: "ops", Role: admin.Operator, Digest: sha256.Sum256([]byte(operator))}, {Name: "eyes", Role: admin.Viewer, Digest: sha256.Sum256([]byte(viewer))}},
		Hosts:  []string{"admin.test", "203.0.113.5"},
	}, d, d.audit, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a_metric 1\n") }), slog.New(slog.DiscardHandler))
	return d
}

func (d *desk) audit(event, who string, details ...slog.Attr) {
	d.events = append(d.events, fmt.Sprint(event, " by ", who, " ", details))
}

// ask asks as an operator, unless a header says otherwise.
func (d *desk) ask(method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:9901"
	r.Header.Set("Authorization", "Bearer "+operator)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	return w
}

// expect compares an answer.
func expect(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || strings.TrimSpace(w.Body.String()) != body {
		t.Errorf("got %d %s, want %d %s", w.Code, w.Body, status, body)
	}
	if kind := w.Header().Get("Content-Type"); strings.HasPrefix(body, "{") && kind != "application/json" {
		t.Errorf("got it as %q, want JSON", kind)
	}
}

// fails makes so many failures in a bucket, as a login does.
func (d *desk) fails(r *limits.Rule, value string, n int) {
	d.t.Helper()
	key := limits.NewScope(r, "default").Key(value)
	for range n {
		a := &limits.Attempt{ID: uint64(time.Now().UnixNano())<<8 | 1<<63 | uint64(len(value)), Charges: []limits.Charge{{Rule: r, Key: key}}}
		if got, err := d.store.Decide(context.Background(), a); err != nil || !got.Admitted {
			d.t.Fatalf("got %+v, %v; want admission", got, err)
		}
		_, _ = d.store.Settle(context.Background(), &limits.Settlement{ID: a.ID, Closings: []limits.Closing{{Rule: r, Key: key, Do: limits.Count}}})
		time.Sleep(time.Millisecond)
	}
}

func rule(policy string, dimension limits.Dimension, limit int) *limits.Rule {
	return &limits.Rule{
		Policy: policy, Class: limits.Failures, Dimension: dimension, Limit: limit, Window: 5 * time.Minute,
		Lockout: limits.Lockout{Base: 5 * time.Minute, Max: 24 * time.Hour}, PrefixV4: 24, PrefixV6: 64,
	}
}

// listing is the answer of the list, as a client of the contract reads it.
type listing struct {
	Config    map[string]any `json:"config"`
	Tracked   int            `json:"tracked_entries"`
	Locked    int            `json:"locked_entries"`
	Returned  int            `json:"returned_entries"`
	Entries   []entry        `json:"entries"`
	Next      string         `json:"next_cursor"`
	Truncated bool           `json:"truncated"`
}

type entry struct {
	ID         string `json:"id"`
	Scope      string `json:"scope"`
	Identifier string `json:"identifier"`
	Attempts   int    `json:"attempts"`
	Locked     bool   `json:"locked"`
	LockedFor  *int   `json:"locked_for_seconds"`
	Level      int    `json:"lockout_level"`
	Policy     string `json:"policy"`
	Realm      string `json:"realm"`
}

func (d *desk) list(query string) listing {
	d.t.Helper()
	w := d.ask("GET", "/meta/login-rate-limit"+query, "")
	var out listing
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 {
		d.t.Fatalf("%s: got %d %s", query, w.Code, w.Body)
	}
	return out
}

// The answer to the letter of the contract, at both of its addresses.
func TestListIsTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.fails(rule("login", limits.TargetSource, 5), "alice|1.2.3.4", 5)
		d.fails(rule("login", limits.Source, 20), "1.2.3.4", 7)
		time.Sleep(19500 * time.Millisecond)
		const want = `{"config":{"enabled":true,"backend":"memory","max_attempts":5,"max_attempts_per_ip":20,"max_attempts_per_subnet":100,` +
			`"window_seconds":300,"backoff_base_seconds":300,"backoff_max_seconds":86400,"subnet_prefix_v4":24,"subnet_prefix_v6":64},` +
			`"tracked_entries":2,"locked_entries":1,"returned_entries":1,"entries":[` +
			`{"id":"Zjpsb2dpbjp0YXJnZXRfc291cmNlOmRlZmF1bHQ6YWxpY2V8MS4yLjMuNA","scope":"user_ip","identifier":"alice|1.2.3.4","attempts":5,` +
			`"locked":true,"locked_for_seconds":281,"lockout_level":1,"policy":"login","realm":"default"}]}`
		for _, path := range []string{"/meta/login-rate-limit", "/api/v0/meta/login-rate-limit", "/meta/login-rate-limit?include=locked"} {
			expect(t, d.ask("GET", path, ""), 200, want)
		}
		open := d.list("?include=all&scope=ip").Entries
		if len(open) != 1 || open[0].Locked || open[0].LockedFor != nil || open[0].Attempts != 7 || open[0].Level != 0 {
			t.Errorf("got %+v for the open one, want seven attempts and no lock", open)
		}
		_ = d.store.Close()
	})
}

func TestListFilters(t *testing.T) {
	d := newDesk(t)
	d.fails(rule("login", limits.TargetSource, 3), "alice|192.0.2.1", 3)
	d.fails(rule("login", limits.TargetSource, 3), "bob|192.0.2.1", 1)
	d.fails(rule("login", limits.Target, 3), "Alice", 2)
	d.fails(rule("login", limits.Source, 3), "192.0.2.1", 3)
	d.fails(rule("login", limits.Subnet, 3), "192.0.2.0/24", 1)
	d.fails(rule("login", limits.Client, 3), "~shop", 1)
	d.fails(rule("other", limits.Target, 3), "alice", 3)
	d.fails(rule("other", limits.Target, 3), "\x00missing|192.0.2.1", 1)
	for _, test := range []struct{ query, want string }{
		{"", "login ip 192.0.2.1, login user_ip alice|192.0.2.1, other user alice"},
		{"?include=locked", "login ip 192.0.2.1, login user_ip alice|192.0.2.1, other user alice"},
		{"?scope=user_ip", "login user_ip alice|192.0.2.1"},
		{"?include=all&scope=user_ip", "login user_ip alice|192.0.2.1, login user_ip bob|192.0.2.1"},
		{"?include=all&scope=user", "login user Alice, other user (missing)|192.0.2.1, other user alice"},
		{"?include=all&scope=user&q=ALICE", "login user Alice, other user alice"},
		{"?include=all&scope=subnet", "login subnet 192.0.2.0/24"},
		{"?include=all&scope=client", "login client ~shop"},
		{"?include=all&scope=device", ""},
		{"?q=ALICE", "login user_ip alice|192.0.2.1, other user alice"},
		{"?include=all&q=192.0.2.0", "login subnet 192.0.2.0/24"},
		{"?policy=other", "other user alice"},
		{"?policy=other&include=all&q=missing", "other user (missing)|192.0.2.1"},
		{"?policy=other&scope=ip", ""},
	} {
		l := d.list(test.query)
		var got []string
		for _, e := range l.Entries {
			got = append(got, e.Policy+" "+e.Scope+" "+e.Identifier)
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%s: got %s, want %s", test.query, text, test.want)
		}
		if l.Tracked != 8 || l.Locked != 3 || l.Returned != len(l.Entries) || l.Truncated || l.Next != "" {
			t.Errorf("%s: got %d tracked, %d locked, %d returned; want 8, 3, %d whatever the filter", test.query, l.Tracked, l.Locked, l.Returned, len(l.Entries))
		}
	}
	if got := d.list("?policy=other").Config["max_attempts"]; got != 7.0 {
		t.Errorf("got max_attempts %v, want that of the policy asked for", got)
	}
	for query, word := range map[string]string{
		"?include=open": "include", "?include=": "include", "?scope=target": "scope", "?scope=": "scope", "?policy=none": "policy", "?policy=": "policy",
		"?limit=0": "limit", "?limit=10001": "limit", "?limit=ten": "limit", "?cursor=!": "cursor", "?colour=blue": "colour", "?q=a&q=b": "q", "?include=all&include=all": "include",
	} {
		w := d.ask("GET", "/meta/login-rate-limit"+query, "")
		if w.Code != 400 || !strings.HasPrefix(w.Body.String(), `{"error":"bad_request","message":"`+word+": ") {
			t.Errorf("%s: got %d %s, want 400 that names %s", query, w.Code, w.Body, word)
		}
	}
}

// Pages give every entry once, also when entries come and go in between.
func TestListPages(t *testing.T) {
	d := newDesk(t)
	r := rule("login", limits.Target, 1)
	for i := range 25 {
		d.fails(r, fmt.Sprintf("user%02d", i), 1)
	}
	seen := map[string]int{}
	query, pages := "?limit=10", 0
	for {
		l := d.list(query)
		pages++
		for _, e := range l.Entries {
			seen[e.Identifier]++
		}
		if l.Tracked < 24 || l.Returned != l.Tracked {
			t.Errorf("page %d: got %d tracked and %d returned, want those of the whole list", pages, l.Tracked, l.Returned)
		}
		if l.Next == "" {
			break
		}
		if pages == 1 {
			d.fails(r, "user00a", 1) // before the cursor: not missed by anybody
			if w := d.ask("DELETE", "/meta/login-rate-limit/"+l.Next, ""); w.Code != 200 {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
		}
		query = "?limit=10&cursor=" + l.Next
	}
	if len(seen) != 25 || pages != 3 {
		t.Errorf("got %d entries on %d pages, want 25 on 3", len(seen), pages)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	if l := d.list("?limit=25"); l.Next != "" || len(l.Entries) != 25 {
		t.Errorf("got %d entries and cursor %q, want all and none", len(l.Entries), l.Next)
	}
}

// moving is a list that names a bucket twice, as a store may while it moves, and never ends if it has no length.
type moving struct {
	limits.Locks
	pages int // 0: no end
}

func (m moving) Entries(_ context.Context, cursor string, limit int) ([]limits.Entry, string, error) {
	page := 0
	_, _ = fmt.Sscan(cursor, &page)
	var out []limits.Entry
	for i := range limit {
		out = append(out, limits.Entry{Key: fmt.Sprintf("f:login:target:default:u%d", page*(limit-1)+i), Attempts: 1, LockedFor: 1, Level: 1})
	}
	if page++; page == m.pages {
		return out, "", nil
	}
	return out, fmt.Sprint(page), nil
}

func TestListOfManyBuckets(t *testing.T) {
	d := newDesk(t)
	d.locks = moving{pages: 3}
	if l := d.list(""); l.Tracked != 3*511+1 || l.Truncated {
		t.Errorf("got %d tracked, truncated %v; want each bucket once", l.Tracked, l.Truncated)
	}
	d.locks = moving{}
	if l := d.list("?limit=1"); l.Tracked > 200_000 || l.Tracked < 199_000 || !l.Truncated {
		t.Errorf("got %d tracked, truncated %v; want a bounded list that says so", l.Tracked, l.Truncated)
	}
}

func TestRelease(t *testing.T) {
	for _, base := range []string{"/meta", "/api/v0/meta"} {
		d := newDesk(t)
		d.fails(rule("login", limits.TargetSource, 2), "alice|192.0.2.1", 2)
		d.fails(rule("login", limits.Source, 2), "192.0.2.1", 2)
		for _, e := range d.list("?scope=user_ip").Entries {
			expect(t, d.ask("DELETE", base+"/login-rate-limit/"+e.ID, "", "Authorization: Bearer "+viewer), 403, `{"error":"forbidden","message":"the token may look but not change"}`)
			expect(t, d.ask("DELETE", base+"/login-rate-limit/"+e.ID, ""), 200, `{"released":true}`)
			expect(t, d.ask("DELETE", base+"/login-rate-limit/"+e.ID, ""), 404, `{"error":"not_found","message":"there is no such entry; it may have expired"}`)
		}
		if l := d.list("?include=all"); l.Tracked != 1 || l.Entries[0].Scope != "ip" {
			t.Errorf("got %+v left, want the source alone", l)
		}
		if got := strings.Join(d.events, "\n"); got != "release by ops [policy=login scope=user_ip realm=default identity=alice|192.0.2.1]" {
			t.Errorf("got audit events %q, want the one release", got)
		}
	}
	d := newDesk(t)
	d.locks = broken{err: errors.New("asked in vain")}
	for _, id := range []string{"!", "Zm9v", "cjpsb2dpbjpzb3VyY2U6ZGVmYXVsdDoxOTIuMC4yLjE"} { // no base64, no key, a bucket of a request rule
		if w := d.ask("DELETE", "/meta/login-rate-limit/"+id, ""); w.Code != 404 {
			t.Errorf("%s: got %d, want 404", id, w.Code)
		}
	}
}

func TestClear(t *testing.T) {
	d := newDesk(t)
	d.fails(rule("login", limits.Target, 2), "alice", 2)
	d.fails(rule("login", limits.Target, 2), "bob", 1)
	expect(t, d.ask("DELETE", "/meta/login-rate-limit?scope=user", ""), 400, `{"error":"bad_request","message":"clearing takes no filter; release single entries by id"}`)
	if w := d.ask("DELETE", "/meta/login-rate-limit", "", "Authorization: Bearer "+viewer); w.Code != 403 {
		t.Errorf("got %d for a viewer", w.Code)
	}
	expect(t, d.ask("DELETE", "/meta/login-rate-limit", ""), 200, `{"cleared":2}`)
	expect(t, d.ask("DELETE", "/api/v0/meta/login-rate-limit", ""), 200, `{"cleared":0}`)
	if got := strings.Join(d.events, "\n"); got != "clear by ops [cleared=2]\nclear by ops [cleared=0]" {
		t.Errorf("got audit events %q", got)
	}
}

// broken is a shared store that is out.
type broken struct {
	limits.Locks
	err error
}

func (b broken) Entries(context.Context, string, int) ([]limits.Entry, string, error) {
	return nil, "", b.err
}
func (b broken) Release(context.Context, string) (bool, error) { return false, b.err }
func (b broken) Clear(context.Context) (int, error)            { return 0, b.err }

// Without the shared store nothing is shown and nothing changed [A4].
func TestStoreIsOut(t *testing.T) {
	d := newDesk(t)
	d.locks = broken{err: fmt.Errorf("asking: %w", limits.ErrUnavailable)}
	for _, ask := range []struct{ method, path string }{{"GET", ""}, {"DELETE", ""}, {"DELETE", "/Zjpsb2dpbjp0YXJnZXQ6ZGVmYXVsdDphbGljZQ"}} {
		w := d.ask(ask.method, "/meta/login-rate-limit"+ask.path, "")
		expect(t, w, 503, `{"error":"store_unavailable","message":"the shared store does not answer; one instance's own view would mislead"}`)
		if w.Header().Get("Retry-After") != "5" {
			t.Errorf("got Retry-After %q, want 5", w.Header().Get("Retry-After"))
		}
	}
	d.locks = broken{err: context.DeadlineExceeded}
	expect(t, d.ask("DELETE", "/meta/login-rate-limit", ""), 503, `{"error":"store_unavailable","message":"not all entries were cleared in time; ask again"}`)
	d.locks = broken{err: errors.New("the secret is hunter2")}
	expect(t, d.ask("GET", "/meta/login-rate-limit", ""), 500, `{"error":"internal","message":"see the log"}`)
	if len(d.events) != 0 {
		t.Errorf("got audit events %v of what did not happen", d.events)
	}
}

func TestWhoComesIn(t *testing.T) {
	d := newDesk(t)
	for _, test := range []struct {
		name, method string
		header       []string
		status       int
		word         string
	}{
		{"an operator", "GET", nil, 200, ""},
		{"a viewer", "GET", []string{"Authorization: Bearer " + viewer}, 200, ""},
		{"the scheme in another case", "GET", []string{"Authorization: bearer " + viewer}, 200, ""},
		{"nobody", "GET", []string{"Authorization: "}, 401, "unauthorized"},
		{"an empty token", "GET", []string{"Authorization: Bearer "}, 401, "unauthorized"},
		{"a wrong token", "GET", []string{"Authorization: Bearer wrong"}, 401, "unauthorized"},
		{"a part of a token", "GET", []string{"Authorization: Bearer operator"}, 401, "unauthorized"},
		{"another scheme", "GET", []string{"Authorization: Basic " + operator}, 401, "unauthorized"},
		{"a viewer who changes", "POST", []string{"Authorization: Bearer " + viewer}, 403, "forbidden"},
		{"localhost", "GET", []string{"Host: localhost:9901"}, 200, ""},
		{"IPv6 loopback", "GET", []string{"Host: [::1]:9901"}, 200, ""},
		{"without a port", "GET", []string{"Host: 127.0.0.1"}, 200, ""},
		{"a configured name", "GET", []string{"Host: Admin.Test.:9901"}, 200, ""},
		{"a configured address", "GET", []string{"Host: 203.0.113.5"}, 200, ""},
		{"another name", "GET", []string{"Host: evil.test"}, 403, "host_not_allowed"},
		{"a name that resembles one", "GET", []string{"Host: localhost.evil.test"}, 403, "host_not_allowed"},
		{"another address", "GET", []string{"Host: 192.0.2.1:9901"}, 403, "host_not_allowed"},
		{"no name", "GET", []string{"Host: "}, 403, "host_not_allowed"},
		{"another name without a token", "GET", []string{"Host: evil.test", "Authorization: "}, 403, "host_not_allowed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := d.ask(test.method, "/meta/mode", `{"mode":"configured"}`, test.header...)
			if w.Code != test.status || test.word != "" && !strings.HasPrefix(w.Body.String(), `{"error":"`+test.word+`"`) {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, test.status, test.word)
			}
			if got := w.Header().Get("WWW-Authenticate"); (got == `Bearer realm="authgate"`) != (test.status == 401) {
				t.Errorf("got WWW-Authenticate %q with %d", got, w.Code)
			}
			if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("got %v", w.Header())
			}
		})
	}
}

// Without a token nobody comes in, not even with an empty one.
func TestNoTokens(t *testing.T) {
	d := newDesk(t)
	h := admin.New(admin.Config{}, d, d.audit, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	for _, authorization := range []string{"", "Bearer ", "Bearer x"} {
		r := httptest.NewRequest("GET", "http://localhost/meta/version", nil)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 401 {
			t.Errorf("%q: got %d, want 401", authorization, w.Code)
		}
	}
}

func TestWhatIsThere(t *testing.T) {
	d := newDesk(t)
	const anybody, elsewhere = "Authorization: ", "Host: evil.test" // health and metrics ask for neither
	for _, test := range []struct {
		method, path string
		header       []string
		status       int
		body         string
	}{
		{"GET", "/healthz", []string{anybody, elsewhere}, 200, "ok"},
		{"GET", "/readyz", []string{anybody, elsewhere}, 200, "ready"},
		{"GET", "/metrics", []string{anybody, elsewhere}, 200, "a_metric 1"},
		{"GET", "/meta/version", nil, 200, `{"version":"v1.2.3"}`},
		{"GET", "/meta/policies", nil, 200, `{"policies":["login"]}`},
		{"GET", "/meta/config", nil, 200, `{"password":"\u003csecret\u003e"}`},
		{"GET", "/meta/mode", nil, 200, `{"mode":"configured","seconds_left":0}`},
		{"POST", "/healthz", nil, 405, `{"error":"method_not_allowed"}`},
		{"PUT", "/meta/mode", nil, 405, `{"error":"method_not_allowed"}`},
		{"POST", "/meta/login-rate-limit", nil, 405, `{"error":"method_not_allowed"}`},
		{"GET", "/meta/login-rate-limit/x", nil, 405, `{"error":"method_not_allowed"}`},
		{"GET", "/", nil, 404, `{"error":"not_found"}`},
		{"GET", "/meta", nil, 404, `{"error":"not_found"}`},
		{"GET", "/meta/login-rate-limit/", nil, 404, `{"error":"not_found"}`},
		{"GET", "/api/v0/meta/mode", nil, 404, `{"error":"not_found"}`},
	} {
		w := d.ask(test.method, test.path, "", test.header...)
		if w.Code != test.status || strings.TrimSpace(w.Body.String()) != test.body {
			t.Errorf("%s %s: got %d %s, want %d %s", test.method, test.path, w.Code, w.Body, test.status, test.body)
		}
		if strings.HasPrefix(test.body, "{") && w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: got it as %s", test.method, test.path, w.Header().Get("Content-Type"))
		}
		if test.status == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: got no Allow", test.method, test.path)
		}
	}
	d.ready = errors.New("stopping")
	expect(t, d.ask("GET", "/readyz", ""), 503, "stopping")
	expect(t, d.ask("GET", "/healthz", ""), 200, "ok")
}

func TestMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		set := func(body string) *httptest.ResponseRecorder { return d.ask("POST", "/meta/mode", body) }
		expect(t, set(`{"mode":"log-only","for":"15m"}`), 200, `{"mode":"log-only","seconds_left":900}`)
		time.Sleep(90*time.Second + time.Millisecond)
		expect(t, d.ask("GET", "/meta/mode", ""), 200, `{"mode":"log-only","seconds_left":810}`)
		expect(t, set(`{"mode":"configured"}`), 200, `{"mode":"configured","seconds_left":0}`)
		expect(t, d.ask("GET", "/meta/mode", ""), 200, `{"mode":"configured","seconds_left":0}`)
		expect(t, set(`{"mode":"log-only","for":"24h"}`), 200, `{"mode":"log-only","seconds_left":86400}`)
		expect(t, set(`{"mode":"enforce"}`), 200, `{"mode":"configured","seconds_left":0}`)
		events := len(d.events)
		if events != 4 || d.events[0] != "mode by ops [mode=log-only for=15m0s]" {
			t.Errorf("got audit events %q", d.events)
		}
		for _, body := range []string{
			``, `[]`, `{"mode":"off"}`, `{"mode":"log-only"}`, `{"mode":"log-only","for":"0s"}`, `{"mode":"log-only","for":"999ms"}`,
			`{"mode":"log-only","for":"24h1s"}`, `{"mode":"log-only","for":"soon"}`, `{"mode":"configured","for":"1m"}`,
			`{"mode":"configured","x":1}`, `{"mode":"configured"} {"mode":"log-only"}`, `{"mode":"configured"}}`, `{"mode":"` + strings.Repeat("x", 100<<10) + `"}`,
		} {
			if w := set(body); w.Code != 400 || !strings.HasPrefix(w.Body.String(), `{"error":"bad_request","message":"`) {
				t.Errorf("%.40s: got %d %s, want 400", body, w.Code, w.Body)
			}
		}
		if len(d.events) != events || d.LogOnlyFor() != 0 {
			t.Errorf("a bad request has changed the mode: %v", d.events[events:])
		}
		_ = d.store.Close()
	})
}
