package proxy

import (
	"context"
	"net/http"

	"authgate/internal/outcome"
	"authgate/internal/selector"
)

// recall is the one who gave the right password in the first step, as remembered by the backend's session or flow [V5],
// or "". stated says that the request names somebody: a first step, which only remembers, need not ask then. A session
// that backends may read in several ways is refused like a name that they may.
func (x *exchange) recall(c *cover, stated bool) (string, error) {
	p := c.policy
	if p.Pending == nil || (stated && p.PendingFirst) {
		return "", nil
	}
	reading := p.Pending.Read(&x.in)
	switch reading.State {
	case selector.Missing:
		return "", nil
	case selector.Named:
	default:
		x.h.events.MissingKey(p.Name, string(reading.Reason))
		if x.quiet(p) {
			return "", nil
		}
		return "", failure{status: http.StatusBadRequest, code: "pending_" + stateWord(reading.State), cause: reasonOf(reading)}
	}
	key := x.pendingKey(reading.Values[0])
	name, err := x.h.limiter.Notes().Noted(x.r.Context(), key)
	if err != nil || name == "" {
		return "", nil // not known, and the store tells of its failures: the request counts as one that names nobody
	}
	c.pending = key
	return name, nil
}

// rememberPending keeps who gave the right password while the second step is due, and forgets it once that succeeded. It
// is done before the answer goes on, since the second step may follow at once.
func (x *exchange) rememberPending(c *cover, v outcome.Verdict, answer http.Header) {
	p := c.policy
	if p.Pending == nil {
		return
	}
	ctx := context.WithoutCancel(x.r.Context())
	notes := x.h.limiter.Notes()
	switch {
	case v == outcome.Success && c.pending != "":
		_ = notes.Forget(ctx, c.pending) // it ends by itself otherwise
	case v == outcome.Pending && c.clears():
		reading := p.Pending.ReadAnswer(answer)
		if reading.State != selector.Named {
			reading = p.Pending.Read(&x.in)
		}
		if reading.State == selector.Named {
			if err := notes.Note(ctx, x.pendingKey(reading.Values[0]), c.targets[0].value, p.PendingTTL); err != nil {
				x.h.log.Warn("a half-finished login is not remembered", "request_id", x.id, "policy", p.Name, "error", unquoted(err))
			}
		}
	}
}

// pendingKey is where a half-finished login is remembered: a realm's policies share it, since the steps are often
// different routes.
func (x *exchange) pendingKey(digest string) string { return x.realm.Name + ":" + digest }
