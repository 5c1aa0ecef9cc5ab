package bench

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/internal/config"
	"authgate/internal/gateway"
)

// BenchmarkUniform asks for as many wrong passwords that the backend judges as for refusals that look like one, over real
// sockets and mixed, and reports how far the distributions of their times are apart: the largest difference between the two
// at any time (Kolmogorov and Smirnov's distance; two samples of 1000 of one distribution are 0.06 apart in one case of 20).
// Their bytes and headers must be the same, but for Date and X-Request-Id. Run it with -benchtime=1000x.
func BenchmarkUniform(b *testing.B) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Duration(40e6 * math.Exp(rand.NormFloat64()/4))) // a slow hash, on a machine that has other things to do
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"message":"Invalid credentials"}`)
	}))
	defer backend.Close()
	cfg, _, err := config.Parse("bench.yaml", fmt.Appendf(nil, `
server: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
upstream: {url: %q}
policies:
  login:
    match: [{methods: [POST], path: /login}]
    target: {from: ["json:/user"]}
    failures:
      target: {limit: 5, window: 1h, refuse: uniform}
      device: {limit: 10, window: 1h, refuse: uniform}
    outcome: [{is: success, status: 200, cookie_set: session}, {is: failure, status: 401}]
`, backend.URL), config.Options{})
	if err != nil {
		b.Fatal(err)
	}
	g, err := gateway.New(cfg, gateway.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := g.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = g.Stop(b.Context()) }()

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	try := func(user, password string) (time.Duration, string) {
		began := time.Now()
		res, err := client.Post("http://"+g.Addr().String()+"/login", "application/json",
			strings.NewReader(fmt.Sprintf(`{"user":%q,"password":%q}`, user, password)))
		if err != nil {
			b.Error(err)
			return 0, ""
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		took := time.Since(began)
		res.Header.Del("Date")
		res.Header.Del("X-Request-Id")
		return took, fmt.Sprint(res.StatusCode, res.Header, string(body))
	}
	for i := range 200 { // what real answers look like, and how long they take
		try(fmt.Sprint("early", i), "x")
	}
	for i := range 6 {
		try("victim", fmt.Sprint(i))
	}

	var mu sync.Mutex
	var times [2][]float64
	looks := make(map[string]bool)
	queue := make(chan int)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := range queue {
				user := "victim"
				if i%2 == 0 {
					user = fmt.Sprint("somebody", i)
				}
				took, look := try(user, fmt.Sprint("guess", i))
				mu.Lock()
				times[i%2] = append(times[i%2], took.Seconds())
				looks[look] = true
				mu.Unlock()
			}
		})
	}
	b.ResetTimer()
	for i := range 2 * b.N {
		queue <- i
	}
	close(queue)
	workers.Wait()
	b.StopTimer()
	if len(looks) != 1 {
		b.Errorf("the answers differ: %v", looks)
	}
	b.ReportMetric(distance(times[0], times[1]), "distance")
	b.ReportMetric(1e3*median(times[0]), "ms-wrong")
	b.ReportMetric(1e3*median(times[1]), "ms-refused")
}

// distance is the largest difference between two empirical distributions.
func distance(a, b []float64) float64 {
	slices.Sort(a)
	slices.Sort(b)
	largest, i, j := 0.0, 0, 0
	for i < len(a) && j < len(b) {
		if a[i] <= b[j] {
			i++
		} else {
			j++
		}
		largest = max(largest, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return largest
}

func median(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}
