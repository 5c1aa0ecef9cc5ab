package hostile

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const ownPolicies = `
policies:
  login:
    match: [{methods: [POST], path: /login}]
    target: {from: ["json:/username"]}
    secret: {from: []}
    failures: {target: {limit: 1, window: 1h, lockout: {base: 1h, max: 1h}}}
    outcome:
      - {is: success, status: 200, cookie_set: session}
      - {is: failure, status: 401}
`

// denying is a backend that knows nobody.
func denying() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.Header.Get("X-Request-Id"))
		w.Header().Set("X-Path", r.URL.Path)
		w.WriteHeader(http.StatusUnauthorized)
	})
}

// TestOwnSurfaces: /meta answers and changes for nobody but those with a token, who come by a name that is expected; it is
// nowhere on the public listener, and what is the gateway's own there is nowhere else.
func TestOwnSurfaces(t *testing.T) {
	tally := class("the gateway's own surfaces")
	s := begin(t, inProcess(t, denying()), patient, ownPolicies)
	conn := open(t, s.addr())
	defer conn.close()
	if a, err := conn.ask(signIn("/login", "victim")); err != nil || a.status != 401 {
		t.Fatalf("got %d, %v", a.status, err)
	}
	for _, list := range [][]adminCase{withoutToken(), foreignHosts(), withToken()} {
		for _, c := range list {
			tryAdmin(t, tally, s, c)
		}
	}
	tryPublic(t, tally, s)
	if a, err := conn.ask(signIn("/login", "victim")); err != nil || a.status != 429 {
		tally.evasion(t, "something released the lock, or switched the gateway to log-only: got %d, %v", a.status, err)
	}
}

// adminCase is a message to the admin listener, and what its answer may be.
type adminCase struct {
	message string
	allowed func(a answer) bool
}

func refused(a answer) bool { return a.status >= 400 && a.status < 500 }

func tryAdmin(t *testing.T, tally *tally, s *site, c adminCase) {
	tally.try(1)
	conn := open(t, s.g.AdminAddr().String())
	defer conn.close()
	a, err := conn.ask([]byte(c.message))
	if err != nil {
		return // it was turned away without an answer
	}
	if !c.allowed(a) {
		tally.evasion(t, "the admin listener answers %d %q to %q", a.status, head(a.body), head([]byte(c.message)))
	}
}

func adminMessage(method, target, host, fields, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", method, target, host, fields, len(body), body)
}

const (
	bearer    = "Authorization: Bearer " + token + "\r\n"
	switchOff = `{"mode":"log-only","for":"1h"}`
)

// withoutToken are requests by those who have none, or one that is not the operator's.
func withoutToken() []adminCase {
	var list []adminCase
	add := func(method, target, fields, body string) {
		list = append(list, adminCase{adminMessage(method, target, "localhost", fields, body), func(a answer) bool { return refused(a) || a.status == 301 || a.status == 307 || a.status == 308 }})
	}
	for _, fields := range []string{
		"", "Authorization:\r\n", "Authorization: Bearer\r\n", "Authorization: Bearer \r\n", "Authorization: Bearer x\r\n", "Authorization: Basic " + token + "\r\n", "Authorization: " + token + "\r\n", "Authorization: Bearer " + token + "x\r\n",
		"Authorization: Bearer " + token[1:] + "\r\n", "Authorization: Bearer\t" + token + "\r\n", "Authorization: Bearer  " + token + "\r\n", "Authorization: Bearer " + strings.ToUpper(token) + "\r\n", "Authorization: xBearer " + token + "\r\n", "Authorization: Bearer," + token + "\r\n",
		"Authorization: Bearer x\r\nAuthorization: Bearer " + token + "\r\n", "Authorization: Bearer \"" + token + "\"\r\n", "X-Authorization: Bearer " + token + "\r\n", "Proxy-Authorization: Bearer " + token + "\r\n", "Cookie: token=" + token + "\r\n", "Cookie: Authorization=Bearer " + token + "\r\n", "Token: " + token + "\r\n",
		"Authorization: Bearer " + strings.Repeat("x", 8000) + "\r\n", "Authorization: Bearer null\r\n", "Authorization: Bearer undefined\r\n", "Authorization_: Bearer " + token + "\r\n", "Authorization : Bearer " + token + "\r\n", "X: y\r\n Authorization: Bearer " + token + "\r\n",
	} {
		for _, target := range []string{"/meta/version", "/meta/config", "/api/v0/meta/login-rate-limit"} {
			add("GET", target, fields, "")
		}
		add("POST", "/meta/mode", fields+"Content-Type: application/json\r\n", switchOff)
		add("DELETE", "/meta/login-rate-limit", fields, "")
	}
	for _, target := range []string{ // without a token, by every way to say /meta
		"/meta/version?token=" + strings.ReplaceAll(token, " ", "+"), "/meta/version?access_token=x", "//meta/version", "/./meta/version", "/x/../meta/version", "/META/version", "/meta/VERSION", "/meta/version/", "/%6deta/version", "/meta%2fversion", "/meta;x/version", "/metrics/../meta/version",
		"/healthz/../meta/config", "/readyz/..;/meta/config", "/meta/config%00", "/meta/config?", "/meta//config", "/meta/./config", "http://localhost/meta/config", "http://admin.test/meta/config", "/api/v0/meta", "/api/v0/../v0/meta/login-rate-limit", "/meta", "/meta/", "/metrics/x", "/debug/pprof/", "/debug/vars", "/",
	} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "POST", "FOO"} {
			add(method, target, "", "")
		}
	}
	for _, contentType := range []string{"application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=B", "application/json", ""} { // as a page of another site can send
		add("POST", "/meta/mode", "Origin: http://evil.test\r\nCookie: a=b\r\nContent-Type: "+contentType+"\r\n", switchOff)
		add("GET", "/meta/mode?_method=POST", "Content-Type: "+contentType+"\r\n", switchOff)
		add("POST", "/meta/login-rate-limit?_method=DELETE", "X-HTTP-Method-Override: DELETE\r\nContent-Type: "+contentType+"\r\n", "_method=DELETE")
	}
	return list
}

// foreignHosts come with the right token by a name that is not expected, as a page does whose name suddenly means this machine.
func foreignHosts() []adminCase {
	var list []adminCase
	for _, host := range []string{
		"evil.test", "evil.test:9901", "127.0.0.1.evil.test", "localhost.evil.test", "evil-localhost", "0.0.0.0", "[::]", "127.0.0.1.", "admin.test.evil.test", "xadmin.test", "admin.test@evil.test", "169.254.169.254", "10.0.0.1", "[fe80::1]", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost:80:80", "", "a b", "localhost,evil.test",
		"evil.test\r\nX-Forwarded-Host: localhost", "evil.test\r\nForwarded: host=localhost", "*", "null",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			target := map[string]string{"GET": "/meta/config", "POST": "/meta/mode", "DELETE": "/meta/login-rate-limit"}[method]
			allowed := refused
			if host == "127.0.0.1." { // is an address with a dot behind it, which no page can have as its name
				continue
			}
			list = append(list, adminCase{adminMessage(method, target, host, bearer, switchOff), allowed})
		}
	}
	return list
}

// withToken are malformed questions by the operator: refused, and nothing changes.
func withToken() []adminCase {
	var list []adminCase
	add := func(method, target, fields, body string, allowed func(answer) bool) {
		list = append(list, adminCase{adminMessage(method, target, "admin.test", bearer+fields, body), allowed})
	}
	for _, body := range []string{
		"", "{", "null", "[]", `"log-only"`, "{}", `{"mode":"log-only"}`, `{"mode":"log-only","for":""}`, `{"mode":"log-only","for":"0s"}`, `{"mode":"log-only","for":"-1h"}`, `{"mode":"log-only","for":"25h"}`, `{"mode":"log-only","for":"9999999999h"}`, `{"mode":"log-only","for":"1e9h"}`, `{"mode":"log-only","for":1}`,
		`{"mode":"log-only","for":"1h"}x`, `{"mode":"log-only","for":"1h"}{}`, `{"mode":"log-only","for":"1h","x":1}`, `{"mode":["log-only"],"for":"1h"}`, `{"mode":"LOG-ONLY","for":"1h"}`, `{"mode":"log-only","for":"1h` + strings.Repeat(" ", 70<<10) + `"}`, strings.Repeat("[", 60<<10), `{"mode":"` + strings.Repeat("x", 60<<10) + `"}`,
		"mode=log-only&for=1h", "<mode>log-only</mode>", "\x00", "\xff\xfe{\x00}\x00", `{"mode":"log-only","for":"1h"`, `{"mode":"configured","for":"1h"}`, `{"mode":"log-only\u0000","for":"1h"}`, `{"mode":"log-only","for":"\u0661h"}`, `{"mode":"log-only","for":"367d"}`, `{"mode":"log-only","for":"99999999999999999999d"}`,
	} {
		add("POST", "/meta/mode", "Content-Type: application/json\r\n", body, refused)
	}
	for _, id := range []string{"..", ".", "%2e%2e", "%00", "*", "x", strings.Repeat("x", 8000), "%ff", "a%2fb", "..%2f..%2fmode", "%0d%0aX:y", "'", "%22", "0", "-1", "{id}", "login-rate-limit", "%e2%80%ae"} {
		add("DELETE", "/meta/login-rate-limit/"+id, "", "", refused)
		add("GET", "/meta/login-rate-limit/"+id, "", "", refused)
	}
	fine := func(a answer) bool { return a.status == 200 || refused(a) }
	for _, query := range []string{
		"limit=0", "limit=-1", "limit=1000000000", "limit=9999999999999999999999", "limit=1e3", "limit=x", "limit=", "cursor=x", "cursor=-1", "cursor=999999999.999999999", "cursor=" + strings.Repeat("9", 5000), "cursor=%00", "include=x", "include=all&include=locked", "scope=x", "scope=ip&scope=user", "policy=x", "policy=%00", "policy=..",
		"q=" + strings.Repeat("x", 12000), "q=%ff", "q=.*", "q=*", "q=%00", "x=y", "limit=1;cursor=2", "%", "&&&&", "include", "include[]=all",
	} {
		add("GET", "/meta/login-rate-limit?"+query, "", "", fine)
	}
	for _, message := range []string{
		adminMessage("GET", "/meta/version", "admin.test", bearer+"X: "+strings.Repeat("y", 1<<20)+"\r\n", ""), adminMessage("GET", "/"+strings.Repeat("x", 1<<20), "admin.test", bearer, ""),
		adminMessage("POST", "/meta/mode", "admin.test", bearer, switchOff+strings.Repeat(" ", 1<<20)+"x"), strings.Replace(adminMessage("POST", "/meta/mode", "admin.test", bearer, "x"), "Content-Length: 1", "Content-Length: 1\r\nContent-Length: 2", 1),
		"GET /meta/version HTTP/1.1\r\n" + bearer + "\r\n", "GET /meta/version HTTP/1.1\r\nHost: admin.test\r\nHost: evil.test\r\n" + bearer + "\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n" + bearer + "\r\n",
	} {
		list = append(list, adminCase{message, refused})
	}
	return list
}

// tryPublic looks for the admin side on the public listener, and for the gateway's own path at the backend.
func tryPublic(t *testing.T, tally *tally, s *site) {
	try := func(message string) (answer, bool) {
		tally.try(1)
		conn := open(t, s.addr())
		defer conn.close()
		a, err := conn.ask([]byte(message))
		return a, err == nil
	}
	for _, path := range []string{"meta/version", "meta/config", "meta/mode", "metrics", "readyz", "healthz", "api/v0/meta/login-rate-limit"} {
		for _, form := range []string{"/%s", "//%s", "/./%s", "/x/../%s", "/.gateway/%s", "/.gateway/../%s", "/.gateway/..%%2f%s", "/.gateway/%%2e%%2e/%s", "http://localhost/%s", "http://admin.test/%s", "http://127.0.0.1:9901/%s", "/.gateway//%s", "/.gateway/healthz/%s"} {
			if path == "healthz" && form == "/.gateway/%s" {
				continue // is the gateway's own, and public
			}
			for _, host := range []string{"localhost", "admin.test", s.g.AdminAddr().String()} {
				a, ok := try(adminMessage("GET", fmt.Sprintf(form, path), host, bearer, ""))
				if ok && a.header.Get("X-Seen") == "" && a.status < 400 {
					tally.evasion(t, "the public listener answers %d %q to %s", a.status, head(a.body), fmt.Sprintf(form, path))
				}
			}
		}
	}
	for _, path := range []string{
		"/.gateway/", "/.gateway/x", "/.gateway/healthz/", "/.gateway/healthz/x", "/.gateway//healthz", "/%2egateway/x", "/.%67ateway/x", "/.gateway%2fx", "/.gateway/../x", "/.gateway/..;/x", "/.gateway/%2e%2e/x", "/.gateway/%00", "/.gateway/x?y", "/.gateway/#x", "/.gateway/;x", "/.gateway/..%5cx", "http://x/.gateway/x", "/.gateway/../.gateway/x",
	} {
		for _, method := range []string{"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "FOO"} {
			if a, ok := try(adminMessage(method, path, "a", "", "")); ok && a.header.Get("X-Seen") != "" {
				tally.evasion(t, "%s %s, which is the gateway's own, reached the backend as %s", method, path, a.header.Get("X-Path"))
			}
		}
	}
	for range 3 {
		if a, ok := try(adminMessage("GET", "/.gateway/healthz", "a", "", "")); !ok || a.status != 200 || a.header.Get("X-Seen") != "" {
			t.Errorf("the gateway's own health: got %d", a.status)
		}
	}
}
