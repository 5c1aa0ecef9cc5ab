package unlock

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html/template"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
)

// Path is where links lead, on the public listener.
const Path = "/.gateway/unlock"

// Problem is an answer that [Service.Serve] leaves to its caller.
type Problem struct {
	Status int
	Code   string // for machines, as in {"error": "method_not_allowed"}
	Cause  error  // nil for the client's own mistakes
}

// Error is the code with the cause.
func (p *Problem) Error() string {
	if p.Cause == nil {
		return "serving the unlock page: " + p.Code
	}
	return "serving the unlock page: " + p.Code + ": " + p.Cause.Error()
}

// Unwrap is the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// maxForm bounds the body of a form in bytes; a token has 43.
const maxForm = 4 << 10

// Serve answers a request for [Path] in a realm. GET and HEAD show a page with a button and change nothing, so that a mail
// scanner uses no link up. POST, which the button sends, uses the token up and calls redeemed, which answers the request
// itself, unless it returns an error: then it must have written nothing, the token is given back, and Serve returns the error.
// What has no live token gets one and the same page, whatever is wrong with it. Every other error is a [*Problem]; nothing is
// written then but, with 405, the Allow field.
func (s *Service) Serve(w http.ResponseWriter, r *http.Request, realm string, redeemed func(Claim) error) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			query = nil
		}
		return s.show(w, r, realm, only(query["token"]))
	case http.MethodPost:
		token, err := s.posted(w, r)
		if err != nil {
			return err
		}
		return s.use(w, r, realm, token, redeemed)
	}
	w.Header().Set("Allow", "GET, HEAD, POST")
	return &Problem{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed"}
}

// show renders the page of a token.
func (s *Service) show(w http.ResponseWriter, r *http.Request, realm, token string) error {
	_, text, err := s.look(r.Context(), realm, token)
	if err != nil {
		return unavailable(err)
	}
	if text == "" {
		return render(w, r, http.StatusGone, deadPage, "")
	}
	return render(w, r, http.StatusOK, livePage, token)
}

// posted reads the token of a form that our own page sent.
func (s *Service) posted(w http.ResponseWriter, r *http.Request) (string, error) {
	if http.NewCrossOriginProtection().Check(r) != nil {
		return "", &Problem{Status: http.StatusForbidden, Code: "cross_site"}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return "", &Problem{Status: http.StatusUnsupportedMediaType, Code: "unreadable_body"}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return "", &Problem{Status: http.StatusRequestEntityTooLarge, Code: "body_too_large"}
		}
		return "", &Problem{Status: http.StatusBadRequest, Code: "broken_body"}
	}
	return only(r.PostForm["token"]), nil
}

// use uses a token up.
func (s *Service) use(w http.ResponseWriter, r *http.Request, realm, token string, redeemed func(Claim) error) error {
	t, ok, err := s.redeem(r.Context(), realm, token)
	if err != nil {
		return unavailable(err)
	}
	if !ok {
		return render(w, r, http.StatusGone, deadPage, "")
	}
	if err := redeemed(t.Claim); err != nil {
		s.restore(token, t)
		return err
	}
	s.cfg.Audit("unlock_used", "user", slog.String("realm", realm), slog.String("policy", t.Policy), slog.String("identity", t.Target))
	return nil
}

// only is the value of a field that is there once.
func only(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

func unavailable(err error) *Problem {
	return &Problem{Status: http.StatusServiceUnavailable, Code: "unavailable", Cause: err}
}

const style = `
body { font: 1.125rem/1.6 system-ui, sans-serif; max-width: 36rem; margin: 12vh auto 0; padding: 0 1.5rem; color: #1a1a1a; background: #fff }
button { font: inherit; padding: .6em 1.4em; border: 2px solid #0b4fb3; border-radius: .4em; color: #fff; background: #0b4fb3; cursor: pointer }
button:focus-visible { outline: 3px solid #b35900; outline-offset: 3px }
@media (prefers-color-scheme: dark) {
body { color: #eee; background: #161616 }
button { color: #0d1b2e; background: #a8c7fa; border-color: #a8c7fa }
button:focus-visible { outline-color: #ffb870 }
}
`

const head = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
`

var livePage = template.Must(template.New("live").Parse(head + `<title>Sign in from this browser</title>
<style>` + style + `</style>
</head>
<body>
<main>
<h1>Sign in from this browser</h1>
<p>Wrong passwords have been entered too often for your account, and browsers that have not signed in to it before are refused
for a while. If you followed the link in your message to get here, you can let this browser through.</p>
<form method="post" action="` + Path + `">
<input type="hidden" name="token" value="{{.}}">
<p><button type="submit">Let this browser through</button></p>
</form>
<p>This does not sign you in: you still need your password. Do it on your own device only.</p>
</main>
</body>
</html>
`))

var deadPage = template.Must(template.New("dead").Parse(head + `<title>This link does not work</title>
<style>` + style + `</style>
</head>
<body>
<main>
<h1>This link does not work</h1>
<p>It has been used before, or its time is over, or part of it is missing. If you have copied it, check that you have all of it.</p>
<p>You can try to sign in as usual, or wait a while.</p>
</main>
</body>
</html>
`))

// pagePolicy lets the page show its own style and send its form here, and nothing else.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}()

func render(w http.ResponseWriter, r *http.Request, status int, page *template.Template, token string) error {
	var b bytes.Buffer
	if err := page.Execute(&b, token); err != nil {
		return &Problem{Status: http.StatusInternalServerError, Code: "internal", Cause: err}
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-store")
	// The token is in the page's address: no other page learns it. Not no-referrer, by which browsers send "Origin: null".
	h.Set("Referrer-Policy", "strict-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes()) // a client that has gone needs no page
	}
	return nil
}
