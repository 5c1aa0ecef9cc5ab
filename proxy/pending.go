package proxy

import (
	"context"
	"net/http"
	"strings"

	"authgate/internal/outcome"
	"authgate/internal/selector"
	"authgate/limits"
)

// recall is the one who gave the right password in the first step, as remembered by the backend's session or flow [V5],
// or nobody. stated says that the request names somebody: a first step, which only remembers, need not ask then. A session
// that backends may read in several ways is refused like a name that they may.
func (x *exchange) recall(c *cover, stated bool) (target, error) {
	p := c.policy
	if p.Pending == nil || (stated && p.PendingFirst) {
		return target{}, nil
	}
	reading := p.Pending.Read(&x.in)
	switch reading.State {
	case selector.Missing:
		return target{}, nil
	case selector.Named:
	default:
		x.h.events.MissingKey(p.Name, string(reading.Reason))
		if x.quiet(p) {
			return target{}, nil
		}
		return target{}, failure{status: http.StatusBadRequest, code: "pending_" + stateWord(reading.State), cause: reasonOf(reading)}
	}
	key := x.pendingKey(reading.Values[0])
	names, err := x.h.limiter.Records().Load(x.r.Context(), key)
	if err != nil || names[0] == "" {
		return target{}, nil // not known, and the store tells of its failures: the request counts as one that names nobody
	}
	c.pending = key
	name, spelling, _ := strings.Cut(names[0], "\x00")
	return target{value: name, spelling: spelling}, nil
}

// rememberPending keeps who gave the right password while the second step is due, and forgets it once that succeeded. It
// is done before the answer goes on, since the second step may follow at once.
func (x *exchange) rememberPending(c *cover, v outcome.Verdict, answer http.Header) {
	p := c.policy
	if p.Pending == nil {
		return
	}
	ctx := context.WithoutCancel(x.r.Context())
	records := x.h.limiter.Records()
	switch {
	case v == outcome.Success && c.pending != "":
		_, _ = records.Swap(ctx, nil, limits.Change{Key: c.pending}) // it ends by itself otherwise
	case v == outcome.Pending && c.clears():
		reading := p.Pending.ReadAnswer(answer)
		if reading.State != selector.Named {
			reading = p.Pending.Read(&x.in)
		}
		if reading.State == selector.Named {
			keep := limits.Change{Key: x.pendingKey(reading.Values[0]), Text: c.targets[0].value + "\x00" + c.targets[0].spelling, TTL: p.PendingTTL}
			if _, err := records.Swap(ctx, nil, keep); err != nil {
				x.h.log.Warn("a half-finished login is not remembered", "request_id", x.id, "policy", p.Name, "error", unquoted(err))
			}
		}
	}
}

// pendingKey is where a half-finished login is remembered: a realm's policies share it, since the steps are often
// different routes.
func (x *exchange) pendingKey(digest string) string { return "pending:" + x.realm.Name + ":" + digest }
