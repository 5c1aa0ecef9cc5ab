package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"authgate/clientip"
	"authgate/internal/clients"
	"authgate/internal/device"
	"authgate/internal/outcome"
	"authgate/internal/route"
	"authgate/internal/selector"
	"authgate/limits"
)

// exchange is one request on its way, and what is known of it so far. One goroutine works on it, but for the
// upstream call's callbacks.
type exchange struct {
	h *Handler
	*Plan
	w  response
	r  *http.Request
	id string // of the request, in answers, logs and for the backend

	// One allocation holds all that nearly every request needs. Nothing of it serves a second request: a transport, a
	// header that is still being written, or a settlement may look at it after the handler has returned.
	ids   [1]string // id, as the value of a header field
	lines [4]string // room for values of header fields
	used  int       // of those
	only  [1]cover  // room for covers
	call  call
	early informant
	url   url.URL

	tokens []string    // what device cookies the request brought, before they were taken out
	seen   []device.ID // those that are genuine

	client  clientip.Result
	source  clientip.Result // as client, but for what a trusted forwarder states; keys buckets by address
	proved  *clients.Client // nil: no client has proved who it is
	realm   *Realm
	covers  []cover        // the policies that cover the request, in file order
	body    *selector.Body // buffered, if a policy reads it; of one that nobody could read, what was taken of it
	rest    rest           // of what the client sends
	replay  replay         // what the backend gets of body
	coming  steady         // what of it the client is still sending
	in      selector.Input // the request as selectors see it
	lenient bool           // the kill switch is on

	masked      [2]masked
	reservation *limits.Reservation
	known       uint32   // which of the attempt's facts hold
	refusedBy   *refusal // nil: nobody refused
	refusal     refusal
	awaited     int    // policies that have not judged yet
	verdict     string // the one that the log tells

	rateLimitPolicy, rateLimit string // values of the RateLimit fields, or ""
	deviceCookie               string // a Set-Cookie line, or ""
	ownDate                    bool   // the answer tells our clock, as a refusal that looks like it does

	trace        Trace // nil: none is made
	began        time.Time
	asked        time.Time // when the request was read and the decision began
	storeTook    time.Duration
	upstreamTook time.Duration
	status       int
	hijacked     bool
}

// rest is what there is of a request's body beyond what was read of it.
type rest uint8

const (
	unread   rest = iota // as much as the client still sends
	whole                // nothing: all was read
	unwanted             // what is not worth waiting for: the body is broken, or its sender may not talk at all
)

// cover is one policy on a request.
type cover struct {
	x       *exchange
	policy  *Policy
	hit     route.Hit
	targets []target
	only    [1]target // room for targets
	client  string    // claimed or authenticated id, as a value; "" is none
	pools   pools     // what makes a device of the request a trusted one
	judged  bool      // there is a verdict
	verdict outcome.Verdict
	repeat  int    // 1 + index of the settlement's check of the secret; 0: none
	pending string // key of the note that named the target; "" is none
}

// target is one candidate of whom the request is about.
type target struct {
	value    string // normalised, or the bucket of the missing
	spelling string // as it was written, trimmed; "" if that is not clear
	named    bool   // the request names exactly this one, outright
}

func (h *Handler) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{h: h, Plan: h.plan.Load(), r: r, began: time.Now()}
	x.w = response{ResponseWriter: w, x: x}
	x.realm = x.realmOf(r.Host)
	return x
}

// resolveClient finds out who sent the request, and turns away who may not talk at all [C7].
func (x *exchange) resolveClient() error {
	x.client = x.resolver.Resolve(x.r.RemoteAddr, x.r.Header[x.resolver.Header()])
	x.id = x.requestID()
	x.ids[0] = x.id
	x.beginTrace()
	if x.realm == nil && own(x.r) {
		x.realm = &Realm{} // the gateway's own pages belong to no realm
	}
	if x.realm == nil {
		x.realm = &Realm{} // for the log
		return failure{status: http.StatusMisdirectedRequest, code: "unknown_host"}
	}
	if x.deny.Contains(x.client.Addr) || !x.allow.Allows(x.client) {
		if hasBody(x.r) {
			x.giveUpBody()
		}
		return failure{status: http.StatusForbidden, code: "forbidden"}
	}
	x.forwarding.DropNominated(x.r.Header) // so that policies read what the backend will see
	x.takeDeviceCookie()
	return nil
}

// requestID is what a trusted peer calls the request, if that is a sane name, else a new one [R5].
func (x *exchange) requestID() string {
	if x.client.Trusted {
		if ids := x.r.Header["X-Request-Id"]; len(ids) == 1 && saneID(ids[0]) {
			return ids[0]
		}
	}
	var b [16]byte // not to be guessed by chance, and no secret
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	var text [2 * len(b)]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}

// saneID accepts what request ids are made of elsewhere, and nothing that could break a log line.
func saneID(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.:=+/@", rune(c)) {
			return false
		}
	}
	return true
}

// end writes the account of the request: metrics and the access log [A8]. It is deferred, so that nothing is forgotten
// when the way is left by a panic: that of an answer broken off, or of a mistake in this program.
func (x *exchange) end() {
	if p := recover(); p != nil {
		if p != http.ErrAbortHandler {
			x.h.log.Error("panic", "request_id", x.id, "panic", p, "stack", string(debug.Stack()))
		}
		defer panic(http.ErrAbortHandler)
	}
	x.reservation.Release() // what was not settled was never sent, or ended where nobody foresaw
	x.replay.detach()
	x.coming.detach(lastPiece)
	x.body.Release()
	status := x.w.status
	if x.hijacked {
		status = x.status
	}
	first := ""
	if len(x.covers) > 0 {
		first = x.covers[0].policy.Name
	}
	x.endTrace(status)
	x.h.events.Served(first, status)
	if x.upstreamTook > 0 {
		x.h.events.Upstream(x.upstreamTook)
	}
	if !x.h.log.Enabled(x.r.Context(), slog.LevelInfo) {
		return
	}
	x.h.log.LogAttrs(x.r.Context(), slog.LevelInfo, "request", x.accessAttrs(status)...)
}

func (x *exchange) accessAttrs(status int) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("request_id", x.id),
		slog.String("method", x.r.Method),
		slog.Int("status", status),
		slog.String("realm", x.realm.Name),
		x.names.Address("client", x.client.Addr),
		slog.String("client_reason", x.client.Reason.String()),
		slog.Duration("took", time.Since(x.began)),
	)
	if x.client.Degraded {
		attrs = append(attrs, slog.Bool("client_degraded", true))
	}
	if len(x.covers) > 0 {
		names := make([]string, len(x.covers))
		for i := range x.covers {
			names[i] = x.covers[i].policy.Name
		}
		// The route, never the path, which may hold a name or a token that was sent by mail.
		route := x.routes[x.covers[0].hit.Route].Match.Path
		attrs = append(attrs, slog.Any("policies", names), slog.String("route", route), slog.Duration("store", x.storeTook))
		if t := x.covers[0].targets; len(t) == 1 && t[0].named {
			attrs = append(attrs, x.names.Name("target", t[0].value))
		}
	}
	if x.refusedBy != nil {
		attrs = append(attrs, slog.String("refused_by", x.refusedBy.rule.Policy), slog.String("dimension", x.refusedBy.rule.Dimension.String()))
	}
	if x.verdict != "" {
		attrs = append(attrs, slog.String("verdict", x.verdict))
	}
	if x.upstreamTook > 0 {
		attrs = append(attrs, slog.Duration("upstream", x.upstreamTook))
	}
	return attrs
}

// line is the value of a header field as a header holds it.
func (x *exchange) line(value string) []string {
	if x.used == len(x.lines) {
		return []string{value}
	}
	x.lines[x.used] = value
	x.used++
	return x.lines[x.used-1 : x.used : x.used]
}

// response remembers what was answered. An answer to a request that was not read to its end is the last one on its connection:
// what is still to come of the body must not be taken for the next request.
type response struct {
	http.ResponseWriter
	x      *exchange
	status int
}

func (w *response) WriteHeader(code int) {
	if code >= 200 || code == http.StatusSwitchingProtocols {
		w.status = code
	}
	if code >= 200 && w.x.r.ProtoMajor == 1 && w.x.coming.unread() {
		w.Header()["Connection"] = []string{"close"}
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets an [http.ResponseController] reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// slots is a bounded number of places.
type slots struct{ c chan struct{} }

func newSlots(n int) slots { return slots{make(chan struct{}, n)} }

func (s slots) take() bool {
	select {
	case s.c <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) give() { <-s.c }

// errClientGone ends an exchange whose client has hung up: there is nobody to tell.
var errClientGone = errors.New("the client has hung up")
