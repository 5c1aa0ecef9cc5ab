package proxy_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/clientip"
	"authgate/internal/outcome"
	"authgate/internal/redact"
	"authgate/internal/route"
	"authgate/limits"
)

// A request id is taken from a trusted peer only, and only if it is sane; the backend and the client get the same [R5].
func TestRequestID(t *testing.T) {
	trusted, _, err := clientip.ParseTrustList([]string{"10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	fresh := regexp.MustCompile(`^[0-9a-f]{32}$`)
	for _, test := range []struct {
		name, peer string
		sent       []string
		kept       bool
	}{
		{"a trusted peer", "10.0.0.1", []string{"Req-1.2:3_4=5+6/7@8"}, true},
		{"anybody", "192.0.2.1", []string{"Req-1"}, false},
		{"two", "10.0.0.1", []string{"Req-1", "Req-2"}, false},
		{"empty", "10.0.0.1", []string{""}, false},
		{"a line break", "10.0.0.1", []string{"a\nb"}, false},
		{"a quote", "10.0.0.1", []string{`a"b`}, false},
		{"above ASCII", "10.0.0.1", []string{"ü"}, false},
		{"128 bytes", "10.0.0.1", []string{strings.Repeat("a", 128)}, true},
		{"129 bytes", "10.0.0.1", []string{strings.Repeat("a", 129)}, false},
		{"none", "10.0.0.1", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var upstream []string
			g := newGate(t, setup{
				clientIP: clientip.Config{TrustHeaders: true, TrustedProxies: trusted},
				backend: backendFunc(func(r *http.Request) (*http.Response, error) {
					upstream = r.Header["X-Request-Id"]
					return answer(r, 200, "", "X-Request-Id: the backend's own"), nil
				}),
			})
			r := from(test.peer, httptest.NewRequest("GET", "/", nil))
			r.Header["X-Request-Id"] = test.sent
			id := g.ask(r).Header()["X-Request-Id"]
			if len(id) != 1 || !slices.Equal(id, upstream) {
				t.Fatalf("the client got %q, the backend %q", id, upstream)
			}
			if test.kept != (len(test.sent) > 0 && id[0] == test.sent[0]) || (!test.kept && !fresh.MatchString(id[0])) {
				t.Errorf("got %q, want it kept: %v", id[0], test.kept)
			}
			if line := g.log.lines("request")[0]; line["request_id"] != id[0] {
				t.Errorf("got %v logged", line)
			}
		})
	}
}

// watched is a policy with everything that a log line tells of.
func watched() policy {
	return policy{
		name: "login", match: []route.Match{{Methods: []string{"POST"}, Path: "/login/{realm}"}}, target: []string{"json:/user"}, secret: []string{"json:/password"},
		client: []string{"basic"}, pending: "cookie:session",
		rules: []limits.Rule{
			failures(limits.Source, 2, time.Hour), failures(limits.Target, 100, time.Hour),
			failures(limits.TargetSource, 100, time.Hour), failures(limits.Client, 100, time.Hour),
		},
		outcome: verdicts,
	}
}

// One line a request says what became of it [A8].
func TestAccessLog(t *testing.T) {
	status := 401
	g := newGate(t, setup{policies: []policy{watched()}, backend: backendFunc(func(r *http.Request) (*http.Response, error) {
		time.Sleep(time.Millisecond)
		return answer(r, status, ""), nil
	})})
	send := func(path string) map[string]any {
		before := len(g.log.lines("request"))
		g.ask(post(path, `{"user":"bob"}`))
		lines := g.log.lines("request")
		if len(lines) != before+1 {
			t.Fatalf("got %d lines for one request", len(lines)-before)
		}
		return lines[before]
	}
	expect := func(line map[string]any, want map[string]any, absent ...string) {
		t.Helper()
		for name, value := range want {
			if line[name] != value {
				t.Errorf("got %s: %v, want %v", name, line[name], value)
			}
		}
		for _, name := range absent {
			if value, ok := line[name]; ok {
				t.Errorf("got %s: %v, want none", name, value)
			}
		}
	}
	names := redact.New(redact.Hashed, digestKey)
	line := send("/login/a")
	expect(line, map[string]any{
		"level": "INFO", "method": "POST", "status": 401.0, "realm": "default", "client": names.Text("192.0.2.1"), "client_reason": "headers_off",
		"route": "/login/{realm}", "target": names.Text("bob"), "verdict": "failure",
	}, "refused_by", "dimension", "client_degraded", "path")
	if p, ok := line["policies"].([]any); !ok || len(p) != 1 || p[0] != "login" {
		t.Errorf("got policies %v", line["policies"])
	}
	for _, name := range []string{"took", "store", "upstream"} {
		if d, ok := line[name].(float64); !ok || d <= 0 {
			t.Errorf("got %s: %v, want a time", name, line[name])
		}
	}
	send("/login/a")
	expect(send("/login/a"), map[string]any{"status": 429.0, "refused_by": "login", "dimension": "source"}, "verdict", "upstream")
	expect(send("/elsewhere"), map[string]any{"status": 401.0, "realm": "default"}, "policies", "target", "store", "verdict", "path")
}

// Whatever a request carries, no secret of it gets into the log, the metrics or an answer of the gateway's own.
func TestSecretsStayOut(t *testing.T) {
	const secret = "hunter2"
	p := watched()
	p.outcome = append([]outcome.Rule{{Is: "success", Status: []string{"299"}, Body: []string{"welcome"}}}, verdicts...)
	for _, test := range []struct {
		name string
		do   func(r *http.Request) (*http.Response, error)
	}{
		{"a wrong password", func(r *http.Request) (*http.Response, error) {
			return answer(r, 401, secret, "Set-Cookie: session="+secret), nil
		}},
		{"half a login", func(r *http.Request) (*http.Response, error) {
			return answer(r, 202, secret, "Set-Cookie: session="+secret), nil
		}},
		{"success", func(r *http.Request) (*http.Response, error) {
			return answer(r, 200, secret, "Location: /?token="+secret), nil
		}},
		{"a failed call", func(r *http.Request) (*http.Response, error) {
			return nil, errors.New(`malformed HTTP response "` + secret + `"`)
		}},
	} {
		for _, mode := range []redact.Mode{redact.Hashed, redact.Plain} {
			t.Run(test.name, func(t *testing.T) {
				g := newGate(t, setup{policies: []policy{p}, backend: backendFunc(test.do), names: mode})
				var own string // of the gateway's own answers
				for _, r := range []*http.Request{
					post("/login/"+secret+"?token="+secret+"&user=bob", `{"user":"bob","password":"`+secret+`"}`),
					post("/login/x", `{"user":"bob","user":"eve","password":"`+secret+`"}`),   // ambiguous
					post("/login/x", `{"user":["`+secret+`"],"password":"`+secret+`"}`),       // malformed
					post("/login/x", `{"password":"`+secret+`"`),                              // no JSON
					post("/login/x", strings.Repeat(secret, 20_000)),                          // too large
					post("/login/x", secret, "Content-Encoding: "+secret),                     // unreadable
					post("/reset/"+secret, secret),                                            // no policy
					post("/.gateway/"+secret, ""),                                             // not the backend's
					post("/login/x", `{"user":"bob","password":"`+secret+`"}`, "X-Secret: 1"), // refused from here on
					post("/login/x", `{"user":"bob","password":"`+secret+`"}`, "Upgrade: "+secret, "Connection: upgrade"),
				} {
					with(r, "Authorization: Bearer "+secret, "Cookie: session="+secret, "X-Api-Key: "+secret, "X-Request-Id: "+secret, "Referer: https://x/?"+secret, "User-Agent: "+secret, "X-Forwarded-For: "+secret)
					w := g.ask(r)
					if w.Body.String() != secret { // the backend's
						own += w.Body.String() + "\n"
					}
				}
				_ = g.limiter.Wait(t.Context())
				for where, text := range map[string]string{"log": g.log.String(), "events": g.events.String(), "answers": own} {
					if i := strings.Index(text, secret); i >= 0 {
						t.Errorf("%s holds the secret: %s", where, text[max(0, i-300):i+20])
					}
				}
				if mode == redact.Plain != strings.Contains(g.log.String(), `"bob"`) || mode == redact.Plain != strings.Contains(g.log.String(), "192.0.2.1") {
					t.Errorf("identities are not written as configured:\n%s", g.log)
				}
				for _, name := range []string{"bob", "192.0.2.1"} {
					if strings.Contains(g.events.String(), name) {
						t.Errorf("the metrics hold an identity: %v", g.events)
					}
				}
			})
		}
	}
}

// A mistake in the program ends the exchange, and nobody's slot stays taken.
func TestPanic(t *testing.T) {
	fails := true
	g := newGate(t, setup{
		policies: []policy{{name: "login", target: []string{"json:/user"}, rules: []limits.Rule{failures(limits.Target, 1, time.Hour)}, outcome: verdicts}},
		backend: backendFunc(func(r *http.Request) (*http.Response, error) {
			if fails {
				panic("a mistake")
			}
			return answer(r, 200, ""), nil
		}),
	})
	g.ask(post("/login", `{"user":"bob"}`))
	if lines := g.log.lines("panic"); len(lines) != 1 || lines[0]["level"] != "ERROR" || lines[0]["panic"] != "a mistake" || !strings.Contains(lines[0]["stack"].(string), "log_test.go") {
		t.Errorf("got %v, want the panic with its stack", lines)
	}
	if lines := g.log.lines("request"); len(lines) != 1 {
		t.Errorf("got %d access log lines, want 1", len(lines))
	}
	_ = g.limiter.Wait(t.Context())
	fails = false
	if w := g.ask(post("/login", `{"user":"bob"}`)); w.Code != 200 {
		t.Errorf("got %d afterwards, want the slot free", w.Code)
	}
}
