package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"authgate/internal/gateway"
	"authgate/internal/valkeytest"
)

// A gateway that stops says so, takes nobody in, and finishes what it has begun.
func TestStopFinishesRequests(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	s := start(t, settings(backend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		entered <- true
		<-leave
		w.WriteHeader(http.StatusUnauthorized)
	})), loginPolicy("target: {limit: 5, window: 1h}")))
	addr := s.g.Addr().String()
	expect(t, "readiness", s.meta("GET", "/readyz", "").status, 200)
	got := make(chan reply)
	go func() { got <- s.login("bob", "wrong") }()
	<-entered
	stopped := make(chan error)
	go func() { stopped <- s.g.Stop(context.Background()) }()
	eventually(t, "the end of readiness", func() bool { return s.meta("GET", "/readyz", "").status == 503 })
	expect(t, "readiness", s.meta("GET", "/readyz", "").body, "stopping\n")
	expect(t, "health", s.meta("GET", "/healthz", "").status, 200)
	eventually(t, "the end of listening", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	leave <- true
	expect(t, "the request under way", (<-got).status, 401)
	if err := <-stopped; err != nil {
		t.Errorf("stopping: %v", err)
	}
	s.g = nil
	if len(s.log.lines("request")) != 1 {
		t.Errorf("got %v logged, want the request", s.log.lines("request"))
	}
}

// A verdict that nobody waits for is settled all the same before the store is closed.
func TestStopSettles(t *testing.T) {
	v := valkeytest.Start(t)
	b := &accounts{takes: 300 * time.Millisecond}
	yaml := settings(backend(t, b), shared(v)+loginPolicy("target: {limit: 1, window: 1h}"))
	s, other := start(t, yaml), start(t, yaml)
	got := make(chan reply)
	go func() { got <- s.login("bob", "right") }()
	eventually(t, "the attempt", func() bool { return b.asked.Load() == 1 })
	v.Pause() // the success is known, and cannot be told yet
	expect(t, "the attempt", (<-got).status, 200)
	stopped := make(chan bool)
	go func() { s.stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Error("the gateway did not wait for the settlement")
	case <-time.After(100 * time.Millisecond):
	}
	v.Resume()
	<-stopped
	if a := other.login("bob", "right"); a.status != 200 || a.took > time.Second {
		t.Errorf("got %d after %v, want the slot free at once", a.status, a.took)
	}
}

// What is not done when patience ends is cut off, and told.
func TestStopCutsOff(t *testing.T) {
	leave := make(chan bool)
	s := start(t, settings(backend(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave })), loginPolicy("target: {limit: 5, window: 1h}")))
	defer close(leave)
	ended := make(chan bool)
	go func() {
		defer close(ended)
		if res, err := s.client.Post("http://"+s.g.Addr().String()+"/login", "application/json", strings.NewReader(`{"user":"bob"}`)); err == nil {
			t.Errorf("got %d from a gateway that is gone", res.StatusCode)
		}
	}()
	eventually(t, "the request", func() bool { return s.metric("gateway_decision_seconds_count") == "1" })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := s.g.Stop(ctx)
	if err == nil || !strings.Contains(err.Error(), "some requests were cut off") || time.Since(began) > 2*time.Second {
		t.Errorf("got %v after %v, want it told soon", err, time.Since(began))
	}
	<-ended
	s.g = nil
}

// Nothing of a gateway is left when it has stopped.
func TestNoGoroutineIsLeft(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/login", &accounts{})
	mux.HandleFunc("/talk", talk)
	url := backend(t, mux)
	stores(t, func(t *testing.T, section string, _ int) {
		before := ours()
		s := start(t, settings(url, section+loginPolicy("target: {limit: 5, window: 1h}")))
		inParallel(10, func(i int) { s.login(fmt.Sprint("u", i), "wrong") })
		c := switchProtocols(t, s)
		defer c.Close()
		s.meta("GET", "/meta/login-rate-limit", "")
		s.stop()
		eventually(t, "the end of its goroutines", func() bool { return ours() <= before })
	})
	if t.Failed() {
		buf := make([]byte, 1<<20)
		t.Logf("%s", buf[:runtime.Stack(buf, true)])
	}
}

// ours is how many goroutines run code of the gateway, of its servers, or of its store's client.
func ours() (n int) {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		mine := strings.Contains(stack, "authgate/") || strings.Contains(stack, "valkey-go") || strings.Contains(stack, "net/http.(*Server)") || strings.Contains(stack, "net/http.(*conn)")
		if mine && !strings.Contains(stack, "testing.tRunner") && !strings.Contains(stack, "httptest") {
			n++
		}
	}
	return n
}

// talk is a backend that switches to another protocol, and listens.
func talk(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
	_, _ = io.Copy(io.Discard, c)
}

// switchProtocols opens a connection that speaks another protocol with the backend.
func switchProtocols(t *testing.T, s *site) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "GET /talk HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("got %v, %v; want the switch", res, err)
	}
	return c
}

// Reloading changes the limits of buckets that are in use: lowering refuses, raising frees [L12] [A7].
func TestReload(t *testing.T) {
	stores(t, func(t *testing.T, section string, _ int) {
		url := backend(t, &accounts{})
		yaml := func(limit int) string {
			return settings(url, section+fmt.Sprintf(`
policies:
  mail: {match: [{path: /mail}], requests: {source: {limit: %d, window: 1h}}}
`, limit))
		}
		s := start(t, yaml(3))
		reload := func(limit int) {
			t.Helper()
			if err := s.g.Reload(parse(t, yaml(limit))); err != nil {
				t.Fatal(err)
			}
		}
		send := func() int { return s.post("/mail", `{"password":"right"}`).status }
		expect(t, "two of three", fmt.Sprint(send(), send()), "200 200")
		reload(2)
		expect(t, "lowered to two", send(), 429)
		expect(t, "the effective rule", strings.Count(s.meta("GET", "/meta/policies", "").body, `"limit":2,`), 1)
		reload(4)
		expect(t, "raised to four", fmt.Sprint(send(), send(), send()), "200 200 429")
		expect(t, "reloads", s.metric(`gateway_config_reloads_total{result="success"}`), "2")
	})
}

// A reload that cannot be made changes nothing, and says why.
func TestBadReload(t *testing.T) {
	url := backend(t, &accounts{})
	base := settings(url, "policies: {mail: {match: [{path: /mail}], requests: {source: {limit: 1, window: 1h}}}}\n")
	s := start(t, base)
	for _, test := range []struct{ name, from, to, want string }{
		{"another listener", `listen: "127.0.0.1:0"}`, `listen: "127.0.0.1:1"}`, "server changed, which needs a restart"},
		{"another backend", url, "http://elsewhere.test", "upstream changed, which needs a restart"},
		{"another token", hash(look), hash("new"), "admin changed, which needs a restart"},
		{"another store", "upstream:", "store: {max_entries: 5000}\nupstream:", "store.max_entries changed, which needs a restart"},
	} {
		text := strings.Replace(base, test.from, test.to, 1)
		if text == base {
			t.Fatalf("%s: nothing is different", test.name)
		}
		text = strings.Replace(text, "limit: 1,", "limit: 100,", 1)
		if err := s.g.Reload(parse(t, text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
	s.g.ReloadFailed() // the file did not even parse
	expect(t, "the old limits", fmt.Sprint(s.post("/mail", `"right"`).status, s.post("/mail", "").status), "200 429")
	expect(t, "the configuration shown", strings.Contains(s.meta("GET", "/meta/config", "").body, `"limit":1,`), true)
	expect(t, "failed reloads", s.metric(`gateway_config_reloads_total{result="failure"}`), "5")
	expect(t, "reloads", s.metric(`gateway_config_reloads_total{result="success"}`), "0")
}

// Requests under way when the configuration is swapped keep the one they began with.
func TestReloadUnderWay(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	url := backend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		entered <- true
		<-leave
		w.WriteHeader(http.StatusUnauthorized)
	}))
	s := start(t, settings(url, loginPolicy("target: {limit: 1, window: 1h}")))
	got := make(chan reply)
	go func() { got <- s.login("bob", "wrong") }()
	<-entered
	if err := s.g.Reload(parse(t, settings(url, ""))); err != nil {
		t.Fatal(err)
	}
	leave <- true
	expect(t, "the request", (<-got).status, 401)
	if err := s.g.Reload(parse(t, settings(url, loginPolicy("target: {limit: 1, window: 1h}")))); err != nil {
		t.Fatal(err)
	}
	expect(t, "its failure counts", s.logins("bob right"), "429")
}

// What cannot run is told at the start, and leaves nothing open.
func TestCannotStart(t *testing.T) {
	before := ours()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	yaml := strings.Replace(settings("http://backend.test", ""), `listen: "127.0.0.1:0"}`, `listen: ["127.0.0.1:0", "`+taken.Addr().String()+`"]}`, 1)
	g, err := gateway.New(parse(t, yaml), gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v, want the address told", err)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Errorf("stopping what never ran: %v", err)
	}
	missing := settings("http://backend.test", "audit: {file: "+filepath.Join(t.TempDir(), "no", "audit")+"}\n")
	if _, err := gateway.New(parse(t, missing), gateway.Options{Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "opening the audit file") {
		t.Errorf("got %v, want the file told", err)
	}
	eventually(t, "the end of its goroutines", func() bool { return ours() <= before })
}

// A listener that ends by itself is told to whoever runs the gateway; stopping is no such end.
func TestFailed(t *testing.T) {
	s := start(t, settings(backend(t, &accounts{}), ""))
	failed := s.g.Failed()
	s.stop()
	select {
	case err := <-failed:
		t.Errorf("got %v from a gateway that was stopped", err)
	default:
	}
}

// Audit events go to the log and to the file, which may be rotated.
func TestAuditFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	s := start(t, settings(backend(t, &accounts{}), "audit: {file: "+path+"}\n"))
	s.meta("POST", "/meta/mode", `{"mode":"log-only","for":"1m"}`)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := s.g.ReopenFiles(); err != nil {
		t.Fatal(err)
	}
	s.meta("POST", "/meta/mode", `{"mode":"configured"}`)
	for name, want := range map[string]string{path + ".1": `"mode":"log-only"`, path: `"mode":"configured"`} {
		text, err := os.ReadFile(name)
		if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), want) || !strings.Contains(string(text), `"who":"ops"`) {
			t.Errorf("%s holds %s, %v; want one event with %s", name, text, err, want)
		}
	}
	expect(t, "events in the log", len(s.log.lines("audit")), 2)
}

// The public server takes what a proxy must take, and no more.
func TestPublicServer(t *testing.T) {
	got := make(chan string, 1)
	b := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Method + " " + r.RequestURI }))
	b.Config.DisableGeneralOptionsHandler = true
	b.Start()
	t.Cleanup(b.Close)
	s := start(t, settings(b.URL, ""))
	ask := func(head string) *http.Response {
		t.Helper()
		c, err := net.Dial("tcp", s.g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(c, head+"\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	expect(t, "the public health", ask("GET /.gateway/healthz HTTP/1.1\r\nHost: x").StatusCode, 200)
	expect(t, "a header that is too large", ask("GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 70<<10)).StatusCode, 431)
	expect(t, "a question about the whole server", ask("OPTIONS * HTTP/1.1\r\nHost: x").StatusCode, 200)
	expect(t, "what the backend got", <-got, "OPTIONS *")
}
