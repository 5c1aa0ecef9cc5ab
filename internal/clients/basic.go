package clients

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// Basic reads the credentials of an OAuth client: HTTP Basic (RFC 7617), both parts percent-encoded as forms are (RFC 6749,
// 2.3.1). Exactly one Authorization line counts; anything that is not plainly Basic is none.
func Basic(header http.Header) (id, secret string, ok bool) {
	lines := header["Authorization"]
	if len(lines) != 1 {
		return "", "", false
	}
	scheme, rest, found := strings.Cut(lines[0], " ")
	if !found || !strings.EqualFold(scheme, "Basic") {
		return "", "", false
	}
	b, err := base64.StdEncoding.DecodeString(strings.Trim(rest, " "))
	if err != nil {
		return "", "", false
	}
	user, password, found := strings.Cut(string(b), ":")
	if !found || user == "" {
		return "", "", false
	}
	if id, err = url.QueryUnescape(user); err != nil {
		return "", "", false
	}
	if secret, err = url.QueryUnescape(password); err != nil {
		return "", "", false
	}
	return id, secret, true
}
