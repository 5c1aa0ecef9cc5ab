package certs

import (
	"context"
	"log/slog"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newZap is a logger for certmagic that writes to ours. What certmagic reports as an error is a warning here, since it
// tries again; what it reports as information is for debugging, and what it reports for debugging, of every handshake, is left out.
func newZap(log *slog.Logger) *zap.Logger { return zap.New(&core{log: log}) }

// core carries records from zap to slog.
type core struct {
	log    *slog.Logger
	fields []zapcore.Field
}

func (c *core) Enabled(l zapcore.Level) bool {
	return l >= zapcore.InfoLevel && c.log.Enabled(context.Background(), level(l))
}

func level(l zapcore.Level) slog.Level {
	if l >= zapcore.WarnLevel {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{log: c.log, fields: append(append([]zapcore.Field(nil), c.fields...), fields...)}
}

func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// aboutClient reports whether a field tells who asked, which is logged in the form that the operator chose, and so not from here.
func aboutClient(name string) bool {
	return strings.HasPrefix(name, "remote") || name == "user_agent" || name == "uri"
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, list := range [][]zapcore.Field{c.fields, fields} {
		for _, f := range list {
			if !aboutClient(f.Key) {
				f.AddTo(enc)
			}
		}
	}
	attrs := []slog.Attr{slog.String("detail", e.Message)}
	for name, value := range enc.Fields {
		attrs = append(attrs, slog.Any(name, value))
	}
	if level(e.Level) == slog.LevelWarn {
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "certificate management", attrs...)
	} else {
		c.log.LogAttrs(context.Background(), slog.LevelDebug, "certificate management", attrs...)
	}
	return nil
}

func (c *core) Sync() error { return nil }
