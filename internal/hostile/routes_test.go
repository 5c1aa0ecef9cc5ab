package hostile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// routePolicies guard the login by one request for each name, so that a second one tells whether the first was counted.
const routePolicies = `
policies:
  login:
    match: [{methods: [POST], path: /login}, {methods: [POST], path: /login.php}, {methods: [POST], path: "/in/{kind}"}]
    target: {from: ["json:/username"], on_missing: skip}
    requests: {target: {limit: 1, window: 24h}}
  hosted:
    match: [{methods: [POST], path: /hosted, hosts: [auth.test]}]
    target: {from: ["json:/username"], on_missing: skip}
    requests: {target: {limit: 1, window: 24h}}
`

// spelling is a request that some backend may take for a login.
type spelling struct {
	method, target string
	fields         []string
	probe          string // path by which to ask whether it was counted
	version        string // of HTTP, if not 1.1
}

// TestRoutes: whatever spelling a backend takes for its login, the gateway has counted it, or has refused it [I6].
func TestRoutes(t *testing.T) {
	tally := class("routes")
	for _, b := range backends.all(t) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, b, patient, routePolicies)
			reached := tryRoutes(t, tally, b, s, append(curatedSpellings(), randomSpellings(600)...), "u")
			if b.take(); reached < 60 {
				t.Errorf("only %d spellings reach the login: the test shows little", reached)
			}
		})
	}
}

// tryRoutes sends every spelling with a name of its own that begins with prefix, and returns how many reached a login handler.
func tryRoutes(t *testing.T, tally *tally, b *backend, s *site, list []spelling, prefix string) (reached int) {
	s.wire.deaf.Store(true)
	conn, prober := open(t, s.addr()), open(t, s.addr())
	defer conn.close()
	defer prober.close()
	for i, q := range list {
		name := fmt.Sprintf("%s-%s-%d", b.name, prefix, i)
		a, err := conn.ask(q.bytes(name))
		if err != nil {
			continue // it was turned away without an answer
		}
		saw := a.backendSaw()
		if saw == nil || !saw.reachedLogin() {
			continue
		}
		reached++
		var fields []string
		if q.probe == "/hosted" {
			fields = []string{"Host: auth.test"}
		}
		again, err := prober.ask(signIn(q.probe, name, fields...))
		if err != nil || again.status != 429 {
			tally.evasion(t, "%s takes %s %s %q for the login, and it was not counted: then got %d %v", b.name, q.method, q.target, q.fields, again.status, err)
		}
	}
	tally.try(len(list))
	tally.also("reached a login", reached)
	return reached
}

func (q spelling) bytes(name string) []byte {
	raw := message(q.method, q.target, "application/json", `{"username":"`+name+`"}`, q.fields...)
	if q.version != "" {
		return []byte(strings.Replace(string(raw), " HTTP/1.1\r\n", " "+q.version+"\r\n", 1))
	}
	return raw
}

// curatedSpellings are those that have evaded somebody.
func curatedSpellings() []spelling {
	var list []spelling
	for _, target := range strings.Fields(`
		/login /login/ //login /login// ///login /./login /login/. /x/../login /x/y/../../login /../login /login/.. /login/../login
		/LOGIN /Login /lOgIn/ /%6c%6f%67%69%6e /%6C%6F%67%69%6E /lo%67in /log%69n/ /%2flogin /%2Flogin /login%2f /login%2F /x%2f..%2flogin
		/%2e/login /%2e%2e/login /x/%2e%2e/login /x/.%2e/login /%252e%252e/login /lo%2567in /%256cogin /login;x /login;x=y /login;/ /;/login /;x/login
		/x/..;/login /x/..;a=b/login /login%3bx /login%00 /login%00.css /login%00/x /login%20 /login%20/ /login%09 /login%0a /login%0d%0a /%20login /login.
		/login.. /login%2e /login.json /login.html /login.php /login.php/ /login.php/x /login.php/x.css /login.php%00 /LOGIN.PHP /index.php/login /index.php//login
		/index.php/x/../login /INDEX.PHP/login /login#x /login%23x /login#/x /login?x=/y /login? /login?/../x /login%3f /login%3fx /login??x /x?/../login \login
		/\login /login\ /x\..\login /x/..\login /%5clogin /x%5c..%5clogin /login::$DATA /login:$x /login~ /login* /login%2a /login+ /+login
		/login%c0%80 /%c0%afl/../login /x/%c0%ae%c0%ae/login /%u006cogin /lo%u0067in /login%ff /login%e2%80%8b /%ef%bd%8cogin /logın /logi%cc%87n
		http://login.test/login http://login.test//login HTTP://LOGIN.TEST/login http://login.test:80/login http://user@login.test/login http://x/y/../login
		https://login.test/login http://login.test/login?x http://login.test?/login http://login.test/%6cogin ftp://login.test/login login:/login
		//x/login //login.test/login ///x/login /login//x/.. /login/x/.. /login/./ /login/x/../ /a/b/c/../../../login /%2e%2e%2flogin /.%00/login /login%
		/login%2 /login%zz /%login /./././login /login/%2e /login/%2e%2e/login /login;.css /login.css /login.js /login/x.css /login/; /login/;x /login/%3b
		/.gateway/../login /.gateway/..%2flogin /%2egateway/../login /.gateway/healthz/../../login /.gateway/..;/login /.GATEWAY/../login //.gateway/../login /.gateway\..\login
		* login ?login #login /login&x /login%26x /login=x /login|x /login"x /login'x /login<x /{login} /[login] /login!x /login@x`) {
		list = append(list, spelling{method: "POST", target: target, probe: "/login"})
	}
	for _, method := range []string{"post", "Post", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "PROPFIND", "FOO", "PRI", "CONNECT"} {
		list = append(list, spelling{method: method, target: "/login", probe: "/login"})
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "POST", "OPTIONS", "FOO"} {
		for _, f := range []string{
			"X-HTTP-Method-Override: POST", "X-Http-Method: POST", "X-Method-Override: POST", "x-http-method-override: post", "X_HTTP_METHOD_OVERRIDE: POST",
			"X-HTTP-Method-Override: POST, GET", "X-HTTP-Method-Override: GET\r\nX-HTTP-Method-Override: POST", "X-HTTP-Method-Override:  POST ",
		} {
			list = append(list, spelling{method: method, target: "/login", fields: []string{f}, probe: "/login"})
		}
		for _, query := range []string{"_method=POST", "_method=post", "_METHOD=POST", "_method=GET&_method=POST", "_method%3dPOST", "%5fmethod=POST", "_method[]=POST", "a=b;_method=POST"} {
			list = append(list, spelling{method: method, target: "/login?" + query, probe: "/login"})
		}
	}
	for _, f := range []string{
		"X-Original-URL: /login", "X-Rewrite-URL: /login", "X_Original_URL: /login", "X-Forwarded-Prefix: /login", "X-Forwarded-Uri: /login", "X-Original-URI: /login",
		"X-Forwarded-Path: /login", "X-Routed: login", "X_Routed: login",
	} {
		list = append(list, spelling{method: "POST", target: "/", fields: []string{f}, probe: "/login"})
	}
	for _, version := range []string{"HTTP/1.0", "HTTP/1.2", "HTTP/0.9", "HTTP/2.0", "http/1.1", "HTTP/01.1"} {
		list = append(list, spelling{method: "POST", target: "/login", version: version, probe: "/login"})
	}
	return append(list, hostSpellings()...)
}

// hostSpellings are requests for a login that only one host has.
func hostSpellings() []spelling {
	var list []spelling
	for _, host := range []string{
		"auth.test", "AUTH.TEST", "Auth.Test", "auth.test.", "auth.test..", "auth.test:80", "auth.test:443", "auth.test.:80", "auth.test:", "auth.test:x", "auth.test:080",
		" auth.test", "auth.test ", "user@auth.test", "auth.test@x", "auth.test, x", "x, auth.test", "auth.test/x", "auth.test?x", "auth.test#x", "auth%2etest", "auth.test%00", "auth.test%2e", "ａuth.test",
		"xn--auth.test", "x", "", "[auth.test]", "auth.test\\x", "http://auth.test", "auth.test;x",
	} {
		for _, target := range []string{"/hosted", "/HOSTED/", "http://auth.test/hosted", "http://x/hosted", "http://AUTH.test.:80/hosted", "//auth.test/hosted"} {
			list = append(list, spelling{method: "POST", target: target, fields: []string{"Host: " + host}, probe: "/hosted"})
		}
	}
	for _, fields := range [][]string{
		{"Host: x", "Host: auth.test"},
		{"Host: auth.test", "Host: x"},
		{"Host: x", "host: auth.test"},
		{"Host: x", "X-Forwarded-Host: auth.test"},
		{"Host: x", "X-Host: auth.test"},
		{"Host: x", "Forwarded: host=auth.test"},
		{"Host: x", " Host: auth.test"},
		{"Host: x", "Host : auth.test"},
		{"Host: x", "X_Forwarded_Host: auth.test"},
		{"Host: x\r\n auth.test"},
		{"Host: x", "Connection: Host", "Host: auth.test"},
		{"Host: x", "X-Forwarded-Server: auth.test"},
	} {
		list = append(list, spelling{method: "POST", target: "/hosted", fields: fields, probe: "/hosted"})
	}
	return list
}

// randomSpellings are always the same ones: /login with up to four changes of those that are known to evade.
func randomSpellings(n int) []spelling {
	random := rand.New(rand.NewPCG(7, 11))
	list := make([]spelling, n)
	for i := range list {
		list[i] = spelling{method: "POST", target: randomTarget(random), probe: "/login"}
	}
	return list
}

func randomTarget(random *rand.Rand) string {
	target := []string{"/login", "/login", "/login", "/login.php", "/index.php/login", "/in/form"}[random.IntN(6)]
	for range 1 + random.IntN(4) {
		target = mutateTarget(random, target)
	}
	return target
}

// mutateTarget changes a target in one way.
func mutateTarget(random *rand.Rand, target string) string {
	inserts := []string{
		"/", "//", "/./", "/x/../", "/%2e/", "/x/%2e%2e/", ";", ";x=y", "%00", "%20", "%09", "%2f", "%5c", `\`, ".", "..", "..;/", "?", "#", "%3f", "%23", "%", "%25", "index.php/", "%0d%0a",
		"%c0%af", "%e2%80%8b", "+", "*", ":", "@", ".json", ".css",
	}
	at := random.IntN(len(target) + 1)
	switch random.IntN(6) {
	case 0: // percent-encode a character
		if at == len(target) {
			at--
		}
		return target[:at] + fmt.Sprintf("%%%02x", target[at]) + target[at+1:]
	case 1: // another case
		if at == len(target) {
			at--
		}
		return target[:at] + strings.ToUpper(target[at:at+1]) + target[at+1:]
	case 2:
		return "/" + inserts[random.IntN(len(inserts))] + target
	case 3:
		return target + inserts[random.IntN(len(inserts))]
	case 4: // at a slash
		if slash := strings.LastIndexByte(target[:at], '/'); slash >= 0 {
			return target[:slash] + []string{"//", "/./", "/x/../", "/;/", "/%2e/", "/x/..;/", "/%2f", "/x/%2e%2e/", `/\`}[random.IntN(9)] + target[slash+1:]
		}
	}
	return target[:at] + inserts[random.IntN(len(inserts))] + target[at:]
}

// parallel runs do for every element, so many at once.
func parallel[T any](list []T, workers int, do func(T)) {
	var wait sync.WaitGroup
	next := make(chan T)
	for range workers {
		wait.Go(func() {
			for x := range next {
				do(x)
			}
		})
	}
	for _, x := range list {
		next <- x
	}
	close(next)
	wait.Wait()
}
