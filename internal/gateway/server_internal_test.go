package gateway

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"authgate/internal/redact"
)

// What a server says of its connections is logged by how much it matters, and never with an address.
func TestConnectionLog(t *testing.T) {
	for _, c := range []struct{ line, level, message, text string }{
		{"http: TLS handshake error from 192.0.2.1:5678: EOF\n", "DEBUG", "connection failed", "http: TLS handshake error: EOF"},
		{"http: TLS handshake error from [2001:db8::1]:5678: bad", "DEBUG", "connection failed", "http: TLS handshake error: bad"},
		{"http: panic serving 192.0.2.1:5678: oops\nstack", "ERROR", "panic", `http: panic: oops\nstack`},
		{"http: Accept error: accept tcp 0.0.0.0:443: too many open files; retrying in 5ms", "WARN", "no connection can be accepted", "too many open files"},
		{"http: something else", "DEBUG", "connection failed", "http: something else"},
	} {
		var out bytes.Buffer
		l := &connectionLog{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), names: redact.New(redact.Hashed, []byte("key"))}
		if n, err := l.Write([]byte(c.line)); n != len(c.line) || err != nil {
			t.Errorf("%s: got %d, %v", c.line, n, err)
		}
		got := out.String()
		for _, want := range []string{"level=" + c.level, c.message, c.text} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %s", c.line, want, got)
			}
		}
		if strings.Contains(got, "192.0.2.1") || strings.Contains(got, "2001:db8") {
			t.Errorf("%s: an address is in %s", c.line, got)
		}
		if from := strings.Contains(c.line, " from ") || strings.Contains(c.line, "serving"); from != strings.Contains(got, "peer=h:") {
			t.Errorf("%s: peer in %s", c.line, got)
		}
	}
}
