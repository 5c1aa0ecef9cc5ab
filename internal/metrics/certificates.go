package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificates adds the ends of the certificates of the public listener, by the name of each; 0 where there is none yet. expiry is
// asked when metrics are collected. Call it once at most.
func (m *Metrics) Certificates(expiry func() map[string]time.Time) {
	m.registry.MustRegister(certificates{
		expiry: expiry,
		desc:   prometheus.NewDesc("gateway_certificate_expiry_timestamp_seconds", "When a certificate of the public listener ends; 0: there is none yet.", []string{"name"}, nil),
	})
}

type certificates struct {
	expiry func() map[string]time.Time
	desc   *prometheus.Desc
}

func (c certificates) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

func (c certificates) Collect(out chan<- prometheus.Metric) {
	for name, end := range c.expiry() {
		seconds := 0.0
		if !end.IsZero() {
			seconds = float64(end.Unix())
		}
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, seconds, name)
	}
}
