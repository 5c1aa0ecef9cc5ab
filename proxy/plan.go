package proxy

import (
	"fmt"
	"net/http"
	"time"

	"authgate/clientip"
	"authgate/internal/clients"
	"authgate/internal/outcome"
	"authgate/internal/redact"
	"authgate/internal/route"
	"authgate/internal/selector"
	"authgate/internal/unlock"
	"authgate/limits"
)

// Plan is everything that a request is handled by, compiled once for each configuration and never changed: nothing on
// a request's way asks for the configuration.
type Plan struct {
	resolver   *clientip.Resolver
	forwarding *Forwarding
	allow      clientip.PrefixSet
	deny       clientip.PrefixSet
	upstream   *Upstream
	names      redact.Names
	bodyTime   time.Duration

	overrides *selector.Spec // where a body may override the method
	table     *route.Table
	devices   *Devices          // nil: no policy asks for one, or trusts one
	unlock    *unlock.Service   // nil: owners are told nothing
	clients   *clients.Registry // nil: there are none
	strangers Strangers
	knownKey  []byte  // of the digests of known targets
	learns    bool    // somebody asks which targets are known
	forwarder string  // canonical name of the header of trusted forwarders; "" is none
	routes    []Route // those of the table
	realms    map[string]*Realm
	rest      *Realm // of every host that no realm names
}

// PlanConfig is what a plan is compiled from.
type PlanConfig struct {
	Resolver    *clientip.Resolver
	Forwarding  *Forwarding
	Allow, Deny clientip.PrefixSet
	Upstream    *Upstream
	Names       redact.Names
	BodyTimeout time.Duration // for the body of a request that a policy reads

	// Routes say which policies cover a request; Route.Policy is an index into each realm's Policies.
	Routes []Route
	// Realms by canonical host name, and the one for every other host; nil: those are refused.
	Realms map[string]*Realm
	Rest   *Realm

	// Devices are the browsers that have completed a login; nil: no policy asks for one, or trusts one. Unlock tells owners of
	// targets whose untrusted bucket filled; nil: nobody is told.
	Devices *Devices
	Unlock  *unlock.Service

	// Clients are the confidential clients; nil: none. Forwarder is the header in which those that may do so state an
	// end user's address.
	Clients   *clients.Registry
	Forwarder string

	// Strangers tells known targets from others, for rules about sign-ups; KnownKey is that of their digests. Learns: proofs
	// that a target exists are worth remembering.
	Strangers Strangers
	KnownKey  []byte
	Learns    bool
}

// Route is one entry of a policy's match.
type Route struct {
	route.Route
	Body []*selector.Predicate // what only the body can tell; all must hold
}

// Realm is one tenant, or an app inside one, with the policies as they hold there, in file order.
type Realm struct {
	Name      string
	App       string // "" where it is the tenant itself
	Allowlist clientip.PrefixSet
	Policies  []*Policy         // nil: not enabled
	Apps      map[string]*Realm // of a tenant, by name
}

// appValue is the value of the app dimension: the app, else the tenant.
func (r *Realm) appValue() string {
	if r.App == "" {
		return "realm"
	}
	return "app|" + r.App
}

// Policy is a named set of rules as it holds in one realm.
type Policy struct {
	Name        string
	Cells       []Cell // in the order of classes and of dimensions [L10]
	Target      *Identity
	Client      *Identity
	LogOnly     bool
	Outage      limits.Outage
	PendingWait time.Duration
	ChargeAll   bool  // an ambiguous request charges every candidate instead of being refused
	MaxBody     int64 // bytes

	Outcome *outcome.Classifier       // nil: answers are not looked at
	Views   map[string]*selector.Spec // what Outcome asks about requests; see Views

	Secret       *selector.Spec // digests of the secret; nil: the rule about the same wrong password is off
	RepeatScope  limits.Scope   // of the memory of wrong secrets
	RepeatWindow time.Duration

	Pending    *selector.Spec // digests of the session or flow of a two-step login; nil: none is remembered
	PendingTTL time.Duration
	// PendingFirst: the policy is that of the first step, after which a second one may be due.
	PendingFirst bool

	Proves bool // a success shows that the target exists

	LoginPage     string         // where people sign in
	TwoPools      bool           // the failures of trusted devices are counted apart [D2]
	TrustsDevice  bool           // a success completes a login [D1]
	FromPending   bool           // whose it is, if the request does not say: the one of the first step
	SignedIn      *selector.Spec // the same: the one whom the answer names; nil: it does not
	InspectBytes  int            // most that is read of an answer for that
	ClearTarget   bool           // a success clears the failures of the one who signed in [D7]
	RevokeDevices bool           // and ends the trust of all devices of that one

	RateLimitHeaders bool
	CORSOrigins      []string
}

// Cell is one rule of a policy in a realm, with the part of its keys that is the same for every request.
type Cell struct {
	Rule  *limits.Rule
	Scope limits.Scope

	AllDevices bool // the rule, of the dimension device, counts those of a user together
}

// Identity is where a target or a client is read, and what it means that there is none.
type Identity struct {
	Spec      *selector.Spec
	OnMissing Missing
}

// Missing is what a request that names nobody means [I5].
type Missing uint8

// The ways.
const (
	Share  Missing = iota // such requests of one source share a bucket
	Reject                // 400
	Skip                  // the dimension does not apply
)

// NewPlan compiles a plan.
func NewPlan(cfg PlanConfig) (*Plan, error) {
	p := &Plan{
		resolver: cfg.Resolver, forwarding: cfg.Forwarding, allow: cfg.Allow, deny: cfg.Deny, upstream: cfg.Upstream,
		names: cfg.Names, bodyTime: cfg.BodyTimeout, routes: cfg.Routes, realms: cfg.Realms, rest: cfg.Rest,
		devices: cfg.Devices, unlock: cfg.Unlock, clients: cfg.Clients, strangers: cfg.Strangers, knownKey: cfg.KnownKey, learns: cfg.Learns,
	}
	plain := make([]route.Route, len(cfg.Routes))
	for i, r := range cfg.Routes {
		plain[i] = r.Route
	}
	p.forwarder = http.CanonicalHeaderKey(cfg.Forwarder)
	var err error
	if p.overrides, err = compileOverrides(); err != nil {
		return nil, fmt.Errorf("compiling the plan: %w", err)
	}
	if p.table, err = route.Compile(plain); err != nil {
		return nil, fmt.Errorf("compiling the plan: %w", err)
	}
	return p, nil
}

// compileOverrides compiles where frameworks look for a method in a body.
func compileOverrides() (*selector.Spec, error) {
	var from []selector.Selector
	for _, text := range []string{"form:" + route.MethodField, "json:/" + route.MethodField, "form:" + route.MethodHeaderField} {
		s, err := selector.Parse(text)
		if err != nil {
			return nil, err
		}
		from = append(from, s)
	}
	return selector.Compile(selector.Config{From: from})
}

// realmOf is the realm that a Host belongs to; nil if it belongs to none, which is refused.
func (p *Plan) realmOf(host string) *Realm {
	if len(p.realms) == 0 {
		return p.rest
	}
	name, ok := route.CanonicalHost(host)
	if !ok {
		return nil // a backend may take it for the host of any realm
	}
	if r := p.realms[name]; r != nil {
		return r
	}
	return p.rest
}

// needsBody reports whether the policy reads the body of a request.
func (p *Policy) needsBody() bool {
	return p.Secret.NeedsBody() || p.Pending.NeedsBody() || (p.Target != nil && p.Target.Spec.NeedsBody()) || (p.Client != nil && p.Client.Spec.NeedsBody())
}
