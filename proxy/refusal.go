package proxy

import (
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"authgate/limits"
)

// refusal is the one bucket that a refused client is told about [L10].
type refusal struct {
	rule       *limits.Rule
	policy     *Policy
	retryAfter int // seconds
}

func (x *exchange) refusalOf(a *limits.Attempt, d *limits.Decision) *refusal {
	worst, ok := d.Refused(a)
	if !ok {
		return nil
	}
	rule := a.Charges[worst.Charge].Rule
	x.refusal = refusal{rule: rule, policy: x.policyNamed(rule.Policy), retryAfter: worst.RetryAfter()}
	x.refusedBy = &x.refusal
	return x.refusedBy
}

func (x *exchange) policyNamed(name string) *Policy {
	for i := range x.covers {
		if x.covers[i].policy.Name == name {
			return x.covers[i].policy
		}
	}
	return x.covers[0].policy // not reached: only covering policies are charged
}

// refuse answers a refused request, once for every policy and form [R1].
func (x *exchange) refuse(r *refusal) error {
	if r.rule.Refuse != limits.Loud {
		return x.refuseAlike(r)
	}
	h := x.w.Header()
	x.allowOrigin(r.policy)
	h["Retry-After"] = x.line(strconv.Itoa(r.retryAfter))
	h["Cache-Control"] = x.line("no-store")
	if x.rateLimit != "" {
		h["Ratelimit-Policy"], h["Ratelimit"] = []string{x.rateLimitPolicy}, []string{x.rateLimit}
	}
	if navigates(x.r) {
		return x.answerPage(r)
	}
	b := make([]byte, 0, 128)
	b = append(b, `{"error":"rate_limited","policy":"`...)
	b = append(b, r.rule.Policy...)
	b = append(b, `","dimension":"`...)
	b = append(b, r.rule.Dimension.String()...)
	b = append(b, `","retryAfterSeconds":`...)
	b = strconv.AppendInt(b, int64(r.retryAfter), 10)
	b = append(b, '}')
	x.answer(http.StatusTooManyRequests, "application/json", b)
	return nil
}

// failure is an answer of the gateway's own that is no refusal by a limit: a stable word for programs, a cause for
// the log.
type failure struct {
	status     int
	code       string
	retryAfter int // seconds; 0: not told
	cause      error
}

func (f failure) Error() string {
	if f.cause != nil {
		return f.code + ": " + f.cause.Error()
	}
	return f.code
}

func (f failure) Unwrap() error { return f.cause }

// retryUnavailable is when it may be worth asking again while the store is out, in seconds.
const retryUnavailable = 5

// fail writes the answer to an error: the only place that does.
func (x *exchange) fail(err error) {
	if errors.Is(err, errClientGone) {
		x.w.status = statusClientGone
		panic(http.ErrAbortHandler) // or the server would end the exchange with a 200, for a client that is only half gone
	}
	var f failure
	if !errors.As(err, &f) {
		f = failure{status: http.StatusInternalServerError, code: "internal", cause: err}
	}
	if f.cause != nil {
		level := slog.LevelWarn
		if f.status < 500 {
			level = slog.LevelDebug
		}
		x.h.log.Log(x.r.Context(), level, "request failed", "request_id", x.id, "code", f.code, "error", unquoted(f.cause))
	}
	h := x.w.Header()
	if f.retryAfter > 0 {
		h["Retry-After"] = []string{strconv.Itoa(f.retryAfter)}
	}
	h["Cache-Control"] = []string{"no-store"}
	x.answer(f.status, "application/json", []byte(`{"error":"`+f.code+`"}`))
}

// unquoted is what an error says, up to where it quotes what a client or the backend said: that may be a secret.
func unquoted(err error) string {
	text, _, _ := strings.Cut(err.Error(), `"`)
	return text
}

// statusClientGone is what the access log says when nobody was left to answer, as nginx does.
const statusClientGone = 499

// answer writes an answer of the gateway's own. A client that is still sending its body gets it all the same, since a
// connection closed in its face would lose it [R1].
func (x *exchange) answer(status int, contentType string, body []byte) {
	h := x.w.Header()
	h["Content-Type"] = x.line(contentType)
	h["Content-Length"] = x.line(strconv.Itoa(len(body)))
	h["X-Request-Id"] = x.ids[:]
	if x.sending() {
		_ = http.NewResponseController(&x.w).EnableFullDuplex() // or the server would wait for the body before it sends the header
	}
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		hurry, _ := x.hurried(http.NewResponseController(&x.w))
		hurry()
		_, _ = x.w.Write(body) // the client may be gone; there is no other way to tell it
	}
	x.drain(drainPause)
}

// sending reports whether the client may be sending a body that was not read to its end, on a connection of its own.
func (x *exchange) sending() bool { return x.r.ProtoMajor == 1 && hasBody(x.r) && x.rest == unread }

// How much of an upload is taken in after it was answered, so that its sender comes to read the answer. One that says
// nothing for a while waits for an answer already, or for a 100 (Continue).
const (
	drainBytes = 64 << 20
	drainTime  = 10 * time.Second
	drainPause = 2 * time.Second
)

// drain takes in what a client still sends, as long as the next piece comes within pause.
func (x *exchange) drain(pause time.Duration) {
	if !x.sending() || x.coming.Reader != nil && !x.coming.unread() {
		return
	}
	rc := http.NewResponseController(&x.w)
	_ = rc.Flush()
	x.coming.detach(pause) // who reads on is whom the backend does not listen to any more
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	end := time.Now().Add(drainTime)
	for left := drainBytes; left > 0; {
		now := time.Now()
		if now.After(end) || rc.SetReadDeadline(now.Add(pause)) != nil {
			return
		}
		n, err := x.r.Body.Read(*buf)
		if err != nil {
			return
		}
		left -= n
	}
}

// allowOrigin lets a page of a configured origin read the refusal.
func (x *exchange) allowOrigin(p *Policy) {
	if len(p.CORSOrigins) == 0 {
		return
	}
	h := x.w.Header()
	h.Add("Vary", "Origin")
	origin := x.r.Header.Get("Origin")
	for _, o := range p.CORSOrigins {
		switch {
		case o == "*":
			h["Access-Control-Allow-Origin"] = []string{"*"}
		case origin != "" && strings.EqualFold(o, origin):
			h["Access-Control-Allow-Origin"] = []string{origin}
			h["Access-Control-Allow-Credentials"] = []string{"true"}
		default:
			continue
		}
		h["Access-Control-Expose-Headers"] = []string{"Retry-After, RateLimit, RateLimit-Policy, X-Request-ID"}
		return
	}
}

// navigates reports whether a person is looking: a browser that loads a page, not a script that wants data.
func navigates(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && prefersHTML(r.Header.Get("Accept"))
}

// prefersHTML reports whether text/html comes before application/json by quality, order deciding ties.
func prefersHTML(accept string) bool {
	bestHTML, bestJSON := -1.0, -1.0
	for part := range strings.SplitSeq(accept, ",") {
		kind, params, _ := strings.Cut(part, ";")
		q := 1.0
		for p := range strings.SplitSeq(params, ";") {
			if v, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
				if f, err := strconv.ParseFloat(v, 64); err == nil {
					q = f
				}
			}
		}
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "text/html", "application/xhtml+xml":
			bestHTML = max(bestHTML, q)
		case "application/json":
			bestJSON = max(bestJSON, q)
		}
	}
	return bestHTML > 0 && bestHTML >= bestJSON
}

var refusalPage = template.Must(template.New("refusal").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Too many requests</title>
<style>
body { font: 1.125rem/1.6 system-ui, sans-serif; max-width: 36rem; margin: 15vh auto 0; padding: 0 1.5rem; color: #1a1a1a; background: #fff }
small { color: #555 }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #161616 } small { color: #aaa } }
</style>
</head>
<body>
<main>
<h1>Too many requests</h1>
<p>Please wait <strong>{{.Wait}}</strong> and then try again. Trying sooner does not help.</p>
<p><small>If this keeps happening, tell the people who run this service: policy <code>{{.Policy}}</code>,
dimension <code>{{.Dimension}}</code>, request <code>{{.Request}}</code>.</small></p>
</main>
</body>
</html>
`))

func (x *exchange) answerPage(r *refusal) error {
	var b strings.Builder
	err := refusalPage.Execute(&b, map[string]string{
		"Wait": inWords(r.retryAfter), "Policy": r.rule.Policy, "Dimension": r.rule.Dimension.String(), "Request": x.id,
	})
	if err != nil {
		return err
	}
	h := x.w.Header()
	h["Content-Security-Policy"] = []string{"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"}
	h.Add("Vary", "Accept, Sec-Fetch-Mode")
	h["X-Content-Type-Options"] = []string{"nosniff"}
	x.answer(http.StatusTooManyRequests, "text/html; charset=utf-8", []byte(b.String()))
	return nil
}

// inWords says a wait the way people do, never shorter than it is.
func inWords(seconds int) string {
	unit, n := "second", seconds
	switch {
	case seconds > 2*3600:
		unit, n = "hour", (seconds+3599)/3600
	case seconds > 120:
		unit, n = "minute", (seconds+59)/60
	}
	if n != 1 {
		unit += "s"
	}
	return strconv.Itoa(n) + " " + unit
}

// rateLimitFields are the values of the fields RateLimit-Policy and RateLimit of the IETF's draft, which tell what is left
// by source and by client; "" when no quota is told.
func rateLimitFields(a *limits.Attempt, quotas []limits.Quota) (policy, limit string) {
	var ps, ls []string
	for _, q := range quotas {
		rule := a.Charges[q.Charge].Rule
		name := `"` + rule.Policy + "-" + rule.Dimension.String() + suffix(rule.Index) + `"`
		quota := rule.Limit
		if rule.Burst > 0 {
			quota = rule.Burst
		}
		window := rule.Window
		if rule.Burst > 0 {
			window = rule.Window * time.Duration(rule.Burst) / time.Duration(rule.Limit)
		}
		ps = append(ps, name+";q="+strconv.Itoa(quota)+";w="+strconv.FormatInt(int64((window+time.Second-1)/time.Second), 10))
		ls = append(ls, name+";r="+strconv.FormatInt(q.Remaining, 10)+";t="+strconv.FormatInt((q.Reset+999)/1000, 10))
	}
	return strings.Join(ps, ", "), strings.Join(ls, ", ")
}

func suffix(index int) string {
	if index == 0 {
		return ""
	}
	return "-" + strconv.Itoa(index)
}
