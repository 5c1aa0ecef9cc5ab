package gateway_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/internal/valkeytest"
)

const (
	budget = 400 * time.Millisecond  // of one call of the store, where that matters
	ample  = 2 * time.Second         // where it does not: no busy machine makes an outage of it
	slack  = 1500 * time.Millisecond // of a busy machine
)

// traffic has several clients sign in, right and wrong, until stop is called, which returns how many were answered.
// Whatever happens to the store, each must be answered within most.
func traffic(t *testing.T, s *site, most time.Duration) (stop func() int) {
	var done sync.WaitGroup
	var answered atomic.Int32
	end := make(chan bool)
	for i := range 4 {
		done.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				case <-time.After(5 * time.Millisecond):
				}
				password := "wrong"
				if n%2 == 0 {
					password = "right"
				}
				a := s.login(fmt.Sprintf("u%d-%d", i, n), password)
				if want := map[string]int{"right": 200, "wrong": 401}[password]; a.status != want || a.took > most+slack {
					t.Errorf("somebody got %d after %v, want %d in time", a.status, a.took, want)
				}
				answered.Add(1)
			}
		})
	}
	stop = sync.OnceValue(func() int {
		close(end)
		done.Wait()
		return int(answered.Load())
	})
	t.Cleanup(func() { stop() })
	return stop
}

const lockedAfterThree = "target: {limit: 3, window: 1h, lockout: {base: 1h, max: 1h}}"

// A shared store that dies in mid-traffic is noticed by nobody who signs in; limits hold, and what was locked meanwhile is
// locked afterwards, everywhere [S4] [S5] [S6].
func TestStoreDies(t *testing.T) {
	v := valkeytest.Start(t)
	yaml := settings(backend(t, &accounts{}), valkeySection(v.Addr(), ample)+loginPolicy(lockedAfterThree))
	s := start(t, yaml)
	expect(t, "before", s.logins("known wrong", "known wrong"), "401 401")
	expect(t, "the gauge before", s.metric("gateway_store_degraded"), "0")

	stop := traffic(t, s, 0) // a connection that is refused costs no time
	time.Sleep(100 * time.Millisecond)
	v.Kill()
	eventually(t, "the outage", func() bool { return s.metric("gateway_store_degraded") == "1" })
	expect(t, "an account known from before", s.logins("known wrong", "known right"), "401 429")
	expect(t, "a new one", s.logins("new wrong", "new wrong", "new wrong", "new right"), "401 401 401 429")
	expect(t, "half of a window", s.logins("half wrong", "half wrong"), "401 401")
	for _, path := range []string{"/meta/login-rate-limit", "/api/v0/meta/login-rate-limit"} {
		if a := s.meta("GET", path, ""); a.status != 503 || !strings.HasPrefix(a.body, `{"error":"store_unavailable"`) || a.header.Get("Retry-After") != "5" {
			t.Errorf("the list is answered %d %s, want 503", a.status, a.body)
		}
	}
	expect(t, "releasing all", s.meta("DELETE", "/meta/login-rate-limit", "").status, 503)
	expect(t, "the mode", s.meta("POST", "/meta/mode", `{"mode":"log-only","for":"1m"}`).status, 503)
	expect(t, "readiness", s.meta("GET", "/readyz", "").status, 200)
	if s.metric(`gateway_store_failures_total{operation="decide"}`) == "none" {
		t.Error("no failed operation was counted")
	}

	v.Restart() // empty: what only the server knew is lost
	eventually(t, "the recovery", func() bool { return s.metric("gateway_store_degraded") == "0" })
	if n := stop(); n < 20 {
		t.Errorf("only %d requests were answered", n)
	}
	expect(t, "lines on the way in", len(s.log.lines("store degraded")), 1)
	expect(t, "lines on the way out", len(s.log.lines("store recovered")), 1)

	other := start(t, yaml) // knows what the server knows
	expect(t, "locks elsewhere", other.logins("new right", "known right"), "429 429")
	expect(t, "the half elsewhere", other.logins("half wrong", "half right"), "401 429")
	expect(t, "the list", strings.Count(other.meta("GET", "/meta/login-rate-limit", "").body, `"locked":true`), 3)
}

// A server that hangs costs one budget at the most, and what it did too late holds nobody up.
func TestStoreHangs(t *testing.T) {
	v := valkeytest.Start(t)
	s := start(t, settings(backend(t, &accounts{}), valkeySection(v.Addr(), budget)+loginPolicy("target: {limit: 1, window: 1h}")))
	stop := traffic(t, s, budget)
	time.Sleep(50 * time.Millisecond)
	v.Pause()
	expect(t, "somebody", s.logins("late right"), "200") // reserved in the server, if that gets to it
	eventually(t, "the outage", func() bool { return s.metric("gateway_store_degraded") == "1" })
	v.Resume()
	eventually(t, "the recovery", func() bool { return s.metric("gateway_store_degraded") == "0" })
	stop()
	eventually(t, "the slot that was taken too late", func() bool { return s.logins("late right") == "200" })
}

// So does one whose connections are lost while new ones lead nowhere.
func TestStoreIsBehindABlackHole(t *testing.T) {
	v := valkeytest.Start(t)
	line := lay(t, v.Addr())
	line.mute = true
	s := start(t, settings(backend(t, &accounts{}), valkeySection(line.addr(), 100*time.Millisecond)+loginPolicy(lockedAfterThree)))
	expect(t, "before", s.logins("bob wrong"), "401")
	line.cut()
	for i := range 12 {
		if a := s.login(fmt.Sprint("u", i), "wrong"); a.status != 401 || a.took > 600*time.Millisecond {
			t.Errorf("somebody got %d after %v, want 401 in time", a.status, a.took)
		}
	}
	expect(t, "known from before", s.logins("bob wrong", "bob wrong", "bob right"), "401 401 429")
	expect(t, "the gauge", s.metric("gateway_store_degraded"), "1")
	line.mend()
	eventually(t, "the recovery", func() bool { return s.metric("gateway_store_degraded") == "0" })
	expect(t, "afterwards", s.logins("bob right", "zoe right"), "429 200")
}

// A gateway starts without its store, and goes on with it when that comes.
func TestStartWithoutStore(t *testing.T) {
	v := valkeytest.Start(t)
	v.Kill()
	began := time.Now()
	s := start(t, settings(backend(t, &accounts{}), valkeySection(v.Addr(), ample)+loginPolicy(lockedAfterThree)))
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the start took %v", took)
	}
	expect(t, "the gauge", s.metric("gateway_store_degraded"), "1")
	expect(t, "readiness", s.meta("GET", "/readyz", "").status, 200)
	expect(t, "logins", s.logins("bob right", "bob wrong", "bob wrong", "bob wrong", "bob right"), "200 401 401 401 429")
	v.Restart()
	eventually(t, "the recovery", func() bool { return s.metric("gateway_store_degraded") == "0" })
	expect(t, "lines on the way in", len(s.log.lines("store degraded")), 1)
	expect(t, "lines on the way out", len(s.log.lines("store recovered")), 1)
	expect(t, "the lock from before", s.logins("bob right", "eve right"), "429 200")
	if strings.Contains(s.meta("GET", "/meta/login-rate-limit", "").body, `"identifier":"bob"`) == false {
		t.Error("the server does not list the lock from before")
	}
}

// A server that comes back empty, or forgets the scripts, is served again.
func TestScriptFlush(t *testing.T) {
	v := valkeytest.Start(t)
	s := start(t, settings(backend(t, &accounts{}), valkeySection(v.Addr(), ample)+loginPolicy(lockedAfterThree)))
	expect(t, "before", s.logins("bob wrong"), "401")
	v.Do("SCRIPT", "FLUSH")
	expect(t, "after", s.logins("bob wrong", "bob wrong", "bob right"), "401 401 429")
	expect(t, "the gauge", s.metric("gateway_store_degraded"), "0")
}

// A full server is an outage, never an admission [S4].
func TestFullStore(t *testing.T) {
	v := valkeytest.Start(t, valkeytest.Flag("maxmemory-policy", "noeviction"))
	s := start(t, settings(backend(t, &accounts{}), valkeySection(v.Addr(), ample)+loginPolicy(lockedAfterThree)))
	expect(t, "before", s.logins("bob wrong"), "401")
	v.Config("maxmemory", "1")
	expect(t, "while it is full", s.logins("bob wrong", "bob wrong", "bob right", "eve wrong", "eve wrong", "eve wrong", "eve right"), "401 401 429 401 401 401 429")
	expect(t, "the gauge", s.metric("gateway_store_degraded"), "1")
	v.Config("maxmemory", "0")
	eventually(t, "the recovery", func() bool { return s.metric("gateway_store_degraded") == "0" })
	expect(t, "afterwards", s.logins("bob right", "eve right", "zoe right"), "429 429 200")
	expect(t, "warnings of eviction", len(s.log.lines("store may evict live buckets: set maxmemory-policy to noeviction")), 0)
}

// A server that may forget locks for want of room is told of at the start.
func TestEvictingStore(t *testing.T) {
	v := valkeytest.Start(t, valkeytest.Flag("maxmemory-policy", "allkeys-lru"))
	s := start(t, settings(backend(t, &accounts{}), valkeySection(v.Addr(), ample)))
	eventually(t, "the warning", func() bool {
		return len(s.log.lines("store may evict live buckets: set maxmemory-policy to noeviction")) == 1
	})
}

// What a policy does without the store is its own affair, and the strictest of several on one request holds.
func TestOnOutage(t *testing.T) {
	v := valkeytest.Start(t)
	s := start(t, settings(backend(t, &accounts{}), valkeySection(v.Addr(), ample)+`
policies:
  local: {match: [{path: /local}, {path: /local-allow}, {path: /local-deny}], requests: {source: {limit: 2, window: 1h}}}
  allow: {match: [{path: /allow}, {path: /local-allow}], on_outage: allow, requests: {source: {limit: 1, window: 1h}}}
  deny: {match: [{path: /deny}, {path: /local-deny}], on_outage: deny, requests: {source: {limit: 1000, window: 1h}}}
  quiet: {match: [{path: /quiet}], on_outage: deny, mode: log-only, requests: {source: {limit: 1, window: 1h}}}
`))
	ask := func(path string) string {
		a := s.post(path, `{"password":"right"}`)
		return fmt.Sprint(a.status, " ", a.header.Get("Retry-After"))
	}
	expect(t, "before", ask("/deny"), "200 ")
	v.Kill()
	eventually(t, "the outage", func() bool { ask("/quiet"); return s.metric("gateway_store_degraded") == "1" })
	for _, test := range []struct{ path, want string }{
		{"/allow", "200 "},
		{"/allow", "200 "},
		{"/local-allow", "200 "},
		{"/local-deny", "503 5"},
		{"/local", "200 "}, // the second that counts
		{"/local", "429 3600"},
		{"/local-allow", "429 3600"},
		{"/local-deny", "503 5"},
		{"/deny", "503 5"},
		{"/quiet", "200 "},
		{"/other", "200 "},
	} {
		expect(t, test.path, ask(test.path), test.want)
	}
	if a := s.post("/deny", "{}"); a.body != `{"error":"unavailable"}` || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s %s", a.header.Get("Content-Type"), a.body)
	}
	v.Restart()
	eventually(t, "the recovery", func() bool { return ask("/deny") == "200 " })
}

// A gateway that was cut off brings in what it has locked, unless that was released meanwhile [S5].
func TestReleaseWhileCutOff(t *testing.T) {
	for _, release := range []bool{false, true} {
		t.Run(fmt.Sprint("released ", release), func(t *testing.T) {
			v := valkeytest.Start(t)
			line := lay(t, v.Addr())
			url := backend(t, &accounts{})
			far := start(t, settings(url, valkeySection(line.addr(), ample)+loginPolicy(lockedAfterThree)))
			near := start(t, settings(url, valkeySection(v.Addr(), ample)+loginPolicy(lockedAfterThree)))
			expect(t, "before", far.logins("bob wrong", "bob wrong"), "401 401")
			line.cut()
			eventually(t, "the outage", func() bool { far.login("zoe", "right"); return far.metric("gateway_store_degraded") == "1" })
			expect(t, "cut off", far.logins("bob wrong", "bob right"), "401 429")
			expect(t, "near", near.logins("bob right"), "200")
			if release {
				time.Sleep(300 * time.Millisecond) // longer than telling of the lock takes
				expect(t, "releasing", near.meta("DELETE", "/meta/login-rate-limit", "").body, "{\"cleared\":1}\n")
			}
			line.mend()
			eventually(t, "the recovery", func() bool { return far.metric("gateway_store_degraded") == "0" })
			want := "429"
			if release {
				want = "200"
			}
			expect(t, "near, afterwards", near.logins("bob right"), want)
			expect(t, "far, afterwards", far.logins("bob right"), want)
		})
	}
}

// A disturbance that is too short to be called an outage is no amnesty either.
func TestShortDisturbance(t *testing.T) {
	v := valkeytest.Start(t)
	line := lay(t, v.Addr())
	url := backend(t, &accounts{})
	far := start(t, settings(url, valkeySection(line.addr(), ample)+loginPolicy(lockedAfterThree)))
	near := start(t, settings(url, valkeySection(v.Addr(), ample)+loginPolicy(lockedAfterThree)))
	expect(t, "before", far.logins("bob wrong", "bob wrong"), "401 401")
	line.cut()
	expect(t, "alone", far.logins("bob wrong"), "401")
	line.mend()
	eventually(t, "the lock elsewhere", func() bool { return near.logins("bob right") == "429" })
	expect(t, "lines", len(far.log.lines("store degraded")), 0)
}

// line is a connection that can be cut.
type line struct {
	l     net.Listener
	mu    sync.Mutex
	down  bool
	mute  bool // while it is down, connections are taken and nothing is said on them
	conns []net.Conn
}

func lay(t *testing.T, to string) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &line{l: l}
	t.Cleanup(func() { _ = l.Close(); w.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			w.join(in, to)
		}
	}()
	return w
}

func (w *line) join(in net.Conn, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down && w.mute {
		w.conns = append(w.conns, in)
		return
	}
	out, err := net.Dial("tcp", to)
	if w.down || err != nil {
		_ = in.Close()
		return
	}
	w.conns = append(w.conns, in, out)
	go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
	go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
}

func (w *line) addr() string { return w.l.Addr().String() }

func (w *line) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

func (w *line) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
	if w.mute {
		for _, c := range w.conns {
			_ = c.Close()
		}
		w.conns = nil
	}
}
