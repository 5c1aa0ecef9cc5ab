package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/internal/config"
	"authgate/internal/gateway"
	"authgate/internal/logtest"
	"authgate/internal/valkeytest"
)

// site is a running gateway.
type site struct {
	t      testing.TB
	g      *gateway.Gateway
	log    *logs
	client *http.Client
}

// token lets an operator into /meta, look a viewer.
const (
	token = "the operator's token"
	look  = "the viewer's token"
)

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// settings is a configuration with what every site of these tests has.
func settings(backend, more string) string {
	return fmt.Sprintf(`
server: {listen: "127.0.0.1:0"}
upstream: {url: %q}
admin:
  listen: "127.0.0.1:0"
  hosts: [admin.test]
  tokens:
    - {name: ops, role: operator, hash: %q}
    - {name: eyes, role: viewer, hash: %q}
%s`, backend, hash(token), hash(look), more)
}

// shared is the store section for a server that several gateways share. Its budget is such that no busy machine makes an
// outage of it.
func shared(v *valkeytest.Server) string { return valkeySection(v.Addr(), 5*time.Second) }

func valkeySection(addr string, budget time.Duration) string {
	return fmt.Sprintf("store: {backend: valkey, hash_key: \"0123456789abcdef0123\", valkey: {addresses: [%q], timeout: %s}}\n", addr, budget)
}

// loginPolicy is a login whose failures count by the rules, given as lines of YAML.
func loginPolicy(rules string) string {
	return `
policies:
  login:
    match: [{methods: [POST], path: /login}]
    target: {from: ["json:/user"]}
    secret: {from: []}
    failures:
` + indent("      ", rules) + `    outcome:
      - {is: success, status: 200, cookie_set: session}
      - {is: failure, status: 401}
`
}

func indent(by, text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.Trim(text, "\n") + "\n") {
		b.WriteString(by + line)
	}
	return b.String()
}

func parse(t testing.TB, yaml string) *config.Config {
	t.Helper()
	cfg, _, err := config.Parse("test.yaml", []byte(yaml), config.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, yaml)
	}
	return cfg
}

// start runs a gateway until the test ends.
func start(t testing.TB, yaml string) *site {
	t.Helper()
	s := &site{t: t, log: &logs{}, client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 100},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       20 * time.Second,
	}}
	var err error
	s.g, err = gateway.New(parse(t, yaml), gateway.Options{
		Log:   slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Build: map[string]string{"version": "v1.2.3"}, Standard: *standard,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop() })
	return s
}

// stop stops the gateway; the second time it does nothing.
func (s *site) stop() {
	if s.g == nil {
		return
	}
	g := s.g
	s.g = nil
	s.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.Stop(ctx); err != nil {
		s.t.Errorf("stopping: %v", err)
	}
}

// reply is what a request got.
type reply struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

func (s *site) do(r *http.Request) reply {
	s.t.Helper()
	began := time.Now()
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		return reply{}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	return reply{res.StatusCode, res.Header, string(body), time.Since(began)}
}

func (s *site) post(path, body string) reply {
	s.t.Helper()
	r, _ := http.NewRequest("POST", "http://"+s.g.Addr().String()+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return s.do(r)
}

// login is an attempt to sign in.
func (s *site) login(user, password string) reply {
	s.t.Helper()
	return s.post("/login", fmt.Sprintf(`{"user":%q,"password":%q}`, user, password))
}

// logins signs in one after the other, given as "user password", and returns the statuses.
func (s *site) logins(list ...string) string {
	s.t.Helper()
	var out []string
	for _, text := range list {
		user, password, _ := strings.Cut(text, " ")
		out = append(out, fmt.Sprint(s.login(user, password).status))
	}
	return strings.Join(out, " ")
}

// meta asks the admin listener, as an operator unless headers say otherwise.
func (s *site) meta(method, path, body string, header ...string) reply {
	s.t.Helper()
	r, err := http.NewRequest(method, "http://"+s.g.AdminAddr().String()+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	return s.do(r)
}

// metric is the value of one metric, as /metrics spells its name and labels.
func (s *site) metric(name string) string {
	s.t.Helper()
	for line := range strings.Lines(s.meta("GET", "/metrics", "").body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "none"
}

// expect compares.
func expect(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// eventually waits for what is about to happen elsewhere.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// accounts is a backend that signs in whoever has the password "right".
type accounts struct {
	takes time.Duration
	asked atomic.Int32
	wrong atomic.Int32
}

func (a *accounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	body, _ := io.ReadAll(r.Body)
	time.Sleep(a.takes)
	if !bytes.Contains(body, []byte(`"right"`)) {
		a.wrong.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: "s"})
	_, _ = io.WriteString(w, "welcome")
}

// backend starts a backend and returns its URL.
func backend(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// logs keeps what is logged.
type logs struct{ logtest.Buffer }

// lines are the records with a message.
func (l *logs) lines(message string) []map[string]any {
	var out []map[string]any
	s := bufio.NewScanner(strings.NewReader(l.String()))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var record map[string]any
		if json.Unmarshal(s.Bytes(), &record) == nil && record["msg"] == message {
			out = append(out, record)
		}
	}
	return out
}

// inParallel does something n times at once.
func inParallel(n int, do func(i int)) {
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() { do(i) })
	}
	done.Wait()
}

// stores runs a test with a store in memory and one gateway, and with a shared one and two. section is that of the store.
func stores(t *testing.T, test func(t *testing.T, section string, gateways int)) {
	t.Run("memory", func(t *testing.T) { test(t, "", 1) })
	t.Run("valkey", func(t *testing.T) { test(t, shared(valkeytest.Start(t)), 2) })
}

// startAll runs so many gateways with one configuration.
func startAll(t *testing.T, n int, yaml string) []*site {
	t.Helper()
	var out []*site
	for range n {
		out = append(out, start(t, yaml))
	}
	return out
}
