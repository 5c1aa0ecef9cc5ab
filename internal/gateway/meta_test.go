package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/valkeytest"
)

// locks is what the list of failure buckets holds.
type locks struct {
	Config   map[string]any `json:"config"`
	Tracked  int            `json:"tracked_entries"`
	Locked   int            `json:"locked_entries"`
	Returned int            `json:"returned_entries"`
	Entries  []struct {
		ID         string `json:"id"`
		Scope      string `json:"scope"`
		Identifier string `json:"identifier"`
		Attempts   int    `json:"attempts"`
		LockedFor  int    `json:"locked_for_seconds"`
		Level      int    `json:"lockout_level"`
	} `json:"entries"`
	Next string `json:"next_cursor"`
}

func (s *site) locks(query string) (l locks) {
	s.t.Helper()
	a := s.meta("GET", "/api/v0/meta/login-rate-limit"+query, "")
	if err := json.Unmarshal([]byte(a.body), &l); err != nil || a.status != 200 {
		s.t.Fatalf("got %d %s", a.status, a.body)
	}
	return l
}

const layered = `
target_source: {limit: 3, window: 300s, lockout: {base: 300s, max: 24h}}
source: {limit: 20, window: 300s, lockout: {base: 300s, max: 24h}}
subnet: {limit: 100, window: 300s, prefix_v4: 24, prefix_v6: 64, lockout: {base: 300s, max: 24h}}
`

// Failures are listed by scope, and released by id, on both stores and from any gateway [A2].
func TestLocks(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		sites := startAll(t, gateways, settings(backend(t, &accounts{}), section+loginPolicy(layered)))
		s, other := sites[0], sites[gateways-1]
		expect(t, "logins", s.logins("alice wrong", "alice wrong", "alice wrong", "alice right", "bob wrong"), "401 401 401 429 401")

		l := other.locks("")
		want := map[string]any{
			"enabled": true, "backend": map[int]string{1: "memory", 2: "valkey"}[gateways], "max_attempts": 3, "max_attempts_per_ip": 20, "max_attempts_per_subnet": 100,
			"window_seconds": 300, "backoff_base_seconds": 300, "backoff_max_seconds": 86400, "subnet_prefix_v4": 24, "subnet_prefix_v6": 64,
		}
		expect(t, "the configuration", l.Config, want)
		expect(t, "counts", []int{l.Tracked, l.Locked, l.Returned}, []int{4, 1, 1})
		if len(l.Entries) != 1 {
			t.Fatalf("got %+v", l)
		}
		locked := l.Entries[0]
		if locked.Scope != "user_ip" || locked.Identifier != "alice|127.0.0.1" || locked.Attempts != 3 || locked.Level != 1 || locked.LockedFor > 300 || locked.LockedFor < 295 {
			t.Errorf("got %+v", locked)
		}
		var all []string
		for _, e := range other.locks("?include=all").Entries {
			all = append(all, fmt.Sprintf("%s %s %d", e.Scope, e.Identifier, e.Attempts))
		}
		slices.Sort(all)
		expect(t, "all", strings.Join(all, ", "), "ip 127.0.0.1 4, subnet 127.0.0.0/24 4, user_ip alice|127.0.0.1 3, user_ip bob|127.0.0.1 1")

		expect(t, "releasing", other.meta("DELETE", "/api/v0/meta/login-rate-limit/"+locked.ID, "").body, "{\"released\":true}\n")
		expect(t, "again", other.meta("DELETE", "/meta/login-rate-limit/"+locked.ID, "").status, 404)
		expect(t, "alice", s.logins("alice right", "alice wrong"), "200 401")
		expect(t, "clearing", s.meta("DELETE", "/meta/login-rate-limit", "").body, "{\"cleared\":4}\n")
		expect(t, "what is left", other.locks("?include=all").Tracked, 0)

		expect(t, "events", other.events("release"), "ops")
		if events := append(other.log.lines("audit"), s.log.lines("audit")...); strings.Contains(fmt.Sprint(events), "alice") {
			t.Errorf("got audit events %v with a name", events)
		}
	})
}

// A release fences attempts in flight: what they turn out to be changes nothing any more.
func TestReleaseFences(t *testing.T) {
	stores(t, func(t *testing.T, section string, _ int) {
		b := &accounts{}
		s := start(t, settings(backend(t, b), section+loginPolicy("target: {limit: 2, window: 1h, lockout: {base: 1h, max: 1h}}")))
		expect(t, "logins", s.logins("bob wrong"), "401")
		b.takes = 100 * time.Millisecond
		done := make(chan int)
		go func() { done <- s.login("bob", "wrong").status }()
		eventually(t, "the attempt", func() bool { return b.asked.Load() == 2 })
		expect(t, "clearing", s.meta("DELETE", "/meta/login-rate-limit", "").body, "{\"cleared\":1}\n")
		expect(t, "the attempt", <-done, 401)
		expect(t, "what is left", s.locks("?include=all").Tracked, 0)
	})
}

// Pages of a long list are complete on both stores.
func TestPages(t *testing.T) {
	stores(t, func(t *testing.T, section string, _ int) {
		s := start(t, settings(backend(t, &accounts{}), section+loginPolicy("target: {limit: 5, window: 1h}")))
		inParallel(60, func(i int) { s.login(fmt.Sprint("user", i), "wrong") })
		seen := map[string]bool{}
		query := "?include=all&limit=7"
		for {
			l := s.locks(query)
			expect(t, "counts", []int{l.Tracked, l.Returned}, []int{60, 60})
			for _, e := range l.Entries {
				if seen[e.Identifier] {
					t.Errorf("%s is there twice", e.Identifier)
				}
				seen[e.Identifier] = true
			}
			if l.Next == "" {
				break
			}
			query = "?include=all&limit=7&cursor=" + l.Next
		}
		expect(t, "entries", len(seen), 60)
	})
}

// /meta shows the effective rules with where they come from, and a configuration without secrets [A3].
func TestMetaShowsNoSecrets(t *testing.T) {
	v := valkeytest.Start(t, valkeytest.Flag("requirepass", "hunter2-valkey"))
	yaml := settings(backend(t, &accounts{}), fmt.Sprintf(`
store: {backend: valkey, hash_key: hunter2-hunter2-hunter2, valkey: {addresses: [%q], password: hunter2-valkey}}
presets: [hubuum]
`, v.Addr()))
	yaml = strings.Replace(yaml, "upstream: {", "upstream: {secret_header: {name: X-Proof, value: hunter2-proof}, ", 1)
	s := start(t, yaml)
	shown := ""
	for _, path := range []string{"/meta/config", "/meta/policies", "/meta/version", "/meta/mode", "/meta/login-rate-limit"} {
		a := s.meta("GET", path, "", "Authorization: Bearer "+look)
		if a.status != 200 || !json.Valid([]byte(a.body)) || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %d %s", path, a.status, a.body)
		}
		shown += a.body
	}
	for _, secret := range []string{"hunter2", hash(token), hash(look)} {
		if strings.Contains(shown, secret) || strings.Contains(s.log.String(), secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	for _, want := range []string{`"password":"\u003csecret\u003e"`, `"origin":"preset hubuum`, `"max_attempts":5`, `"version":"v1.2.3"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is not shown in %s", want, shown)
		}
	}
}

// Identities are digests in the log unless the operator wants them plain.
func TestIdentitiesInTheLog(t *testing.T) {
	for _, plain := range []bool{false, true} {
		more := loginPolicy("target: {limit: 1, window: 1h, lockout: {base: 1h, max: 1h}}")
		if plain {
			more += "log: {identifiers: plain}\n"
		}
		s := start(t, settings(backend(t, &accounts{}), more))
		s.logins("bob wrong", "bob right")
		s.meta("DELETE", "/meta/login-rate-limit", "")
		// A connection that only balancers may open.
		closed := start(t, strings.Replace(settings(backend(t, &accounts{}), more), "server: {", "server: {proxy_protocol: [192.0.2.1], ", 1))
		c, err := net.Dial("tcp", closed.g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
		if n := len(closed.log.lines("connection refused")); n != 1 {
			t.Errorf("got %d refused connections logged, want 1", n)
		}
		lost := start(t, strings.Replace(settings(backend(t, &accounts{}), more), "server: {", "server: {proxy_protocol: [127.0.0.1], ", 1))
		if c, err = net.Dial("tcp", lost.g.Addr().String()); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
		eventually(t, "the lost connection", func() bool { return len(lost.log.lines("connection refused")) == 1 })
		for _, want := range []struct{ log, name string }{{lost.log.String(), "127.0.0.1"}, {s.log.String(), `"bob"`}, {s.log.String(), "127.0.0.1"}, {closed.log.String(), "127.0.0.1"}} {
			if strings.Contains(want.log, want.name) != plain {
				t.Errorf("plain %v: %s is in the log or not against the wish:\n%s", plain, want.name, want.log)
			}
		}
	}
}

// A policy of global scope counts for all tenants together, others for each.
func TestScopeGlobal(t *testing.T) {
	s := start(t, settings(backend(t, &accounts{}), `
realms:
  acme: {hosts: [acme.test]}
  beta: {hosts: [beta.test]}
policies:
  bootstrap: {scope: global, match: [{path: /bootstrap}], requests: {source: {limit: 2, window: 1h}}}
  mail: {match: [{path: /mail}], requests: {source: {limit: 2, window: 1h}}}
`))
	ask := func(host, path string) int {
		r := httptest.NewRequest("POST", path, strings.NewReader(`"right"`))
		r.Host = host
		w := httptest.NewRecorder()
		s.g.Handler().ServeHTTP(w, r)
		return w.Code
	}
	expect(t, "one bucket", fmt.Sprint(ask("acme.test", "/bootstrap"), ask("beta.test", "/bootstrap"), ask("acme.test", "/bootstrap"), ask("else.test", "/bootstrap")), "200 200 429 429")
	expect(t, "one each", fmt.Sprint(ask("acme.test", "/mail"), ask("beta.test", "/mail"), ask("acme.test", "/mail"), ask("acme.test", "/mail"), ask("beta.test", "/mail")), "200 200 200 429 200")
}

// No metric carries an address, a mailbox or a client [A6].
func TestMetricsCarryNoIdentity(t *testing.T) {
	s := start(t, settings(backend(t, &accounts{}), strings.Replace(loginPolicy(layered+`target: {limit: 4, window: 1h}
client: {limit: 1, window: 1h}
`), "secret:", "client: {from: [\"json:/client\"]}\n    secret:", 1)))
	for range 6 {
		s.post("/login", `{"user":"alice.smith@example.org","client":"shop-web","password":"hunter2"}`)
	}
	s.post("/login", `{"user":["alice.smith@example.org"]}`)
	s.post("/login?user=alice.smith@example.org", `{}`)
	text := s.meta("GET", "/metrics", "").body
	for _, identity := range []string{"alice", "smith", "example.org", "127.0.0.1", "127.0.0", "shop", "hunter2"} {
		if strings.Contains(text, identity) {
			t.Errorf("the metrics hold %s", identity)
		}
	}
	for name, want := range map[string]string{
		`gateway_rejections_total{dimension="target_source",mode="enforce",policy="login",realm="default"}`: "4",
		`gateway_login_throttled_total{bucket="target_source",mode="enforce"}`:                              "4",
		`gateway_lockouts_total{dimension="target_source",policy="login"}`:                                  "1",
		`gateway_verdicts_total{policy="login",verdict="failure"}`:                                          "3",
		`gateway_missing_key_total{policy="login",reason="type"}`:                                           "1",
		`gateway_requests_total{code="429",policy="login"}`:                                                 "4",
		`gateway_requests_total{code="401",policy="login"}`:                                                 "3",
		`gateway_store_degraded`:          "0",
		`gateway_spray_detected_total`:    "0",
		`gateway_upstream_seconds_count`:  "3",
		`gateway_entries{state="coarse"}`: "0",
	} {
		expect(t, name, s.metric(name), want)
	}
}
