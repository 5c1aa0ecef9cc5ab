// Package demo is a small legacy login site, the backend of "gateway demo" and of end-to-end tests. It behaves as
// many real ones do: a wrong password on the form answers 200 with the page again, and nothing is limited, since
// limiting is what the gateway before it is for.
//
// # Who can sign in
//
//	alice  wonderland
//	bob    builder
//	carol  singing      and then the code that is in /outbox
//
// Names are compared without regard to case and outer blanks. The one OAuth client is demo-client with the
// secret demo-secret. All of these are public; nothing here protects anything.
//
// # What it answers
//
//	GET  /                  302 to /login
//	GET  /login             the page
//	POST /login             form username, password:
//	                          right          302 to /welcome, cookie "session"
//	                          carol, right   302 to /user/two_factor, cookie "pending", a code in the outbox
//	                          wrong          200, the page with an element id="login_error"
//	                        JSON with the same members:
//	                          right          200 {"access_token", "token_type", "expires_in"}
//	                          carol, right   202 {"status": "two_factor_required"}, cookie and code as above
//	                          wrong          401 {"error": "invalid_credentials"}
//	GET  /user/two_factor   the page that asks for the code; without a pending login 302 to /login
//	POST /login/two_factor  form or JSON code, with the cookie "pending":
//	                          right          302 to /welcome, cookie "session"
//	                          wrong          200, the page with an element id="code_error"
//	                          no such login  302 to /login
//	GET  /welcome           the page for who is signed in; others 302 to /login
//	POST /logout            302 to /login
//	POST /oauth/token       form, grant_type password or client_credentials (RFC 6749):
//	                          right          200 {"access_token", "token_type", "expires_in"}
//	                          wrong user     400 {"error": "invalid_grant"}; carol, right: 400 {"error": "mfa_required"}
//	                          wrong client   401 {"error": "invalid_client"}
//	POST /mail-code         form or JSON email: 202 {"status": "sent"}, a code in the outbox
//	GET  /outbox            {"sent": N, "mails": [...]}: how many were sent, and the last of them, newest first
//	GET  /slow?ms=N         answers after N milliseconds, at most 10000
//	any  /echo, /echo/...   what arrived: {"method", "target", "path", "host", "headers", "body", ...}
//	GET  /events?n=N&ms=N   N server-sent events, at most 1000, one every so many milliseconds, at most 10000
//	any  /upload            {"bytes", "sha256"} of the body, at most 1 GiB
//
// A form or JSON body larger than 64 KiB (echo: 1 MiB) is 413, one of another type 415, one that does not
// parse 400.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Backend is the site. It is an http.Handler for use by several goroutines, and keeps its state in memory, within
// the bounds of its Config.
type Backend struct {
	mux      *http.ServeMux
	pages    pages
	accounts accounts
	outbox   outbox
	sessions *tickets[string] // the user's name
	pending  *tickets[pendingLogin]
}

// Config says how much a Backend remembers. The zero value is fit for a demo.
type Config struct {
	// MaxMails is how many mails the outbox keeps; 0 means 100.
	MaxMails int
	// MaxSessions is how many sessions, and how many logins that wait for a code, are kept; beyond
	// that the oldest end. 0 means 1000.
	MaxSessions int
}

const (
	sessionTTL = time.Hour
	// pendingTTL is how long a gateway remembers a two-step login too [V5].
	pendingTTL = 10 * time.Minute
	// stopGrace is how long Serve waits for requests that are being answered.
	stopGrace = 5 * time.Second
)

// New builds a Backend. It fails if a bound is negative.
func New(cfg Config) (*Backend, error) {
	if cfg.MaxMails < 0 {
		return nil, fmt.Errorf("building the demo backend: MaxMails is %d, want 0 or more", cfg.MaxMails)
	}
	if cfg.MaxSessions < 0 {
		return nil, fmt.Errorf("building the demo backend: MaxSessions is %d, want 0 or more", cfg.MaxSessions)
	}
	pages, err := parsePages()
	if err != nil {
		return nil, fmt.Errorf("building the demo backend: %w", err)
	}
	maxSessions := orDefault(cfg.MaxSessions, 1000)
	b := &Backend{
		mux:      http.NewServeMux(),
		pages:    pages,
		accounts: newAccounts(),
		outbox:   outbox{max: orDefault(cfg.MaxMails, 100)},
		sessions: newTickets[string](maxSessions, sessionTTL),
		pending:  newTickets[pendingLogin](maxSessions, pendingTTL),
	}
	b.mux.Handle("GET /{$}", http.RedirectHandler("/login", http.StatusFound))
	b.mux.HandleFunc("GET /login", b.showLogin)
	b.mux.HandleFunc("POST /login", b.login)
	b.mux.HandleFunc("GET /user/two_factor", b.showCode)
	b.mux.HandleFunc("POST /login/two_factor", b.checkCode)
	b.mux.HandleFunc("GET /welcome", b.welcome)
	b.mux.HandleFunc("POST /logout", b.logout)
	b.mux.HandleFunc("POST /oauth/token", b.token)
	b.mux.HandleFunc("POST /mail-code", b.mailCode)
	b.mux.HandleFunc("GET /outbox", b.showOutbox)
	b.mux.HandleFunc("GET /slow", slow)
	b.mux.HandleFunc("/echo", echo)
	b.mux.HandleFunc("/echo/", echo)
	b.mux.HandleFunc("GET /events", events)
	b.mux.HandleFunc("/upload", upload)
	return b, nil
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// ServeHTTP answers one request.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	b.mux.ServeHTTP(w, r)
}

// Serve answers requests from ln, over HTTP/1.1 and HTTP/2 without TLS, until ctx ends. It then ends /slow and
// /events at once, gives other requests five seconds, closes ln and returns nil. An error means that ln failed.
func (b *Backend) Serve(ctx context.Context, ln net.Listener) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           b,
		Protocols:         &protocols,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving the demo backend: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if server.Shutdown(grace) != nil {
		server.Close() // what is still open after the grace is cut off
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the demo backend: %w", err)
	}
	return nil
}
