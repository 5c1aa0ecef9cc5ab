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
	realm, app  string
	hosts       []string
	modes       []setMode // innermost first; the first that is set holds
	allowlist   clientip.PrefixSet
	allowlistAt string                     // path of the one that holds
	rules       []map[string][]limits.Rule // innermost first; the first that has the policy holds
}

// setMode is a mode with the path at which the file states it.
type setMode struct {
	mode config.Mode
	path string
}

// tenant is a realm with its apps.
type tenant struct {
	place
	inFile *config.Realm // nil: the realm of all hosts that no other names, which the file need not mention
	apps   []place
}

// tenants are the realms in file order, and then the default one if the file does not have it, unless hosts that no realm
// names are refused.
func tenants(cfg *config.Config) []tenant {
	whole := place{realm: defaultRealm, modes: []setMode{{cfg.Mode, "mode"}}, allowlist: cfg.Allowlist, allowlistAt: "allowlist"}
	var out []tenant
	named := false
	for i := range cfg.Realms {
		r := &cfg.Realms[i]
		path := "realms." + r.Name
		t := tenant{place: whole.inside(r.Name, "", path, r.Mode, &r.Scope), inFile: r}
		t.hosts = r.Hosts
		if len(r.LegacyPerIP) > 0 && r.Mode == "" {
			t.modes = append([]setMode{{config.LogOnly, path + ".legacy_per_ip"}}, t.modes...) // until somebody chooses [M3]
		}
		for j := range r.Apps {
			a := &r.Apps[j]
			app := t.inside(r.Name, a.Name, path+".apps."+a.Name, a.Mode, &a.Scope)
			app.hosts = a.Hosts
			t.apps = append(t.apps, app)
		}
		out = append(out, t)
		named = named || r.Name == defaultRealm
	}
	if !named && !cfg.RejectUnknownHost {
		out = append(out, tenant{place: whole})
	}
	return out
}

// realms compiles the tenants, by host, and the one of every other host, nil if those are refused.
func (g *Gateway) realms(cfg *config.Config) (byHost map[string]*proxy.Realm, rest *proxy.Realm, err error) {
	byHost = make(map[string]*proxy.Realm)
	for _, t := range tenants(cfg) {
		realm, err := g.realm(cfg, t.place)
		if err != nil {
			return nil, nil, err
		}
		realm.Apps = make(map[string]*proxy.Realm)
		for _, at := range t.apps {
			app, err := g.realm(cfg, at)
			if err != nil {
				return nil, nil, err
			}
			realm.Apps[at.app] = app
			assign(byHost, at.hosts, app)
		}
		assign(byHost, t.hosts, realm)
		if t.realm == defaultRealm {
			rest = realm
		}
	}
	if cfg.RejectUnknownHost {
		rest = nil
	}
	return byHost, rest, nil
}

// inside is a place within another; path is where the file has it.
func (p *place) inside(realm, app, path string, mode config.Mode, s *config.Scope) place {
	in := place{
		realm: realm, app: app, allowlist: p.allowlist, allowlistAt: p.allowlistAt,
		modes: append([]setMode{{mode, path + ".mode"}}, p.modes...),
		rules: append([]map[string][]limits.Rule{s.Rules}, p.rules...),
	}
	if s.Allowlist != nil {
		in.allowlist, in.allowlistAt = *s.Allowlist, path+".allowlist"
	}
	return in
}

// mode is that of a policy here, and the path at which the file states it; for the policy nil that of the place.
func (p *place) mode(policy *config.Policy) (mode config.Mode, path string) {
	if policy != nil && policy.OwnMode {
		return policy.Mode, "policies." + policy.Name + ".mode"
	}
	for _, m := range p.modes {
		if m.mode != "" {
			return m.mode, m.path
		}
	}
	return config.Enforce, "mode"
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

// bucketsOf says in whose name the buckets of a rule are kept: the realm's, which its apps share, or everybody's where the
// policy is global. A rule that is of another kind here than there has buckets of its own: shared ones would start
// anew with each change of the kind [L12], and whoever asked in both places in turn would never meet the limit.
func (p *place) bucketsOf(policy *config.Policy, r *limits.Rule, realm string) string {
	outer := policy.Rules
	if !policy.Global {
		if p.app == "" {
			return realm
		}
		around := place{rules: p.rules[1:]}
		outer = around.rulesOf(policy)
	}
	for i := range outer {
		o := &outer[i]
		if o.Class == r.Class && o.Dimension == r.Dimension && o.Index == r.Index && o.Kind() != r.Kind() {
			return realm + "/" + p.realm + "/" + p.app
		}
	}
	return realm
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
