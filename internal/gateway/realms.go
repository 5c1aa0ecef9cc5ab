package gateway

import (
	"fmt"

	"authgate/clientip"
	"authgate/internal/clients"
	"authgate/internal/config"
	"authgate/internal/route"
	"authgate/limits"
	"authgate/proxy"
)

// defaultRealm is the tenant of every host that no realm names.
const defaultRealm = "default"

// place is where policies are compiled for: the whole, a realm, or an app inside one; each inherits from the one
// before [M2].
type place struct {
	realm, app string
	modes      []config.Mode // innermost first; the first that is set holds
	allowlist  clientip.PrefixSet
	rules      []map[string][]limits.Rule // innermost first; the first that has the policy holds
}

// realms compiles the tenants, by host, and the one of every other host, nil if those are refused.
func (g *Gateway) realms(cfg *config.Config) (byHost map[string]*proxy.Realm, rest *proxy.Realm, err error) {
	whole := place{realm: defaultRealm, modes: []config.Mode{cfg.Mode}, allowlist: cfg.Allowlist}
	byHost = make(map[string]*proxy.Realm)
	for i := range cfg.Realms {
		r := &cfg.Realms[i]
		at := whole.inside(r.Name, "", r.Mode, &r.Scope)
		if len(r.LegacyPerIP) > 0 && r.Mode == "" {
			at.modes = append([]config.Mode{config.LogOnly}, at.modes...) // until somebody chooses [M3]
		}
		realm, err := g.realm(cfg, at)
		if err != nil {
			return nil, nil, err
		}
		realm.Apps = make(map[string]*proxy.Realm)
		for j := range r.Apps {
			a := &r.Apps[j]
			app, err := g.realm(cfg, at.inside(r.Name, a.Name, a.Mode, &a.Scope))
			if err != nil {
				return nil, nil, err
			}
			realm.Apps[a.Name] = app
			assign(byHost, a.Hosts, app)
		}
		assign(byHost, r.Hosts, realm)
		if r.Name == defaultRealm {
			rest = realm
		}
	}
	if cfg.RejectUnknownHost {
		return byHost, nil, nil
	}
	if rest == nil {
		rest, err = g.realm(cfg, whole)
	}
	return byHost, rest, err
}

// inside is a place within another.
func (p place) inside(realm, app string, mode config.Mode, s *config.Scope) place {
	in := place{
		realm: realm, app: app, allowlist: p.allowlist,
		modes: append([]config.Mode{mode}, p.modes...),
		rules: append([]map[string][]limits.Rule{s.Rules}, p.rules...),
	}
	if s.Allowlist != nil {
		in.allowlist = *s.Allowlist
	}
	return in
}

// mode is that of a policy here.
func (p *place) mode(policy *config.Policy) config.Mode {
	if policy.OwnMode {
		return policy.Mode
	}
	for _, m := range p.modes {
		if m != "" {
			return m
		}
	}
	return config.Enforce
}

// rulesOf are the rules of a policy here.
func (p *place) rulesOf(policy *config.Policy) []limits.Rule {
	for _, m := range p.rules {
		if r, ok := m[policy.Name]; ok {
			return r
		}
	}
	return policy.Rules
}

func (g *Gateway) realm(cfg *config.Config, at place) (*proxy.Realm, error) {
	out := &proxy.Realm{Name: at.realm, App: at.app, Allowlist: at.allowlist}
	for i := range cfg.Policies {
		p := &cfg.Policies[i]
		if !p.Enabled {
			out.Policies = append(out.Policies, nil)
			continue
		}
		compiled, err := g.policy(p, &at)
		if err != nil {
			return nil, fmt.Errorf("preparing policy %s: %w", p.Name, err)
		}
		out.Policies = append(out.Policies, compiled)
	}
	return out, nil
}

func assign(byHost map[string]*proxy.Realm, hosts []string, realm *proxy.Realm) {
	for _, h := range hosts {
		if name, ok := route.CanonicalHost(h); ok {
			byHost[name] = realm
		}
	}
}

// clients compiles who may prove to be a confidential client; nil if nobody may.
func (g *Gateway) clients(cfg *config.Config) (*clients.Registry, error) {
	if len(cfg.Clients) == 0 {
		return nil, nil
	}
	var list []clients.Client
	for i := range cfg.Clients {
		c := &cfg.Clients[i]
		hash, err := clients.ParseHash(c.SecretHash.Reveal())
		if err != nil {
			return nil, fmt.Errorf("preparing client %s: secret_hash %w", c.ID, err)
		}
		realm := c.Realm
		if realm == "" {
			realm = defaultRealm
		}
		entry := clients.Client{ID: c.ID, Realm: realm, App: appOf(cfg, c), Secret: hash}
		for _, capability := range c.Capabilities {
			entry.Forwarder = entry.Forwarder || capability == "trusted-forwarder"
		}
		list = append(list, entry)
	}
	return clients.New(list)
}

// appOf is the app of a client: the one that it names, or one of its realm that names it.
func appOf(cfg *config.Config, c *config.Client) string {
	if c.App != "" {
		return c.App
	}
	for i := range cfg.Realms {
		if cfg.Realms[i].Name != c.Realm {
			continue
		}
		for _, app := range cfg.Realms[i].Apps {
			for _, id := range app.Clients {
				if id == c.ID {
					return app.Name
				}
			}
		}
	}
	return ""
}
