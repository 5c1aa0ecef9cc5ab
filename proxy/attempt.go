package proxy

import (
	"log/slog"
	"time"

	"authgate/limits"
)

// attempt lists every bucket that the request touches, in file order of the policies and tie order of the dimensions
// within each [L1] [L10]. No bucket is listed twice.
func (x *exchange) attempt() *limits.Attempt {
	a := &limits.Attempt{Lenient: x.lenient, Charges: make([]limits.Charge, 0, 8)}
	allowlisted := x.realm.Allowlist.Allows(x.source)
	for i := range x.covers {
		c := &x.covers[i]
		a.Quotas = a.Quotas || c.policy.RateLimitHeaders
		for j := range c.policy.Cells {
			cell := &c.policy.Cells[j]
			if allowlisted && exempt(cell.Rule) {
				continue
			}
			if cell.Rule.Dimension == limits.Signups {
				x.signups(a, c, cell)
				continue
			}
			x.values(c, cell.Rule, func(value string) {
				a.Charges = append(a.Charges, limits.Charge{
					Rule: cell.Rule, Key: cell.Scope.Key(value), LogOnly: c.policy.LogOnly, Outage: c.policy.Outage,
				})
			})
		}
	}
	return a
}

// exempt reports whether the source allowlist takes the rule off a request [L15].
func exempt(r *limits.Rule) bool {
	return r.Dimension == limits.Source || r.Dimension == limits.Subnet || r.Dimension == limits.Signups
}

// values yields the values that the request has in a dimension: none, one, or one for each candidate target.
func (x *exchange) values(c *cover, r *limits.Rule, yield func(string)) {
	switch r.Dimension {
	case limits.Source, limits.Subnet:
		yield(r.AddressValue(x.source.Addr))
	case limits.Target:
		for i := range c.targets {
			yield(c.targets[i].value)
		}
	case limits.TargetSource:
		address := r.AddressValue(x.source.Addr)
		for i := range c.targets {
			yield(limits.PairValue(c.targets[i].value, address))
		}
	case limits.Client:
		if c.client != "" {
			yield(c.client)
		}
	case limits.App:
		yield(x.realm.appValue())
	}
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
		x.h.log.LogAttrs(x.r.Context(), slog.LevelWarn, "would have refused",
			slog.String("request_id", x.id), slog.String("policy", c.Rule.Policy), slog.String("dimension", c.Rule.Dimension.String()),
			slog.String("mode", ModeLogOnly), slog.String("realm", x.realm.Name))
	}
	if worst, ok := d.Refused(a); ok && !d.Admitted {
		x.h.events.Rejected(a.Charges[worst.Charge].Rule, ModeEnforce, x.realm.Name)
	}
}

// The modes, as metrics and logs call them.
const (
	ModeEnforce = "enforce"
	ModeLogOnly = "log-only"
)
