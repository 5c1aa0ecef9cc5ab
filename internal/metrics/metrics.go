// Package metrics counts what happens, for Prometheus. Nothing here carries an address, a name or a client id [A6].
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"authgate/limits"
	"authgate/proxy"
)

// Metrics are the program's counters. They belong to the program, not to a plan, so they live on through a reload. All
// methods may be called by any number of goroutines.
type Metrics struct {
	registry *prometheus.Registry

	requests      *prometheus.CounterVec
	rejections    *prometheus.CounterVec
	throttled     *prometheus.CounterVec
	spray         prometheus.Counter
	lockouts      *prometheus.CounterVec
	verdicts      *prometheus.CounterVec
	missing       *prometheus.CounterVec
	notices       *prometheus.CounterVec
	auditLost     prometheus.Counter
	storeFailures *prometheus.CounterVec
	remembered    prometheus.Counter
	degraded      prometheus.Gauge
	reloads       *prometheus.CounterVec
	decision      prometheus.Histogram
	upstream      prometheus.Histogram

	// What every request counts, of the vectors above.
	served   *counters[served]
	rejected *counters[rejected]
	judged   *counters[judged]
}

type (
	served struct {
		policy string
		status int
	}
	rejected struct {
		policy      string
		dimension   limits.Dimension
		mode, realm string
	}
	judged struct{ policy, verdict string }
)

var _ proxy.Events = (*Metrics)(nil)

// Entries is what the local store holds, read when metrics are collected.
type Entries func() (live, pinned, coarse int64)

// New makes the metrics with a registry of their own. entries may be nil.
func New(entries Entries) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry:      prometheus.NewRegistry(),
		requests:      counter("gateway_requests_total", "Requests answered, by the first policy that covered them and by status.", "policy", "code"),
		rejections:    counter("gateway_rejections_total", "Refusals by a limit; in mode log-only those that would have been.", "policy", "dimension", "mode", "realm"),
		throttled:     counter("gateway_login_throttled_total", "Refusals by a failure bucket.", "bucket", "mode"),
		spray:         prometheus.NewCounter(prometheus.CounterOpts{Name: "gateway_spray_detected_total", Help: "Signals that exceeded their limit, once per window and bucket."}),
		lockouts:      counter("gateway_lockouts_total", "Locks that failures made.", "policy", "dimension"),
		verdicts:      counter("gateway_verdicts_total", "What the backend said of credentials.", "policy", "verdict"),
		missing:       counter("gateway_missing_key_total", "Requests that named nobody, or not clearly.", "policy", "reason"),
		notices:       counter("gateway_unlock_notices_total", "Notices to owners of accounts whose untrusted bucket filled.", "result"),
		auditLost:     prometheus.NewCounter(prometheus.CounterOpts{Name: "gateway_audit_lost_total", Help: "Audit events that the webhook did not take."}),
		storeFailures: counter("gateway_store_failures_total", "Operations of the shared store that did not work.", "operation"),
		remembered:    prometheus.NewCounter(prometheus.CounterOpts{Name: "gateway_store_known_refusals_total", Help: "Refusals that were known, so that the shared store was not asked."}),
		degraded:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "gateway_store_degraded", Help: "1 while the shared store is out."}),
		reloads:       counter("gateway_config_reloads_total", "Reloads of the configuration.", "result"),
		decision:      histogram("gateway_decision_seconds", "Time until a decision, waiting included.", 50e-6, 2.5),
		upstream:      histogram("gateway_upstream_seconds", "Time until the backend's response header.", 500e-6, 60),
	}
	m.served = newCounters(m.requests, func(s served) []string { return []string{s.policy, strconv.Itoa(s.status)} })
	m.rejected = newCounters(m.rejections, func(r rejected) []string {
		return []string{r.policy, r.dimension.String(), r.mode, r.realm}
	})
	m.judged = newCounters(m.verdicts, func(j judged) []string { return []string{j.policy, j.verdict} })
	m.registry.MustRegister(
		m.requests, m.rejections, m.throttled, m.spray, m.lockouts, m.verdicts, m.missing, m.notices, m.auditLost, m.storeFailures, m.remembered, m.degraded,
		m.reloads, m.decision, m.upstream,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if entries != nil {
		m.registry.MustRegister(entryCollector(entries))
	}
	for _, result := range []string{"success", "failure"} {
		m.reloads.WithLabelValues(result) // so that a rate over them exists before the first
	}
	return m
}

// histogram has about 20 buckets that grow evenly from the smallest to the largest bound, in seconds.
func histogram(name, help string, from, to float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: prometheus.ExponentialBucketsRange(from, to, 18),
	})
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Served counts a request that was answered.
func (m *Metrics) Served(policy string, status int) {
	if policy == "" {
		policy = "none"
	}
	m.served.of(served{policy, status}).Inc()
}

// Rejected counts a refusal, or one that would have been.
func (m *Metrics) Rejected(r *limits.Rule, mode, realm string) {
	m.rejected.of(rejected{r.Policy, r.Dimension, mode, realm}).Inc()
	if r.Class != limits.Requests {
		m.throttled.WithLabelValues(r.Dimension.String(), mode).Inc()
	}
}

// MissingKey counts a request that named nobody, or not clearly.
func (m *Metrics) MissingKey(policy, reason string) { m.missing.WithLabelValues(policy, reason).Inc() }

// Verdict counts what the backend said.
func (m *Metrics) Verdict(policy, verdict string) { m.judged.of(judged{policy, verdict}).Inc() }

// Notice counts what became of a notice to an owner.
func (m *Metrics) Notice(result string) { m.notices.WithLabelValues(result).Inc() }

// AuditLost counts an audit event that the webhook did not take.
func (m *Metrics) AuditLost() { m.auditLost.Inc() }

// Settled counts the locks and signals that a verdict made.
func (m *Metrics) Settled(r *limits.Rule, e limits.Effect) {
	if e.Locked > 0 {
		m.lockouts.WithLabelValues(r.Policy, r.Dimension.String()).Inc()
	}
	if e.Crossed {
		m.spray.Inc()
	}
}

// Decided takes the time of a decision.
func (m *Metrics) Decided(took time.Duration) { m.decision.Observe(took.Seconds()) }

// Upstream takes the backend's time.
func (m *Metrics) Upstream(took time.Duration) { m.upstream.Observe(took.Seconds()) }

// StoreFailed counts an operation of the shared store that did not work.
func (m *Metrics) StoreFailed(operation string) { m.storeFailures.WithLabelValues(operation).Inc() }

// KnownRefusal counts a refusal for which the shared store was not asked.
func (m *Metrics) KnownRefusal() { m.remembered.Inc() }

// WatchFile shows how the file of the local store fares: how many keys wait to be written, how many writes failed since the
// start, and whether the last one did. state is called when metrics are collected.
func (m *Metrics) WatchFile(state func() (waiting, failed int64, failing bool)) {
	value := func(pick func(waiting, failed int64, failing bool) float64) func() float64 {
		return func() float64 { return pick(state()) }
	}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gateway_store_file_waiting", Help: "Keys that wait to be written to store.file."},
			value(func(waiting, _ int64, _ bool) float64 { return float64(waiting) })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "gateway_store_file_failures_total", Help: "Writes to store.file that failed."},
			value(func(_, failed int64, _ bool) float64 { return float64(failed) })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gateway_store_file_failing", Help: "1 while store.file cannot be written."},
			value(func(_, _ int64, failing bool) float64 {
				if failing {
					return 1
				}
				return 0
			})),
	)
}

// StoreDegraded says whether the shared store is out.
func (m *Metrics) StoreDegraded(out bool) {
	if out {
		m.degraded.Set(1)
	} else {
		m.degraded.Set(0)
	}
}

// Reloaded counts a reload.
func (m *Metrics) Reloaded(ok bool) {
	if ok {
		m.reloads.WithLabelValues("success").Inc()
	} else {
		m.reloads.WithLabelValues("failure").Inc()
	}
}

// entryCollector reads the local store's counts when they are asked for.
type entryCollector Entries

var entriesDesc = prometheus.NewDesc("gateway_entries", "Buckets in the local store, by state; coarse counts charges that had to share one since the start.", []string{"state"}, nil)

func (c entryCollector) Describe(ch chan<- *prometheus.Desc) { ch <- entriesDesc }

func (c entryCollector) Collect(ch chan<- prometheus.Metric) {
	live, pinned, coarse := c()
	for _, s := range []struct {
		state string
		n     int64
	}{{"live", live}, {"pinned", pinned}, {"coarse", coarse}} {
		ch <- prometheus.MustNewConstMetric(entriesDesc, prometheus.GaugeValue, float64(s.n), s.state)
	}
}
