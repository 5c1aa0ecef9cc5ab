package config

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/selector"
	"authgate/limits"
)

const backend = "upstream: {url: http://127.0.0.1:9000}\n"

// parse takes a text that must be right.
func parse(t *testing.T, text string, opts Options) (*Config, Warnings) {
	t.Helper()
	cfg, warnings, err := Parse("test.yaml", []byte(text), opts)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return cfg, warnings
}

func policy(t *testing.T, cfg *Config, name string) *Policy {
	t.Helper()
	for i := range cfg.Policies {
		if cfg.Policies[i].Name == name {
			return &cfg.Policies[i]
		}
	}
	t.Fatalf("no policy %s", name)
	return nil
}

func rule(t *testing.T, p *Policy, class limits.Class, dim limits.Dimension) (limits.Rule, Origin) {
	t.Helper()
	for i, r := range p.Rules {
		if r.Class == class && r.Dimension == dim {
			return r, p.Origins[i]
		}
	}
	t.Fatalf("policy %s has no rule %s.%s", p.Name, class, dim)
	return limits.Rule{}, Origin{}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestExampleFile(t *testing.T) {
	cfg, warnings, err := Load("../../config.example.yaml")
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if len(warnings) > 0 {
		t.Errorf("warnings:\n%v", warnings)
	}
	if got := len(cfg.Policies); got != 2 {
		t.Errorf("got %d policies, want 2", got)
	}
}

// Every documented key decodes, and the documented default is the one that holds.
func TestContract(t *testing.T) {
	text := read(t, "testdata/contract.yaml")
	full, _ := parse(t, text, Options{later: true})
	bare, _ := parse(t, backend+"policies: {login: {match: [{path: /}]}}\n", Options{later: true})
	for _, c := range []struct {
		section   string
		got, want any
	}{
		{"server", full.Server, bare.Server},
		{"upstream", full.Upstream, bare.Upstream},
		{"client_ip", full.ClientIP, bare.ClientIP},
		{"store", full.Store, bare.Store},
		{"mode", full.Mode, bare.Mode},
		{"unknown_host", full.RejectUnknownHost, bare.RejectUnknownHost},
		{"allowlist", full.Allowlist, bare.Allowlist},
		{"forwarder", full.Forwarder, bare.Forwarder},
		{"signups", full.Signups, bare.Signups},
		{"device", full.Device, bare.Device},
		{"unlock", full.Unlock, bare.Unlock},
		{"admin", full.Admin, bare.Admin},
		{"log", full.Log, bare.Log},
		{"audit", full.Audit, bare.Audit},
		{"telemetry", full.Telemetry, bare.Telemetry},
	} {
		if !sameText(c.got, c.want) {
			t.Errorf("%s: documented %+v, default %+v", c.section, c.got, c.want)
		}
	}
	got, want := policy(t, full, "login"), policy(t, bare, "login")
	if got.MaxBody != want.MaxBody || got.OnAmbiguous != want.OnAmbiguous || got.Pending.TTL != want.Pending.TTL ||
		got.Target.OnMissing != want.Target.OnMissing || got.Target.Normalize != want.Target.Normalize ||
		got.Enabled != want.Enabled || got.Global != want.Global || got.Mode != want.Mode || got.OwnMode != want.OwnMode ||
		got.OnOutage != want.OnOutage || got.PendingWait != want.PendingWait ||
		got.Outcome.UnknownAs != want.Outcome.UnknownAs || got.Outcome.InspectBytes != want.Outcome.InspectBytes {
		t.Errorf("policy: documented\n%+v\ndefault\n%+v", got, want)
	}
}

// sameText compares what the configuration prints as: an empty list is a missing one.
func sameText(a, b any) bool {
	w := viewer{report: newReport(""), later: true}
	x, err1 := w.value(reflect.ValueOf(a), "", false).MarshalJSON()
	y, err2 := w.value(reflect.ValueOf(b), "", false).MarshalJSON()
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// What this version does not support is refused as such, key by key, and nothing else of the documented file is.
func TestContractLater(t *testing.T) {
	_, _, err := Parse("contract.yaml", []byte(read(t, "testdata/contract.yaml")), Options{})
	var got []string
	for _, p := range err.(Problems) {
		if !strings.Contains(p.Message, "not supported by this version") {
			t.Errorf("%v", p)
		}
		got = append(got, p.Path)
	}
	want := []string{
		"store.valkey.sentinel_master", "admin.ui",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestRealmOverrides(t *testing.T) {
	text := strings.Replace(read(t, "testdata/contract.yaml"), "mode: log-only, allowlist: [], policies: {}",
		"policies: {magic-link: {requests: {source: {limit: 7, window: 1m}}}}", 1)
	cfg, _ := parse(t, text, Options{later: true})
	realm := cfg.Realms[0]
	if got := realm.Rules["magic-link"]; len(got) != 1 || got[0].Limit != 3 || got[0].Policy != "magic-link" {
		t.Errorf("realm rules: %+v", got)
	}
	app := realm.Apps[0]
	if got := app.Rules["magic-link"]; len(got) != 2 || got[0].Limit != 7 || got[1].Limit != 3 {
		t.Errorf("app rules: %+v", got)
	}
	if realm.Allowlist == nil || !realm.Allowlist.Empty() || app.Allowlist != nil {
		t.Errorf("allowlists: realm %v, app %v; want an empty and an inherited one", realm.Allowlist, app.Allowlist)
	}
	if got := policy(t, cfg, "magic-link").Rules[0].Limit; got != 5 {
		t.Errorf("the policy's own limit became %d, want 5", got)
	}
}

func TestValues(t *testing.T) {
	env := map[string]string{"BACKEND": "https://backend:8443\n", "PW": "s3cret\r\n", "NETS": "10.0.0.0/8, 192.0.2.1\n2001:db8::/32\n", "EMPTY": ""}
	files := map[string]string{"/run/key": "0123456789abcdef\n", "/run/hash": "sha256:" + strings.Repeat("0f", 32) + "\n"}
	cfg, warnings := parse(t, `
upstream: {url: "env:BACKEND", response_timeout: 250ms, max_idle_connections: }
server: {listen: ":0", max_header_bytes: 65536, idle_timeout: 24h}
client_ip: {trust_headers: true, trusted_proxies: "env:NETS", allow: [10.0.0.0/8, "*"]}
store: {backend: valkey, hash_key: "file:/run/key", on_outage: deny, valkey: {password: "env:PW", username: "env:EMPTY"}}
admin: {tokens: [{name: ops, role: operator, hash: "file:/run/hash"}]}
policies:
  a:
    match: [{path: /a, query: {v: 2, remember: true}}]
    max_body: 1MiB
    pending_wait: 0s
    mode: log-only
    requests: {app: {limit: 5, window: 90s}}
    target: {normalize: []}
    pending: {key: "cookie:flow", ttl: 5m}
    failures: {source: {limit: 5, window: 30d}, subnet: {limit: 5, window: 1m}, target: {limit: 5, window: 1m}}
    outcome: [{is: success, status: 200, cookie_set: s}, {is: failure, status: 401}]
  b:
    match: [{path: /b}]
    on_outage: allow
    requests: {app: off, source: {limit: 1, window: 1s}}
`, Options{
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		ReadFile: func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		},
	})
	if len(warnings) > 0 {
		t.Errorf("warnings:\n%v", warnings)
	}
	a, b := policy(t, cfg, "a"), policy(t, cfg, "b")
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"url from the environment", cfg.Upstream.URL.String(), "https://backend:8443"},
		{"milliseconds", cfg.Upstream.ResponseTimeout, 250 * time.Millisecond},
		{"null is the default", cfg.Upstream.MaxIdle, 256},
		{"one text for a list", cfg.Server.Listen, []string{":0"}},
		{"size without unit", cfg.Server.MaxHeaderBytes, Size(64 << 10)},
		{"hours", cfg.Server.IdleTimeout, 24 * time.Hour},
		{"list from the environment", cfg.ClientIP.TrustedProxies.Entries(), []string{"10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32"}},
		{"password without line end", cfg.Store.Valkey.Password.Reveal(), "s3cret"},
		{"empty variable", cfg.Store.Valkey.Username, ""},
		{"key from a file", cfg.Store.HashKey.Reveal(), "0123456789abcdef"},
		{"token digest", cfg.Admin.Tokens[0].Digest(), [32]byte(bytes.Repeat([]byte{0x0f}, 32))},
		{"numbers as predicates", a.Match[0].Route.Query, map[string]string{"v": "2", "remember": "true"}},
		{"body", a.MaxBody, 1 << 20},
		{"own wait", a.PendingWait, time.Duration(0)},
		{"own mode", []any{a.Mode, a.OwnMode}, []any{LogOnly, true}},
		{"inherited mode", []any{b.Mode, b.OwnMode}, []any{Enforce, false}},
		{"inherited wait", b.PendingWait, 2 * time.Second},
		{"inherited outage", a.OnOutage, limits.OutageDeny},
		{"own outage", b.OnOutage, limits.OutageAllow},
		{"off is no rule", len(b.Rules), 1},
		{"source prefix", []int{a.Rules[1].PrefixV4, a.Rules[1].PrefixV6}, []int{32, 64}},
		{"subnet prefix", []int{a.Rules[2].PrefixV4, a.Rules[2].PrefixV6}, []int{24, 56}},
		{"no prefix", []int{a.Rules[3].PrefixV4, a.Rules[3].PrefixV6}, []int{0, 0}},
		{"normalising nothing", a.Target.Normalize, selector.Normalizer{}},
		{"pending key", a.Pending.Key.String(), "cookie:flow"},
		{"days", a.Rules[1].Window, 30 * 24 * time.Hour},
		{"a secret is read with failure rules only", []int{len(a.Secret), len(b.Secret)}, []int{3, 0}},
		{"verdicts required", []bool{a.Outcome.Required, b.Outcome.Required}, []bool{true, false}},
		{"order", []string{cfg.Policies[0].Name, cfg.Policies[1].Name}, []string{"a", "b"}},
		{"via", cfg.Origin("upstream.url"), Origin{File: "test.yaml", Line: 2, Via: "env:BACKEND"}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
}

// A cell of the file replaces that of a preset, and inherits from it how it refuses and masks.
func TestPresetMerge(t *testing.T) {
	cfg, _ := parse(t, backend+`
presets: [hubuum]
policies:
  own:
    match: [{path: /own}]
    requests: {source: {limit: 1, window: 1s}}
  login:
    target: {on_missing: reject}
    failures:
      source: {limit: 7, window: 1m}
      subnet: off
      target_source:
        - {limit: 3, window: 1m}
        - {limit: 9, window: 24h, prefix_v6: 56, lockout: {base: 1h, max: 2h}}
`, Options{})
	login := policy(t, cfg, "login")
	if cfg.Policies[0].Name != "login" || login.Preset != "hubuum" || policy(t, cfg, "own").Preset != "" {
		t.Errorf("policies of presets come first: %q, preset %q", cfg.Policies[0].Name, login.Preset)
	}
	if got := login.Target; got.OnMissing != MissingReject || len(got.From) != 1 || got.From[0].String() != "json:/username" {
		t.Errorf("target: %+v, want the preset's selector and the file's on_missing", got)
	}
	want := []limits.Rule{
		{Dimension: limits.Source, Limit: 7, Window: time.Minute, PrefixV4: 32, PrefixV6: 128},
		{Dimension: limits.TargetSource, Limit: 3, Window: time.Minute, PrefixV4: 32, PrefixV6: 128},
		{Dimension: limits.TargetSource, Index: 1, Limit: 9, Window: 24 * time.Hour, PrefixV4: 32, PrefixV6: 56, Lockout: limits.Lockout{Base: time.Hour, Max: 2 * time.Hour}},
	}
	for i := range want {
		want[i].Policy, want[i].Class = "login", limits.Failures
	}
	if !slices.Equal(login.Rules, want) {
		t.Errorf("got  %+v\nwant %+v", login.Rules, want)
	}
	for path, want := range map[string]string{
		"policies.login.failures.source":           "test.yaml:11",
		"policies.login.failures.source.limit":     "test.yaml:11",
		"policies.login.failures.source.lockout":   "default",
		"policies.login.failures.source.prefix_v6": "preset hubuum",
		"policies.login.failures.subnet":           "test.yaml:12",
		"policies.login.failures.target_source[0]": "test.yaml:14",
		"policies.login.match":                     "preset hubuum",
		"policies.login.target.from":               "preset hubuum",
		"policies.login.target.on_missing":         "test.yaml:9",
		"policies.login.max_body":                  "default",
	} {
		if got := cfg.Origin(path).String(); got != want {
			t.Errorf("origin of %s: got %s, want %s", path, got, want)
		}
	}
	if got := []string{login.Origins[0].String(), login.Origins[2].String()}; !slices.Equal(got, []string{"test.yaml:11", "test.yaml:15"}) {
		t.Errorf("origins of rules: %q", got)
	}
}

func TestPresetSignal(t *testing.T) {
	cfg, _ := parse(t, backend+"presets: modgud\npolicies: {login: {failures: {source: {limit: 50, window: 5m}}}}\n", Options{})
	if got, _ := rule(t, policy(t, cfg, "login"), limits.Failures, limits.Source); !got.Signal || got.Limit != 50 || got.Window != 5*time.Minute {
		t.Errorf("got %+v, want the signal with its new numbers", got)
	}
}

// Of what a preset says and the file replaces whole, nothing is left, not even where it was written.
func TestReplacedWhole(t *testing.T) {
	cfg, warnings := parse(t, backend+"presets: [modgud, hubuum]\npolicies:\n  login:\n  magic-link: {match: [{path: /x}]}\n  native-otp: {match: [{path: /y}]}\n", Options{})
	login := policy(t, cfg, "login")
	if login.Preset != "hubuum" || len(login.Rules) != 3 || len(login.Match) != 1 || login.Match[0].Route.Path != "/api/v0/auth/login" {
		t.Errorf("got %+v, want hubuum's policy, which the empty key of the file leaves as it is", login)
	}
	if want := "test.yaml:2: presets: both modgud and hubuum define policies.login; that of hubuum holds"; warnings.String() != want {
		t.Errorf("got  %v\nwant %s", warnings, want)
	}
	if got := policy(t, cfg, "native-otp").Match; len(got) != 1 || len(got[0].Route.Methods) != 0 {
		t.Errorf("got %+v, want the file's list alone", got)
	}
	for path, want := range map[string]string{
		"policies.login.failures.target":       "default",
		"policies.native-otp.match[0].path":    "test.yaml:6",
		"policies.native-otp.match[0].methods": "default",
		"policies.native-otp.match[1].path":    "default",
		"policies.native-otp.requests.source":  "preset modgud",
	} {
		if got := cfg.Origin(path).String(); got != want {
			t.Errorf("origin of %s: got %s, want %s", path, got, want)
		}
	}
}

func TestCellOver(t *testing.T) {
	yes, four, six := true, 20, 60
	base := cell{set: true, rules: []ruleNode{
		{Limit: 1, Burst: 9, Lockout: &lockoutNode{}, Signal: &yes, Refuse: "silent", PrefixV4: &four, PrefixV6: &six},
		{Limit: 2, Refuse: "uniform"},
	}}
	no, own := false, 8
	top := cell{set: true, rules: []ruleNode{{Limit: 5}, {Limit: 6}, {Limit: 7, Refuse: "429", Signal: &no, PrefixV4: &own, PrefixV6: &own}}}
	got := top.over(base).rules
	want := []ruleNode{
		{Limit: 5, Signal: &yes, Refuse: "silent", PrefixV4: &four, PrefixV6: &six},
		{Limit: 6, Refuse: "uniform"},
		{Limit: 7, Refuse: "429", Signal: &no, PrefixV4: &own, PrefixV6: &own},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if top.rules[0].Signal != nil {
		t.Error("the cell itself was changed")
	}
}

// Realms and apps are held to the same as the file where a policy is a preset's.
func TestRealmProblems(t *testing.T) {
	_, _, err := Parse("test.yaml", []byte(backend+`presets: [modgud]
realms:
  acme:
    hosts: ["a b"]
    policies:
      nothing: {requests: {source: off}}
      oauth-token: {requests: {target: {limit: 1, window: 1s}}}
      login: {failures: {source: off, target: {limit: 0, window: 1m}}}
      magic-link: {requests: {target: off, source: {limit: 5, window: 1m}}}
    apps:
      shop: {policies: {login: {failures: {source: {limit: 1, window: 1s, signal: false}}}, magic-link: {requests: {app: {limit: 0, window: 1s}}}}}
clients:
  - {id: a, realm: acme, app: shop, secret_hash: "$2b$x"}
  - {id: a, realm: acme, app: ship, secret_hash: plain}
  - {id: a, realm: acmee, secret_hash: "sha256:a:b"}
`), Options{later: true})
	want := `test.yaml:5: realms.acme.hosts[0]: "a b" is no host; use a name such as auth.example.org
test.yaml:7: realms.acme.policies.nothing: is no policy; use native-otp, self-registration, magic-link, password-reset, email-verification, email-otp, passkey-begin, oauth-token, complete-login, bootstrap or login
test.yaml:8: realms.acme.policies.oauth-token.requests.target: does not apply: the preset modgud has no requests.target in this policy, and none can be added; leave it out, or write a policy of your own for the same paths
test.yaml:9: realms.acme.policies.login.failures.source: is a signal of the preset modgud, which can neither be turned off nor made to refuse; tune its limit and window instead
test.yaml:9: realms.acme.policies.login.failures.target.limit: 0 is out of range; use 1..1000
test.yaml:12: realms.acme.apps.shop.policies.login.failures.source: is a signal of the preset modgud, which can neither be turned off nor made to refuse; tune its limit and window instead
test.yaml:12: realms.acme.apps.shop.policies.magic-link.requests.app.limit: 0 is out of range; use 1..100000
test.yaml:14: clients[0].secret_hash: is no bcrypt hash of 60 characters
test.yaml:15: clients[1].id: "a" is there twice; keep one
test.yaml:15: clients[1].secret_hash: is no hash that is known; use $argon2id$..., $2b$... (bcrypt) or sha256:SALT:HEX; gateway hash-secret --client prints the first
test.yaml:15: clients[1].app: "ship" is no app of the realm; name one of its apps
test.yaml:16: clients[2].secret_hash: is no salted digest; use sha256:SALT:HEX with a salt of at least 8 characters
test.yaml:16: clients[2].realm: "acmee" is no realm; did you mean acme?`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestSorted(t *testing.T) {
	r := newReport("z.yaml")
	r.errorAt(Origin{Preset: "a", Line: 1}, "x", "1")
	r.errorAt(Origin{File: "z.yaml", Line: 20}, "y", "2")
	r.errorAt(Origin{File: "z.yaml", Line: 3}, "z", "3")
	r.errorAt(Origin{File: "z.yaml", Line: 3}, "b", "4")
	want := "z.yaml:3: z: 3\nz.yaml:3: b: 4\nz.yaml:20: y: 2\npreset a:1: x: 1"
	if got := r.err().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for range maxProblems + 5 {
		r.errorf("", "again")
	}
	problems := r.err().(Problems)
	if last := problems[len(problems)-1]; len(problems) != maxProblems+1 || last.Message != "and 9 more problems" {
		t.Errorf("%d problems, the last is %v", len(problems), last)
	}
}

func TestBuiltin(t *testing.T) {
	cfg, warnings, err := Builtin("http://127.0.0.1:3000")
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Builtin: %v, %v", err, warnings)
	}
	if cfg.Store.Backend != "memory" || !slices.Equal(cfg.Server.Listen, []string{"127.0.0.1:8080"}) || cfg.Admin.Listen != "127.0.0.1:9901" {
		t.Errorf("got %v, %v, %v; want the memory store and loopback listeners", cfg.Store.Backend, cfg.Server.Listen, cfg.Admin.Listen)
	}
	if p := policy(t, cfg, "login"); len(p.Rules) == 0 || len(p.Match) < 5 {
		t.Errorf("login policy: %+v", p)
	}
	if _, _, err := Builtin("nonsense"); err == nil || !strings.HasPrefix(err.Error(), "--upstream:") {
		t.Errorf("Builtin of nonsense: %v", err)
	}
}

func TestLoadErrors(t *testing.T) {
	if _, _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.HasPrefix(err.Error(), "reading configuration: ") {
		t.Errorf("missing file: %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, bytes.Repeat([]byte("# x\n"), maxFile/4+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(large); err == nil || !strings.Contains(err.Error(), "larger than 4MiB") {
		t.Errorf("large file: %v", err)
	}
}

func TestZeroURLIsNeverHandedOut(t *testing.T) {
	cfg, _ := parse(t, "upstream: {url: unix:///run/backend.sock}\n", Options{})
	if want := (url.URL{Scheme: "unix", Path: "/run/backend.sock"}); *cfg.Upstream.URL != want {
		t.Errorf("got %+v, want %+v", *cfg.Upstream.URL, want)
	}
	cfg, _ = parse(t, backend+"policies: {a: {match: [{path: /}]}}", Options{})
	if key := cfg.Policies[0].Pending.Key; key.Kind() != 0 {
		t.Errorf("pending key: got %v, want none", key)
	}
}
