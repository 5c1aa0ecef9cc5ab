package config

import (
	"time"

	"authgate/clientip"
	"authgate/internal/outcome"
	"authgate/internal/route"
	"authgate/internal/selector"
	"authgate/limits"
)

// Policy is a set of routes with the rules that guard them. What it inherits from the store or the mode of the whole is
// filled in.
type Policy struct {
	Name    string // 1..64 of [a-z0-9-]
	Preset  string // the preset that defines it; empty: the file
	Enabled bool
	Global  bool    // its buckets are shared by all realms
	Match   []Match // any of these; at least one

	Target      Target
	Client      ClientID
	Secret      []selector.Selector // for the rule about the same wrong password [D6]; empty: off, as without failure rules
	Pending     Pending
	OnAmbiguous OnAmbiguous
	MaxBody     int // bytes that are read for the selectors, beyond: 413

	// Rules of all classes: requests, failures, factors; in tie order of the dimensions; then as listed. Each is valid.
	Rules []limits.Rule
	// Origins says where each of Rules comes from; it is as long.
	Origins []Origin

	Outcome      outcome.Config
	Proves       bool // a success shows that the target exists [M6]
	TrustsDevice bool // a success completes a login [D1]
	Identity     IdentityFrom
	OnSuccess    OnSuccess
	BackendLock  BackendLock // the backend's own lock, as far as it is known

	Mode    Mode // the policy's own, else the global one
	OwnMode bool // Mode is the policy's own, so that neither app nor realm changes it [M2]

	OnOutage         limits.Outage
	PendingWait      time.Duration // longest stay in the waiting room [L8]; 0: none
	Uniform          Answer
	UniformTemplate  bool // Uniform is the preset's, and holds until an answer was learned
	Silent           Answer
	RateLimitHeaders bool     // send RateLimit and RateLimit-Policy [R1]
	CORSOrigins      []string // scheme://host[:port], or *, that may read a refusal
}

// Match is one kind of request that a policy covers: the route, and what the body says. A value of `*` asks only that
// the name is present.
type Match struct {
	Route route.Match
	Form  map[string]string // by name of the field
	JSON  map[string]string // by JSON pointer
}

// Target says whom a request is about.
type Target struct {
	From      []selector.Selector // empty: nobody
	Normalize selector.Normalizer
	OnMissing OnMissing
}

// ClientID says which client sends a request.
type ClientID struct {
	From              []selector.Selector
	AuthenticatedOnly bool // a client that does not prove who it is is none
}

// Pending says where a two-step login is remembered between its steps [V5].
type Pending struct {
	Key selector.Selector // its Kind is 0: nowhere
	TTL time.Duration
}

// IdentityFrom says who signed in, where the request does not [D1] [D7].
type IdentityFrom struct {
	Pending  bool                // whoever gave the right password in the first step
	Response []selector.Selector // in the answer
}

// Any reports whether anything says who signed in.
func (i *IdentityFrom) Any() bool { return i.Pending || len(i.Response) > 0 }

// OnSuccess is what else a success does, to the one who signed in [D7].
type OnSuccess struct {
	ClearTarget   bool // the failures of the target, in all policies of the realm, are forgotten
	RevokeDevices bool // no device is trusted for the user any more
}

// BackendLock is the lock of an account by the backend itself. The zero value: none that is known.
type BackendLock struct {
	Limit  int // failures that lock
	Window time.Duration
}

// OnMissing is what becomes of a request without a target [I5].
type OnMissing string

// The ways with a missing target.
const (
	MissingShare  OnMissing = "share"  // the bucket of "missing, from this source"
	MissingReject OnMissing = "reject" // 400
	MissingSkip   OnMissing = "skip"   // the rules by target do not apply
)

// OnAmbiguous is what becomes of a request with two targets [I3].
type OnAmbiguous string

// The ways with an ambiguous target.
const (
	AmbiguousReject    OnAmbiguous = "reject"     // 400
	AmbiguousChargeAll OnAmbiguous = "charge_all" // every candidate is a target
)

// Realm is a tenant, by the request's Host.
type Realm struct {
	Name        string
	Hosts       []string
	Mode        Mode // empty: inherited
	LegacyPerIP []LegacyRule
	Scope
	Apps []App
}

// App is an application inside a realm, by Host or by an authenticated client.
type App struct {
	Name    string
	Hosts   []string
	Clients []string
	Mode    Mode // empty: inherited
	Scope
}

// Scope is what a realm or an app changes about the policies: single cells, the rest is inherited [M2].
type Scope struct {
	Allowlist *clientip.PrefixSet      // nil: inherited
	Rules     map[string][]limits.Rule // all rules of the policies of which it changes any
}

// LegacyRule is a rule by address from before there were dimensions; it limits nothing [M3].
type LegacyRule struct {
	Policy string
	Limit  int
	Window time.Duration
}
