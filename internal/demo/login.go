package demo

import (
	"crypto/subtle"
	"net/http"
)

// pendingLogin is a login whose password was right and whose code is due.
type pendingLogin struct {
	user, code string
}

const (
	sessionCookie = "session"
	pendingCookie = "pending"
)

func (b *Backend) showLogin(w http.ResponseWriter, _ *http.Request) {
	b.pages.write(w, "login", loginPage{})
}

// login answers a form as a browser sends it, and JSON as a script does.
func (b *Backend) login(w http.ResponseWriter, r *http.Request) {
	in, ok := readFields(w, r)
	if !ok {
		return
	}
	name := in.get("username")
	user, ok := b.accounts.user(name, in.get("password"))
	switch {
	case !ok && in.json:
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "invalid_credentials"})
	case !ok:
		b.pages.write(w, "login", loginPage{Username: name, Failed: true})
	case user.needsCode:
		code := newCode()
		b.outbox.send(user.email, code)
		setCookie(w, r, pendingCookie, b.pending.issue(pendingLogin{user.name, code}))
		if in.json {
			writeJSON(w, http.StatusAccepted, map[string]string{"status": "two_factor_required"})
			return
		}
		http.Redirect(w, r, "/user/two_factor", http.StatusFound)
	case in.json:
		b.writeToken(w, user.name)
	default:
		b.signIn(w, r, user.name)
	}
}

func (b *Backend) showCode(w http.ResponseWriter, r *http.Request) {
	if _, ok := b.pending.find(cookie(r, pendingCookie)); !ok {
		http.Redirect(w, r, "/login", http.StatusFound)
		return
	}
	b.pages.write(w, "code", codePage{})
}

// checkCode lets a code be tried again and again, as legacy sites do.
func (b *Backend) checkCode(w http.ResponseWriter, r *http.Request) {
	in, ok := readFields(w, r)
	if !ok {
		return
	}
	id := cookie(r, pendingCookie)
	login, ok := b.pending.find(id)
	if !ok {
		http.Redirect(w, r, "/login", http.StatusFound)
		return
	}
	if subtle.ConstantTimeCompare([]byte(in.get("code")), []byte(login.code)) == 0 {
		b.pages.write(w, "code", codePage{Failed: true})
		return
	}
	b.pending.end(id)
	dropCookie(w, pendingCookie)
	b.signIn(w, r, login.user)
}

func (b *Backend) welcome(w http.ResponseWriter, r *http.Request) {
	user, ok := b.sessions.find(cookie(r, sessionCookie))
	if !ok {
		http.Redirect(w, r, "/login", http.StatusFound)
		return
	}
	b.pages.write(w, "welcome", welcomePage{User: user})
}

func (b *Backend) logout(w http.ResponseWriter, r *http.Request) {
	b.sessions.end(cookie(r, sessionCookie))
	dropCookie(w, sessionCookie)
	http.Redirect(w, r, "/login", http.StatusFound)
}

func (b *Backend) signIn(w http.ResponseWriter, r *http.Request, user string) {
	setCookie(w, r, sessionCookie, b.sessions.issue(user))
	http.Redirect(w, r, "/welcome", http.StatusFound)
}

func setCookie(w http.ResponseWriter, r *http.Request, name, value string) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: r.Header.Get("X-Forwarded-Proto") == "https",
	})
}

func dropCookie(w http.ResponseWriter, name string) {
	http.SetCookie(w, &http.Cookie{Name: name, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// cookie returns the value of a cookie, or "", which no ticket has.
func cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
