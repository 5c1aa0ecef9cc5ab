package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"authgate/clientip"
	"authgate/internal/config"
	"authgate/internal/outcome"
	"authgate/internal/route"
	"authgate/internal/selector"
	"authgate/limits"
	"authgate/proxy"
)

// plan compiles a configuration into what requests are handled by.
func (g *Gateway) plan(cfg *config.Config) (*proxy.Plan, error) {
	resolver, warnings, err := clientip.New(cfg.ClientIP.Walk())
	if err != nil {
		return nil, fmt.Errorf("preparing client_ip: %w", err)
	}
	for _, w := range warnings {
		g.log.Warn("configuration", "path", "client_ip", "warning", w)
	}
	outbound, err := proxy.ParseOutbound(cfg.ClientIP.Outbound)
	if err != nil {
		return nil, fmt.Errorf("preparing client_ip.outbound: %w", err)
	}
	pc := proxy.PlanConfig{
		Resolver: resolver, Forwarding: proxy.NewForwarding(outbound, resolver.Header(),
			"X-Request-Id", cfg.Upstream.SecretHeader.Name, cfg.Forwarder.Header),
		Allow: cfg.ClientIP.Allow, Deny: cfg.ClientIP.Deny, Upstream: g.upstream, Names: g.names(cfg),
		BodyTimeout: cfg.Server.ReadBodyTimeout, Forwarder: cfg.Forwarder.Header,
	}
	if pc.Realms, pc.Rest, err = g.realms(cfg); err != nil {
		return nil, err
	}
	if pc.Clients, err = g.clients(cfg); err != nil {
		return nil, err
	}
	for i := range cfg.Policies {
		p := &cfg.Policies[i]
		if !p.Enabled {
			continue
		}
		routes, err := routesOf(p, i)
		if err != nil {
			return nil, fmt.Errorf("preparing policy %s: %w", p.Name, err)
		}
		pc.Routes = append(pc.Routes, routes...)
	}
	looks, err := looksOf(cfg)
	if err != nil {
		return nil, err
	}
	known, learns := g.newStrangers(cfg)
	pc.Strangers, pc.Learns, pc.KnownKey = known, learns, g.keys.known
	if pc.Devices, err = g.newDevices(cfg); err != nil {
		return nil, err
	}
	if pc.Unlock = g.unlock; pc.Devices == nil {
		pc.Unlock = nil
	}
	pc.Learns = pc.Learns || pc.Unlock != nil
	plan, err := proxy.NewPlan(pc)
	if err != nil {
		return nil, err
	}
	if learns {
		known.refresh(context.Background(), g.stores.limits)
		g.strangers.Store(known)
	}
	g.looks.Book.Configure(looks)
	return plan, nil
}

// routesOf compiles what a policy covers.
func routesOf(p *config.Policy, index int) ([]proxy.Route, error) {
	var out []proxy.Route
	for _, m := range p.Match {
		r := proxy.Route{Route: route.Route{Policy: index, Match: m.Route}}
		for _, part := range []struct {
			prefix string
			want   map[string]string
		}{{"form:", m.Form}, {"json:", m.JSON}} {
			for _, name := range slices.Sorted(maps.Keys(part.want)) {
				s, err := selector.Parse(part.prefix + name)
				if err != nil {
					return nil, err
				}
				predicate, err := selector.NewPredicate(s, part.want[name])
				if err != nil {
					return nil, err
				}
				r.Body = append(r.Body, predicate)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// policy compiles a policy for a place.
func (g *Gateway) policy(p *config.Policy, at *place) (*proxy.Policy, error) {
	mode, _ := at.mode(p)
	out := &proxy.Policy{
		Name: p.Name, LogOnly: mode == config.LogOnly, Outage: p.OnOutage, PendingWait: p.PendingWait,
		ChargeAll: p.OnAmbiguous == config.AmbiguousChargeAll, MaxBody: int64(p.MaxBody),
		RateLimitHeaders: p.RateLimitHeaders, CORSOrigins: p.CORSOrigins, Proves: p.Proves,
	}
	realm := at.realm
	if p.Global {
		realm = limits.GlobalRealm
	}
	rules := at.rulesOf(p)
	for i := range rules {
		out.Cells = append(out.Cells, proxy.Cell{Rule: &rules[i], Scope: limits.NewScope(&rules[i], at.bucketsOf(p, &rules[i], realm))})
		if rules[i].Dimension == limits.Device {
			out.TwoPools = true
			all := allDevices(&rules[i])
			out.Cells = append(out.Cells, proxy.Cell{Rule: all, Scope: limits.NewScope(all, at.bucketsOf(p, &rules[i], realm)), AllDevices: true})
		}
	}
	out.TrustsDevice, out.ClearTarget, out.RevokeDevices = p.TrustsDevice, p.OnSuccess.ClearTarget, p.OnSuccess.RevokeDevices
	var err error
	if out.Target, err = g.target(p); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	if out.Client, err = g.client(p); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	out.LoginPage = loginPage(p)
	out.FromPending, out.InspectBytes = p.Identity.Pending, p.Outcome.InspectBytes
	if len(p.Identity.Response) > 0 {
		out.SignedIn, err = selector.Compile(selector.Config{From: p.Identity.Response, Normalize: p.Target.Normalize})
		if err != nil {
			return nil, fmt.Errorf("identity_from: %w", err)
		}
	}
	if err := g.pending(out, p); err != nil {
		return nil, err
	}
	if err := g.watch(out, p, rules, realm); err != nil {
		return nil, err
	}
	return out, nil
}

// What the devices of one user may fail together, as a multiple of what each of them may [D2], and the place of that rule
// among those of its dimension, behind all that a file can list.
const (
	allDevicesFactor = 5
	allDevicesIndex  = 100
)

// allDevices is the rule about all devices of a user together that comes with one about each.
func allDevices(each *limits.Rule) *limits.Rule {
	all := *each
	all.Limit *= allDevicesFactor
	all.Index += allDevicesIndex
	return &all
}

// loginPage is where people sign in: the first path of a policy that reads a form, since pages usually send their form to where they
// are, else the root.
func loginPage(p *config.Policy) string {
	if !slices.ContainsFunc(p.Target.From, func(s selector.Selector) bool {
		return s.Kind() == selector.Form || s.Kind() == selector.Multipart
	}) {
		return "/"
	}
	for i := range p.Match {
		if path := p.Match[i].Route.Path; !strings.ContainsAny(path, "{*") {
			return path
		}
	}
	return "/"
}

func (g *Gateway) target(p *config.Policy) (*proxy.Identity, error) {
	if len(p.Target.From) == 0 && p.Pending.Key.Kind() == 0 {
		return nil, nil
	}
	spec, err := selector.Compile(selector.Config{From: p.Target.From, Normalize: p.Target.Normalize, DigestKey: g.keys.cookies})
	if err != nil {
		return nil, err
	}
	missing := map[config.OnMissing]proxy.Missing{
		config.MissingShare: proxy.Share, config.MissingReject: proxy.Reject, config.MissingSkip: proxy.Skip,
	}
	return &proxy.Identity{Spec: spec, OnMissing: missing[p.Target.OnMissing]}, nil
}

// client compiles where a client claims who it is; a policy that asks for proof takes no claim.
func (g *Gateway) client(p *config.Policy) (*proxy.Identity, error) {
	if len(p.Client.From) == 0 || p.Client.AuthenticatedOnly {
		return nil, nil
	}
	spec, err := selector.Compile(selector.Config{From: p.Client.From, Basic: selector.BasicClient, DigestKey: g.keys.cookies})
	if err != nil {
		return nil, err
	}
	return &proxy.Identity{Spec: spec, OnMissing: proxy.Skip}, nil
}

// pending compiles how a two-step login is remembered.
func (g *Gateway) pending(out *proxy.Policy, p *config.Policy) error {
	if p.Pending.Key.Kind() == 0 {
		return nil
	}
	spec, err := selector.Compile(selector.Config{From: []selector.Selector{p.Pending.Key}, Digest: true, DigestKey: g.keys.cookies})
	if err != nil {
		return fmt.Errorf("pending.key: %w", err)
	}
	out.Pending, out.PendingTTL = spec, p.Pending.TTL
	out.PendingFirst = slices.ContainsFunc(p.Outcome.Rules, func(r outcome.Rule) bool { return r.Is == outcome.Pending.String() })
	return nil
}

// watch compiles how answers are judged, and the memory of wrong passwords. A policy that has no failure or factor
// rules, and proves nothing, looks at no answer.
func (g *Gateway) watch(out *proxy.Policy, p *config.Policy, rules []limits.Rule, realm string) error {
	var window time.Duration
	judged := (p.Proves || out.Completes()) && len(p.Outcome.Rules) > 0 // a proof or a login is worth a look as well
	for i := range rules {
		r := &rules[i]
		if r.Class == limits.Requests {
			continue
		}
		judged = true
		if r.Class == limits.Failures && !r.Signal && (window == 0 || r.Dimension == limits.TargetSource) {
			window = r.Window
		}
	}
	if !judged {
		return nil
	}
	classifier, problems := outcome.Compile(p.Outcome)
	if len(problems) > 0 {
		var errs []error
		for _, problem := range problems {
			errs = append(errs, errors.New(problem.Message))
		}
		return fmt.Errorf("outcome: %w", errors.Join(errs...))
	}
	out.Outcome = classifier
	var err error
	if out.Views, err = proxy.Views(p.Outcome.Rules); err != nil {
		return fmt.Errorf("outcome: %w", err)
	}
	if len(p.Secret) == 0 || window == 0 {
		return nil
	}
	spec, err := selector.Compile(selector.Config{From: p.Secret, Basic: selector.BasicPassword, Digest: true, DigestKey: g.keys.secrets})
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	out.Secret, out.RepeatWindow, out.RepeatScope = spec, window, limits.RepeatScope(p.Name, realm)
	return nil
}

func digest(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.ToLower(n)
	}
	return out
}
