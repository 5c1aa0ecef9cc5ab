package gateway_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/config"
	"authgate/internal/gateway"
)

// slowSender is a backend whose answers take as long as mail that is handed on: 30 ms and more, now and then much more.
type slowSender struct{ random *rand.Rand }

func (s slowSender) RoundTrip(r *http.Request) (*http.Response, error) {
	took := 30*time.Millisecond + time.Duration(s.random.ExpFloat64()*float64(15*time.Millisecond))
	if s.random.IntN(20) == 0 {
		took += 200 * time.Millisecond
	}
	time.Sleep(took)
	h := http.Header{
		"Content-Type": {"application/json; charset=utf-8"}, "Cache-Control": {"no-cache"}, "X-Powered-By": {"legacy"},
		"Date": {time.Now().UTC().Format(http.TimeFormat)},
	}
	const body = `{"status":"code_sent"}`
	return &http.Response{StatusCode: http.StatusAccepted, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
}

// answer is what a client can see of one request.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

func signUp(g *gateway.Gateway, name, from string) answer {
	r := httptest.NewRequest(http.MethodPost, "/api/account/register", strings.NewReader(`{"Email":"`+name+`"}`))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = from + ":4000"
	w := httptest.NewRecorder()
	began := time.Now()
	g.Handler().ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String(), time.Since(began)}
}

// volatile are headers that differ between any two real answers.
var volatile = []string{"Date", "X-Request-Id"}

func sameToAnyone(t *testing.T, real, silent answer) {
	t.Helper()
	a, b := real.header.Clone(), silent.header.Clone()
	for _, name := range volatile {
		a.Del(name)
		b.Del(name)
	}
	if real.status != silent.status || real.body != silent.body || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Fatalf("the silent answer differs:\n%d %v %s\nreal:\n%d %v %s", silent.status, b, silent.body, real.status, a, real.body)
	}
}

// newSender makes a gateway in front of a slow sender. It must be called in a synctest bubble.
func newSender(t *testing.T) *gateway.Gateway {
	cfg, _, err := config.Parse("silent.yaml", []byte("upstream: {url: \"http://backend.test\"}\npresets: [modgud]\nsignups: {learn_for: 0s}\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(cfg, gateway.Options{Transport: slowSender{rand.New(rand.NewPCG(1, 2))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return g
}

// TestSilentAnswersLookReal compares a thousand silent answers with a thousand real ones: by what they say, and by the
// distance between the distributions of their times.
func TestSilentAnswersLookReal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSender(t)
		var real, silent []time.Duration
		var example answer
		for i := range 1000 {
			example = signUp(g, fmt.Sprintf("new%d@a.test", i), fmt.Sprintf("10.0.%d.%d", i/100, i%100))
			if example.status != http.StatusAccepted {
				t.Fatalf("real answer %d is %d %s", i, example.status, example.body)
			}
			real = append(real, example.took)
		}
		for i := range 1000 {
			from := fmt.Sprintf("10.1.0.%d", i/100)
			if i%100 == 0 {
				for j := range 10 { // the ceiling of this source
					signUp(g, fmt.Sprintf("more%d-%d@a.test", i, j), from)
				}
			}
			got := signUp(g, fmt.Sprintf("over%d@a.test", i), from)
			sameToAnyone(t, example, got)
			silent = append(silent, got.took)
		}
		d := distance(real, silent)
		t.Logf("1000 real and 1000 silent answers: distance of the distributions of their times %.3f", d)
		if d >= 0.1 {
			t.Errorf("the distance is %.3f, want below 0.1", d)
		}
	})
}

// distance is that of Kolmogorov and Smirnov: the most by which the shares of answers up to any time differ.
func distance(a, b []time.Duration) float64 {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	worst := 0.0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		at := min(a[i], b[j])
		for i < len(a) && a[i] <= at {
			i++
		}
		for j < len(b) && b[j] <= at {
			j++
		}
		worst = max(worst, abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return worst
}

func abs(x float64) float64 { return max(x, -x) }

// TestSprayerLearnsNothing puts two sources at the ceiling of sign-ups and has them go through the same sequences of requests,
// one about a mailbox that exists and one about one that does not: all they see must be the same.
func TestSprayerLearnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := httptest.NewRequest(http.MethodPost, "/api/account/login", strings.NewReader(`{"UserName":"known@a.test","Password":"x"}`))
		login.Header.Set("Content-Type", "application/json")
		cfg, _, err := config.Parse("known.yaml", []byte("upstream: {url: \"http://backend.test\"}\npresets: [modgud]\nsignups: {learn_for: 0s}\n"), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h, err := gateway.New(cfg, gateway.Options{Transport: knownBackend{}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Stop(context.Background()) })
		synctest.Wait()
		h.Handler().ServeHTTP(httptest.NewRecorder(), login)
		synctest.Wait()
		for i := range 4 { // so that the silent answer is learned
			signUp(h, fmt.Sprintf("first%d@a.test", i), fmt.Sprintf("10.9.0.%d", i))
		}
		for _, from := range []string{"10.8.0.1", "10.8.0.2"} {
			for i := range 12 {
				signUp(h, fmt.Sprintf("fill%d-%s@a.test", i, from), from)
			}
		}
		random := rand.New(rand.NewPCG(3, 4))
		for step := range 400 {
			if random.IntN(10) == 0 {
				time.Sleep(time.Duration(random.IntN(600)) * time.Second)
			}
			a := signUp(h, "known@a.test", "10.8.0.1")
			b := signUp(h, "stranger@a.test", "10.8.0.2")
			if a.status != b.status || a.body != b.body || fmt.Sprint(strip(a.header)) != fmt.Sprint(strip(b.header)) {
				t.Fatalf("step %d: a known mailbox gets %d %v %s, a stranger %d %v %s", step, a.status, a.header, a.body, b.status, b.header, b.body)
			}
		}
	})
}

func strip(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range volatile {
		h.Del(name)
	}
	return h
}

// knownBackend lets everybody in and sends to everybody.
type knownBackend struct{}

func (knownBackend) RoundTrip(r *http.Request) (*http.Response, error) {
	h := http.Header{"Content-Type": {"application/json"}}
	if r.URL.Path == "/api/account/login" {
		h.Set("Set-Cookie", "auth=1")
	}
	const body = `{"status":"code_sent"}`
	return &http.Response{StatusCode: http.StatusOK, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
}
