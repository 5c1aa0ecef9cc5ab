package proxy

import (
	"net/http"
	"strings"
)

// ownPrefix is the part of the public listener that is the gateway's; everything else is the backend's.
const ownPrefix = "/.gateway/"

func own(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, ownPrefix) }

// serveOwn answers what is asked of the gateway itself.
func (x *exchange) serveOwn() error {
	if x.r.URL.Path != ownPrefix+"healthz" {
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
