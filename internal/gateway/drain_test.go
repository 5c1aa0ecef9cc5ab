package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Whoever has connected before a stop is served: one whose request is still coming, one who may send another on a connection
// that is open. Both are told to go elsewhere next. One who says nothing holds nobody up.
func TestStopServesWhoHasArrived(t *testing.T) {
	s := start(t, settings(backend(t, &accounts{}), ""))
	dial := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", s.g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c, bufio.NewReader(c)
	}
	ask := func(who string, c net.Conn, r *bufio.Reader, text string, wantClose bool) {
		t.Helper()
		_, _ = io.WriteString(c, text)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Errorf("%s: %v", who, err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if res.StatusCode != 401 || res.Close != wantClose {
			t.Errorf("%s: got %d, close %v; want an answer, close %v", who, res.StatusCode, res.Close, wantClose)
		}
	}
	late, lateReader := dial()
	_, _ = io.WriteString(late, "GET / HTTP/1.1\r\nHo")
	old, oldReader := dial()
	const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	ask("a client before the stop", old, oldReader, get, false)
	_, _ = dial() // who says nothing
	began, stopped := time.Now(), make(chan error)
	go func() { stopped <- s.g.Stop(context.Background()) }()
	eventually(t, "the end of listening", func() bool {
		c, err := net.Dial("tcp", s.g.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	ask("a client with an open connection", old, oldReader, get, true)
	ask("a client in the middle of its request", late, lateReader, "st: x\r\n\r\n", true)
	if err := <-stopped; err != nil {
		t.Errorf("stopping: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v, want somewhat more than a second", took)
	}
	s.g = nil
}

// A hundred reloads under load lose no request and no count: exactly the limit is admitted, a lock stays, what is under way
// goes on, and an open connection stays open.
func TestReloadUnderLoad(t *testing.T) {
	stores(t, func(t *testing.T, section string, gateways int) {
		const limit = 300
		enter, leave := make(chan bool), make(chan bool)
		mux := http.NewServeMux()
		mux.Handle("/login", &accounts{})
		mux.HandleFunc("/mail", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("/talk", talk)
		mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
			enter <- true
			<-leave
			_, _ = io.WriteString(w, "slow")
		})
		url := backend(t, mux)
		yaml := func(n int) string {
			return settings(url, section+fmt.Sprintf(`
policies:
  mail: {match: [{path: /mail}], requests: {app: {limit: %d, window: 24h}}}
  login:
    match: [{methods: [POST], path: /login}]
    target: {from: ["json:/user"]}
    failures: {target: {limit: 2, window: 1h, lockout: {base: 1h, max: 24h}}}
    outcome: [{is: success, status: 200, cookie_set: session}, {is: failure, status: 401}]
  other: {match: [{path: /other}], requests: {app: {limit: %d, window: 24h}}}
`, limit, n+1))
		}
		sites := startAll(t, gateways, yaml(0))
		expect(t, "locking bob", sites[0].logins("bob 1", "bob 2", "bob right"), "401 401 429")
		open := switchProtocols(t, sites[0])
		defer open.Close()
		slow := make(chan reply)
		go func() { slow <- sites[0].post("/slow", "") }()
		<-enter

		var admitted, refused, strange atomic.Int32
		var load sync.WaitGroup
		stop := make(chan bool)
		for i := range 4 {
			s := sites[i%gateways]
			load.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					switch status := s.post("/mail", "").status; status {
					case 200:
						admitted.Add(1)
					case 429:
						refused.Add(1)
					default:
						strange.Add(1)
					}
				}
			})
		}
		for n := range 100 {
			for _, s := range sites {
				if err := s.g.Reload(parse(t, yaml(n))); err != nil {
					t.Fatal(err)
				}
			}
		}
		eventually(t, "more than the limit", func() bool { return admitted.Load()+refused.Load() > limit+50 || strange.Load() > 0 })
		close(stop)
		load.Wait()
		if admitted.Load() != limit || strange.Load() != 0 {
			t.Errorf("%d admitted, %d refused, %d neither; want %d admitted", admitted.Load(), refused.Load(), strange.Load(), limit)
		}
		expect(t, "bob, who was locked before", sites[gateways-1].logins("bob right", "ann right"), "429 200")
		leave <- true
		if a := <-slow; a.status != 200 || a.body != "slow" {
			t.Errorf("the request that was under way all the time: got %d %q", a.status, a.body)
		}
		if _, err := io.WriteString(open, "still there"); err != nil {
			t.Errorf("the open connection: %v", err)
		}
		_ = open.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := open.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("the open connection: got %v, want it open", err)
		}
		expect(t, "reloads", sites[0].metric(`gateway_config_reloads_total{result="success"}`), "100")
	})
}
