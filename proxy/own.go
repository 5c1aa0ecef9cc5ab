package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"authgate/internal/device"
	"authgate/internal/unlock"
)

// ownPrefix is the part of the public listener that is the gateway's; everything else is the backend's.
const ownPrefix = "/.gateway/"

func own(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, ownPrefix) }

// serveOwn answers what is asked of the gateway itself.
func (x *exchange) serveOwn() error {
	switch {
	case x.r.URL.Path == unlock.Path && x.unlock != nil:
		return x.serveUnlock()
	case x.r.URL.Path != ownPrefix+"healthz":
		return failure{status: http.StatusNotFound, code: "not_found"}
	}
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		x.w.Header()["Allow"] = []string{"GET, HEAD"}
		return failure{status: http.StatusMethodNotAllowed, code: "method_not_allowed"}
	}
	x.w.Header()["Cache-Control"] = []string{"no-store"}
	x.answer(http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	return nil
}

// serveUnlock serves the page that a notice leads to. A link that was used makes the browser a trusted device of the owner,
// who signs in next as ever [D3].
func (x *exchange) serveUnlock() error {
	x.w.Header()["X-Request-Id"] = x.ids[:]
	err := x.unlock.Serve(&x.w, x.r, x.realm.Name, x.unlocked)
	var p *unlock.Problem
	if errors.As(err, &p) {
		f := failure{status: p.Status, code: p.Code, cause: p.Cause}
		if p.Status == http.StatusServiceUnavailable {
			f.retryAfter = retryUnavailable
		}
		return f
	}
	return err
}

// unlocked answers somebody who has used a link.
func (x *exchange) unlocked(c unlock.Claim) error {
	x.verifyDevices()
	x.trust(context.WithoutCancel(x.r.Context()), c.Policy, device.User{Realm: c.Realm, Target: c.Target})
	if x.deviceCookie == "" {
		return failure{status: http.StatusServiceUnavailable, code: "unavailable", retryAfter: retryUnavailable}
	}
	h := x.w.Header()
	x.addDeviceCookie(h)
	h["Cache-Control"], h["Referrer-Policy"] = []string{"no-store"}, []string{"no-referrer"}
	h["Location"] = []string{x.loginPage(c.Policy)}
	x.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// loginPage is where somebody signs in under a policy.
func (x *exchange) loginPage(policy string) string {
	for _, p := range x.realm.Policies {
		if p != nil && p.Name == policy {
			return p.LoginPage
		}
	}
	return "/"
}
