package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/proxy"
)

// accounts is a backend that knows one password, and counts what it is asked. A name of its own says what else it answers.
type accounts struct {
	asked counter
	takes time.Duration
}

func (a *accounts) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked.add()
	body := make([]byte, 1000)
	n, _ := r.Body.Read(body)
	_ = r.Body.Close()
	if a.takes > 0 {
		select {
		case <-time.After(a.takes):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	switch text := string(body[:n]); {
	case strings.Contains(text, `"right"`):
		return answer(r, 200, "welcome"), nil
	case strings.Contains(text, `"error"`):
		return answer(r, 500, "oops"), nil
	case strings.Contains(text, `"timeout"`):
		return nil, context.DeadlineExceeded
	case strings.Contains(text, `"refused"`):
		return nil, errors.New("connection refused")
	case strings.Contains(text, `"unknown"`):
		return answer(r, 418, "teapot"), nil
	case strings.Contains(text, `"pending"`):
		return answer(r, 202, "code please"), nil
	case strings.Contains(text, `"locked"`):
		return answer(r, 423, "locked"), nil
	case strings.Contains(text, `"client"`):
		return answer(r, 400, "who are you"), nil
	}
	return answer(r, 401, "wrong"), nil
}

// login is an attempt to sign in.
func login(user, password string) *http.Request {
	return post("/login", fmt.Sprintf(`{"user":%q,"password":%q}`, user, password))
}

// logins is the policy of the login that these tests attack.
func logins(rules ...limits.Rule) policy {
	return policy{name: "login", target: []string{"json:/user"}, client: []string{"json:/client"}, rules: rules, outcome: verdicts}
}

func lockout(r limits.Rule, base, longest time.Duration) limits.Rule {
	r.Lockout = limits.Lockout{Base: base, Max: longest}
	return r
}

// attempts sends logins one after the other, given as "user password", and returns their statuses.
func (g *gate) attempts(list ...string) string {
	var rs []*http.Request
	for _, text := range list {
		user, password, _ := strings.Cut(text, " ")
		rs = append(rs, login(user, password))
	}
	out := g.codes(rs...)
	_ = g.limiter.Wait(g.t.Context())
	return out
}

// What each verdict does to the account.
func TestVerdicts(t *testing.T) {
	day := 24 * time.Hour
	for _, test := range []struct {
		name  string
		rules []limits.Rule
		do    []string
		want  string
	}{
		{"failures fill a bucket", []limits.Rule{failures(limits.Target, 2, day)}, []string{"bob x", "bob y", "bob right", "eve x"}, "401 401 429 401"},
		{"a success clears the pair", []limits.Rule{failures(limits.TargetSource, 2, day)}, []string{"bob x", "bob right", "bob x", "bob x", "bob right"}, "401 200 401 401 429"},
		{"a success clears nothing else", []limits.Rule{failures(limits.Target, 2, day)}, []string{"bob x", "bob right", "bob x", "bob right"}, "401 200 401 429"},
		{"one's own success does not clear the source", []limits.Rule{failures(limits.Source, 3, day)}, []string{"a x", "own right", "b x", "own right", "c x", "own right"}, "401 200 401 200 401 429"},
		{"successes are free", []limits.Rule{failures(limits.Target, 1, day)}, []string{"bob right", "bob right", "bob right"}, "200 200 200"},
		{"the backend's own lock counts nowhere", []limits.Rule{failures(limits.Target, 1, day)}, []string{"bob locked", "bob locked", "bob x", "bob right"}, "423 423 401 429"},
		{"client failures are no target's", []limits.Rule{failures(limits.Target, 1, day)}, []string{"bob client", "bob client", "bob x", "bob x"}, "400 400 401 429"},
		{"a failure and a client's bucket", []limits.Rule{failures(limits.Client, 1, day)}, []string{"bob x", "bob x", "bob x"}, "401 401 401"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGate(t, setup{backend: &accounts{}, policies: []policy{logins(test.rules...)}})
			expect(t, g.attempts(test.do...), test.want)
		})
	}
	t.Run("client failures fill the client's bucket", func(t *testing.T) {
		g := newGate(t, setup{backend: &accounts{}, policies: []policy{logins(failures(limits.Client, 2, day))}})
		send := func(client string) *http.Request { return post("/login", `{"client":"`+client+`","x":"client"}`) }
		expect(t, g.codes(send("shop"), send("shop"), send("shop"), send("other")), "400 400 429 400")
	})
}

// A success clears the pair only of a name that the request states outright.
func TestWhoseFailuresASuccessClears(t *testing.T) {
	for _, test := range []struct{ name, success, body string }{
		{"one name", `{"user":"bob","x":"right"}`, `{"user":"bob"}`},
		{"two names", `{"user":"bob","User":"eve","x":"right"}`, `{"user":"bob"}`},
		{"no name", `{"x":"right"}`, `{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := logins(failures(limits.TargetSource, 2, time.Hour))
			p.edit = func(p *proxy.Policy) { p.ChargeAll = true }
			g := newGate(t, setup{backend: &accounts{}, policies: []policy{p}})
			var got []string
			for _, body := range []string{test.body, test.success, test.body, test.body} {
				got = append(got, fmt.Sprint(g.ask(post("/login", body)).Code))
				_ = g.limiter.Wait(t.Context())
			}
			want := "401 200 401 429"
			if test.name == "one name" {
				want = "401 200 401 401"
			}
			expect(t, strings.Join(got, " "), want)
		})
	}
}

// Verdicts that say nothing are no free way to guess: they have counts of their own, ten times the limit [L16] [V4].
func TestNeutralVerdictsAreCounted(t *testing.T) {
	for _, test := range []struct {
		password, first string
		most            int
	}{
		{"error", "500", 20}, {"timeout", "504", 20}, {"refused", "502", 20}, {"unknown", "418", 20}, {"pending", "202", 10},
	} {
		t.Run(test.password, func(t *testing.T) {
			g := newGate(t, setup{backend: &accounts{}, policies: []policy{logins(failures(limits.Target, 2, time.Hour))}})
			for i := range test.most {
				if got := g.attempts("bob " + test.password); got != test.first {
					t.Fatalf("attempt %d got %s, want %s", i, got, test.first)
				}
			}
			expect(t, g.attempts("bob right", "eve x"), "429 401")
		})
	}
	t.Run("they are no failures", func(t *testing.T) {
		g := newGate(t, setup{backend: &accounts{}, policies: []policy{logins(failures(limits.Target, 2, time.Hour))}})
		expect(t, g.attempts("bob error", "bob timeout", "bob unknown", "bob x", "bob x", "bob x"), "500 504 418 401 401 429")
	})
}

// Of many wrong passwords at once, exactly as many reach the backend as the bucket has room for.
func TestParallelGuesses(t *testing.T) {
	for _, rule := range []limits.Rule{failures(limits.Target, 5, time.Hour), lockout(failures(limits.Target, 5, time.Hour), time.Hour, time.Hour)} {
		synctest.Test(t, func(t *testing.T) {
			backend := &accounts{takes: 150 * time.Millisecond}
			g := newGate(t, setup{backend: backend, policies: []policy{logins(rule)}})
			var done sync.WaitGroup
			var wrong, refused counter
			for i := range 50 {
				done.Go(func() {
					switch code := g.ask(login("bob", fmt.Sprint("guess ", i))).Code; code {
					case 401:
						wrong.add()
					case 429:
						refused.add()
					default:
						t.Errorf("got %d", code)
					}
				})
			}
			done.Wait()
			if backend.asked.count() != 5 || wrong.count() != 5 || refused.count() != 45 {
				t.Errorf("the backend was asked %d times; %d wrong, %d refused; want 5, 5, 45", backend.asked.count(), wrong.count(), refused.count())
			}
			_ = g.store.Close()
		})
	}
}

// Only attempts whose verdict is not known yet are waited for: an office that signs in at once gets in, a wrong one does not [L8].
func TestWaitingRoom(t *testing.T) {
	t.Run("twenty right ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(t, setup{backend: &accounts{takes: 150 * time.Millisecond}, policies: []policy{logins(failures(limits.Source, 5, time.Hour))}})
			var done sync.WaitGroup
			for i := range 20 {
				done.Go(func() {
					if code := g.ask(login(fmt.Sprint("u", i), "right")).Code; code != 200 {
						t.Errorf("somebody of the office got %d", code)
					}
				})
			}
			done.Wait()
			_ = g.store.Close()
		})
	})
	t.Run("no waiting where failures fill the bucket", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(t, setup{backend: &accounts{}, policies: []policy{logins(failures(limits.Source, 2, time.Hour))}})
			expect(t, g.attempts("a x", "b x"), "401 401")
			began := time.Now()
			expect(t, g.attempts("c right"), "429")
			if took := time.Since(began); took > 0 {
				t.Errorf("the refusal took %v", took)
			}
			_ = g.store.Close()
		})
	})
	t.Run("in vain", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(t, setup{backend: &accounts{takes: 3 * time.Second}, policies: []policy{logins(failures(limits.Target, 1, time.Hour))}})
			go g.ask(login("bob", "right"))
			synctest.Wait()
			began := time.Now()
			w := g.ask(login("bob", "right"))
			if took := time.Since(began); w.Code != 429 || w.Header().Get("Retry-After") != "1" || took != 2*time.Second {
				t.Errorf("got %d, Retry-After %q after %v; want 429, 1 after 2s", w.Code, w.Header().Get("Retry-After"), took)
			}
			time.Sleep(time.Second)
			_ = g.store.Close()
		})
	})
	t.Run("a lock refuses those who wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(t, setup{backend: &accounts{takes: 300 * time.Millisecond}, policies: []policy{logins(lockout(failures(limits.Target, 1, time.Hour), time.Hour, time.Hour))}})
			go g.ask(login("bob", "wrong"))
			synctest.Wait()
			began := time.Now()
			w := g.ask(login("bob", "right"))
			if took := time.Since(began); w.Code != 429 || w.Header().Get("Retry-After") != "3600" || took != 300*time.Millisecond {
				t.Errorf("got %d, Retry-After %q after %v; want 429, 3600 when the lock was made", w.Code, w.Header().Get("Retry-After"), took)
			}
			_ = g.store.Close()
		})
	})
	t.Run("who hangs up leaves nothing behind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			backend := &accounts{takes: time.Second}
			g := newGate(t, setup{backend: backend, policies: []policy{logins(failures(limits.Target, 1, time.Hour))}})
			go g.ask(login("bob", "right"))
			synctest.Wait()
			ctx, hangUp := context.WithCancel(t.Context())
			var done sync.WaitGroup
			done.Go(func() { g.ask(login("bob", "wrong").WithContext(ctx)) })
			synctest.Wait()
			hangUp()
			done.Wait()
			time.Sleep(2 * time.Second)
			if backend.asked.count() != 1 || g.events.count("served login 499") != 1 {
				t.Errorf("the backend was asked %d times; %v", backend.asked.count(), g.events)
			}
			if stats := g.store.Stats(); stats.Pinned != 0 {
				t.Errorf("got %+v, want no reservation left", stats)
			}
			_ = g.store.Close()
		})
	})
}

// A backend that is slower than the lease still has its slots [L6].
func TestSlowBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &accounts{takes: 40 * time.Second}
		g := newGate(t, setup{backend: backend, policies: []policy{logins(failures(limits.Target, 1, 5*time.Second))}}) // leases of 5 s
		go g.ask(login("bob", "wrong"))
		for range 5 {
			time.Sleep(5 * time.Second) // and two more of waiting
			if code := g.ask(login("bob", "right")).Code; code != 429 {
				t.Fatalf("got %d while the first attempt is under way, want 429", code)
			}
		}
		time.Sleep(10 * time.Second)
		if n := g.events.count("verdict login failure"); n != 1 || backend.asked.count() != 1 {
			t.Errorf("got %d failures of %d attempts, want 1 of 1", n, backend.asked.count())
		}
		if code := g.ask(login("bob", "right")).Code; code != 200 {
			t.Errorf("got %d a window after the failure, want 200", code)
		}
		_ = g.store.Close()
	})
}

// The same wrong password again counts once, and is no way to have others counted less [D6].
func TestSameWrongPassword(t *testing.T) {
	p := logins(failures(limits.Target, 3, time.Hour), failures(limits.TargetSource, 3, time.Hour))
	p.secret = []string{"json:/password"}
	g := newGate(t, setup{backend: &accounts{}, policies: []policy{p}})
	expect(t, g.attempts("bob old", "bob old", "bob old", "bob old", "bob older", "bob old", "bob x", "bob old"), "401 401 401 401 401 401 401 429")
	g = newGate(t, setup{backend: &accounts{}, policies: []policy{logins(failures(limits.Target, 3, time.Hour))}})
	expect(t, g.attempts("bob old", "bob old", "bob old", "bob old"), "401 401 401 429")
}

// A signal counts and tells, once in a window, and refuses nothing [L14].
func TestSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signal := failures(limits.Source, 2, time.Minute)
		signal.Signal = true
		g := newGate(t, setup{backend: &accounts{}, policies: []policy{logins(signal)}})
		told := func() int { return len(g.log.lines("signal exceeded")) }
		expect(t, g.attempts("a x", "b x", "own right"), "401 401 200")
		if told() != 0 {
			t.Error("the signal was told before it exceeded its limit")
		}
		expect(t, g.attempts("c x", "d x", "e x"), "401 401 401")
		if told() != 1 || g.events.count("crossed login source") != 1 {
			t.Errorf("the signal was logged %d times, and counted %v; want once", told(), g.events)
		}
		time.Sleep(time.Minute)
		expect(t, g.attempts("a x", "b x", "c x"), "401 401 401")
		if told() != 2 {
			t.Errorf("the signal was told %d times in two windows, want 2", told())
		}
		_ = g.store.Close()
	})
}

// Locks are told, by policy and dimension, with the name as the operator wants names.
func TestLockIsTold(t *testing.T) {
	g := newGate(t, setup{backend: &accounts{}, policies: []policy{logins(lockout(failures(limits.Target, 2, time.Hour), time.Minute, time.Hour))}})
	expect(t, g.attempts("bob x", "bob y", "bob right"), "401 401 429")
	lines := g.log.lines("bucket locked")
	if len(lines) != 1 || g.events.count("locked login target") != 1 {
		t.Fatalf("got %v and %v, want one lock told", lines, g.events)
	}
	for name, want := range map[string]any{"policy": "login", "dimension": "target", "realm": "default", "lockout_level": 1.0, "locked_for_seconds": 60.0} {
		if lines[0][name] != want {
			t.Errorf("got %s: %v, want %v", name, lines[0][name], want)
		}
	}
	if bucket, _ := lines[0]["bucket"].(string); !strings.HasPrefix(bucket, "h:") {
		t.Errorf("got bucket %q, want a digest", bucket)
	}
}

// Log-only evaluates and tells all, and refuses, waits and asks back for nothing; what it has counted bites afterwards [L11].
func TestLogOnly(t *testing.T) {
	rules := func() []limits.Rule {
		return []limits.Rule{requests(limits.Source, 3, time.Hour), lockout(failures(limits.Target, 2, time.Hour), time.Hour, time.Hour)}
	}
	for _, test := range []struct {
		name   string
		policy bool // the policy's own mode, else the kill switch
	}{{"policy", true}, {"kill switch", false}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := logins(rules()...)
				p.onMissing = proxy.Reject
				if test.policy {
					p.edit = func(p *proxy.Policy) { p.LogOnly = true }
				}
				g := newGate(t, setup{backend: &accounts{takes: time.Millisecond}, policies: []policy{p}})
				if !test.policy {
					_ = g.mode.SetLogOnly(t.Context(), time.Minute)
				}
				began := time.Now()
				expect(t, g.attempts("bob x", "bob x", "bob x", "bob right"), "401 401 401 200")
				expect(t, g.codes(post("/login", `{"user":"a","User":"b"}`), post("/login", `{}`)), "401 401") // no 400
				if took := time.Since(began); took > 6*time.Millisecond {
					t.Errorf("it took %v, want no waiting", took)
				}
				if got := g.events.count("rejected login target log-only default"); got != 2 {
					t.Errorf("got %v, want the third and the fourth told for target", g.events)
				}
				if got := g.events.count("rejected login source log-only default"); got != 3 {
					t.Errorf("got %v, want the last three told for source", g.events)
				}
				lines := g.log.lines("would have refused")
				if len(lines) != 5 || lines[0]["level"] != "WARN" || lines[0]["policy"] != "login" || lines[0]["dimension"] != "target" || lines[0]["mode"] != "log-only" || lines[0]["realm"] != "default" {
					t.Errorf("got %v, want five warnings", lines)
				}
				if len(g.log.lines("bucket locked")) != 1 {
					t.Errorf("got %s, want one lock", g.log)
				}
				// Back to enforcing: the lock that was made meanwhile bites.
				p.edit = nil
				g.handler.Swap(newPlan(t, setup{backend: &accounts{}, policies: []policy{p}}))
				_ = g.mode.SetLogOnly(t.Context(), 0)
				w := g.ask(from("198.51.100.7", login("bob", "right")))
				if w.Code != 429 || !strings.Contains(w.Body.String(), `"dimension":"target"`) {
					t.Errorf("got %d %s, want the lock to refuse", w.Code, w.Body)
				}
				_ = g.store.Close()
			})
		})
	}
}

// The kill switch ends by itself.
func TestKillSwitchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, setup{backend: &accounts{}, policies: []policy{logins(requests(limits.Source, 1, time.Hour))}})
		_ = g.mode.SetLogOnly(t.Context(), time.Minute)
		expect(t, g.attempts("a right", "b right"), "200 200")
		time.Sleep(time.Minute)
		expect(t, g.attempts("c right"), "429")
		_ = g.store.Close()
	})
}

// One policy in log-only does not keep another from refusing, nor the other way round.
func TestMixedModes(t *testing.T) {
	quiet := policy{name: "quiet", match: allOf("/login"), rules: []limits.Rule{requests(limits.Source, 1, time.Hour)}, edit: func(p *proxy.Policy) { p.LogOnly = true }}
	g := newGate(t, setup{backend: &accounts{}, policies: []policy{quiet, logins(requests(limits.Target, 2, time.Hour))}})
	expect(t, g.attempts("bob right", "bob right", "bob right"), "200 200 429")
	if g.events.count("rejected quiet source log-only default") != 2 || g.events.count("rejected login target enforce default") != 1 {
		t.Errorf("got %v", g.events)
	}
}
