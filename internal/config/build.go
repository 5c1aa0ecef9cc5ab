package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"authgate/internal/mimic"
	"authgate/internal/outcome"
	"authgate/internal/route"
	"authgate/internal/selector"
	"authgate/limits"
)

// maxPolicies bounds what every request may have to be held against, and what metrics are labelled with.
const maxPolicies = 1000

// build checks the document and makes the values that the rest of the program takes. The result is only of use if
// nothing was reported.
func (b *builder) build() *Config {
	b.broken = map[string]bool{}
	for _, p := range b.problems {
		b.broken[p.Path] = true
	}
	doc := b.doc
	b.checkServer(&doc.Server)
	b.checkUpstream(&doc.Upstream)
	b.checkClientIP(&doc.ClientIP)
	b.checkStore(&doc.Store)
	b.checkAdmin(&doc.Admin)
	cfg := &Config{
		Server: doc.Server, Upstream: doc.Upstream, ClientIP: doc.ClientIP, Store: doc.Store,
		Mode: doc.Mode, Allowlist: doc.Allowlist, Presets: doc.Presets,
		Admin: doc.Admin, Log: doc.Log, Audit: doc.Audit,
		RejectUnknownHost: doc.UnknownHost == "reject",
		Clients:           doc.Clients, Forwarder: doc.Forwarder, Signups: doc.Signups,
		Device: doc.Device, Unlock: doc.Unlock, Telemetry: doc.Telemetry,
		origins: b.origins,
	}
	if n := len(doc.Policies.names); n > maxPolicies {
		b.errorf("policies", "holds %d policies; use at most %d", n, maxPolicies)
		return cfg
	}
	for name, node := range doc.Policies.all {
		cfg.Policies = append(cfg.Policies, b.policy(name, node))
	}
	if len(cfg.Policies) == 0 && !b.broken["policies"] {
		b.warnf("policies", "there is none, so nothing is limited; write one, or name a preset in presets")
	}
	for name, node := range doc.Realms.all {
		cfg.Realms = append(cfg.Realms, b.realm(name, node))
	}
	b.checkClients(doc.Clients)
	b.checkClaims(cfg.Realms)
	b.checkForwarder(&doc.Forwarder)
	b.checkSignups(&doc.Signups)
	b.checkDevice(&doc.Device, cfg.Policies)
	b.checkUnlock(&doc.Unlock, cfg.Policies)
	b.checkAudit(&doc.Audit)
	if endpoint := doc.Telemetry.OTLPEndpoint; endpoint != "" {
		b.checkHook("telemetry.otlp_endpoint", Secret(endpoint), "telemetry is set")
		if u, err := url.Parse(endpoint); err == nil && (u.User != nil || u.RawQuery != "" || u.Fragment != "") {
			b.wrong("telemetry.otlp_endpoint", "has more than an address; give the collector its key by the variable OTEL_EXPORTER_OTLP_HEADERS")
		}
	}
	return cfg
}

func (b *builder) policy(name string, node *policyNode) Policy {
	path := join("policies", name)
	p := Policy{
		Name: name, Preset: node.preset, Enabled: node.Enabled, Global: node.Scope == "global",
		OnAmbiguous: OnAmbiguous(node.OnAmbiguous), MaxBody: int(node.MaxBody),
		BackendLock: BackendLock(node.BackendLock),
		Mode:        b.doc.Mode, OwnMode: node.Mode != "",
		PendingWait: b.doc.Store.PendingWait,
		Uniform:     node.Uniform, Silent: node.Silent,
		RateLimitHeaders: node.RateLimitHeaders, CORSOrigins: node.CORSOrigins,
	}
	if p.OwnMode {
		p.Mode = node.Mode
	}
	if node.PendingWait != nil {
		p.PendingWait = *node.PendingWait
	}
	p.OnOutage = outage(node.OnOutage, b.doc.Store.OnOutage)
	p.UniformTemplate = b.origins[path+".uniform"].Preset != ""
	b.answer(path+".uniform", mimic.Failure, &node.Uniform)
	b.answer(path+".silent", mimic.Success, &node.Silent)
	b.protectPreset(node, path)
	p.Rules, p.Origins = b.rules(name, node.cells(path))
	b.match(&p, node, path)
	b.identities(&p, node, path)
	b.outcome(&p, node, path)
	b.completion(&p, node, path)
	b.checkOrigins(node, path)
	b.lint(&p, path)
	return p
}

// outage is the first word that is set.
func outage(words ...string) limits.Outage {
	for _, word := range words {
		switch word {
		case "allow":
			return limits.OutageAllow
		case "deny":
			return limits.OutageDeny
		case "local":
			return limits.OutageLocal
		}
	}
	return limits.OutageLocal
}

func (b *builder) match(p *Policy, node *policyNode, path string) {
	at := path + ".match"
	if len(node.Match) == 0 {
		b.wrong(at, "is missing; name a path, such as match: [{methods: [POST], path: /login}]%s", b.meantPreset(p.Name))
	}
	for i, m := range node.Match {
		at := fmt.Sprintf("%s[%d]", at, i)
		r := route.Match{Methods: m.Methods, Strict: m.Strict, Path: m.Path, Hosts: m.Hosts, Query: m.Query}
		if !b.broken[at] {
			b.routeProblems(at, r.Validate())
		}
		for _, pointer := range slices.Sorted(maps.Keys(m.JSON)) {
			if _, err := selector.Parse("json:" + pointer); err != nil {
				b.wrong(at+".json."+printable(pointer), "is no JSON pointer; write one such as /method")
			}
		}
		if _, empty := m.Form[""]; empty {
			b.wrong(at+".form", "has an empty name; write the name of a form field")
		}
		p.Match = append(p.Match, Match{Route: r, Form: m.Form, JSON: m.JSON})
	}
}

// routeProblems gives each fault of a route the position of its value.
func (b *builder) routeProblems(at string, err error) {
	for _, err := range split(err) {
		var fault *route.FieldError
		if !errors.As(err, &fault) {
			b.wrong(at, "%v", err)
			continue
		}
		if fault.Field == "path" && fault.Value == "" && b.broken[at+".path"] {
			continue
		}
		b.wrong(at+"."+fault.Field, "%s %s", quote(fault.Value), fault.Problem)
	}
}

// split takes apart what errors.Join has joined.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// meantPreset proposes the policy of a preset that a policy of nearly the same name was to change.
func (b *builder) meantPreset(name string) string {
	var known []string
	for other, node := range b.doc.Policies.all {
		if node.preset != "" {
			known = append(known, other)
		}
	}
	if best := nearest(name, known); best != "" {
		return "; or did you mean the policy " + best + "?"
	}
	return ""
}

func (b *builder) identities(p *Policy, node *policyNode, path string) {
	p.Target = Target{
		From:      b.selectors(path+".target.from", node.Target.From, node.Match),
		OnMissing: OnMissing(node.Target.OnMissing),
	}
	steps := append([]string{}, node.Target.Normalize...) // not nil: an empty list changes nothing
	var err error
	if p.Target.Normalize, err = selector.ParseNormalize(steps); err != nil {
		b.wrong(path+".target.normalize", "%v", err)
	}
	p.Client = ClientID{
		From:              b.selectors(path+".client.from", node.Client.From, node.Match),
		AuthenticatedOnly: node.Client.AuthenticatedOnly,
	}
	secret := b.selectors(path+".secret.from", node.Secret.From, node.Match)
	if hasFailureRules(p.Rules) {
		p.Secret = secret
	}
	p.Pending.TTL = node.Pending.TTL
	if key := node.Pending.Key; key != "" {
		if p.Pending.Key, err = selector.Parse(key); err != nil {
			b.wrong(path+".pending.key", "%v", err)
		}
	}
	b.checkIdentified(p, node, path)
}

// checkIdentified reports rules that count by something that the policy never finds.
func (b *builder) checkIdentified(p *Policy, node *policyNode, path string) {
	for _, s := range node.cells(path).slots() {
		if len(s.cell.rules) == 0 {
			continue
		}
		switch s.dim {
		case limits.Target, limits.TargetSource, limits.Device, limits.Signups:
			if len(node.Target.From) == 0 && node.Pending.Key == "" && !b.broken[path+".target.from"] {
				b.wrong(s.path, `counts by target, but target.from names none; write target: {from: ["json:/username"]}`)
			}
		case limits.Client:
			if len(node.Client.From) == 0 && !b.broken[path+".client.from"] {
				b.wrong(s.path, `counts by client, but client.from names none; write client: {from: [basic, "form:client_id"]}`)
			}
		}
	}
}

// selectors parses a list; each mistake has the position of its item.
func (b *builder) selectors(path string, texts []string, match []matchNode) []selector.Selector {
	var out []selector.Selector
	for i, text := range texts {
		at := b.itemPath(path, i)
		s, err := selector.Parse(text)
		switch {
		case err != nil:
			b.wrong(at, "%v", err)
			continue
		case slices.Contains(texts[:i], text):
			b.wrong(at, "%s is there twice; keep one", quote(text))
		case s.Kind() == selector.SetCookie:
			b.wrong(at, "%s names a cookie of the answer; use it in pending.key only", quote(text))
		case s.Kind() == selector.Path && !inSomePath(text, match):
			b.wrong(at, "%s is in no path of match; write it into one, as in /users/{name}", quote(text))
		}
		out = append(out, s)
	}
	return out
}

func inSomePath(text string, match []matchNode) bool {
	segment := strings.TrimPrefix(text, "path:")
	return slices.ContainsFunc(match, func(m matchNode) bool {
		return slices.Contains(strings.Split(m.Path, "/"), segment)
	})
}

func hasFailureRules(rules []limits.Rule) bool {
	return slices.ContainsFunc(rules, func(r limits.Rule) bool { return r.Class == limits.Failures })
}

// countsVerdicts reports whether a rule waits for what the backend says.
func countsVerdicts(rules []limits.Rule) bool {
	return slices.ContainsFunc(rules, func(r limits.Rule) bool { return r.Class != limits.Requests })
}

func (b *builder) outcome(p *Policy, node *policyNode, path string) {
	p.Proves = hasFailureRules(p.Rules)
	if node.Proves != nil {
		p.Proves = *node.Proves
	}
	p.TrustsDevice = slices.ContainsFunc(p.Rules, func(r limits.Rule) bool { return r.Dimension == limits.Device })
	if node.TrustsDevice != nil {
		p.TrustsDevice = *node.TrustsDevice
	}
	unknown, err := outcome.ParseVerdict(node.UnknownAs)
	if err != nil {
		b.wrong(path+".unknown_as", "%v", err)
	}
	p.Outcome = outcome.Config{
		Rules: node.Outcome, UnknownAs: unknown, InspectBytes: int(node.InspectBytes),
		Required: countsVerdicts(p.Rules) || p.Proves || p.TrustsDevice, PinHeaders: node.PinHeaders,
	}
	_, problems := outcome.Compile(p.Outcome)
	for _, problem := range problems {
		if at := b.outcomePath(path, problem); !b.brokenBelow(at) {
			b.wrong(at, "%s", problem.Message)
		}
	}
	if len(problems) == 0 {
		for _, problem := range outcome.Lint(p.Outcome) {
			b.warnf(b.outcomePath(path, problem), "%s", problem.Message)
		}
	}
}

func (b *builder) outcomePath(path string, p outcome.Problem) string {
	if p.Rule >= 0 {
		path = fmt.Sprintf("%s.outcome[%d]", path, p.Rule)
	}
	return strings.TrimSuffix(join(path, p.Field), ".")
}

// brokenBelow reports whether the value at the path, or anything inside, could not be decoded.
func (b *builder) brokenBelow(path string) bool {
	for p := range b.broken {
		if rest, ok := strings.CutPrefix(p, path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

func (b *builder) checkOrigins(node *policyNode, path string) {
	for i, origin := range node.CORSOrigins {
		if u, err := url.Parse(origin); origin != "*" && (err != nil || u.Host == "" || u.Scheme+"://"+strings.ToLower(u.Host) != origin) {
			b.wrong(b.itemPath(path+".cors_origins", i), "%s is no origin; write it as browsers do, such as https://app.example.org", quote(origin))
		}
	}
}
