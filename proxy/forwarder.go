package proxy

import (
	"net/http"

	"authgate/clientip"
)

// authenticate finds the confidential client whose credentials the request carries, and the app that it belongs to. It is
// asked on policy routes only: a wrong secret is simply not that client [M5].
func (x *exchange) authenticate() {
	if x.clients == nil {
		return
	}
	x.proved = x.clients.Authenticate(x.r.Context(), x.realm.Name, x.r.Header, x.client.Addr)
	if x.proved == nil || x.realm.App != "" {
		return // a Host that names an app has said which
	}
	if app := x.realm.Apps[x.proved.App]; app != nil {
		x.enter(app)
	}
}

// enter makes the request follow the policies as they hold in another realm.
func (x *exchange) enter(realm *Realm) {
	x.realm = realm
	for i := range x.covers {
		x.covers[i].policy = realm.Policies[x.covers[i].hit.Policy]
	}
}

// resolveForwarded takes the end user's address from a client that may state it [M5]. Entitlement is judged first;
// neither answer depends on whom the request is about, and neither is counted.
func (x *exchange) resolveForwarded() error {
	x.source = x.client
	if x.forwarder == "" {
		return nil
	}
	lines := x.r.Header[x.forwarder]
	entitled := x.proved != nil && x.proved.Forwarder
	switch {
	case !entitled && len(lines) > 0:
		return failure{status: http.StatusBadRequest, code: "Auth.ForwarderNotTrusted"}
	case !entitled:
		return nil
	}
	if len(lines) == 1 {
		if addr, err := clientip.ParseLiteral(lines[0]); err == nil {
			x.source.Addr, x.source.Degraded = addr, false
			return nil
		}
	}
	return failure{status: http.StatusBadRequest, code: "Auth.ForwardedAddressRequired"}
}
