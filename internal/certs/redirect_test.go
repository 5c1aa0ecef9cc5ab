package certs

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRedirect(t *testing.T) {
	covers := func(host string) bool { return host == "auth.test" || host == "2001:db8::1" }
	challenge := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/.well-known/acme-challenge/token" {
			return false
		}
		w.WriteHeader(299)
		return true
	}
	h := Redirect(covers, challenge)
	for _, c := range []struct {
		name, method, target, host string
		status                     int
		location                   string
	}{
		{"a page", "GET", "/a/b?c=d", "auth.test", 301, "https://auth.test/a/b?c=d"},
		{"a head", "HEAD", "/", "auth.test", 301, "https://auth.test/"},
		{"a form", "POST", "/login", "auth.test", 308, "https://auth.test/login"},
		{"another method", "DELETE", "/x", "auth.test", 308, "https://auth.test/x"},
		{"a port", "GET", "/", "auth.test:8080", 301, "https://auth.test/"},
		{"letter case and a dot", "GET", "/", "AUTH.test.", 301, "https://auth.test/"},
		{"an address", "GET", "/", "[2001:db8::1]:80", 301, "https://[2001:db8::1]/"},
		{"a path that looks like a host", "GET", "//evil.test/x", "auth.test", 301, "https://auth.test//evil.test/x"},
		{"an encoded path", "GET", "/%0d%0aSet-Cookie:x/%2e%2e?%0a", "auth.test", 301, "https://auth.test/%0d%0aSet-Cookie:x/%2e%2e?%0a"},
		{"a host of nobody", "GET", "/", "evil.test", 404, ""},
		{"a host that holds ours", "GET", "/", "auth.test.evil.test", 404, ""},
		{"no host", "GET", "/", "", 404, ""},
		{"no host name", "GET", "/", "auth.test@evil.test", 404, ""},
		{"an absolute address", "GET", "http://evil.test/", "", 404, ""},
		{"an absolute address of ours", "GET", "http://auth.test/x", "", 301, "https://auth.test/x"},
		{"the whole server", "OPTIONS", "*", "auth.test", 400, ""},
		{"a challenge", "GET", "/.well-known/acme-challenge/token", "auth.test", 299, ""},
		{"another challenge", "GET", "/.well-known/acme-challenge/other", "auth.test", 301, "https://auth.test/.well-known/acme-challenge/other"},
		{"a challenge for a host of nobody", "GET", "/.well-known/acme-challenge/token", "evil.test", 404, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.target, nil)
			if !strings.HasPrefix(c.target, "http") {
				r.Host = c.host
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status || w.Header().Get("Location") != c.location {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Header().Get("Location"), c.status, c.location)
			}
			if got := w.Header().Get("Strict-Transport-Security"); got != "" {
				t.Errorf("a plain answer says %q", got)
			}
		})
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("CONNECT", "/", nil)
	r.Host, r.URL.Path = "auth.test", ""
	if Redirect(covers, nil).ServeHTTP(w, r); w.Code != 400 {
		t.Errorf("CONNECT: got %d, want 400", w.Code)
	}
}
