package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"time"
)

// forward sends the request to the backend and its answer to the client. An error means that nothing was sent to
// the client yet. An answer that breaks off half-way ends the client's connection, as it must.
func (x *exchange) forward() error {
	u := x.upstream
	if !u.take() {
		return failure{status: http.StatusServiceUnavailable, code: "too_many_requests_in_flight", retryAfter: 1}
	}
	defer u.give()

	x.early.x = x
	x.call.begin(x)
	defer x.call.end()
	out, upgrade := x.outgoing()
	started := time.Now()
	res, err := u.via.RoundTrip(out)
	x.upstreamTook = time.Since(started)
	x.early.end()
	if err != nil {
		x.unanswered(err)
		return x.badGateway(err)
	}
	x.coming.relax()
	x.answered(res)
	if res.StatusCode == http.StatusSwitchingProtocols {
		return x.switchProtocols(res, upgrade)
	}
	x.copyAnswer(res)
	return nil
}

// outgoing is the request as the backend gets it. upgrade is the protocol that the client wants to switch to, or "".
func (x *exchange) outgoing() (out *http.Request, upgrade string) {
	r := x.r
	if !hasBody(r) { // else the body would be read from a connection that is somebody else's by then
		upgrade = upgradeOf(r.Header)
	}
	out = (&http.Request{
		Method:        r.Method,
		Header:        x.forwarding.Rewrite(r.Header, x.client, r.Host, r.TLS != nil),
		ContentLength: r.ContentLength,
		Proto:         "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(&x.call)
	x.sendBody(out)
	x.passTrailers(out)
	out.URL = &x.url
	x.upstream.address(out, r)
	x.prepare(out.Header)
	hideIdempotency(out.Header)
	out.Header["X-Request-Id"] = x.ids[:]
	if x.trace != nil {
		x.trace.Pass(out.Header)
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // or the transport would add its own
	}
	if upgrade != "" {
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{upgrade}
	}
	return out, upgrade
}

// hideIdempotency spells the fields in a way that the transport overlooks and the backend does not: for a request that has
// one it takes any method to be safe to repeat, and a login that was sent twice would be judged twice.
func hideIdempotency(h http.Header) {
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if lines, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = lines
		}
	}
}

// passTrailers lets through the trailers that the client announced, but for names that the gateway keeps to itself. Their
// values come with the end of the body.
func (x *exchange) passTrailers(out *http.Request) {
	in := x.r
	for name := range in.Trailer {
		if x.forwarding.Removes(name) {
			continue
		}
		if out.Trailer == nil {
			out.Trailer = make(http.Header)
		}
		out.Trailer[name] = in.Trailer[name]
	}
	if out.Trailer != nil && out.Body != http.NoBody {
		out.Body = &trailing{ReadCloser: out.Body, from: in, to: out}
	}
}

// trailing is a body that fills in the announced trailers at its end.
type trailing struct {
	io.ReadCloser
	from, to *http.Request
}

func (t *trailing) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err == io.EOF {
		for name := range t.to.Trailer {
			t.to.Trailer[name] = t.from.Trailer[name]
		}
	}
	return n, err
}

// sendBody gives the backend the body: what was buffered, byte for byte, or what the client is still sending.
func (x *exchange) sendBody(out *http.Request) {
	r := x.r
	raw := x.body.Raw()
	switch {
	case x.body != nil && x.rest == unread:
		x.replay.rest = raw
		out.Body = io.NopCloser(io.MultiReader(&x.replay, x.steadily(r.Body)))
	case x.body != nil && len(raw) > 0:
		x.replay.rest = raw
		out.Body = &x.replay
		if r.ContentLength >= 0 || len(r.Trailer) == 0 { // only a body without a length can have trailers
			out.ContentLength = int64(len(raw))
		}
	case x.body != nil || !hasBody(r):
		out.Body, out.ContentLength = http.NoBody, 0
	default:
		out.Body = x.steadily(r.Body)
	}
	if x.rest == whole {
		delete(out.Header, "Expect") // the body is here already
	} else if x.sending() {
		// A backend may answer before it has read all. The server must not take that for the end of the request and swallow
		// what is still to come.
		_ = http.NewResponseController(&x.w).EnableFullDuplex()
	}
}

// replay reads a buffered body once. It is not one of the readers that the transport knows how to rewind, since a
// login that was sent twice would be judged twice. A transport may read on after it has answered, so the buffer is taken
// away from it before it serves another request.
type replay struct {
	mu   sync.Mutex
	rest []byte
	gone bool
}

func (r *replay) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.gone:
		return 0, io.ErrClosedPipe
	case len(r.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close implements [io.Closer]. A transport closes what it has read, and may be asked to read it once more.
func (r *replay) Close() error { return nil }

// detach ends the use of the buffer.
func (r *replay) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest, r.gone = nil, true
}

// badGateway says why there is no answer: 504 when time ran out, 502 otherwise.
func (x *exchange) badGateway(err error) error {
	if x.coming.stalled.Load() {
		return failure{status: http.StatusRequestTimeout, code: "body_timeout", cause: err}
	}
	if x.r.Context().Err() != nil {
		return errClientGone
	}
	var t interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &t) && t.Timeout()) {
		return failure{status: http.StatusGatewayTimeout, code: "upstream_timeout", cause: err}
	}
	return failure{status: http.StatusBadGateway, code: "bad_gateway", cause: err}
}

// copyAnswer passes the answer on: header, body as it comes, trailers.
func (x *exchange) copyAnswer(res *http.Response) {
	defer res.Body.Close()
	h := x.w.Header()
	copyHeader(h, res.Header)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or the server would guess one
	}
	x.finishHeader(h)
	x.addDeviceCookie(h)
	if x.ownDate {
		h["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	}
	announced := len(res.Trailer)
	for name := range res.Trailer {
		h.Add("Trailer", name)
	}
	x.w.WriteHeader(res.StatusCode)

	if err := x.copyBody(res); err != nil {
		x.readVerdict(res.Body)
		// The client must not take a part for the whole; the header is gone, so only the connection can tell.
		x.breakOff(err)
	}
	prefix := ""
	if len(res.Trailer) != announced {
		prefix = http.TrailerPrefix
	}
	for name, vv := range res.Trailer {
		h[prefix+name] = vv
	}
	switch {
	case res.StatusCode >= 400 && res.ContentLength >= 0: // of an upload that the backend does not want; the end of another answer is still to be sent
		x.drain(drainPause)
	case x.coming.unread(): // a client that sends on at full speed would lose what it has not read of the answer
		x.drain(lastPiece)
	}
}

// finishHeader adds what every answer of the backend carries to the client.
func (x *exchange) finishHeader(h http.Header) {
	h["X-Request-Id"] = x.ids[:]
	if x.rateLimit != "" {
		h["Ratelimit-Policy"], h["Ratelimit"] = []string{x.rateLimitPolicy}, []string{x.rateLimit}
	}
}

// breakOff ends the connection of a client that got a part of an answer. [http.ErrAbortHandler] is how a handler says
// that to the server, which neither logs it nor lets it go further.
func (x *exchange) breakOff(err error) {
	x.h.log.Debug("answer broken off", "request_id", x.id, "error", unquoted(err))
	panic(http.ErrAbortHandler)
}

// readVerdict reads on although there is nobody left to send the answer to, as far as the verdict needs: it must not
// depend on when the client hangs up [L9]. What broke off on the backend's side ends it at once.
func (x *exchange) readVerdict(body io.Reader) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for x.reservation != nil && x.awaited > 0 {
		if _, err := body.Read(*buf); err != nil {
			return
		}
	}
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// copyBody copies the body. What has come is never held back for the rest: that may be a stream which somebody watches.
func (x *exchange) copyBody(res *http.Response) error {
	left := res.ContentLength
	rc := http.NewResponseController(&x.w)
	flush := func() error {
		if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("sending the answer: %w", err)
		}
		return nil
	}
	hurry, calm := x.hurried(rc)
	if left < 0 {
		hurry()
		if err := flush(); err != nil {
			return err
		}
		calm()
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := res.Body.Read(*buf)
		if n > 0 {
			hurry()
			if _, werr := x.w.Write((*buf)[:n]); werr != nil {
				return fmt.Errorf("sending the answer: %w", werr)
			}
			if left -= int64(n); left != 0 {
				if werr := flush(); werr != nil {
					return werr
				}
				calm()
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return fmt.Errorf("reading the answer: %w", err)
		}
	}
}

// copyHeader copies what an answer says to the client, and not to this connection.
func copyHeader(dst, src http.Header) {
	for k, vv := range src {
		if !hopByHop(k) {
			dst[k] = vv
		}
	}
	for _, line := range src["Connection"] {
		for token := range strings.SplitSeq(line, ",") {
			delete(dst, textproto.CanonicalMIMEHeaderKey(textproto.TrimString(token)))
		}
	}
}

func hopByHop(canonical string) bool {
	switch canonical {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authenticate", "Proxy-Authorization":
		return true
	}
	return false
}
