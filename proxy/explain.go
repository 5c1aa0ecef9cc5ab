package proxy

import (
	"errors"
	"net/http"

	"authgate/clientip"
	"authgate/internal/route"
	"authgate/internal/selector"
	"authgate/limits"
)

// Explanation is how a handler takes a request, up to the point where it would ask the limiter. Names and addresses stand
// in it as the request has them; secrets do not, but for what a policy was told to take for a name.
type Explanation struct {
	Client clientip.Result // who sent it
	Header string          // the header that the walk reads, in canonical form
	Source clientip.Result // whom its buckets by address are about: Client, but for what a trusted forwarder states

	Realm, App  string // both "" for a host that is refused
	ByHost      bool   // the Host names the realm or app; otherwise it is the one of every other host
	ByClient    bool   // the app is that of the client that proved who it is
	Proved      string // id of that client; "" is none
	Allowlisted bool   // the source is exempt from rules by address [L15]
	Own         bool   // the path is the gateway's own: no policy covers it, and the backend never sees it

	Covers  []Covered     // the policies that cover it, in file order
	Skipped []SkippedRule // their rules that do not apply, in the order of the rules
	Buckets []Bucket      // what it would be charged to, in the order of the attempt; none if there is an Early answer
	Early   *EarlyAnswer  // what the client would be told before anything is counted; nil: the buckets decide
}

// Covered is one policy on a request.
type Covered struct {
	Policy  string
	LogOnly bool   // it refuses nothing on this request
	Route   string // path of the match that covers it
	Target  State
	Reason  string   // why the target is not simply named, in a word of gateway_missing_key_total; "" otherwise
	Targets []string // normalised; of requests that name nobody the bucket that they share
	Pending bool     // it carries what a first step is remembered by: the one who was named there is a target as well
	Client  string   // as a value of the dimension: a claimed id has its mark; "" is none
}

// State is how far a request names its target.
type State string

// The states.
const (
	StateNamed     State = "named"     // exactly one, outright
	StateMissing   State = "missing"   // nobody
	StateAmbiguous State = "ambiguous" // backends might read different names
	StateMalformed State = "malformed" // what should be the name is none
	StateNone      State = "none"      // the policy asks for nobody
)

// Bucket is one charge of a request.
type Bucket struct {
	Rule    *limits.Rule
	Value   string // of the dimension
	Key     string // whole name in the store
	LogOnly bool
	// Strangers: it is charged only if the target is not known to exist, and refuses only once its realm has learned [M6].
	Strangers bool
	// Trusted: it is charged only if the browser is trusted for the target; Untrusted: only if it is not [D2].
	Trusted, Untrusted bool
	AllDevices         bool // the rule that comes with one about each device, for all of the user's together
}

// SkippedRule is a rule of a policy that covers the request, but without a bucket.
type SkippedRule struct {
	Rule       *limits.Rule
	AllDevices bool // as in a [Bucket]
	Why        string
}

// EarlyAnswer is what a client is told without any rule being asked.
type EarlyAnswer struct {
	Status int
	Code   string // the word in the answer
	Cause  string // what the log says besides, or ""
}

// Explain takes a request through the very steps of one that is served, but neither decides nor forwards. The request is used
// up. The handler's events and the memory of wrong client secrets see the request like any other, so a program that does
// not serve explains with a handler of its own.
func (h *Handler) Explain(r *http.Request) Explanation {
	x := h.begin(nowhere{}, r)
	defer func() { x.body.Release() }()
	host := x.realm
	e := Explanation{Header: x.resolver.Header(), Own: own(r)}
	if name, ok := route.CanonicalHost(r.Host); ok {
		e.ByHost = x.realms[name] != nil
	}
	err := x.resolveClient()
	x.source = x.client
	if err == nil && !e.Own {
		err = x.understand()
	}
	e.Client, e.Source, e.Realm, e.App = x.client, x.source, x.realm.Name, x.realm.App
	e.ByClient = host != nil && x.realm != host
	e.Allowlisted = x.realm.Allowlist.Allows(x.source)
	if x.proved != nil {
		e.Proved = x.proved.ID
	}
	for i := range x.covers {
		e.Covers = append(e.Covers, x.explainCover(&x.covers[i]))
	}
	if err != nil {
		e.Early = earlyAnswer(err)
		return e
	}
	x.explainRules(&e)
	return e
}

func (x *exchange) explainCover(c *cover) Covered {
	p := c.policy
	out := Covered{Policy: p.Name, LogOnly: x.quiet(p), Route: x.routes[c.hit.Route].Match.Path, Target: StateNone, Client: c.client}
	for i := range c.targets {
		out.Targets = append(out.Targets, c.targets[i].value)
	}
	x.in.Params = params(c.hit)
	if p.Target != nil {
		reading := x.reading(c)
		out.Reason = string(reading.Reason)
		switch reading.State {
		case selector.Named:
			out.Target = StateNamed
		case selector.Missing:
			out.Target = StateMissing
		case selector.Ambiguous:
			out.Target = StateAmbiguous
			if len(out.Targets) == 0 { // it is refused for that
				out.Targets = reading.Values
			}
		default:
			out.Target = StateMalformed
		}
	}
	out.Pending = (out.Target != StateNamed || !p.PendingFirst) && p.Pending.Read(&x.in).State == selector.Named
	return out
}

// explainRules adds the buckets, and the rules that have none.
func (x *exchange) explainRules(e *Explanation) {
	charged := make(map[*limits.Rule]bool)
	quiet := make(map[string]bool, len(x.covers))
	for i := range e.Covers {
		quiet[e.Covers[i].Policy] = e.Covers[i].LogOnly
	}
	for _, charge := range x.attempt().Charges {
		r := charge.Rule
		charged[r] = true
		parts, _ := limits.ParseKey(charge.Key) // every key is one
		e.Buckets = append(e.Buckets, Bucket{
			Rule: r, Value: parts.Value, Key: charge.Key, LogOnly: quiet[r.Policy], Strangers: r.Dimension == limits.Signups,
			Trusted: charge.If != 0, Untrusted: charge.Unless != 0 && r.Class == limits.Failures, AllDevices: x.coverOf(r.Policy).policy.countsAllDevices(r),
		})
	}
	for i := range x.covers {
		for _, cell := range x.covers[i].policy.Cells {
			if !charged[cell.Rule] {
				e.Skipped = append(e.Skipped, SkippedRule{Rule: cell.Rule, AllDevices: cell.AllDevices, Why: e.whySkipped(&e.Covers[i], cell.Rule)})
			}
		}
	}
}

func (e *Explanation) whySkipped(c *Covered, r *limits.Rule) string {
	byTarget := r.Dimension == limits.Target || r.Dimension == limits.TargetSource || r.Dimension == limits.Device
	switch {
	case e.Allowlisted && exempt(r):
		return "the source is on the allowlist"
	case byTarget && len(c.Targets) == 0 && c.Pending:
		return "only a running gateway knows whom the second step is about"
	case byTarget && len(c.Targets) == 0:
		return "the request names nobody"
	case r.Dimension == limits.Client:
		return "the request names no client"
	case r.Dimension == limits.Device:
		return "the browser brings no cookie of a trusted device"
	}
	return "it does not apply to this request"
}

func earlyAnswer(err error) *EarlyAnswer {
	var f failure
	if !errors.As(err, &f) {
		return &EarlyAnswer{Status: http.StatusInternalServerError, Code: "internal", Cause: err.Error()}
	}
	out := &EarlyAnswer{Status: f.status, Code: f.code}
	if f.cause != nil {
		out.Cause = f.cause.Error()
	}
	return out
}

// nowhere is where the answer to a request goes that is only explained.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
