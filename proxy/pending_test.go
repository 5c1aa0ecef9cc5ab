package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/outcome"
	"authgate/limits"
	"authgate/limits/memstore"
)

// twoSteps is a login by password and code. How the second step is tied to the first is up to the test.
type twoSteps struct {
	password, code policy
}

// steps are the two policies of a two-step login, tied by a selector.
func steps(key string) twoSteps {
	rules := []outcome.Rule{
		{Is: "pending", Status: []string{"202"}},
		{Is: "success", Status: []string{"200"}},
		{Is: "factor_failure", Status: []string{"403"}},
		{Is: "failure", Status: []string{"401"}},
	}
	factors := limits.Rule{Class: limits.Factors, Dimension: limits.Target, Limit: 2, Window: time.Hour}
	return twoSteps{
		password: policy{name: "login", target: []string{"json:/user"}, pending: key, outcome: rules, rules: []limits.Rule{failures(limits.Target, 2, time.Hour), failures(limits.TargetSource, 2, time.Hour)}},
		code:     policy{name: "code", pending: key, outcome: rules[1:], rules: []limits.Rule{factors}},
	}
}

// stepBackend knows the password "right" and the code "123". It ties the steps by the cookie session=s-USER.
func stepBackend(r *http.Request) (*http.Response, error) {
	body := make([]byte, 1000)
	n, _ := r.Body.Read(body)
	text := string(body[:n])
	switch {
	case r.URL.Path == "/login" && strings.Contains(text, `"right"`):
		user, _, _ := strings.Cut(strings.TrimPrefix(text, `{"user":"`), `"`)
		return answer(r, 202, "code please", "Set-Cookie: session=s-"+user+"; Path=/"), nil
	case r.URL.Path == "/login":
		return answer(r, 401, "wrong"), nil
	case strings.Contains(text, `"123"`):
		return answer(r, 200, "welcome"), nil
	}
	return answer(r, 403, "wrong code"), nil
}

func code(digits string, header ...string) *http.Request {
	return post("/code", `{"code":"`+digits+`"}`, header...)
}

// A right password with a second step due neither counts nor clears, and the second step counts for the right user [V5].
func TestPending(t *testing.T) {
	for _, test := range []struct {
		name, key string
		login     func(user, password string) *http.Request
		code      func(user, digits string) *http.Request
	}{
		{
			"the cookie that the answer sets", "set_cookie:session", login,
			func(user, digits string) *http.Request { return code(digits, "Cookie: session=s-"+user) },
		},
		{
			"a cookie from before", "cookie:session",
			func(user, password string) *http.Request {
				return with(login(user, password), "Cookie: session=before-"+user)
			},
			func(user, digits string) *http.Request { return code(digits, "Cookie: session=before-"+user) },
		},
		{
			"a flow in the query", "query:flow",
			func(user, password string) *http.Request {
				r := login(user, password)
				r.URL.RawQuery, r.RequestURI = "flow=f-"+user, "/login?flow=f-"+user
				return r
			},
			func(user, digits string) *http.Request {
				r := code(digits)
				r.URL.RawQuery, r.RequestURI = "flow=f-"+user, "/code?flow=f-"+user
				return r
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := steps(test.key)
			start := func() *gate {
				return newGate(t, setup{backend: backendFunc(stepBackend), policies: []policy{s.password, s.code}})
			}
			g := start()
			// A failure before it stays: pending neither counts nor clears.
			expect(t, g.codes(test.login("bob", "x"), test.login("bob", "right"), test.login("bob", "y"), test.login("bob", "right")), "401 202 401 429")

			g = start()
			expect(t, g.codes(
				test.login("bob", "right"), test.login("eve", "right"),
				test.code("bob", "1"), from("198.51.100.7", test.code("bob", "2")), test.code("bob", "123"), // bob's codes are used up, from wherever
				test.code("eve", "1"), test.code("eve", "123"), // eve's are her own
			), "202 202 403 403 429 403 200")

			// Somebody else's flow counts for whom it is about, not for who uses it.
			g = start()
			expect(t, g.codes(
				test.login("bob", "right"), test.login("eve", "right"),
				from("198.51.100.7", test.code("bob", "1")), from("198.51.100.7", test.code("bob", "2")), from("198.51.100.7", test.code("eve", "3")),
				test.code("bob", "123"), test.code("eve", "123"),
			), "202 202 403 403 403 429 200")
		})
	}
}

// A half-finished login is used once, forgotten after its time, and the latest wins.
func TestPendingIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := steps("cookie:session")
		g := newGate(t, setup{backend: backendFunc(stepBackend), policies: []policy{s.password, s.code}})
		session := func(r *http.Request) *http.Request { return with(r, "Cookie: session=one") }
		g.ask(session(login("bob", "right")))
		g.ask(session(code("9")))
		g.ask(session(login("eve", "right")))
		expect(t, g.codes(session(code("1")), session(code("2")), session(code("123"))), "403 403 429") // eve's, not bob's
		g.ask(session(login("zoe", "right")))
		expect(t, g.codes(session(code("123")), session(code("1")), session(code("1")), session(code("1"))), "200 403 403 429") // used once; then nobody is known, which is no way to guess either

		g.ask(session(login("ann", "right")))
		time.Sleep(10 * time.Minute)
		expect(t, g.codes(session(code("1")), session(code("1")), session(code("1"))), "429 429 429") // over
		_ = g.store.Close()
	})
}

// No spelling of the session, and no name beside it, is a way around the account of the second step.
func TestPendingCannotBeEvaded(t *testing.T) {
	for _, test := range []struct {
		name, key string
		target    []string
		first     string // what the first step carries
		second    []string
		body      string
		want      string
	}{
		{"the session twice", "cookie:session", nil, "Cookie: session=one", []string{"Cookie: session=one; session=x"}, `{"code":"9"}`, "400 400 400"},
		{"the session twice, the other way", "cookie:session", nil, "Cookie: session=one", []string{"Cookie: session=x; session=one"}, `{"code":"9"}`, "400 400 400"},
		{"no session", "cookie:session", nil, "Cookie: session=one", nil, `{"code":"9"}`, "403 403 429"},
		{"an invented session", "cookie:session", nil, "Cookie: session=one", []string{"Cookie: session=zz"}, `{"code":"9"}`, "403 403 429"},
		{"a name beside the session", "cookie:session", []string{"json:/user"}, "Cookie: session=one", []string{"Cookie: session=one"}, `{"code":"9","user":"n%d"}`, "403 403 429"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := steps(test.key)
			s.code.target = test.target
			g := newGate(t, setup{backend: backendFunc(stepBackend), policies: []policy{s.password, s.code}})
			g.ask(with(login("bob", "right"), test.first))
			var codes []string
			for i := range 3 {
				body := strings.ReplaceAll(test.body, "%d", fmt.Sprint(i))
				codes = append(codes, fmt.Sprint(g.ask(with(post("/code", body), test.second...)).Code))
			}
			expect(t, strings.Join(codes, " "), test.want)
		})
	}
}

// A wrong password, or a name that is not outright, is not remembered.
func TestPendingOnlyAfterTheRightPassword(t *testing.T) {
	s := steps("cookie:session")
	g := newGate(t, setup{backend: backendFunc(stepBackend), policies: []policy{s.password, s.code}})
	session := func(r *http.Request) *http.Request { return with(r, "Cookie: session=one") }
	g.ask(session(login("bob", "x")))
	g.ask(session(post("/login", `{"password":"right"}`)))
	// They count for whoever sends them, and not for anybody of the first step.
	expect(t, g.codes(session(code("1")), session(code("2")), session(code("3")), from("198.51.100.7", session(code("4")))), "403 403 429 403")
}

// Without a store for records the second step goes on, as one that names nobody.
func TestPendingWithoutRecords(t *testing.T) {
	store := &forgetful{memstore.New(memstore.Config{})}
	defer store.Close()
	s := steps("cookie:session")
	g := newGate(t, setup{backend: backendFunc(stepBackend), store: store, policies: []policy{s.password, s.code}})
	session := func(r *http.Request) *http.Request { return with(r, "Cookie: session=hunter2") }
	expect(t, g.codes(session(login("bob", "right")), session(code("1"))), "202 403")
	if lines := g.log.lines("a half-finished login is not remembered"); len(lines) != 1 || strings.Contains(fmt.Sprint(lines), "hunter2") {
		t.Errorf("got %v, want one warning", lines)
	}
}

type forgetful struct{ *memstore.Store }

func (forgetful) Swap(context.Context, []limits.Kept, ...limits.Change) (bool, error) {
	return false, errors.New("no room")
}

func (forgetful) Load(context.Context, ...string) ([]string, error) {
	return nil, errors.New("no room")
}

// What is kept of a session is a digest.
func TestPendingKeepsADigest(t *testing.T) {
	store := &spying{Store: memstore.New(memstore.Config{})}
	defer store.Close()
	s := steps("set_cookie:session")
	g := newGate(t, setup{backend: backendFunc(stepBackend), store: store, policies: []policy{s.password, s.code}})
	g.ask(login("bob", "right"))
	if len(store.keys) != 1 || strings.Contains(store.keys[0], "s-bob") || !strings.HasPrefix(store.keys[0], "pending:default:") {
		t.Errorf("got keys %q, want one digest of this realm", store.keys)
	}
}

// spying keeps the keys of records and of charges.
type spying struct {
	*memstore.Store
	keys, charged []string
}

func (s *spying) Decide(ctx context.Context, a *limits.Attempt) (limits.Decision, error) {
	for _, c := range a.Charges {
		s.charged = append(s.charged, c.Key)
	}
	return s.Store.Decide(ctx, a)
}

func (s *spying) Swap(ctx context.Context, was []limits.Kept, changes ...limits.Change) (bool, error) {
	for _, c := range changes {
		s.keys = append(s.keys, c.Key)
	}
	return s.Store.Swap(ctx, was, changes...)
}
