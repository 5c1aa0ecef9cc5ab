package proxy

import (
	"net/http"
	"time"
)

// Traces make one span of each request. Its methods must not block.
type Traces interface {
	// Begin begins the span of a request that arrived at a time; trusted says whether what the header says of a trace counts.
	Begin(method string, header http.Header, trusted bool, at time.Time) Trace
}

// Trace is the span of one request.
type Trace interface {
	// Pass names the span in the header that the backend gets.
	Pass(header http.Header)
	// End ends it.
	End(TraceEnd)
}

// TraceEnd is what became of a request: nothing in it names anybody.
type TraceEnd struct {
	Status    int
	RequestID string
	Realm     string
	Policy    string // the first that covered it, or ""
	Route     string // of its match, as the policy writes it
	Decision  string // "admitted", "refused", or "none" if no rule was asked
	Dimension string // of the bucket that refused, or ""
	Verdict   string // or ""
	Store     time.Duration
	Upstream  time.Duration
}

// beginTrace begins the span, once it is known who sent the request.
func (x *exchange) beginTrace() {
	if x.h.traces != nil {
		x.trace = x.h.traces.Begin(x.r.Method, x.r.Header, x.client.Trusted, x.began)
	}
}

func (x *exchange) endTrace(status int) {
	if x.trace == nil {
		return
	}
	end := TraceEnd{
		Status: status, RequestID: x.id, Realm: x.realm.Name, Decision: "none", Verdict: x.verdict,
		Store: x.storeTook, Upstream: x.upstreamTook,
	}
	if len(x.covers) > 0 {
		end.Policy, end.Route = x.covers[0].policy.Name, x.routes[x.covers[0].hit.Route].Match.Path
	}
	switch {
	case x.refusedBy != nil:
		end.Decision, end.Dimension = "refused", x.refusedBy.rule.Dimension.String()
	case !x.asked.IsZero():
		end.Decision = "admitted"
	}
	x.trace.End(end)
}
