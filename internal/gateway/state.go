package gateway

import (
	"log/slog"
	"net"
	"net/http"
	"strings"

	"authgate/admin"
	"authgate/internal/config"
	"authgate/limits"
)

// state is what /meta shows of a gateway.
type state struct {
	limits.Switchboard
	g *Gateway
}

// adminHandler makes the admin listener's handler; token, if not empty, is one for this run.
func (g *Gateway) adminHandler(cfg *config.Config, token string) http.Handler {
	ac := admin.Config{}
	for i := range cfg.Admin.Tokens {
		t := &cfg.Admin.Tokens[i]
		role := admin.Viewer
		if t.Role == "operator" {
			role = admin.Operator
		}
		ac.Tokens = append(ac.Tokens, admin.Token{Name: t.Name, Role: role, Digest: t.Digest()})
	}
	if token != "" {
		ac.Tokens = append(ac.Tokens, admin.Token{Name: "this-run", Role: admin.Operator, Digest: digest(token)})
	}
	ac.Hosts = append(ac.Hosts, lower(cfg.Admin.Hosts)...)
	if host, _, err := net.SplitHostPort(cfg.Admin.Listen); err == nil && host != "" && len(ac.Hosts) == 0 {
		ac.Hosts = append(ac.Hosts, strings.ToLower(host))
	}
	return admin.New(ac, &state{Switchboard: g.stores.mode, g: g}, g.auditEvent, g.metrics.Handler(), g.log)
}

func (g *Gateway) auditEvent(event, who string, details ...slog.Attr) {
	g.audit.Event(event, who, details...)
}

func (s *state) Locks() limits.Locks { return s.g.stores.limits }

func (s *state) Devices() admin.Devices { return devices{s.g} }

func (s *state) Ready() error { return s.g.Ready() }

func (s *state) Build() map[string]string { return s.g.build }

func (s *state) Config() any { return s.g.cfg.Load().Redacted() }

// Throttle describes the failure rules of a policy: that of the name, else "login", else the first that has any [A2].
func (s *state) Throttle(policy string) (admin.Throttle, bool) {
	cfg := s.g.cfg.Load()
	var found *config.Policy
	for i := range cfg.Policies {
		p := &cfg.Policies[i]
		if !hasFailures(p) {
			continue
		}
		if p.Name == policy || (policy == "" && (found == nil || p.Name == "login")) {
			found = p
		}
	}
	t := admin.Throttle{Backend: cfg.Store.Backend, SubnetPrefixV4: 24, SubnetPrefixV6: 64}
	if found == nil {
		return t, false
	}
	t.Enabled = found.Enabled
	for i := range found.Rules {
		describe(&t, &found.Rules[i])
	}
	return t, true
}

func hasFailures(p *config.Policy) bool {
	for i := range p.Rules {
		if p.Rules[i].Class == limits.Failures {
			return true
		}
	}
	return false
}

// describe adds one rule to the description. Only the first rule of a list is shown.
func describe(t *admin.Throttle, r *limits.Rule) {
	if r.Class != limits.Failures || r.Signal || r.Index > 0 {
		return
	}
	switch r.Dimension {
	case limits.TargetSource:
		t.MaxAttempts = r.Limit
	case limits.Target:
		if t.MaxAttempts == 0 {
			t.MaxAttempts = r.Limit
		}
	case limits.Source:
		t.MaxAttemptsPerIP = r.Limit
	case limits.Subnet:
		t.MaxAttemptsPerSubnet, t.SubnetPrefixV4, t.SubnetPrefixV6 = r.Limit, r.PrefixV4, r.PrefixV6
	default:
		return
	}
	if t.WindowSeconds == 0 {
		t.WindowSeconds = int64(r.Window.Seconds())
	}
	if t.BackoffBaseSeconds == 0 && r.Lockout != (limits.Lockout{}) {
		t.BackoffBaseSeconds, t.BackoffMaxSeconds = int64(r.Lockout.Base.Seconds()), int64(r.Lockout.Max.Seconds())
	}
}
