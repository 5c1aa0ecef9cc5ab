package proxy

import (
	"errors"
	"net/http"
	"time"

	"authgate/internal/route"
	"authgate/internal/selector"
	"authgate/limits"
)

// matchPolicies finds the policies that cover the request [I6]. Where only the body can tell, it is read.
func (x *exchange) matchPolicies() error {
	var room [4]route.Hit
	hits := x.table.Lookup(room[:0], route.Request{
		Method: x.r.Method, Target: x.r.RequestURI, Host: x.r.Host, Header: x.r.Header, Body: hasBody(x.r),
	})
	if len(hits) == 0 {
		return nil
	}
	x.lenient = x.h.mode.LogOnlyFor() > 0
	if err := x.readBody(hits); err != nil {
		return err
	}
	x.in = selector.Input{Header: x.r.Header, RawQuery: x.r.URL.RawQuery, Body: x.body}
	x.covers = x.only[:0]
	for _, hit := range hits {
		policy := x.realm.Policies[hit.Policy]
		if policy == nil || x.covered(policy) || !x.bodyMatches(hit) {
			continue
		}
		x.covers = append(x.covers, cover{x: x, policy: policy, hit: hit})
	}
	return nil
}

// covered reports whether an earlier route has brought the policy in already.
func (x *exchange) covered(p *Policy) bool {
	for i := range x.covers {
		if x.covers[i].policy == p {
			return true
		}
	}
	return false
}

// bodyMatches asks what only the body can tell: a method override in it, and the route's predicates. What cannot be
// told apart counts as a match.
func (x *exchange) bodyMatches(hit route.Hit) bool {
	if hit.IfMethod && !x.overridden(hit.Route) {
		return false
	}
	for _, p := range x.routes[hit.Route].Body {
		if !p.Match(&x.in) {
			return false
		}
	}
	return true
}

func (x *exchange) overridden(route int) bool {
	reading := x.overrides.Read(&x.in)
	if reading.State == selector.Malformed {
		return true
	}
	for _, method := range reading.Values {
		if x.table.MethodCounts(route, method) {
			return true
		}
	}
	return false
}

func hasBody(r *http.Request) bool { return r.ContentLength != 0 || len(r.TransferEncoding) > 0 }

// readBody buffers the body if one of the routes hit needs it, bounded by the largest bound among their policies [I2]. A
// body that cannot be read is refused, unless nobody but policies in log-only asked for it: then it goes on as it came.
func (x *exchange) readBody(hits []route.Hit) error {
	most, quiet := int64(-1), true
	for _, hit := range hits {
		p := x.realm.Policies[hit.Policy]
		if p != nil && (p.needsBody() || hit.IfMethod || len(x.routes[hit.Route].Body) > 0) {
			most, quiet = max(most, p.MaxBody), quiet && x.quiet(p)
		}
	}
	if most < 0 || !hasBody(x.r) {
		return nil
	}
	rc := http.NewResponseController(&x.w)
	if x.bodyTime > 0 {
		_ = rc.SetReadDeadline(time.Now().Add(x.bodyTime)) // a server without deadlines is one without slow clients
	}
	body, err := selector.ReadBody(x.r.Body, x.r.Header, x.r.ContentLength, most)
	x.body = body
	if x.bodyTime > 0 {
		_ = rc.SetReadDeadline(time.Time{})
	}
	switch {
	case body == nil:
		x.giveUpBody()
	case !errors.Is(err, selector.ErrTooLarge):
		x.rest = whole
	}
	if err == nil || (quiet && body != nil) {
		return nil
	}
	return x.bodyFailure(err)
}

// giveUpBody keeps the server from waiting for the rest of a body, which it would do before and after it has answered.
func (x *exchange) giveUpBody() {
	x.rest = unwanted
	_ = http.NewResponseController(&x.w).SetReadDeadline(time.Unix(1, 0))
}

func (x *exchange) bodyFailure(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, selector.ErrTooLarge):
		return failure{status: http.StatusRequestEntityTooLarge, code: "body_too_large", cause: err}
	case errors.Is(err, selector.ErrUnreadable):
		return failure{status: http.StatusUnsupportedMediaType, code: "unreadable_body", cause: err}
	case errors.As(err, &timeout) && timeout.Timeout(): // which the server takes for a client that has hung up
		return failure{status: http.StatusRequestTimeout, code: "body_timeout", cause: err}
	case x.r.Context().Err() != nil:
		return errClientGone
	}
	return failure{status: http.StatusBadRequest, code: "broken_body", cause: err}
}

// identify reads, for each policy, whom the request is about [I1] [I3] [I5].
func (x *exchange) identify() error {
	x.authenticate()
	if err := x.resolveForwarded(); err != nil {
		return err
	}
	x.readDevices() // of the realm that the client may have chosen
	for i := range x.covers {
		c := &x.covers[i]
		x.in.Params = params(c.hit)
		if err := x.readTarget(c); err != nil {
			return err
		}
		if err := x.readClient(c); err != nil {
			return err
		}
	}
	return nil
}

func params(hit route.Hit) []selector.Param {
	if len(hit.Params) == 0 {
		return nil
	}
	out := make([]selector.Param, len(hit.Params))
	for i, p := range hit.Params {
		out[i] = selector.Param(p)
	}
	return out
}

// readTarget reads the targets of a policy.
func (x *exchange) readTarget(c *cover) error {
	p := c.policy
	if p.Target == nil {
		return nil
	}
	c.targets = c.only[:0]
	reading := x.reading(c)
	remembered, err := x.recall(c, reading.State != selector.Missing)
	switch {
	case err != nil:
		return err
	case remembered.value != "" && reading.State == selector.Missing:
		c.targets = append(c.targets, remembered)
		return nil
	case remembered.value != "" && reading.State == selector.Named && reading.Values[0] != remembered.value:
		// The backend goes by its session, or by the name: whoever it takes is charged.
		c.targets = append(c.targets, remembered, target{value: reading.Values[0]})
		return nil
	}
	if reading.State != selector.Named {
		x.h.events.MissingKey(p.Name, string(reading.Reason))
	}
	quiet := x.quiet(p)
	switch reading.State {
	case selector.Named:
		c.targets = append(c.targets, target{value: reading.Values[0], spelling: spelling(reading), named: true})
		return nil
	case selector.Missing:
		switch {
		case p.Target.OnMissing == Skip:
			return nil
		case p.Target.OnMissing == Reject && !quiet:
			return failure{status: http.StatusBadRequest, code: "target_missing"}
		}
		c.targets = append(c.targets, target{value: x.missingValue()})
		return nil
	case selector.Ambiguous:
		if !p.ChargeAll && !quiet {
			return failure{status: http.StatusBadRequest, code: "target_ambiguous", cause: reasonOf(reading)}
		}
	case selector.Malformed:
		if !quiet {
			return failure{status: http.StatusBadRequest, code: "target_malformed", cause: reasonOf(reading)}
		}
	}
	for _, v := range reading.Values {
		c.targets = append(c.targets, target{value: v})
	}
	if len(c.targets) == 0 {
		c.targets = append(c.targets, target{value: x.missingValue()})
	}
	return nil
}

// maxSpelling bounds what is kept of how a name was written, in bytes. Nobody's device is trusted for a longer one.
const maxSpelling = 256

// spelling is how a name was written, if that is clear.
func spelling(r selector.Reading) string {
	if len(r.Raw) > maxSpelling {
		return ""
	}
	return r.Raw
}

// reading is what the selectors of a policy find of its target.
func (x *exchange) reading(c *cover) selector.Reading {
	reading := c.policy.Target.Spec.Read(&x.in)
	if c.hit.Unclear {
		reading.State, reading.Reason = selector.Malformed, selector.Many // the path names more than could be listed
	}
	return reading
}

// readClient finds the client of a policy: the one that proved who it is, else the one that is claimed. The two never
// share a bucket.
func (x *exchange) readClient(c *cover) error {
	p := c.policy
	if x.proved != nil {
		c.client = x.proved.ID
		return nil
	}
	if p.Client == nil {
		return nil
	}
	reading := p.Client.Spec.Read(&x.in)
	switch reading.State {
	case selector.Missing:
		return nil
	case selector.Named:
	default:
		if x.quiet(p) {
			break
		}
		if reading.State == selector.Malformed || !p.ChargeAll {
			x.h.events.MissingKey(p.Name, string(reading.Reason))
			return failure{status: http.StatusBadRequest, code: "client_" + stateWord(reading.State), cause: reasonOf(reading)}
		}
	}
	if len(reading.Values) > 0 {
		c.client = claimed(reading.Values[0])
	}
	return nil
}

// quiet reports whether the policy refuses nothing on this request [L11].
func (x *exchange) quiet(p *Policy) bool { return x.lenient || p.LogOnly }

// claimed marks a client id that nobody has proved. Ids of configured clients cannot begin with the mark.
func claimed(id string) string { return "~" + id }

// missingValue is the bucket of requests from one source that name nobody. No name can hold a NUL, so none is it.
func (x *exchange) missingValue() string {
	return "\x00missing|" + sourceRule.AddressValue(x.source.Addr)
}

// sourceRule masks addresses the way a source does by default.
var sourceRule = limits.Rule{PrefixV4: 32, PrefixV6: 64}

func reasonOf(r selector.Reading) error { return errors.New(string(r.Reason)) }

func stateWord(s selector.State) string {
	if s == selector.Ambiguous {
		return "ambiguous"
	}
	return "malformed"
}
