package proxy

import (
	"context"
	"net/http"

	"authgate/internal/outcome"
	"authgate/internal/selector"
)

// readPending finds whom a second step is about: the one who gave the right password in the first, as remembered by
// the backend's session or flow [V5]. Nobody is an answer too.
func (x *exchange) readPending(c *cover) error {
	p := c.policy
	if p.Pending == nil {
		return nil
	}
	reading := p.Pending.Read(&x.in)
	if reading.State != selector.Named {
		return nil
	}
	key := x.pendingKey(reading.Values[0])
	name, err := x.h.limiter.Notes().Noted(x.r.Context(), key)
	if err != nil || name == "" {
		return nil // not known, and the store tells of its failures: the request counts as one that names nobody
	}
	c.targets, c.pending = append(c.targets, target{value: name}), key
	return nil
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
