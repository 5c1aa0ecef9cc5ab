// Package bench measures what a decision costs, and the whole way of a request. Run it with
//
//	make bench
//
// The figures of one run, with the machine they come from, are in docs/performance.md.
package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/internal/config"
	"authgate/internal/gateway"
	"authgate/internal/valkeytest"
	"authgate/limits"
	"authgate/limits/memstore"
	"authgate/limits/valkeystore"
)

// names is how many different people ask.
const names = 100_000

// enough is a limit that no benchmark reaches; a configuration could not say it.
const enough = 1_000_000_000

func requestRules() []*limits.Rule {
	return []*limits.Rule{
		{Policy: "login", Dimension: limits.Source, Limit: enough, Window: time.Second, Burst: enough, PrefixV4: 32, PrefixV6: 64},
		{Policy: "login", Dimension: limits.Target, Limit: 100_000, Window: time.Hour},
		{Policy: "login", Dimension: limits.App, Limit: enough, Window: time.Second, Burst: enough},
	}
}

func failureRules() []*limits.Rule {
	lock := limits.Lockout{Base: 5 * time.Minute, Max: 24 * time.Hour}
	return []*limits.Rule{
		{Policy: "login", Class: limits.Failures, Dimension: limits.TargetSource, Limit: 5, Window: 5 * time.Minute, Lockout: lock},
		{Policy: "login", Class: limits.Failures, Dimension: limits.Source, Limit: 1000, Window: 5 * time.Minute, Lockout: lock},
		{Policy: "login", Class: limits.Failures, Dimension: limits.Subnet, Limit: 5000, Window: 5 * time.Minute, Lockout: lock},
	}
}

// attempt is one login of one of the people, from one address.
func attempt(rules []*limits.Rule) *limits.Attempt {
	person := fmt.Sprintf("user%d@example.com", rand.IntN(names))
	a := &limits.Attempt{ID: rand.Uint64() | 1}
	for _, r := range rules {
		value := map[limits.Dimension]string{
			limits.Source: "198.51.100.7", limits.Subnet: "198.51.100.0/24", limits.Target: person,
			limits.TargetSource: limits.PairValue(person, "198.51.100.7"), limits.App: "default",
		}[r.Dimension]
		a.Charges = append(a.Charges, limits.Charge{Rule: r, Key: limits.NewScope(r, "default").Key(value)})
	}
	return a
}

func decide(b *testing.B, s limits.Store, rules []*limits.Rule) {
	ctx := context.Background()
	attempts := make([]*limits.Attempt, 4096)
	for i := range attempts {
		attempts[i] = attempt(rules)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a := *attempts[rand.IntN(len(attempts))]
			a.ID = rand.Uint64() | 1
			d, err := s.Decide(ctx, &a)
			if err != nil || !d.Admitted {
				b.Errorf("got %v, %v; want an admission", d, err)
				return
			}
			if a.Reserves() {
				if _, err := s.Settle(ctx, a.Release()); err != nil {
					b.Error(err)
					return
				}
			}
		}
	})
}

func BenchmarkDecision(b *testing.B) {
	memory := memstore.New(memstore.Config{MaxEntries: 1_000_000})
	b.Cleanup(func() { memory.Close() })
	server := valkeytest.Start(b)
	shared, err := valkeystore.New(valkeystore.Config{Addresses: []string{server.Addr()}, Timeout: time.Second}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { shared.Close() })
	<-shared.Probed()
	login := append(requestRules(), failureRules()...)
	for _, store := range []struct {
		name string
		s    limits.Store
	}{{"memory", memory}, {"valkey", shared}} {
		b.Run(store.name+"/three request rules", func(b *testing.B) { decide(b, store.s, requestRules()) })
		b.Run(store.name+"/login, reserved and settled", func(b *testing.B) { decide(b, store.s, login) })
	}
}

const loginFile = `
upstream: {url: %q}
server: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
policies:
  login:
    match: [{methods: [POST], path: /login}]
    target: {from: ["json:/username"]}
    requests:
      source: {limit: 100000, window: 1s, burst: 100000}
      target: {limit: 100000, window: 60m}
      app: {limit: 100000, window: 1s, burst: 100000}
    failures:
      target_source: {limit: 5, window: 5m, lockout: {base: 5m, max: 24h}}
      source: {limit: 1000, window: 5m, lockout: {base: 5m, max: 24h}}
      subnet: {limit: 5000, window: 5m, lockout: {base: 5m, max: 24h}}
    outcome: [{is: success, status: 200}, {is: failure, status: 401}]
  deny:
    match: [{methods: [POST], path: /deny}]
    target: {from: ["json:/username"]}
    requests: {source: {limit: 1, window: 60m}, target: {limit: 100000, window: 60m}}
`

func newGateway(b testing.TB, upstream string, opts gateway.Options) *gateway.Gateway {
	b.Helper()
	cfg, _, err := config.Parse("bench.yaml", fmt.Appendf(nil, loginFile, upstream), config.Options{})
	if err != nil {
		b.Fatal(err)
	}
	g, err := gateway.New(cfg, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Stop(context.Background()) })
	return g
}

// BenchmarkHandler is the way of a request without the sockets on either side.
func BenchmarkHandler(b *testing.B) {
	g := newGateway(b, "http://backend.test", gateway.Options{Transport: newInstant()})
	for _, path := range []string{"/login", "/deny", "/untouched"} {
		b.Run(path[1:], func(b *testing.B) {
			v := newVisitor(path)
			v.visit(g.Handler()) // the one that /deny admits
			b.ReportAllocs()
			for b.Loop() {
				v.visit(g.Handler())
			}
		})
	}
}

// BenchmarkLoopback is the whole way, with a client and a backend in the same process.
func BenchmarkLoopback(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	backend := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{}")
	})}
	go func() { _ = backend.Serve(l) }()
	b.Cleanup(func() { backend.Close() })
	g := newGateway(b, "http://"+l.Addr().String(), gateway.Options{})
	if err := g.Start(); err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	for _, tt := range []struct {
		path string
		want int
	}{{"/login", http.StatusOK}, {"/deny", http.StatusTooManyRequests}} {
		b.Run(tt.path[1:], func(b *testing.B) {
			url := "http://" + g.Addr().String() + tt.path
			post(b, client, url) // the one that /deny admits
			b.ReportAllocs()
			for b.Loop() {
				if got := post(b, client, url); got != tt.want {
					b.Fatalf("got %d, want %d", got, tt.want)
				}
			}
		})
	}
}

func post(b *testing.B, c *http.Client, url string) int {
	body := fmt.Sprintf(`{"username":"user%d@example.com","password":"correct horse battery"}`, rand.IntN(names))
	res, err := c.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res.StatusCode
}
