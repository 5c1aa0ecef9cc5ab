package metrics_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"authgate/internal/metrics"
	"authgate/limits"
)

// scrape is what Prometheus would read.
func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("got %d, %v", w.Code, err)
	}
	return string(body)
}

// want reports lines that are not there.
func want(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, " ")
			var near []string
			for l := range strings.Lines(text) {
				if strings.HasPrefix(l, name) {
					near = append(near, strings.TrimSpace(l))
				}
			}
			t.Errorf("got %q, want %s", near, line)
		}
	}
}

// Every event has its metric, under the name and with the labels that dashboards are built on [A6].
func TestNames(t *testing.T) {
	m := metrics.New(func() (live, pinned, coarse int64) { return 7, 3, 1 })
	requests := &limits.Rule{Policy: "mail", Dimension: limits.Source}
	failures := &limits.Rule{Policy: "login", Class: limits.Failures, Dimension: limits.TargetSource}
	factors := &limits.Rule{Policy: "code", Class: limits.Factors, Dimension: limits.Target}

	m.Served("mail", 200)
	m.Served("", 404)
	m.Rejected(requests, "enforce", "default")
	m.Rejected(failures, "enforce", "default")
	m.Rejected(failures, "log-only", "acme")
	m.Rejected(factors, "enforce", "default")
	m.MissingKey("mail", "absent")
	m.Verdict("login", "failure")
	m.Settled(failures, limits.Effect{Done: true, Counted: true})
	m.Settled(failures, limits.Effect{Done: true, Counted: true, Locked: 1000, Level: 1})
	m.Settled(failures, limits.Effect{Done: true, Counted: true, Crossed: true})
	m.StoreFailed("decide")
	m.StoreDegraded(true)
	m.Decided(time.Millisecond)
	m.Upstream(time.Second)
	m.Reloaded(true)
	m.Reloaded(false)
	m.Reloaded(false)

	want(t, scrape(t, m),
		`gateway_requests_total{code="200",policy="mail"} 1`,
		`gateway_requests_total{code="404",policy="none"} 1`,
		`gateway_rejections_total{dimension="source",mode="enforce",policy="mail",realm="default"} 1`,
		`gateway_rejections_total{dimension="target_source",mode="enforce",policy="login",realm="default"} 1`,
		`gateway_rejections_total{dimension="target_source",mode="log-only",policy="login",realm="acme"} 1`,
		`gateway_login_throttled_total{bucket="target_source",mode="enforce"} 1`,
		`gateway_login_throttled_total{bucket="target_source",mode="log-only"} 1`,
		`gateway_login_throttled_total{bucket="target",mode="enforce"} 1`,
		`gateway_missing_key_total{policy="mail",reason="absent"} 1`,
		`gateway_verdicts_total{policy="login",verdict="failure"} 1`,
		`gateway_lockouts_total{dimension="target_source",policy="login"} 1`,
		`gateway_spray_detected_total 1`,
		`gateway_store_failures_total{operation="decide"} 1`,
		`gateway_store_degraded 1`,
		`gateway_decision_seconds_count 1`,
		`gateway_upstream_seconds_sum 1`,
		`gateway_config_reloads_total{result="success"} 1`,
		`gateway_config_reloads_total{result="failure"} 2`,
		`gateway_entries{state="live"} 7`,
		`gateway_entries{state="pinned"} 3`,
		`gateway_entries{state="coarse"} 1`,
	)
	if strings.Contains(scrape(t, m), `gateway_login_throttled_total{bucket="source"`) {
		t.Error("a refusal by a request rule is told as one of a login")
	}
}

// What alerts are built on is there before anything has happened.
func TestThereFromTheStart(t *testing.T) {
	m := metrics.New(nil)
	text := scrape(t, m)
	want(t, text, `gateway_store_degraded 0`, `gateway_spray_detected_total 0`, `gateway_config_reloads_total{result="success"} 0`, `gateway_config_reloads_total{result="failure"} 0`)
	if strings.Contains(text, "gateway_entries") || !strings.Contains(text, "go_goroutines") {
		t.Errorf("got %s", text)
	}
	m.StoreDegraded(true)
	m.StoreDegraded(false)
	want(t, scrape(t, m), `gateway_store_degraded 0`)
}
