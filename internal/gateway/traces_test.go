package gateway_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traceServer takes spans as a collector does, by OTLP over HTTP.
type traceServer struct {
	t     *testing.T
	mu    sync.Mutex
	spans []string // name, trace, parent and attributes
	raw   []byte
}

func (c *traceServer) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		in, _ = gzip.NewReader(r.Body)
	}
	body, err := io.ReadAll(in)
	var request collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &request) != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("%s: got spans that cannot be read: %v", r.URL.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, body...)
	for _, rs := range request.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				text := fmt.Sprintf("%s trace=%x parent=%x", s.Name, s.TraceId, s.ParentSpanId)
				for _, a := range s.Attributes {
					text += fmt.Sprintf(" %s=%s%s", a.Key, a.Value.GetStringValue(), strings.TrimPrefix(fmt.Sprint(a.Value.GetIntValue()), "0"))
				}
				c.spans = append(c.spans, text)
			}
		}
	}
}

func (c *traceServer) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.spans...)
}

// One span tells how a request went, as a part of the trace that a trusted proxy names, and names nobody.
func TestTraces(t *testing.T) {
	c := &traceServer{t: t}
	otlp := httptest.NewServer(c)
	defer otlp.Close()
	var mu sync.Mutex
	var passed []string
	url := backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		passed = append(passed, r.Header.Get("Traceparent"))
		mu.Unlock()
		w.WriteHeader(401)
	}))
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	run := func(clientIP string) []string {
		s := start(t, settings(url, clientIP+loginPolicy("target: {limit: 1, window: 1h}")+fmt.Sprintf("telemetry: {otlp_endpoint: %q}\n", otlp.URL)))
		before := len(c.all())
		for range 2 {
			r, _ := http.NewRequest("POST", "http://"+s.g.Addr().String()+"/login?session=hunter2", strings.NewReader(`{"user":"alice","password":"hunter2"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Traceparent", parent)
			s.do(r)
		}
		s.stop() // sends what waits
		return c.all()[before:]
	}
	got := run("client_ip: {trust_headers: true, trusted_proxies: [127.0.0.1]}\n")
	if len(got) != 2 {
		t.Fatalf("got the spans %q, want 2", got)
	}
	for i, want := range []string{
		"http.response.status_code=401 authgate.realm=default authgate.decision=admitted authgate.policy=login authgate.verdict=failure http.route=/login",
		"http.response.status_code=429 authgate.realm=default authgate.decision=refused authgate.policy=login authgate.dimension=target http.route=/login",
	} {
		if !strings.Contains(got[i], "request trace=0af7651916cd43dd8448eb211c80319c parent=b7ad6b7169203331") || !strings.Contains(got[i], want) {
			t.Errorf("got  %s\nwant %s", got[i], want)
		}
	}
	if len(passed) != 1 || !strings.HasPrefix(passed[0], "00-0af7651916cd43dd8448eb211c80319c-") || passed[0] == parent {
		t.Errorf("the backend got %q, want the gateway's span", passed)
	}
	for _, s := range run("") { // a stranger's word
		if strings.Contains(s, "0af7651916cd43dd8448eb211c80319c") {
			t.Errorf("got %s, want a trace of our own", s)
		}
	}
	for _, secret := range []string{"alice", "hunter2", "127.0.0.1"} {
		if bytes.Contains(c.raw, []byte(secret)) {
			t.Errorf("%s is in the spans", secret)
		}
	}
}

// A collector that is down costs no request anything, and is told once.
func TestCollectorDown(t *testing.T) {
	otlp := httptest.NewServer(http.NotFoundHandler())
	url := otlp.URL
	otlp.Close()
	s := start(t, settings(backend(t, &accounts{}), loginPolicy("target: {limit: 100, window: 1h}")+fmt.Sprintf("telemetry: {otlp_endpoint: %q}\n", url)))
	for range 20 {
		expect(t, "a login", s.logins("bob right"), "200")
	}
	began := time.Now()
	log := s.log
	s.stop()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if n := len(log.lines("traces are lost: the collector does not take them")); n != 1 {
		t.Errorf("it was told %d times", n)
	}
}
