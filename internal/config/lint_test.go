package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/limits"
)

func TestWarnings(t *testing.T) {
	login := backend + `policies:
  login:
    match: [{path: /login}]
    target: {from: "json:/username"}
`
	outcome := "    outcome: [{is: success, status: 200, cookie_set: s}, {is: failure, status: 401}]\n"
	for _, c := range []struct {
		name, text string
		want       []string // in order; a part of each
	}{
		{"nothing to warn of", login + "    requests: {target: {limit: 1, window: 1s}}\n", nil},
		{"no policies", backend, []string{"test.yaml:1: policies: there is none"}},
		{"no rules", login, []string{"test.yaml:3: policies.login: has no rules"}},
		{"valkey unused", "store: {valkey: {database: 1}}\n" + login + "    requests: {app: {limit: 1, window: 1s}}\n", []string{"test.yaml:1: store.valkey: is set, but store.backend is memory"}},
		{"admin open", "admin: {listen: \":9901\"}\n" + login + "    requests: {app: {limit: 1, window: 1s}}\n", []string{"test.yaml:1: admin.listen: listens beyond this machine without a token"}},
		{"hops beside a list", "client_ip: {trust_headers: true, trusted_proxies: 10.0.0.0/8, trusted_hops: 1}\n" + login + "    requests: {app: {limit: 1, window: 1s}}\n", []string{"test.yaml:1: client_ip: "}},
		{"host bits", "allowlist: [10.0.0.0/8, 192.0.2.1/24]\n" + login + "    requests: {app: {limit: 1, window: 1s}}\n", []string{"test.yaml:1: allowlist[1]: 192.0.2.1/24 has host bits set"}},
		{"factors never count", login + "    factors: {target: {limit: 5, window: 1m}}\n" + outcome, []string{"policies.login.factors: never counts"}},
		{"client secrets never count", login + "    client: {from: basic}\n    failures: {client: {limit: 5, window: 1m}}\n" + outcome, []string{"policies.login.failures.client: never counts"}},
		{"success by status alone", login + "    failures: {target: {limit: 5, window: 1m}}\n    outcome: [{is: success, status: 2xx}, {is: failure, status: 401}]\n", []string{"policies.login.outcome[0]"}},
		{"backend locks first", login + "    backend_lock: {limit: 5, window: 10m}\n    failures: {target: {limit: 5, window: 15m}}\n" + outcome, []string{"policies.login.backend_lock: the backend locks an account after 5 failures in 10m"}},
		{"nobody is told", "unlock: {url: \"https://hooks.example.org\"}\n" + login + "    requests: {app: {limit: 1, window: 1s}}\n", []string{"test.yaml:1: unlock.via: is none, so that nobody is told"}},
		{"we lock first", login + "    backend_lock: {limit: 30, window: 10m}\n    failures: {target: {limit: 5, window: 15m}}\n" + outcome, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, warnings := parse(t, c.text, Options{})
			if len(warnings) != len(c.want) {
				t.Fatalf("got %d warnings, want %d:\n%v", len(warnings), len(c.want), warnings)
			}
			for i, want := range c.want {
				if got := warnings[i].String(); !strings.Contains(got, want) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
		})
	}
}

func TestTripsFirst(t *testing.T) {
	lock := BackendLock{Limit: 30, Window: 10 * time.Minute}
	for _, c := range []struct {
		name string
		rule limits.Rule
		want bool
	}{
		{"longer window", limits.Rule{Dimension: limits.Target, Class: limits.Failures, Limit: 29, Window: time.Hour}, true},
		{"as many", limits.Rule{Dimension: limits.Target, Class: limits.Failures, Limit: 30, Window: time.Hour}, false},
		{"two rounds", limits.Rule{Dimension: limits.Target, Class: limits.Failures, Limit: 15, Window: 5 * time.Minute}, false},
		{"two small rounds", limits.Rule{Dimension: limits.Target, Class: limits.Failures, Limit: 14, Window: 5 * time.Minute}, true},
		{"short lock", limits.Rule{Dimension: limits.Target, Class: limits.Failures, Limit: 14, Window: time.Hour, Lockout: limits.Lockout{Base: time.Minute, Max: time.Hour}}, false},
		{"long lock", limits.Rule{Dimension: limits.Target, Class: limits.Failures, Limit: 14, Window: time.Minute, Lockout: limits.Lockout{Base: 10 * time.Minute, Max: time.Hour}}, true},
		{"a signal", limits.Rule{Dimension: limits.Target, Class: limits.Failures, Limit: 1, Window: time.Hour, Signal: true}, false},
		{"by address", limits.Rule{Dimension: limits.TargetSource, Class: limits.Failures, Limit: 1, Window: time.Hour}, false},
		{"requests", limits.Rule{Dimension: limits.Target, Class: limits.Requests, Limit: 1, Window: time.Hour}, false},
	} {
		if got := tripsFirst(&c.rule, lock); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// The cells are the dimensions of package limits, in its order.
func TestSlots(t *testing.T) {
	var node policyNode
	for _, class := range []limits.Class{limits.Requests, limits.Failures, limits.Factors} {
		var got []limits.Dimension
		for _, s := range node.cells("p").slots() {
			if s.class == class {
				got = append(got, s.dim)
				if want := "p." + class.String() + "." + s.dim.String(); s.path != want {
					t.Errorf("path %s, want %s", s.path, want)
				}
			}
		}
		if want := limits.Dimensions(class); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", class, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"listen", "max_streams", "tls", "window"}
	for in, want := range map[string]string{
		"listne": "listen", "Listen": "listen", "max_stream": "max_streams", "tsl": "tls", "windw": "window",
		"x": "", "bananas": "", strings.Repeat("listen", 100): "", "": "",
	} {
		if got := nearest(in, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestDurationsAndSizes(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"250ms": 250 * time.Millisecond, "90s": 90 * time.Second, "15m": 15 * time.Minute, "24h": 24 * time.Hour,
		"90d": 90 * 24 * time.Hour, "0": 0, "1h30m": 90 * time.Minute, "0d": 0,
	} {
		got, err := parseDuration(in)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", in, got, err, want)
		}
		if again, err := parseDuration(formatDuration(got)); err != nil || again != want {
			t.Errorf("%s prints as %s, which is %v, %v", in, formatDuration(got), again, err)
		}
	}
	for _, in := range []string{"", "d", "-1d", "1.5d", "60", "1e3", "-5s", "106752d", "9223372036854775807d", "1w", "s", "inf", "5 m"} {
		if got, err := parseDuration(in); err == nil {
			t.Errorf("%q: got %v, want an error", in, got)
		}
	}
	for in, want := range map[string]Size{"64KiB": 65536, "1MiB": 1 << 20, "2 GiB": 2 << 30, "0": 0, "1000": 1000} {
		got, err := parseSize(in)
		if err != nil || got != want {
			t.Errorf("%s: got %d, %v; want %d", in, got, err, want)
		}
		if again, err := parseSize(got.String()); err != nil || again != want {
			t.Errorf("%s prints as %s, which is %d, %v", in, got, again, err)
		}
	}
	for _, in := range []string{"", "KiB", "-1", "64KB", "1.5MiB", "9223372036854775807KiB", "8589934592GiB", "0x10"} {
		if got, err := parseSize(in); err == nil {
			t.Errorf("%q: got %d, want an error", in, got)
		}
	}
}
