// Package telemetry tells a collector of OpenTelemetry how requests went: one span for each, without anybody's name, address,
// path or header in it.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"authgate/proxy"
)

// Tracer sends spans, in batches and off the way of requests. When the collector does not take them, they are dropped. Use
// [New]; it is safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

var _ proxy.Traces = (*Tracer)(nil)

// Bounds of what waits for the collector.
const (
	maxWaiting = 2048 // spans
	sendWithin = 10 * time.Second
	lastWithin = 3 * time.Second // for what is left at the end
)

// CheckEndpoint says what is wrong with the URL of a collector: http or https, with an optional path.
func CheckEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("no address of a collector; use http://host:4318 or https://host:4318")
	}
	return nil
}

// New makes a tracer for the collector at a URL, by OTLP over HTTP; without a path the spans go to /v1/traces. Nothing is sent
// yet, and a collector that is down is no error. version is the program's.
func New(endpoint, version string, log *slog.Logger) (*Tracer, error) {
	if err := CheckEndpoint(endpoint); err != nil {
		return nil, fmt.Errorf("preparing traces: %w", err)
	}
	u, _ := url.Parse(endpoint)
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithTimeout(sendWithin))
	if err != nil {
		return nil, fmt.Errorf("preparing traces: %w", err)
	}
	who := resource.NewSchemaless(attribute.String("service.name", "authgate"), attribute.String("service.version", version))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(who),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
		sdktrace.WithBatcher(teller{exporter, &tolling{Logger: log}}, sdktrace.WithMaxQueueSize(maxWaiting)),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("authgate")}, nil
}

// Close sends what waits, within some seconds.
func (t *Tracer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWithin)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the log has been told of a collector that is down
}

// propagator is the trace context of the W3C. Baggage is for the backend alone.
var propagator = propagation.TraceContext{}

// Begin begins the span of a request that arrived at a time, as a part of the trace that a trusted header names.
func (t *Tracer) Begin(method string, header http.Header, trusted bool, at time.Time) proxy.Trace {
	ctx := context.Background()
	if trusted {
		ctx = propagator.Extract(ctx, propagation.HeaderCarrier(header))
	}
	ctx, s := t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(at),
		trace.WithAttributes(attribute.String("http.request.method", known(method))))
	return &span{ctx: ctx, span: s}
}

// known is a method that is the same for many, so that nobody writes into a trace by asking.
func known(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT":
		return method
	}
	return "_OTHER"
}

// span is one request.
type span struct {
	ctx  context.Context
	span trace.Span
}

// Pass names the span to the backend, in place of what the client may have claimed.
func (s *span) Pass(header http.Header) {
	for _, field := range propagator.Fields() {
		header.Del(field)
	}
	propagator.Inject(s.ctx, propagation.HeaderCarrier(header))
}

// End ends the span with what became of the request.
func (s *span) End(end proxy.TraceEnd) {
	attrs := []attribute.KeyValue{
		attribute.Int("http.response.status_code", end.Status),
		attribute.String("authgate.realm", end.Realm),
		attribute.String("authgate.decision", end.Decision),
	}
	for _, a := range []struct{ key, value string }{
		{"authgate.policy", end.Policy},
		{"authgate.dimension", end.Dimension},
		{"authgate.verdict", end.Verdict},
		{"http.route", end.Route},
		{"authgate.request_id", end.RequestID},
	} {
		if a.value != "" {
			attrs = append(attrs, attribute.String(a.key, a.value))
		}
	}
	if end.Store > 0 {
		attrs = append(attrs, attribute.Float64("authgate.store.seconds", end.Store.Seconds()))
	}
	if end.Upstream > 0 {
		attrs = append(attrs, attribute.Float64("authgate.upstream.seconds", end.Upstream.Seconds()))
	}
	s.span.SetAttributes(attrs...)
	if end.Status >= 500 {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}
