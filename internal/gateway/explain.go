package gateway

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authgate/internal/config"
	"authgate/internal/selector"
	"authgate/limits"
	"authgate/proxy"
)

// Explanation is how a configuration takes one request: whom it is from and about, and every bucket it is counted in. It is
// ready for JSON. Names and addresses stand in it in plain; the request's secrets do not.
type Explanation struct {
	Realm   string `json:"realm"` // "": the host is refused
	App     string `json:"app,omitempty"`
	RealmBy string `json:"realm_by"` // host, client (the app), default, or none

	Client ClientView `json:"client"`
	// ConfidentialClient is the id of the client that proved who it is.
	ConfidentialClient string `json:"confidential_client,omitempty"`

	Policies []ExplainedPolicy `json:"policies"` // in the order that decides ties
	Answer   *ExplainedAnswer  `json:"answer,omitempty"`
	Notes    []string          `json:"notes,omitempty"` // what only a running gateway can tell, and the like
}

// ClientView is who sent the request.
type ClientView struct {
	Address     string   `json:"address"` // "none" if there is none
	Reason      string   `json:"reason"`  // a client_reason of the log
	Degraded    bool     `json:"degraded,omitempty"`
	Peer        string   `json:"peer"`
	PeerTrusted bool     `json:"peer_trusted"`
	Hops        []string `json:"hops"`   // walked between peer and client, nearest the peer first; "unreadable" among them
	Header      string   `json:"header"` // the one that was walked
	// Stated is the user's address that a trusted forwarder states, by which buckets count then.
	Stated      string `json:"stated,omitempty"`
	Allowlisted bool   `json:"allowlisted"`
}

// ExplainedPolicy is a policy that covers the request.
type ExplainedPolicy struct {
	Name       string            `json:"name"`
	Route      string            `json:"route"` // path of the match
	Mode       string            `json:"mode"`
	ModeOrigin string            `json:"mode_origin"`
	Target     ExplainedTarget   `json:"target"`
	Client     string            `json:"client,omitempty"` // a claimed id begins with ~
	Buckets    []ExplainedBucket `json:"buckets"`
	Skipped    []SkippedRule     `json:"skipped,omitempty"`
}

// ExplainedTarget is whom the request is about.
type ExplainedTarget struct {
	State  string   `json:"state"` // named, missing, ambiguous, malformed or none
	Reason string   `json:"reason,omitempty"`
	Values []string `json:"values,omitempty"`
	// Pending: a running gateway may remember from the first step of a login whom this one is about.
	Pending bool `json:"pending,omitempty"`
}

// ExplainedBucket is one bucket, by its rule.
type ExplainedBucket struct {
	RuleView
	Mode  string `json:"mode"`
	Value string `json:"value"`
	Key   string `json:"key"`
	ID    string `json:"id,omitempty"` // what /meta/login-rate-limit knows it by; of failure buckets only
	Note  string `json:"note,omitempty"`
	Live  *Live  `json:"live,omitempty"`
}

// Live is the count of a failure bucket in a running gateway, for who asks one; Explain leaves it out.
type Live struct {
	Attempts  int64  `json:"attempts"`
	LockedFor *int64 `json:"locked_for_seconds"` // null: open
	Level     int64  `json:"lockout_level"`
}

// SkippedRule is a rule without a bucket for this request.
type SkippedRule struct {
	RuleView
	Why string `json:"why"`
}

// ExplainedAnswer is what the request is told before any rule is asked.
type ExplainedAnswer struct {
	Status int    `json:"status"`
	Error  string `json:"error"`
	Cause  string `json:"cause,omitempty"`
}

// Explain takes a request the way that a gateway of that configuration would, up to the decision. r is one as a server
// gets it, with RequestURI and RemoteAddr, and is used up. Nothing is asked but the configuration: no store, no hook, no
// backend.
func Explain(cfg *config.Config, r *http.Request) (*Explanation, error) {
	alone := *cfg
	alone.Store.Backend = "memory" // an empty one of this call
	alone.Store.MaxEntries, alone.Store.File = 0, ""
	alone.Signups.LookupURL = ""
	g, err := assemble(&alone, Options{Transport: noBackend{}}, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		g.handler.Close()
		_ = g.stores.Close()
	}()
	e := g.handler.Explain(r)
	x := explainer{cfg: cfg, e: &e}
	return x.explanation(), nil
}

// noBackend is the backend of requests that are only explained.
type noBackend struct{}

func (noBackend) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("there is no backend")
}

// explainer says where the parts of an explanation come from.
type explainer struct {
	cfg *config.Config
	e   *proxy.Explanation
	at  place
}

func (x *explainer) explanation() *Explanation {
	e := x.e
	x.at = placeOf(x.cfg, e.Realm, e.App)
	out := &Explanation{
		Realm: e.Realm, App: e.App, RealmBy: "default", Client: viewClient(e), ConfidentialClient: e.Proved,
		Policies: []ExplainedPolicy{},
	}
	switch {
	case e.ByClient:
		out.RealmBy = "client"
	case e.ByHost:
		out.RealmBy = "host"
	case e.Realm == "":
		out.RealmBy = "none"
	}
	for i := range e.Covers {
		out.Policies = append(out.Policies, x.policy(&e.Covers[i]))
	}
	if a := e.Early; a != nil {
		out.Answer = &ExplainedAnswer{Status: a.Status, Error: a.Code, Cause: a.Cause}
	}
	if x.cfg.Store.HashKey == "" && slices.ContainsFunc(e.Covers, x.namedByCookie) {
		out.Notes = append(out.Notes, "cookies stand in keys as digests; without store.hash_key a running gateway has others than these")
	}
	if e.Own {
		out.Notes = append(out.Notes, "a path under /.gateway/ is the gateway's own: no policy covers it, and the backend never sees it")
	}
	return out
}

// namedByCookie reports whether a policy finds its target in a cookie.
func (x *explainer) namedByCookie(c proxy.Covered) bool {
	return slices.ContainsFunc(x.find(c.Policy).Target.From, func(s selector.Selector) bool { return s.Kind() == selector.Cookie })
}

// placeOf is the place of an app in a realm.
func placeOf(cfg *config.Config, realm, app string) place {
	for _, t := range tenants(cfg) {
		if t.realm != realm {
			continue
		}
		for _, at := range t.apps {
			if at.app == app {
				return at
			}
		}
		return t.place
	}
	return place{realm: realm}
}

func viewClient(e *proxy.Explanation) ClientView {
	c := &e.Client
	v := ClientView{
		Address: addressText(c.Addr), Reason: c.Reason.String(), Degraded: c.Degraded, Peer: addressText(c.Peer), PeerTrusted: c.Trusted,
		Hops: []string{}, Header: e.Header, Allowlisted: e.Allowlisted,
	}
	for _, hop := range c.Hops {
		if hop.IsValid() {
			v.Hops = append(v.Hops, hop.String())
		} else {
			v.Hops = append(v.Hops, "unreadable")
		}
	}
	if e.Source.Addr != c.Addr {
		v.Stated = addressText(e.Source.Addr)
	}
	return v
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return limits.NoAddress
	}
	return a.String()
}

func (x *explainer) policy(c *proxy.Covered) ExplainedPolicy {
	out := ExplainedPolicy{
		Name: c.Policy, Route: c.Route, Client: c.Client, Buckets: []ExplainedBucket{},
		Target: ExplainedTarget{State: string(c.Target), Reason: c.Reason, Pending: c.Pending},
	}
	for _, value := range c.Targets {
		out.Target.Values = append(out.Target.Values, shownValue(value))
	}
	p := x.find(c.Policy)
	mode, path := x.at.mode(p)
	out.Mode, out.ModeOrigin = string(mode), x.cfg.Origin(path).String()
	for i := range x.e.Buckets {
		if b := &x.e.Buckets[i]; b.Rule.Policy == c.Policy {
			out.Buckets = append(out.Buckets, x.bucket(b))
		}
	}
	for _, s := range x.e.Skipped {
		if s.Rule.Policy == c.Policy {
			if s.AllDevices {
				s.Why += "; this is " + allDevicesNote
			}
			out.Skipped = append(out.Skipped, SkippedRule{RuleView: viewRule(x.cfg, &x.at, s.Rule), Why: s.Why})
		}
	}
	return out
}

func (x *explainer) bucket(b *proxy.Bucket) ExplainedBucket {
	out := ExplainedBucket{
		RuleView: viewRule(x.cfg, &x.at, b.Rule), Mode: string(config.Enforce), Value: shownValue(b.Value), Key: shownValue(b.Key),
	}
	if b.LogOnly {
		out.Mode = string(config.LogOnly)
	}
	if b.Rule.Kind() == limits.KindFailures {
		out.ID = base64.RawURLEncoding.EncodeToString([]byte(b.Key))
	}
	switch {
	case b.Strangers:
		out.Note = x.strangersNote()
	case b.AllDevices:
		out.Note = allDevicesNote + ", only if the browser is trusted for the target"
	case b.Trusted:
		out.Note = "counts only if the browser is trusted for the target"
	case b.Untrusted:
		out.Note = "counts only if the browser is not trusted for the target"
	}
	return out
}

// allDevicesNote says what no line of the file does.
const allDevicesNote = "what all devices of the user have together, five times what each has"

// find is the policy of that name.
func (x *explainer) find(policy string) *config.Policy {
	i := slices.IndexFunc(x.cfg.Policies, func(p config.Policy) bool { return p.Name == policy })
	return &x.cfg.Policies[i] // the plan was made of them
}

// strangersNote says on what a rule about sign-ups depends that is not known here [M6].
func (x *explainer) strangersNote() string {
	const only = "counts only if the target is not known to exist"
	switch s := &x.cfg.Signups; {
	case s.LookupURL != "":
		return only + ", which the hook says; it is not asked here"
	case s.LearnFor != nil:
		return fmt.Sprintf("%s; only reports until targets were imported, or the realm has learned for %s", only, shortDuration(*s.LearnFor))
	}
	return only + "; only reports until targets were imported"
}

// shortDuration writes whole hours without minutes and seconds.
func shortDuration(d time.Duration) string {
	if d < time.Minute {
		return d.String()
	}
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
}

// shownValue is a value as the admin side shows it: that of requests that name nobody has a NUL in front.
func shownValue(s string) string { return strings.Replace(s, "\x00missing", "(missing)", 1) }
