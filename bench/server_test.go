package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/internal/valkeytest"
	"authgate/limits"
	"authgate/limits/valkeystore"
)

// callers are how many ask at once, each with so many logins in flight as a case says.
const callers = 8

// BenchmarkServer shows what Valkey itself spends on a login. script-us/op is what it counts for the scripts, cpu-us/op the
// processor time of its whole process, sockets included.
//
//	go test ./bench -run '^$' -bench Server -benchtime=20000x
func BenchmarkServer(b *testing.B) {
	login := append(requestRules(), failureRules()...)
	for _, tt := range []struct {
		name   string
		rules  []*limits.Rule
		failed bool
		office bool // everybody signs in from one address; else everybody has an address
		flying int  // logins of each caller that wait for their verdict
	}{
		{name: "three request rules", rules: requestRules()},
		{name: "login/success, apart", rules: login},
		{name: "login/success, one office", rules: login, office: true, flying: 3},
		{name: "login/failure, apart", rules: login, failed: true},
	} {
		b.Run(tt.name, func(b *testing.B) {
			server := valkeytest.Start(b)
			s, err := valkeystore.New(valkeystore.Config{Addresses: []string{server.Addr()}, Timeout: 5 * time.Second}, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			<-s.Probed()
			attempts := make([]*limits.Attempt, b.N)
			for i := range attempts {
				attempts[i] = loginOf(tt.rules, i, tt.office)
			}
			server.Do("CONFIG", "RESETSTAT")
			before := processorTime(server)
			b.ResetTimer()
			var all sync.WaitGroup
			for c := range callers {
				all.Go(func() {
					var flying []*limits.Attempt
					for i := c; i < len(attempts); i += callers {
						if d, err := s.Decide(context.Background(), attempts[i]); err != nil || !d.Admitted {
							b.Errorf("got %+v, %v; want an admission", d, err)
							return
						}
						if flying = append(flying, attempts[i]); len(flying) > tt.flying {
							settle(b, s, flying[0], tt.failed)
							flying = flying[1:]
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			scripts := server.Stats()["evalsha"].Time
			b.ReportMetric(float64(scripts.Nanoseconds())/1e3/float64(b.N), "script-us/op")
			b.ReportMetric(float64((processorTime(server)-before).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
		})
	}
}

// loginOf is the attempt of person i.
func loginOf(rules []*limits.Rule, i int, office bool) *limits.Attempt {
	person, address, subnet := fmt.Sprintf("user%d@example.com", i), "198.51.100.7", "198.51.100.0/24"
	if !office {
		address, subnet = fmt.Sprintf("2001:db8:%x:%x::/64", i>>16, i&0xffff), fmt.Sprintf("2001:db8:%x:%x::/56", i>>16, i&0xffff)
	}
	a := &limits.Attempt{ID: rand.Uint64() | 1}
	for _, r := range rules {
		value := map[limits.Dimension]string{
			limits.Source: address, limits.Subnet: subnet, limits.Target: person,
			limits.TargetSource: limits.PairValue(person, address), limits.App: "default",
		}[r.Dimension]
		a.Charges = append(a.Charges, limits.Charge{Rule: r, Key: limits.NewScope(r, "default").Key(value)})
	}
	return a
}

// settle closes a login as the gateway does.
func settle(b *testing.B, s limits.Store, a *limits.Attempt, failed bool) {
	st := a.Release()
	if len(st.Closings) == 0 {
		return
	}
	for i := range st.Closings {
		switch c := &st.Closings[i]; {
		case failed:
			c.Do = limits.Count
		case c.Rule.Dimension == limits.TargetSource:
			c.Do = limits.Clear
		}
	}
	out, err := s.Settle(context.Background(), st)
	if err != nil {
		b.Error(err)
		return
	}
	for i := range out.Effects {
		if e := &out.Effects[i]; !e.Done || e.Counted != failed {
			b.Errorf("closing %d: got %+v", i, *e)
		}
	}
}

// processorTime is what the server's process has used, user and system.
func processorTime(s *valkeytest.Server) time.Duration {
	text, _ := s.Do("INFO", "cpu").(string)
	var sum float64
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "used_cpu_sys" || key == "used_cpu_user" {
			seconds, _ := strconv.ParseFloat(value, 64)
			sum += seconds
		}
	}
	return time.Duration(sum * float64(time.Second))
}
