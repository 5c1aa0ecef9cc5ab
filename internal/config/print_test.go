package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func printed(t *testing.T, cfg *Config) string {
	t.Helper()
	var b bytes.Buffer
	if err := cfg.Print(&b); err != nil {
		t.Fatalf("Print: %v", err)
	}
	return b.String()
}

// same compares everything but where it was written.
func same(a, b *Config) bool {
	strip := func(c *Config) Config {
		out := *c
		out.shown, out.origins = nil, nil
		out.Policies = nil
		for _, p := range c.Policies {
			p.Origins = nil
			out.Policies = append(out.Policies, p)
		}
		return out
	}
	return reflect.DeepEqual(strip(a), strip(b))
}

func TestPrintParsesToTheSame(t *testing.T) {
	for _, c := range []struct {
		name, text string
		later      bool
	}{
		{"defaults", backend, false},
		{"example", read(t, "../../config.example.yaml"), false},
		{"contract", read(t, "testdata/contract.yaml"), true},
		{"presets", backend + "presets: [modgud, hubuum]\n", false},
		{"odd texts", backend + `
policies:
  "429":
    enabled: false
    match: [{path: "/a#b: c", query: {"": x}, form: {"on": "off", "null": "~", "1": "0x10", "a: b": "# c"}}]
    requests: {app: [{limit: 1, window: 1s}, {limit: 2, window: 36h, burst: 3}]}
    pin_headers: {Accept: "a\tb, 'c' \"d\""}
    cors_origins: ["*"]
`, false},
		{"overrides", backend + `
client_ip: {allow: [], deny: 192.0.2.0/24}
presets: hubuum
policies:
  login:
    failures: {subnet: off, target_source: [{limit: 1, window: 1s}, {limit: 2, window: 90s}]}
    pending_wait: 1500ms
    on_outage: deny
`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(c.text, "allow: [], ", "", 1)
			text = strings.Replace(strings.Replace(text, "/a#b: c", "/a-b", 1), `{"": x}`, `{x: ""}`, 1)
			text = strings.Replace(text, "36h", "90m", 1)
			opts := Options{later: c.later, LookupEnv: func(string) (string, bool) {
				return "$argon2id$v=19$m=19456,t=2,p=1$gTqsQ1KyQhb7+UsBec7B/Q$W/Q3lBZgZ9fqm1z6R1RwVUFAFSwordg+Lv0Gx+hnAJ4", true
			}}
			cfg, _ := parse(t, text, opts)
			out := printed(t, cfg)
			again, _, err := Parse("printed.yaml", []byte(strings.ReplaceAll(out, secretMask, "env:HASH")), opts)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !same(cfg, again) {
				t.Errorf("printed configuration is another:\n%s", out)
			}
			if twice := printed(t, again); stripComments(twice) != stripComments(out) {
				t.Errorf("printed again:\n%s\nfirst:\n%s", twice, out)
			}
		})
	}
}

func stripComments(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, " # ")
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "\n")
}

func TestPrintShowsOrigins(t *testing.T) {
	cfg, _ := parse(t, backend+`mode: log-only
presets: [hubuum]
store: {valkey: {username: "env:NAME"}}
policies: {login: {failures: {subnet: off, source: {limit: 9, window: 1m}}}}
`, Options{LookupEnv: func(string) (string, bool) { return "bob", true }})
	out := printed(t, cfg)
	for _, want := range []string{
		"\nmode: log-only # test.yaml:2\n",
		"\n  idle_timeout: 2m # default\n",
		"\n    username: bob # test.yaml:4, from env:NAME\n",
		"\n      source: {limit: 9, window: 1m, prefix_v6: 128} # test.yaml:5\n",
		"\n      subnet: off # test.yaml:5\n",
		"\n      target_source: {limit: 5, window: 5m, lockout: {base: 5m, max: 24h}, prefix_v6: 128} # preset hubuum\n",
		"\n      - {methods: [POST], path: /api/v0/auth/login} # preset hubuum\n",
		"\n      from: ['json:/username'] # preset hubuum\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestRedacted(t *testing.T) {
	cfg, _ := parse(t, backend+"store: {hash_key: 0123456789abcdefX}\npolicies: {b: {match: [{path: /b}]}, a: {match: [{path: /a}]}}\n", Options{})
	data, err := json.Marshal(cfg.Redacted())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Server   struct{ Listen []string }
		Store    map[string]any
		Policies map[string]struct{ Match []map[string]any }
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if got.Store["hash_key"] != "<secret>" || got.Server.Listen[0] != "127.0.0.1:8080" || got.Policies["a"].Match[0]["path"] != "/a" {
		t.Errorf("got %s", data)
	}
	if a, b := bytes.Index(data, []byte(`"a":`)), bytes.Index(data, []byte(`"b":`)); a < b {
		t.Errorf("policies are not in file order: %s", data)
	}
}

// No way of showing a configuration, and no message about one, holds a secret.
func TestSecretsStaySecret(t *testing.T) {
	const hidden = "hunter2-hunter2-hunter2"
	env := Options{later: true, LookupEnv: func(string) (string, bool) { return hidden, true }}
	cfg, _ := parse(t, `
upstream: {url: http://127.0.0.1:9000, secret_header: {name: X-Gateway, value: "env:X"}}
store: {hash_key: `+hidden+`, valkey: {password: "env:X"}}
admin: {tokens: [{name: a, role: viewer, hash: "sha256:`+strings.Repeat("5ec7e7", 10)+`abcd"}]}
audit: {webhook: https://hooks.test/`+hidden+`, secret: "env:X"}
unlock: {url: https://x.test/`+hidden+`, secret: `+hidden+`, smtp: {password: "env:X"}}
signups: {lookup_url: https://x.test/`+hidden+`, lookup_secret: "env:X"}
device: {keys: [`+hidden+`x, "env:X"]}
realms: {acme: {}}
clients: [{id: a, realm: acme, secret_hash: "sha256:`+hidden+`:`+strings.Repeat("5ec7e7", 10)+`abcd"}]
`, env)
	redacted, err := json.Marshal(cfg.Redacted())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(cfg.Store)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", cfg.Store.HashKey, "store", cfg.Store, "device", cfg.Device)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", cfg.Store.HashKey, "store", cfg.Store, "device", cfg.Device)
	shown := map[string]string{
		"Print": printed(t, cfg), "Redacted": string(redacted), "json": string(whole), "yaml": string(asYAML), "log": log.String(),
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%08.3f"} {
		shown[verb] = fmt.Sprintf(verb, cfg) + fmt.Sprintf(verb, *cfg) + fmt.Sprintf(verb, cfg.Store.HashKey)
	}
	hex := fmt.Sprintf("%x", hidden)
	for name, text := range shown {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "5ec7e7") || strings.Contains(strings.ToLower(text), hex) {
			t.Errorf("%s shows a secret:\n%s", name, text)
		}
	}
	if got := strings.Count(shown["Print"], secretMask); got < 13 {
		t.Errorf("Print masks %d secrets, want all 13:\n%s", got, shown["Print"])
	}
	if got := cfg.Store.HashKey.LogValue().String(); got != secretMask {
		t.Errorf("LogValue gives %s", got)
	}
	if cfg.Store.HashKey.Reveal() != hidden {
		t.Error("Reveal does not give the secret")
	}
}

func TestMessagesHoldNoSecrets(t *testing.T) {
	const hidden = "hunter2"
	for _, text := range []string{
		"store: {hash_key: [hunter2]}",
		"store: {hash_key: {hunter2x: hunter2}}",
		"store: {hash_key: hunter2}",
		"store: {valkey: {password: !!binary hunter2}}",
		"upstream: {url: 'http://bob:hunter2@x'}",
		"upstream: {url: 'http://bob:hunt er2hunter2@x:80:80'}",
		"upstream: {url: 'http://x:hunter2'}",
		"upstream: {url: 'hunter2'}",
		"upstream: {secret_header: {name: A, value: \"hunter2\\n\"}}",
		"admin: {tokens: [{name: a, role: viewer, hash: hunter2}]}",
		"admin: {tokens: [{name: a, role: viewer, hash: 'env:X'}]}",
	} {
		_, warnings, err := Parse("x", []byte(text), Options{LookupEnv: func(string) (string, bool) { return hidden, true }})
		if err == nil || strings.Contains(err.Error()+warnings.String(), hidden) {
			t.Errorf("%s: %v", text, err)
		}
		var problems Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: error is a %T", text, err)
		}
	}
}

func TestSchema(t *testing.T) {
	data, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want any
	}{
		{"properties.server.properties.idle_timeout.default", "2m"},
		{"properties.server.properties.max_streams.maximum", 10000.0},
		{"properties.server.properties.tls.properties.mode.enum", []any{"off", "files", "acme"}},
		{"properties.server.additionalProperties", false},
		{"properties.mode.enum", []any{"enforce", "log-only"}},
		{"properties.store.properties.identifiers.enum", []any{"plain"}},
		{"properties.policies.additionalProperties.properties.max_body.default", "64KiB"},
		{"properties.policies.additionalProperties.properties.requests.properties.source.$ref", "#/$defs/cell"},
		{"properties.policies.additionalProperties.properties.match.items.required", []any{"path"}},
		{"$defs.rule.required", []any{"limit", "window"}},
		{"$defs.rule.properties.refuse.type", []any{"string", "integer"}},
		{"$defs.rule.properties.refuse.enum", []any{"429", 429.0, "uniform", "silent"}},
		{"properties.admin.properties.ui", nil},
	} {
		var got any = schema
		for key := range strings.SplitSeq(c.path, ".") {
			m, _ := got.(map[string]any)
			got = m[key]
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.path, got, c.want)
		}
	}
}
