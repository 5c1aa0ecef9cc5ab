package redact_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"authgate/internal/redact"
)

var key, otherKey = []byte("a key of these tests, long enough"), []byte("another key of these tests, too..")

// written is an attribute as a log shows it.
func written(a slog.Attr) string {
	var b bytes.Buffer
	h := slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}})
	slog.New(h).LogAttrs(context.Background(), slog.LevelInfo, "", a)
	return strings.TrimSpace(b.String())
}

func TestNames(t *testing.T) {
	hashed := redact.New(redact.Hashed, key).Text("bob")
	for _, test := range []struct {
		name  string
		names redact.Names
		want  string
	}{
		{"the zero value", redact.Names{}, ""},
		{"omitted", redact.New(redact.Omit, key), ""},
		{"plain", redact.New(redact.Plain, key), "bob"},
		{"hashed", redact.New(redact.Hashed, key), hashed},
	} {
		if got := test.names.Text("bob"); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		want := ""
		if test.want != "" {
			want = "target=" + test.want
		}
		if got := written(test.names.Name("target", "bob")); got != want {
			t.Errorf("%s: got %q logged, want %q", test.name, got, want)
		}
		if got := written(test.names.Name("target", "")); got != "" {
			t.Errorf("%s: got %q logged for no name", test.name, got)
		}
	}
}

// Digests tell equal names from others, and tell nothing to whoever has not the key.
func TestDigests(t *testing.T) {
	names := redact.New(redact.Hashed, key)
	if !regexp.MustCompile(`^h:[0-9a-f]{16}$`).MatchString(names.Text("bob")) {
		t.Errorf("got %q, want 64 bits of a digest", names.Text("bob"))
	}
	if names.Text("bob") != redact.New(redact.Hashed, key).Text("bob") {
		t.Error("equal names look different")
	}
	if names.Text("bob") == names.Text("eve") {
		t.Error("different names look equal")
	}
	if names.Text("bob") == redact.New(redact.Hashed, otherKey).Text("bob") {
		t.Error("the digest does not depend on the key")
	}
}

func TestAddresses(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.1")
	for _, test := range []struct {
		name  string
		names redact.Names
		addr  netip.Addr
		want  string
	}{
		{"plain", redact.New(redact.Plain, nil), address, "client=192.0.2.1"},
		{"hashed", redact.New(redact.Hashed, key), address, "client=" + redact.New(redact.Hashed, key).Text("192.0.2.1")},
		{"omitted", redact.Names{}, address, ""},
		{"none", redact.New(redact.Hashed, key), netip.Addr{}, "client=none"},
	} {
		if got := written(test.names.Address("client", test.addr)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
