package unlock

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"authgate/limits/memstore"
)

// visit asks for the page as a browser does. Several headers are "Name: value" lines.
func (d *desk) visit(method, target, body, headers string, redeemed func(Claim) error) (*httptest.ResponseRecorder, error) {
	r := httptest.NewRequest(method, "https://acme.test"+target, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	return w, d.Serve(w, r, "acme", redeemed)
}

// problem is what Serve leaves to its caller.
func problem(t *testing.T, err error) Problem {
	t.Helper()
	var p *Problem
	if !errors.As(err, &p) {
		t.Fatalf("got %v, want a problem", err)
	}
	return *p
}

var ours = "Origin: https://acme.test\nSec-Fetch-Site: same-origin"

// The page shows a button and changes nothing; the button's form uses the link up, once.
func TestPage(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		d := open(t, store, &outbox{}, nil)
		token := d.token(t, "acme", user(1))
		var claims []Claim
		redeemed := func(w http.ResponseWriter) func(Claim) error {
			return func(c Claim) error {
				claims = append(claims, c)
				w.WriteHeader(http.StatusSeeOther)
				return nil
			}
		}
		for range 3 {
			w, err := d.visit(http.MethodGet, Path+"?token="+token, "", "", nil)
			if err != nil || w.Code != http.StatusOK {
				t.Fatalf("got %d, %v", w.Code, err)
			}
			checkPage(t, w)
			page := w.Body.String()
			for _, want := range []string{
				`<form method="post" action="/.gateway/unlock">`, `<input type="hidden" name="token" value="` + token + `">`, `<button type="submit">`,
			} {
				if !strings.Contains(page, want) {
					t.Errorf("the page has no %s", want)
				}
			}
			if strings.Contains(page, "user1") {
				t.Error("the page names the user")
			}
		}
		got, _ := d.visit(http.MethodGet, Path+"?token="+token, "", "", nil)
		head, err := d.visit(http.MethodHead, Path+"?token="+token, "", "", nil)
		if err != nil || head.Code != http.StatusOK || head.Body.Len() != 0 || head.Header().Get("Content-Length") != got.Header().Get("Content-Length") {
			t.Errorf("got HEAD %d, %v, %v", head.Code, head.Header(), err)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "https://acme.test"+Path, strings.NewReader("token="+token))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		if err := d.Serve(w, r, "acme", redeemed(w)); err != nil || w.Code != http.StatusSeeOther {
			t.Errorf("got %d, %v", w.Code, err)
		}
		if len(claims) != 1 || claims[0] != (Claim{"acme", "login", user(1)}) {
			t.Errorf("got %+v", claims)
		}
		if len(d.audited) != 2 || d.audited[1] != "unlock_used user [realm=acme policy=login identity="+user(1)+"]" {
			t.Errorf("got %v audited", d.audited)
		}
		again, err := d.visit(http.MethodPost, Path, "token="+token, ours, nil)
		if err != nil || again.Code != http.StatusGone {
			t.Errorf("got %d, %v for a used link", again.Code, err)
		}
	})
}

// checkPage checks what every page has.
func checkPage(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	page := w.Body.String()
	css := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(page)
	if css == nil {
		t.Fatal("the page has no style")
	}
	sum := sha256.Sum256([]byte(css[1]))
	for name, want := range map[string]string{
		"Content-Type":            "text/html; charset=utf-8",
		"Cache-Control":           "no-store",
		"Referrer-Policy":         "strict-origin",
		"X-Content-Type-Options":  "nosniff",
		"X-Robots-Tag":            "noindex",
		"Content-Security-Policy": "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("got %s: %s, want %s", name, got, want)
		}
	}
	for _, want := range []string{`<html lang="en">`, `name="viewport"`, "<title>", "<h1>", "<main>", `<meta charset="utf-8">`} {
		if strings.Count(page, want) != 1 {
			t.Errorf("the page has %d times %s, want 1", strings.Count(page, want), want)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "style=") || strings.Contains(page, "://") {
		t.Errorf("the page needs more than its policy allows: %s", page)
	}
}

// Whatever is wrong with a token, the answer is the same to the byte.
func TestDeadLinks(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		d := open(t, store, &outbox{}, nil)
		foreign, used, old := d.token(t, "other", user(2)), d.token(t, "acme", user(3)), d.token(t, "acme", user(4))
		if _, err := d.visit(http.MethodPost, Path, "token="+used, ours, func(Claim) error { return nil }); err != nil {
			t.Fatal(err)
		}
		pass(window)
		live := d.token(t, "acme", user(1))
		first := ""
		for name, query := range map[string]string{
			"none": "", "empty": "token=", "junk": "token=x", "unknown": "token=" + newToken(), "foreign": "token=" + foreign, "used": "token=" + used,
			"old": "token=" + old, "twice": "token=" + live + "&token=" + live, "markup": "token=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
			"broken": "token=" + live + "&x=%zz", "long": "token=" + strings.Repeat("A", 3000), "other field": "Token=" + live,
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				target, body := Path+"?"+query, ""
				if method == http.MethodPost {
					if name == "broken" {
						continue // no form
					}
					target, body = Path+"?token="+live, query // what is in the address does not count
				}
				w, err := d.visit(method, target, body, "", nil)
				if err != nil || w.Code != http.StatusGone {
					t.Errorf("%s %s: got %d, %v", method, name, w.Code, err)
					continue
				}
				checkPage(t, w)
				got := w.Body.String()
				for _, field := range []string{"Content-Security-Policy", "Content-Length", "Cache-Control"} {
					got += w.Header().Get(field)
				}
				if first == "" {
					first = got
				}
				if got != first {
					t.Errorf("%s %s: the answer differs: %s", method, name, got)
				}
			}
		}
		if w, _ := d.visit(http.MethodGet, Path+"?token="+live, "", "", nil); w.Code != http.StatusOK {
			t.Error("all that used up a live link")
		}
	})
}

// What is no form of ours changes nothing.
func TestProblems(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		d := open(t, store, &outbox{}, nil)
		token := d.token(t, "acme", user(1))
		form := "token=" + token
		for _, test := range []struct {
			name, method, body, headers string
			want                        Problem
		}{
			{"PUT", http.MethodPut, form, ours, Problem{Status: 405, Code: "method_not_allowed"}},
			{"DELETE", http.MethodDelete, "", ours, Problem{Status: 405, Code: "method_not_allowed"}},
			{"OPTIONS", http.MethodOptions, "", "", Problem{Status: 405, Code: "method_not_allowed"}},
			{"another site", http.MethodPost, form, "Sec-Fetch-Site: cross-site\nOrigin: https://evil.test", Problem{Status: 403, Code: "cross_site"}},
			{"another site, which says no more", http.MethodPost, form, "Sec-Fetch-Site: cross-site", Problem{Status: 403, Code: "cross_site"}},
			{"a site beside ours", http.MethodPost, form, "Sec-Fetch-Site: same-site\nOrigin: https://evil.acme.test", Problem{Status: 403, Code: "cross_site"}},
			{"an older browser at another site", http.MethodPost, form, "Origin: https://evil.test", Problem{Status: 403, Code: "cross_site"}},
			{"another port", http.MethodPost, form, "Origin: https://acme.test:8443", Problem{Status: 403, Code: "cross_site"}},
			{"a page of nowhere", http.MethodPost, form, "Origin: null", Problem{Status: 403, Code: "cross_site"}},
			{"JSON", http.MethodPost, `{"token":"` + token + `"}`, "Content-Type: application/json", Problem{Status: 415, Code: "unreadable_body"}},
			{"no type", http.MethodPost, form, "Content-Type: ", Problem{Status: 415, Code: "unreadable_body"}},
			{"multipart", http.MethodPost, form, "Content-Type: multipart/form-data; boundary=x", Problem{Status: 415, Code: "unreadable_body"}},
			{"too large", http.MethodPost, form + "&x=" + strings.Repeat("x", maxForm), ours, Problem{Status: 413, Code: "body_too_large"}},
			{"broken", http.MethodPost, form + "&x=%zz", ours, Problem{Status: 400, Code: "broken_body"}},
		} {
			w, err := d.visit(test.method, Path+"?token="+token, test.body, test.headers, nil)
			if got := problem(t, err); got != test.want {
				t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
			}
			if w.Body.Len() != 0 || len(w.Header()["Content-Type"]) != 0 {
				t.Errorf("%s: something was written", test.name)
			}
			if got, want := w.Header().Get("Allow"), "GET, HEAD, POST"; (test.want.Status == 405) != (got == want) {
				t.Errorf("%s: got Allow %q", test.name, got)
			}
		}
		for name, headers := range map[string]string{
			"our page": ours, "typed by hand": "Sec-Fetch-Site: none", "our page in an older browser": "Origin: https://acme.test", "no browser": "",
			"behind a balancer that changes the host": "Origin: https://public.test\nSec-Fetch-Site: same-origin",
		} {
			used := 0
			token := d.token(t, "acme", user(100+len(name)))
			if _, err := d.visit(http.MethodPost, Path, "token="+token+"&x="+strings.Repeat("x", maxForm-60), headers, func(Claim) error { used++; return nil }); err != nil || used != 1 {
				t.Errorf("%s: got %v, used %d times", name, err, used)
			}
		}
	})
}

// A store that is out is told, and costs nobody the link.
func TestPageStoreOut(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		l := &line{Records: store}
		d := open(t, l, &outbox{}, nil)
		token := d.token(t, "acme", user(1))
		l.cut.Store(true)
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			w, err := d.visit(method, Path+"?token="+token, "token="+token, "", nil)
			if got := problem(t, err); got.Status != http.StatusServiceUnavailable || got.Code != "unavailable" || !errors.Is(err, errCut) || w.Body.Len() != 0 {
				t.Errorf("%s: got %+v", method, got)
			}
		}
		l.cut.Store(false)
		pass(window / 4)
		failed := errors.New("no device")
		if _, err := d.visit(http.MethodPost, Path, "token="+token, ours, func(Claim) error { return failed }); err != failed {
			t.Errorf("got %v, want the caller's own error", err)
		}
		if len(d.audited) != 1 {
			t.Errorf("got %v audited: nobody was let through", d.audited)
		}
		pass(window / 4)
		if w, _ := d.visit(http.MethodGet, Path+"?token="+token, "", "", nil); w.Code != http.StatusOK {
			t.Error("the link was not given back")
		}
		pass(window / 2)
		if w, _ := d.visit(http.MethodGet, Path+"?token="+token, "", "", nil); w.Code != http.StatusGone {
			t.Error("a link that was given back lives longer")
		}
	})
}

// A client that goes away in the middle of its form gets no page, and keeps its link.
func TestBrokenForm(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		d := open(t, store, &outbox{}, nil)
		token := d.token(t, "acme", user(1))
		body, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, "token="+token[:20]); w.CloseWithError(io.ErrUnexpectedEOF) }()
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "https://acme.test"+Path, body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if got := problem(t, d.Serve(httptest.NewRecorder(), r, "acme", nil)); got.Status != http.StatusBadRequest {
			t.Errorf("got %+v", got)
		}
	})
}

func TestEscaping(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, Path, nil)
	if err := render(w, r, http.StatusOK, livePage, `"><script>alert(1)</script>`); err != nil || strings.Contains(w.Body.String(), "<script>") {
		t.Errorf("got %v, %s", err, w.Body)
	}
}
