package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"authgate/internal/valkeytest"
)

// Of fifty wrong passwords at once exactly as many reach the backend as the bucket has room for, whatever gateways they take.
func TestParallelGuesses(t *testing.T) {
	for _, rule := range []string{"target: {limit: 5, window: 1h}", "target: {limit: 5, window: 1h, lockout: {base: 1h, max: 1h}}"} {
		stores(t, func(t *testing.T, section string, gateways int) {
			b := &accounts{takes: 50 * time.Millisecond}
			yaml := settings(backend(t, b), section+loginPolicy(rule))
			sites := startAll(t, gateways, yaml)
			var refused atomic.Int32
			inParallel(50, func(i int) {
				switch a := sites[i%gateways].login("bob", fmt.Sprint("guess", i)); a.status {
				case 401:
				case 429:
					refused.Add(1)
				default:
					t.Errorf("got %d %s", a.status, a.body)
				}
			})
			expect(t, "wrong passwords that the backend saw", b.wrong.Load(), 5)
			expect(t, "refusals", refused.Load(), 45)
			for _, s := range sites {
				expect(t, "the right one afterwards", s.logins("bob right"), "429")
			}
		})
	}
}

// Twenty people of one office who sign in at once get in; twenty wrong ones do not overshoot [L8].
func TestOffice(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		b := &accounts{takes: 150 * time.Millisecond}
		yaml := settings(backend(t, b), section+loginPolicy("source: {limit: 5, window: 1h}"))
		sites := startAll(t, gateways, yaml)
		inParallel(20, func(i int) {
			if a := sites[i%gateways].login(fmt.Sprint("u", i), "right"); a.status != 200 {
				t.Errorf("somebody of the office got %d %s after %v", a.status, a.body, a.took)
			}
		})
		inParallel(20, func(i int) { sites[i%gateways].login(fmt.Sprint("u", i), "wrong") })
		expect(t, "wrong passwords that the backend saw", b.wrong.Load(), 5)
	})
}

// A lock refuses those who wait at once, also when another gateway made it.
func TestLockEndsWaiting(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		b := &accounts{takes: 300 * time.Millisecond}
		yaml := settings(backend(t, b), section+loginPolicy("target: {limit: 1, window: 1h, lockout: {base: 1h, max: 1h}}"))
		sites := startAll(t, gateways, yaml)
		first, second := sites[0], sites[gateways-1]
		done := make(chan reply)
		go func() { done <- first.login("bob", "wrong") }()
		eventually(t, "the first attempt", func() bool { return b.asked.Load() == 1 })
		a := second.login("bob", "right")
		if a.status != 429 || a.header.Get("Retry-After") != "3600" || a.took > 1500*time.Millisecond {
			t.Errorf("got %d, Retry-After %s after %v; want 429, 3600 once the lock is made", a.status, a.header.Get("Retry-After"), a.took)
		}
		expect(t, "the first attempt", (<-done).status, 401)
		expect(t, "attempts that the backend saw", b.asked.Load(), 1)
	})
}

// One's own successes clear the pair and nothing else, on either store.
func TestOwnSuccess(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		yaml := settings(backend(t, &accounts{}), section+loginPolicy("source: {limit: 4, window: 1h}\ntarget_source: {limit: 2, window: 1h}"))
		sites := startAll(t, gateways, yaml)
		s, other := sites[0], sites[gateways-1]
		expect(t, "logins", s.logins("bob wrong", "bob right", "bob wrong", "own right"), "401 200 401 200")
		expect(t, "logins", other.logins("eve wrong", "own right", "zoe wrong", "own right"), "401 200 401 429")
	})
}

// A login in two steps counts for its user, whichever gateways the steps take [V5].
func TestTwoStepsAcrossGateways(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		b := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/login" {
				body, _ := io.ReadAll(r.Body)
				http.SetCookie(w, &http.Cookie{Name: "flow", Value: fmt.Sprintf("flow-of-%x", body)})
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.WriteHeader(http.StatusForbidden)
		})
		sites := startAll(t, gateways, settings(backend(t, b), section+`
policies:
  login:
    match: [{methods: [POST], path: /login}]
    target: {from: ["json:/user"]}
    pending: {key: "set_cookie:flow"}
    failures: {target: {limit: 5, window: 1h}}
    outcome:
      - {is: pending, status: 202}
      - {is: success, status: 200, cookie_set: session}
      - {is: failure, status: 401}
  code:
    match: [{methods: [POST], path: /code}]
    pending: {key: "set_cookie:flow"}
    factors: {target: {limit: 2, window: 1h}}
    outcome:
      - {is: success, status: 200, cookie_set: session}
      - {is: factor_failure, status: 403}
      - {is: failure, status: 401}
`))
		first, second := sites[0], sites[gateways-1]
		flow := func(user string) string {
			return first.login(user, "right").header.Get("Set-Cookie")
		}
		code := func(s *site, cookie string) int {
			r, _ := http.NewRequest("POST", "http://"+s.g.Addr().String()+"/code", nil)
			r.Header.Set("Cookie", cookie)
			return s.do(r).status
		}
		bob, again, eve := flow("bob"), flow("bob "), flow("eve")
		if bob == again {
			t.Fatal("the flows are the same")
		}
		expect(t, "codes", fmt.Sprint(code(second, bob), code(first, again), code(second, again), code(first, bob), code(second, eve)), "403 403 429 429 403")
	})
}

// The kill switch of one gateway acts on the others within a second or two, and what was counted meanwhile bites afterwards.
func TestKillSwitchReachesAll(t *testing.T) {
	v := valkeytest.Start(t)
	yaml := settings(backend(t, &accounts{}), shared(v)+loginPolicy("target: {limit: 2, window: 1h, lockout: {base: 1h, max: 1h}}"))
	one, two := start(t, yaml), start(t, yaml)
	expect(t, "logins", two.logins("bob wrong", "bob wrong", "bob right"), "401 401 429")

	a := one.meta("POST", "/meta/mode", `{"mode":"log-only","for":"1m"}`)
	expect(t, "switching", fmt.Sprint(a.status, a.body), "200{\"mode\":\"log-only\",\"seconds_left\":60}\n")
	began := time.Now()
	eventually(t, "log-only at the other gateway", func() bool { return two.logins("bob right") == "200" })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v to reach the other gateway", took)
	}
	expect(t, "here", one.logins("bob right"), "200")
	expect(t, "nobody is refused", two.logins("eve wrong", "eve wrong", "eve wrong", "eve right"), "401 401 401 200")
	if two.metric(`gateway_rejections_total{dimension="target",mode="log-only",policy="login",realm="default"}`) == "none" || len(two.log.lines("would have refused")) == 0 {
		t.Error("the other gateway did not tell whom it would have refused")
	}
	expect(t, "the mode", two.meta("GET", "/meta/mode", "").body[:19], `{"mode":"log-only",`)

	expect(t, "switching back", two.meta("POST", "/meta/mode", `{"mode":"configured"}`).body, "{\"mode\":\"configured\",\"seconds_left\":0}\n")
	expect(t, "at once here", two.logins("eve right"), "429") // the lock was made meanwhile
	eventually(t, "the end of it at the other gateway", func() bool { return one.logins("eve right") == "429" })
	expect(t, "events", one.events("mode"), "ops")
}

// Signals are told once for each window across all gateways [L14].
func TestSignalAcrossGateways(t *testing.T) {
	v := valkeytest.Start(t)
	yaml := settings(backend(t, &accounts{}), shared(v)+loginPolicy("source: {limit: 3, window: 1h, signal: true}"))
	one, two := start(t, yaml), start(t, yaml)
	for i := range 10 {
		one.login(fmt.Sprint("a", i), "wrong")
		two.login(fmt.Sprint("b", i), "wrong")
	}
	expect(t, "signals", len(one.log.lines("signal exceeded"))+len(two.log.lines("signal exceeded")), 1)
	a, b := one.metric("gateway_spray_detected_total"), two.metric("gateway_spray_detected_total")
	if a+b != "10" && a+b != "01" {
		t.Errorf("got %s and %s counted, want one", a, b)
	}
}
