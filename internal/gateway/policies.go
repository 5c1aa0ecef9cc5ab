package gateway

import (
	"authgate/internal/config"
	"authgate/internal/mimic"
	"authgate/limits"
)

// policiesView is the answer of /meta/policies: every policy, and what each realm and app makes of it [A3].
type policiesView struct {
	Policies    []policyView `json:"policies"`
	Realms      []realmView  `json:"realms"`
	UnknownHost string       `json:"unknown_host"` // default: a host that no realm names belongs to the realm default; or reject

	// Looks say what refusals show that must look like the backend's own answers, and why one does not yet [R2].
	Looks []lookView `json:"looks"`
}

// lookView is what one kind of refusal of a policy shows.
type lookView struct {
	Policy      string   `json:"policy"`
	Form        string   `json:"form"` // uniform or silent
	Realm       string   `json:"realm,omitempty"`
	Method      string   `json:"method,omitempty"`
	Kind        string   `json:"kind,omitempty"`
	Shows       string   `json:"shows"` // plain, configured or learned
	Reason      string   `json:"reason,omitempty"`
	Differences []string `json:"differences,omitempty"`
}

func viewLooks(book *mimic.Book) []lookView {
	out := []lookView{}
	for _, st := range book.Status() {
		out = append(out, lookView{
			Policy: st.Policy, Form: st.Form.String(), Realm: st.Realm, Method: st.Method, Kind: st.Kind,
			Shows: string(st.Shows), Reason: string(st.Reason), Differences: st.Differences,
		})
	}
	return out
}

// policyView is a policy as it is without realms and apps.
type policyView struct {
	Name    string      `json:"name"`
	Enabled bool        `json:"enabled"`
	Scope   string      `json:"scope"`
	Mode    string      `json:"mode"`
	Match   []matchView `json:"match"`
	Rules   []RuleView  `json:"rules"`
}

type matchView struct {
	Methods []string          `json:"methods,omitempty"` // none: all
	Path    string            `json:"path"`
	Strict  bool              `json:"strict,omitempty"`
	Hosts   []string          `json:"hosts,omitempty"`
	Query   map[string]string `json:"query,omitempty"`
	Form    map[string]string `json:"form,omitempty"`
	JSON    map[string]string `json:"json,omitempty"`
}

// RuleView is a rule as the admin side shows it. It is ready for JSON.
type RuleView struct {
	Class     string       `json:"class"`
	Dimension string       `json:"dimension"`
	Limit     int          `json:"limit"`
	Window    float64      `json:"window_seconds"`
	Burst     int          `json:"burst,omitempty"`
	Lockout   *LockoutView `json:"lockout,omitempty"`
	Signal    bool         `json:"signal,omitempty"`
	Refuse    string       `json:"refuse,omitempty"` // "" for a signal
	PrefixV4  int          `json:"prefix_v4,omitempty"`
	PrefixV6  int          `json:"prefix_v6,omitempty"`
	Path      string       `json:"path"`   // where it stands in a configuration
	Origin    string       `json:"origin"` // default, a preset, or a place in the file
}

// LockoutView is the lockout of a rule.
type LockoutView struct {
	Base float64 `json:"base_seconds"`
	Max  float64 `json:"max_seconds"`
}

// realmView is a realm, or an app of one, as it is in force.
type realmView struct {
	Name            string           `json:"name"`
	Hosts           []string         `json:"hosts"`             // none in the realm default: every host that no other realm names
	Clients         []string         `json:"clients,omitempty"` // of an app
	Mode            string           `json:"mode"`
	ModeOrigin      string           `json:"mode_origin"`
	Allowlist       []string         `json:"allowlist"`
	AllowlistOrigin string           `json:"allowlist_origin"`
	Policies        []policyHereView `json:"policies"`
	Legacy          []legacyView     `json:"legacy_per_ip,omitempty"`
	Warning         string           `json:"warning,omitempty"`
	Apps            []realmView      `json:"apps,omitempty"`
}

// policyHereView is a policy as it is in force in a realm or an app.
type policyHereView struct {
	Name       string     `json:"name"`
	Mode       string     `json:"mode"`
	ModeOrigin string     `json:"mode_origin"`
	Rules      []RuleView `json:"rules,omitempty"` // those that are not the policy's own
	Off        []offView  `json:"off,omitempty"`
}

// offView is a dimension of a policy that a realm or an app has turned off.
type offView struct {
	Class     string `json:"class"`
	Dimension string `json:"dimension"`
	Path      string `json:"path"`
	Origin    string `json:"origin"`
}

// legacyView is a limit by address from before there were dimensions, which limits nothing [M3].
type legacyView struct {
	Policy string  `json:"policy"`
	Limit  int     `json:"limit"`
	Window float64 `json:"window_seconds"`
	Origin string  `json:"origin"`
}

// legacyWarning is what a realm with such limits is shown with.
const legacyWarning = "legacy_per_ip limits nothing; delete it, and set a mode: without one the realm runs log-only"

// Policies are the effective rules, and where each comes from.
func (s *state) Policies() any {
	v := policiesOf(s.g.cfg.Load())
	v.Looks = viewLooks(s.g.looks.Book)
	return v
}

func policiesOf(cfg *config.Config) policiesView {
	out := policiesView{Policies: make([]policyView, 0, len(cfg.Policies)), UnknownHost: "default"}
	if cfg.RejectUnknownHost {
		out.UnknownHost = "reject"
	}
	for i := range cfg.Policies {
		out.Policies = append(out.Policies, viewPolicy(cfg, &cfg.Policies[i]))
	}
	out.Realms = []realmView{}
	for _, t := range tenants(cfg) {
		out.Realms = append(out.Realms, viewTenant(cfg, &t))
	}
	return out
}

func viewPolicy(cfg *config.Config, p *config.Policy) policyView {
	v := policyView{Name: p.Name, Enabled: p.Enabled, Scope: "realm", Mode: string(p.Mode), Rules: []RuleView{}}
	if p.Global {
		v.Scope = "global"
	}
	for _, m := range p.Match {
		v.Match = append(v.Match, matchView{
			Methods: m.Route.Methods, Path: m.Route.Path, Strict: m.Route.Strict, Hosts: m.Route.Hosts,
			Query: m.Route.Query, Form: m.Form, JSON: m.JSON,
		})
	}
	for i := range p.Rules {
		v.Rules = append(v.Rules, viewRule(cfg, &place{}, &p.Rules[i]))
	}
	return v
}

func viewTenant(cfg *config.Config, t *tenant) realmView {
	v := viewPlace(cfg, &t.place, t.realm)
	if t.inFile == nil {
		return v
	}
	for _, l := range t.inFile.LegacyPerIP {
		v.Legacy = append(v.Legacy, legacyView{
			Policy: l.Policy, Limit: l.Limit, Window: l.Window.Seconds(),
			Origin: cfg.Origin("realms." + t.realm + ".legacy_per_ip." + l.Policy).String(),
		})
		v.Warning = legacyWarning
	}
	for i := range t.apps {
		app := viewPlace(cfg, &t.apps[i], t.apps[i].app)
		app.Clients = t.inFile.Apps[i].Clients
		v.Apps = append(v.Apps, app)
	}
	return v
}

func viewPlace(cfg *config.Config, at *place, name string) realmView {
	mode, path := at.mode(nil)
	v := realmView{
		Name: name, Hosts: append([]string{}, at.hosts...), Mode: string(mode), ModeOrigin: cfg.Origin(path).String(),
		Allowlist: append([]string{}, at.allowlist.Entries()...), AllowlistOrigin: cfg.Origin(at.allowlistAt).String(),
		Policies: []policyHereView{},
	}
	for i := range cfg.Policies {
		p := &cfg.Policies[i]
		if p.Enabled {
			v.Policies = append(v.Policies, viewHere(cfg, at, p))
		}
	}
	return v
}

// viewHere shows what of a policy is different in a place.
func viewHere(cfg *config.Config, at *place, p *config.Policy) policyHereView {
	mode, path := at.mode(p)
	v := policyHereView{Name: p.Name, Mode: string(mode), ModeOrigin: cfg.Origin(path).String()}
	type cell struct {
		class limits.Class
		dim   limits.Dimension
	}
	here := map[cell]bool{}
	rules := at.rulesOf(p)
	for i := range rules {
		r := &rules[i]
		here[cell{r.Class, r.Dimension}] = true
		if rule := viewRule(cfg, at, r); rule.Path != viewRule(cfg, &place{}, r).Path {
			v.Rules = append(v.Rules, rule)
		}
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if here[cell{r.Class, r.Dimension}] || r.Index > 0 {
			continue
		}
		path, origin := cfg.RuleOrigin(at.realm, at.app, r)
		v.Off = append(v.Off, offView{Class: r.Class.String(), Dimension: r.Dimension.String(), Path: path, Origin: origin.String()})
	}
	return v
}

// viewRule shows a rule as it holds in a place; the zero place stands for the policy itself.
func viewRule(cfg *config.Config, at *place, r *limits.Rule) RuleView {
	path, origin := cfg.RuleOrigin(at.realm, at.app, r)
	v := RuleView{
		Class: r.Class.String(), Dimension: r.Dimension.String(), Limit: r.Limit, Window: r.Window.Seconds(), Burst: r.Burst,
		Signal: r.Signal, Path: path, Origin: origin.String(),
	}
	if !r.Signal {
		v.Refuse = r.Refuse.String()
	}
	if r.Lockout != (limits.Lockout{}) {
		v.Lockout = &LockoutView{Base: r.Lockout.Base.Seconds(), Max: r.Lockout.Max.Seconds()}
	}
	switch r.Dimension {
	case limits.Source, limits.Subnet, limits.TargetSource, limits.Signups:
		v.PrefixV4, v.PrefixV6 = r.PrefixV4, r.PrefixV6
	}
	return v
}
