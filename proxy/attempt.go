package proxy

import (
	"log/slog"
	"time"

	"authgate/limits"
)

// account is an attempt with room for as many charges as most have. It may outlive the exchange, since leases are renewed by it.
type account struct {
	limits.Attempt
	charges [8]limits.Charge
}

// attempt lists every bucket that the request touches, in file order of the policies and tie order of the dimensions
// within each [L1] [L10]. No bucket is listed twice.
func (x *exchange) attempt() *limits.Attempt {
	account := &account{Attempt: limits.Attempt{Lenient: x.lenient}}
	a := &account.Attempt
	a.Charges = account.charges[:0]
	allowlisted := x.realm.Allowlist.Allows(x.source)
	for i := range x.covers {
		c := &x.covers[i]
		a.Quotas = a.Quotas || c.policy.RateLimitHeaders
		p := x.poolsOf(a, c)
		for j := range c.policy.Cells {
			cell := &c.policy.Cells[j]
			if allowlisted && exempt(cell.Rule) {
				continue
			}
			switch cell.Rule.Dimension {
			case limits.Signups:
				x.signups(a, c, cell)
				continue
			case limits.Device:
				x.deviceCharges(a, c, cell, p)
				continue
			}
			unless := uint32(0)
			if cell.Rule.Class == limits.Failures && cell.Rule.Dimension != limits.Client {
				unless = p.any // a trusted device reserves in no other rule, and feeds no signal
			}
			charge := limits.Charge{Rule: cell.Rule, LogOnly: c.policy.LogOnly, Outage: c.policy.Outage, Unless: unless}
			x.chargeEach(a, c, cell, charge)
		}
	}
	return a
}

// exempt reports whether the source allowlist takes the rule off a request [L15].
func exempt(r *limits.Rule) bool {
	return r.Dimension == limits.Source || r.Dimension == limits.Subnet || r.Dimension == limits.Signups
}

// chargeEach adds a charge for each value that the request has in the dimension of a rule: none, one, or one for each
// candidate target.
func (x *exchange) chargeEach(a *limits.Attempt, c *cover, cell *Cell, charge limits.Charge) {
	add := func(value string) {
		charge.Key = cell.Scope.Key(value)
		a.Charges = append(a.Charges, charge)
	}
	switch r := cell.Rule; r.Dimension {
	case limits.Source, limits.Subnet:
		add(x.address(r))
	case limits.Target:
		for i := range c.targets {
			add(c.targets[i].value)
		}
	case limits.TargetSource:
		for i := range c.targets {
			add(limits.PairValue(c.targets[i].value, x.address(r)))
		}
	case limits.Client:
		if c.client != "" {
			add(c.client)
		}
	case limits.App:
		add(x.realm.appValue())
	}
}

// masked is the source as a value under rules with these prefixes.
type masked struct {
	v4, v6 int
	value  string
}

// address is the source as a value under a rule. Most plans mask in two ways at most, so as many are kept.
func (x *exchange) address(r *limits.Rule) string {
	for i := range x.masked {
		m := &x.masked[i]
		if m.value == "" {
			*m = masked{r.PrefixV4, r.PrefixV6, r.AddressValue(x.source.Addr)}
		}
		if m.v4 == r.PrefixV4 && m.v6 == r.PrefixV6 {
			return m.value
		}
	}
	return r.AddressValue(x.source.Addr)
}

// pendingWait is how long the request may wait for the verdicts of others: the longest of its policies [L8].
func (x *exchange) pendingWait() time.Duration {
	wait := time.Duration(0)
	for i := range x.covers {
		wait = max(wait, x.covers[i].policy.PendingWait)
	}
	return wait
}

// report tells of every bucket that refuses, or would have [L11] [A6].
func (x *exchange) report(a *limits.Attempt, d *limits.Decision) {
	if a.Quotas {
		x.rateLimitPolicy, x.rateLimit = rateLimitFields(a, d.Quotas)
	}
	for _, r := range d.Refusals {
		c := &a.Charges[r.Charge]
		if !a.Lenient && !c.LogOnly {
			continue
		}
		x.h.events.Rejected(c.Rule, ModeLogOnly, x.realm.Name)
		x.throttled(c, ModeLogOnly)
		x.h.log.LogAttrs(x.r.Context(), slog.LevelWarn, "would have refused",
			slog.String("request_id", x.id), slog.String("policy", c.Rule.Policy), slog.String("dimension", c.Rule.Dimension.String()),
			slog.String("mode", ModeLogOnly), slog.String("realm", x.realm.Name))
	}
	if worst, ok := d.Refused(a); ok && !d.Admitted {
		c := &a.Charges[worst.Charge]
		x.h.events.Rejected(c.Rule, ModeEnforce, x.realm.Name)
		x.throttled(c, ModeEnforce)
	}
}

// The modes, as metrics and logs call them.
const (
	ModeEnforce = "enforce"
	ModeLogOnly = "log-only"
)
