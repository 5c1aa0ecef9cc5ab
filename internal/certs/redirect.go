package certs

import (
	"net/http"

	"authgate/internal/route"
)

// Redirect answers what comes to the plain port: it sends clients to https, at the same host without a port and with the same
// path and query. GET and HEAD get 301, every other method 308, which keeps method and body. A host for which there is no
// certificate gets 404: a browser could not go on there, and an invented Host cannot make a link to anywhere out of this
// server. covers is asked with the host as [route.CanonicalHost] writes it. challenge, unless nil, is asked first and reports
// whether it has answered.
func Redirect(covers func(host string) bool, challenge func(http.ResponseWriter, *http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		host, ok := route.CanonicalHost(r.Host)
		switch {
		case !ok || !covers(host):
			http.Error(w, "this server has no certificate for that host", http.StatusNotFound)
			return
		case challenge != nil && challenge(w, r):
			return
		case r.Method == http.MethodConnect || r.URL.Path == "" || r.URL.Path[0] != '/': // CONNECT, OPTIONS *
			http.Error(w, "use https", http.StatusBadRequest)
			return
		}
		status := http.StatusPermanentRedirect
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			status = http.StatusMovedPermanently
		}
		if isIPv6(host) {
			host = "[" + host + "]"
		}
		http.Redirect(w, r, "https://"+host+r.URL.RequestURI(), status)
	})
}
