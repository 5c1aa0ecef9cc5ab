// Package admin is the operator's side: /meta to see and release what the gateway holds, health, metrics.
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"authgate/limits"
)

// Handler serves the admin listener. Use [New]. Everything under /meta needs a bearer token and a Host that is
// expected; health and metrics need neither.
type Handler struct {
	mux   *http.ServeMux
	cfg   Config
	state State
	audit Audit
	log   *slog.Logger
}

// Config says who may come in.
type Config struct {
	Tokens []Token  // at least one, or nobody can use /meta
	Hosts  []string // accepted Host values, without port, lower case; loopback names and addresses always are
}

// Token lets its bearer in. Only its digest is known.
type Token struct {
	Name   string
	Role   Role
	Digest [sha256.Size]byte
}

// Role is what a token's bearer may do.
type Role uint8

// The roles; each may do what those before it may.
const (
	Viewer   Role = iota // look
	Operator             // release, clear, revoke, switch to log-only
)

// State is what the program shows of itself. Its methods are called for each request and must not block, but for what
// the store's own interface does.
type State interface {
	limits.Switchboard
	Locks() limits.Locks
	Devices() Devices
	// Policies are the effective rules and where each comes from, ready for JSON.
	Policies() any
	// Config is the effective configuration without secrets, ready for JSON.
	Config() any
	// Throttle describes the failure rules of a policy; "" is the one shown by default. ok is false if there is none.
	Throttle(policy string) (t Throttle, ok bool)
	// Ready is nil when traffic is welcome.
	Ready() error
	// Build is version, commit and the like.
	Build() map[string]string
}

// Audit takes down every change: what happened, by whom, and details. It must not block.
type Audit func(event, who string, details ...slog.Attr)

// New makes the admin handler. metrics serves /metrics.
func New(cfg Config, state State, audit Audit, metrics http.Handler, log *slog.Logger) *Handler {
	h := &Handler{mux: http.NewServeMux(), cfg: cfg, state: state, audit: audit, log: log}
	h.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	h.mux.HandleFunc("GET /readyz", h.ready)
	h.mux.Handle("GET /metrics", metrics)
	h.handle("GET /meta/version", Viewer, h.version)
	h.handle("GET /meta/policies", Viewer, h.policies)
	h.handle("GET /meta/config", Viewer, h.config)
	h.handle("GET /meta/mode", Viewer, h.mode)
	h.handle("POST /meta/mode", Operator, h.setMode)
	h.handle("GET /meta/devices", Viewer, h.listDevices)
	h.handle("DELETE /meta/devices/{id}", Operator, h.revokeDevice)
	h.handle("DELETE /meta/devices", Operator, h.revokeDevices)
	for _, base := range []string{"/meta", "/api/v0/meta"} { // the second as the model's clients know it [A2]
		h.handle("GET "+base+"/login-rate-limit", Viewer, h.listLocks)
		h.handle("DELETE "+base+"/login-rate-limit/{id}", Operator, h.releaseLock)
		h.handle("DELETE "+base+"/login-rate-limit", Operator, h.clearLocks)
	}
	return h
}

// maxBody bounds what a request to /meta may carry, in bytes.
const maxBody = 64 << 10

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if r.URL.Path != path.Clean(r.URL.Path) { // which the mux would redirect
		jsonErrors{w}.WriteHeader(http.StatusNotFound)
		return
	}
	if _, pattern := h.mux.Handler(r); pattern == "" {
		h.mux.ServeHTTP(jsonErrors{w}, r) // the mux's own 405 and redirects
		return
	}
	h.mux.ServeHTTP(w, r)
}

// fault is an answer that is no result: a stable word for programs and a sentence for people.
type fault struct {
	status  int
	word    string
	message string
}

func (f fault) Error() string { return f.word + ": " + f.message }

// caller is who asks.
type caller struct{ name string }

// handle registers a route that needs a token of at least the role.
func (h *Handler) handle(pattern string, role Role, serve func(*http.Request, caller) (any, error)) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		who, err := h.admit(r, role)
		if err != nil {
			h.write(w, err)
			return
		}
		result, err := serve(r, who)
		if err != nil {
			h.write(w, err)
			return
		}
		h.json(w, http.StatusOK, result)
	})
}

// admit checks Host and token. The Host keeps a page that a browser was lured to from reaching a loopback listener under
// a name of its own.
func (h *Handler) admit(r *http.Request, role Role) (caller, error) {
	if !h.expects(r.Host) {
		return caller{}, fault{http.StatusForbidden, "host_not_allowed", "add the name to admin.hosts to use it"}
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return caller{}, fault{http.StatusUnauthorized, "unauthorized", "send Authorization: Bearer TOKEN"}
	}
	digest := sha256.Sum256([]byte(token))
	found := -1
	for i := range h.cfg.Tokens { // all of them, so that time tells nothing
		if subtle.ConstantTimeCompare(digest[:], h.cfg.Tokens[i].Digest[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return caller{}, fault{http.StatusUnauthorized, "unauthorized", "the token is not known"}
	}
	if h.cfg.Tokens[found].Role < role {
		return caller{}, fault{http.StatusForbidden, "forbidden", "the token may look but not change"}
	}
	return caller{h.cfg.Tokens[found].Name}, nil
}

func (h *Handler) expects(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.ToLower(strings.Trim(strings.TrimSuffix(name, "."), "[]"))
	if name == "localhost" {
		return true
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.Contains(h.cfg.Hosts, name)
}

// write answers an error: the only place that does.
func (h *Handler) write(w http.ResponseWriter, err error) {
	var f fault
	if !errors.As(err, &f) {
		f = fault{http.StatusInternalServerError, "internal", "see the log"}
		if errors.Is(err, limits.ErrUnavailable) {
			f = fault{http.StatusServiceUnavailable, "store_unavailable", "the shared store does not answer; one instance's own view would mislead"}
			w.Header().Set("Retry-After", "5")
		}
		h.log.Warn("admin request failed", "error", err)
	}
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="authgate"`)
	}
	body := map[string]string{"error": f.word}
	if f.message != "" {
		body["message"] = f.message
	}
	h.json(w, f.status, body)
}

func (h *Handler) json(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		h.log.Error("writing an admin answer failed", "error", err)
		status, b = http.StatusInternalServerError, []byte(`{"error":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

func text(w http.ResponseWriter, status int, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(s))
}

func (h *Handler) ready(w http.ResponseWriter, _ *http.Request) {
	if err := h.state.Ready(); err != nil {
		text(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	text(w, http.StatusOK, "ready\n")
}

func (h *Handler) version(*http.Request, caller) (any, error)  { return h.state.Build(), nil }
func (h *Handler) policies(*http.Request, caller) (any, error) { return h.state.Policies(), nil }
func (h *Handler) config(*http.Request, caller) (any, error)   { return h.state.Config(), nil }

// modeView is the kill switch as /meta/mode shows it.
type modeView struct {
	// Mode is "log-only" while the switch is on, else "configured": each policy's own mode holds.
	Mode    string `json:"mode"`
	Seconds int64  `json:"seconds_left"`
}

func (h *Handler) mode(*http.Request, caller) (any, error) {
	return modeOf(h.state.LogOnlyFor()), nil
}

func modeOf(left time.Duration) modeView {
	if left <= 0 {
		return modeView{Mode: "configured"}
	}
	return modeView{Mode: "log-only", Seconds: int64((left + time.Second - 1) / time.Second)}
}

// Bounds of how long the kill switch may last: it is for an incident, and must end by itself.
const (
	minSwitch = time.Second
	maxSwitch = 24 * time.Hour
)

// setMode turns the kill switch [A3].
func (h *Handler) setMode(r *http.Request, who caller) (any, error) {
	var in struct {
		Mode string `json:"mode"`
		For  string `json:"for"`
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil || d.Decode(new(any)) != io.EOF {
		return nil, fault{http.StatusBadRequest, "bad_request", `send {"mode":"log-only","for":"15m"} or {"mode":"configured"}`}
	}
	var length time.Duration
	switch in.Mode {
	case "log-only":
		var err error
		if length, err = parseDuration(in.For); err != nil || length < minSwitch || length > maxSwitch {
			return nil, fault{http.StatusBadRequest, "bad_request", "for: state how long, from 1s to 24h, such as 15m"}
		}
	case "configured", "enforce": // enforce is what most people mean by turning the switch back
		if in.For != "" {
			return nil, fault{http.StatusBadRequest, "bad_request", "for: goes with log-only only"}
		}
	default:
		return nil, fault{http.StatusBadRequest, "bad_request", `mode: use "log-only" or "configured"`}
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	if err := h.state.SetLogOnly(ctx, length); err != nil {
		return nil, err
	}
	h.audit("mode", who.name, slog.String("mode", in.Mode), slog.Duration("for", length))
	return modeOf(length), nil
}

// parseDuration reads a duration as the configuration file spells it: days too.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 366 {
			return 0, fmt.Errorf("%q is no duration", s)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	return time.ParseDuration(s)
}

// jsonErrors turns the plain text of the mux's own errors, 404 and 405, into JSON.
type jsonErrors struct{ http.ResponseWriter }

func (w jsonErrors) WriteHeader(status int) {
	if status >= 400 {
		w.Header().Set("Content-Type", "application/json")
	}
	w.ResponseWriter.WriteHeader(status)
	switch status {
	case http.StatusNotFound:
		_, _ = w.ResponseWriter.Write([]byte(`{"error":"not_found"}` + "\n"))
	case http.StatusMethodNotAllowed:
		_, _ = w.ResponseWriter.Write([]byte(`{"error":"method_not_allowed"}` + "\n"))
	}
}

// Write drops the text that the JSON has taken the place of.
func (w jsonErrors) Write(b []byte) (int, error) {
	if w.Header().Get("Content-Type") == "application/json" {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}
