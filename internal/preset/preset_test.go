package preset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/config"
	"authgate/internal/preset"
	"authgate/limits"
)

func load(t *testing.T, name string) *config.Config {
	t.Helper()
	text := "upstream: {url: http://127.0.0.1:9000}\npresets: [" + name + "]\n"
	cfg, warnings, err := config.Parse("test.yaml", []byte(text), config.Options{})
	if err != nil {
		t.Fatalf("preset %s:\n%v", name, err)
	}
	if len(warnings) > 0 {
		t.Errorf("preset %s:\n%v", name, warnings)
	}
	return cfg
}

func TestNamesAndLoad(t *testing.T) {
	if got, want := preset.Names(), []string{"generic", "hubuum", "modgud"}; !slices.Equal(got, want) {
		t.Errorf("Names: got %q, want %q", got, want)
	}
	for _, name := range preset.Names() {
		text, ok := preset.Load(name)
		if !ok || len(text) == 0 {
			t.Errorf("Load(%s): %v, %d bytes", name, ok, len(text))
		}
		if strings.Contains(string(text), "\npresets:") {
			t.Errorf("preset %s names presets", name)
		}
		load(t, name)
	}
	for _, name := range []string{"", "none", "../preset", "modgud.yaml"} {
		if _, ok := preset.Load(name); ok {
			t.Errorf("Load(%q) found something", name)
		}
	}
}

// spell writes the rules of a policy the way the table of the policies does.
func spell(p *config.Policy) string {
	var out []string
	for _, r := range p.Rules {
		s := fmt.Sprintf("%s.%s %d/%gm", r.Class, r.Dimension, r.Limit, r.Window.Minutes())
		if r.Burst > 0 {
			s += fmt.Sprintf(" burst %d", r.Burst)
		}
		if r.Signal {
			s += " signal"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func TestModgud(t *testing.T) {
	const mail = "requests.source 1200/60m burst 300, requests.target 5/60m, requests.client 600/60m, requests.app 3000/60m"
	want := []struct{ name, rules, target, missing, paths string }{
		{"native-otp", mail + ", requests.signups 10/60m", "json:/Email", "share", "/api/account/native/otp/request /api/account/native/register /api/account/passwordless-otp/request"},
		{"self-registration", mail + ", requests.signups 10/60m", "json:/Email", "share", "/api/account/register"},
		{"magic-link", mail, "json:/Email", "share", "/api/account/magic-link/request"},
		{"password-reset", mail, "json:/UserName", "share", "/api/account/forgot-password"},
		{"email-verification", mail, "json:/Email", "skip", "/api/account/email/send-verification"},
		{"email-otp", "requests.source 600/1m burst 200, requests.target 15/1m, requests.client 600/1m", "json:/Email", "skip", "/api/account/passwordless-otp/login /api/account/email-otp/login"},
		{"passkey-begin", "requests.source 1200/5m burst 300, requests.target 60/5m, requests.client 1200/5m", "json:/Email json:/UserName", "skip", "/connect/passkey/begin /connect/passkey/enroll /connect/passkey/enroll/begin /connect/staffing/begin /connect/staffing/{id}/step-up /connect/activation-token/{id}/register/begin /connect/activation-token/{id}/register"},
		{"oauth-token", "requests.source 600/1m burst 200, requests.client 60/1m burst 60", "", "share", "/connect/token"},
		{"complete-login", "", "", "share", "/api/account/mfa/login /api/account/email-otp/login /api/account/passkey/login /api/account/magic-link/login /api/account/external-login/finish"},
		{"bootstrap", "requests.source 30/15m burst 10", "", "share", "/api/account/bootstrap-admin /api/install/validate /api/install/complete"},
		{"login", "failures.source 200/15m signal, failures.target 5/15m, failures.device 10/15m", "json:/UserName", "share", "/api/account/login"},
	}
	cfg := load(t, "modgud")
	if len(cfg.Policies) != len(want) {
		t.Fatalf("got %d policies, want %d", len(cfg.Policies), len(want))
	}
	for i, w := range want {
		p := &cfg.Policies[i]
		var paths, target []string
		for _, m := range p.Match {
			paths = append(paths, m.Route.Path)
			if !slices.Equal(m.Route.Methods, []string{"POST"}) && m.Route.Path != "/api/account/external-login/finish" {
				t.Errorf("%s: methods %q, want POST", p.Name, m.Route.Methods)
			}
		}
		for _, s := range p.Target.From {
			target = append(target, s.String())
		}
		if p.Name != w.name || spell(p) != w.rules || strings.Join(target, " ") != w.target ||
			string(p.Target.OnMissing) != w.missing || strings.Join(paths, " ") != w.paths {
			t.Errorf("got  %s: %s; %s %s; %s\nwant %s: %s; %s %s; %s", p.Name, spell(p), target, p.Target.OnMissing, paths,
				w.name, w.rules, w.target, w.missing, w.paths)
		}
		if global := p.Name == "bootstrap"; p.Global != global {
			t.Errorf("%s: global is %v", p.Name, p.Global)
		}
		for _, o := range p.Origins {
			if o.Preset != "modgud" {
				t.Errorf("%s: a rule comes from %v", p.Name, o)
			}
		}
	}
}

func TestHubuum(t *testing.T) {
	p := load(t, "hubuum").Policies[0]
	lock := limits.Lockout{Base: 300 * time.Second, Max: 24 * time.Hour}
	rule := func(dim limits.Dimension, limit, v4, v6 int) limits.Rule {
		return limits.Rule{
			Policy: "login", Class: limits.Failures, Dimension: dim, Limit: limit,
			Window: 300 * time.Second, Lockout: lock, PrefixV4: v4, PrefixV6: v6,
		}
	}
	want := []limits.Rule{
		rule(limits.Source, 20, 32, 128), rule(limits.Subnet, 100, 24, 64), rule(limits.TargetSource, 5, 32, 128),
	}
	if !slices.Equal(p.Rules, want) {
		t.Errorf("got  %+v\nwant %+v", p.Rules, want)
	}
	if p.Name != "login" || p.Match[0].Route.Path != "/api/v0/auth/login" || p.Secret[0].String() != "json:/password" {
		t.Errorf("got %+v", p)
	}
}
