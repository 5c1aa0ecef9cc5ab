package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// teller is an exporter that tells the log when spans are lost, once until others arrive. The library would tell standard
// error, each time.
type teller struct {
	sdktrace.SpanExporter
	log *tolling
}

// tolling remembers what was told.
type tolling struct {
	*slog.Logger
	lost atomic.Bool
}

// ExportSpans sends spans. It never fails, so that nobody else tells of it.
func (t teller) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !t.log.lost.Swap(true):
		t.log.Warn("traces are lost: the collector does not take them")
	case err == nil && t.log.lost.Swap(false):
		t.log.Warn("traces arrive again")
	}
	return nil
}
