package demo

import (
	"net/http"
	"net/url"
)

// token is the token endpoint of RFC 6749, with the grants password and client_credentials.
func (b *Backend) token(w http.ResponseWriter, r *http.Request) {
	in, ok := readFields(w, r)
	if !ok {
		return
	}
	if in.json {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_request"})
		return
	}
	grant := in.get("grant_type")
	client, shown, right := b.oauthClient(r, in)
	if shown && !right || !shown && grant == "client_credentials" {
		w.Header().Set("WWW-Authenticate", `Basic realm="demo", charset="UTF-8"`)
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	problem := ""
	switch grant {
	case "password":
		user, ok := b.accounts.user(in.get("username"), in.get("password"))
		switch {
		case !ok:
			problem = "invalid_grant"
		case user.needsCode:
			problem = "mfa_required"
		default:
			b.writeToken(w, user.name)
			return
		}
	case "client_credentials":
		b.writeToken(w, client)
		return
	case "":
		problem = "invalid_request"
	default:
		problem = "unsupported_grant_type"
	}
	writeJSON(w, http.StatusBadRequest, map[string]string{"error": problem})
}

// oauthClient tells which client asks, by Basic or by the form (RFC 6749, 2.3.1), whether it shows a secret, and whether
// that is right.
func (b *Backend) oauthClient(r *http.Request, in fields) (id string, shown, right bool) {
	id, secret, shown := r.BasicAuth()
	if shown {
		// The parts are form-encoded before they are put together; what does not decode is taken as it is.
		if decoded, err := url.QueryUnescape(id); err == nil {
			id = decoded
		}
		if decoded, err := url.QueryUnescape(secret); err == nil {
			secret = decoded
		}
	} else {
		id, secret = in.get("client_id"), in.get("client_secret")
		shown = secret != ""
	}
	_, right = b.accounts.client(id, secret)
	return id, shown, right
}

// writeToken answers with a token that is a session.
func (b *Backend) writeToken(w http.ResponseWriter, subject string) {
	writeJSON(w, http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
	}{b.sessions.issue(subject), "Bearer", int(sessionTTL.Seconds())})
}
