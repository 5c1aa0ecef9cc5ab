package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/internal/config"
	"authgate/internal/gateway"
	"authgate/internal/valkeytest"
)

// strangersFile is a configuration of two realms that limits sign-ups; two policies spell names in two ways.
const strangersFile = `
upstream: {url: "http://backend.test"}
store: {backend: valkey, valkey: {addresses: [%q], timeout: 5s}}
policies:
  code:
    match: [{path: /code}]
    target: {from: ["form:email"]}
    requests: {signups: {limit: 1, window: 1h}}
  exact:
    match: [{path: /exact}]
    target: {from: ["form:email"], normalize: [keep_case]}
    requests: {signups: {limit: 1, window: 1h}}
  counted:
    match: [{path: /counted}]
    target: {from: ["form:email"], normalize: [phone_digits]}
    requests: {target: {limit: 1, window: 1h}}
realms:
  acme: {hosts: [acme.test]}
  bell: {hosts: [bell.test]}
`

func knownImport(t *testing.T, yaml, realm string) (*gateway.KnownImport, error) {
	t.Helper()
	cfg, _, err := config.Parse("known.yaml", []byte(yaml), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return gateway.NewKnownImport(cfg, realm, slog.New(slog.DiscardHandler))
}

func TestKnownImport(t *testing.T) {
	server := valkeytest.Start(t)
	yaml := fmt.Sprintf(strangersFile, server.Addr())
	known, err := knownImport(t, yaml, "acme")
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	list.WriteString("\ufeff  Bob@Example.org \r\n\r\n# nobody@example.org\n")
	const many = 2500 // more than two flights
	for i := range many {
		fmt.Fprintf(&list, "u%d@example.org\n", i)
	}
	list.WriteString("last@example.org")
	if n, err := known.Run(context.Background(), strings.NewReader(list.String())); err != nil || n != many+2 {
		t.Fatalf("got %d, %v", n, err)
	}
	if known.Realm() != "acme" {
		t.Errorf("got realm %s", known.Realm())
	}

	cfg, _, err := config.Parse("known.yaml", []byte(yaml), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(cfg, gateway.Options{Transport: sender{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop(context.Background()) })
	next := 0
	ask := func(host, path, email string) int {
		r := httptest.NewRequest(http.MethodPost, "http://"+host+path, strings.NewReader("email="+email))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = fmt.Sprintf("203.0.113.%d:1", next)
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		return w.Code
	}
	for _, c := range []struct {
		name, host, path, email string
		want                    int // the third time; the rule lets one stranger in
	}{
		{"known", "acme.test", "/code", "bob@example.org", 200},
		{"in another spelling", "acme.test", "/code", "BOB@example.ORG%20", 200},
		{"of the second flight", "acme.test", "/code", "u2499@example.org", 200},
		{"the last", "acme.test", "/code", "last@example.org", 200},
		{"as the other policy spells it", "acme.test", "/exact", "Bob@Example.org", 200},
		{"as neither spells it", "acme.test", "/exact", "BOB@example.org", 429},
		{"a comment", "acme.test", "/code", "nobody@example.org", 429},
		{"a stranger", "acme.test", "/code", "eve@example.org", 429},
		{"in another realm, which only reports", "bell.test", "/code", "bob@example.org", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			next++
			ask(c.host, c.path, c.email)
			ask(c.host, c.path, c.email)
			if got := ask(c.host, c.path, c.email); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
	if keys, ok := server.Do("KEYS", "*example*").([]any); ok && len(keys) > 0 {
		t.Errorf("the store holds names: %v", keys)
	}
	if keys, ok := server.Do("KEYS", "*record:known:acme:*").([]any); ok && len(keys) != many+3 { // one of them in two spellings
		t.Errorf("the store holds %d facts, want %d", len(keys), many+3)
	}
}

// A list that cannot be read to its end makes no rule refuse.
func TestKnownImportStops(t *testing.T) {
	server := valkeytest.Start(t)
	yaml := fmt.Sprintf(strangersFile, server.Addr())
	for _, c := range []struct{ name, list, want string }{
		{"nobody", "\n# x\n", "the list names nobody"},
		{"a long line", "a\n" + strings.Repeat("x", 5000), "line 2: is longer than 4096 bytes"},
		{"another encoding", "a\nb\nJos\xe9\n", "line 3: is no text in UTF-8"},
		{"UTF-16", "\xff\xfea\x00\n", "line 1: is no text in UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			known, err := knownImport(t, yaml, "acme")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := known.Run(context.Background(), strings.NewReader(c.list)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("a list that breaks off", func(t *testing.T) {
		known, err := knownImport(t, yaml, "acme")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := known.Run(context.Background(), broken{}); !errors.Is(err, errBroken) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no store", func(t *testing.T) {
		known, err := knownImport(t, fmt.Sprintf(strangersFile, "127.0.0.1:1"), "acme")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := known.Run(context.Background(), strings.NewReader("a\n")); err == nil || !strings.Contains(err.Error(), "store") {
			t.Errorf("got %v", err)
		}
	})
	if got := server.Do("EXISTS", "gateway:record:signups-imported:acme"); fmt.Sprint(got) != "0" {
		t.Errorf("the import is noted: %v", got)
	}
}

var errBroken = errors.New("torn")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

func TestKnownImportRefuses(t *testing.T) {
	yaml := fmt.Sprintf(strangersFile, "127.0.0.1:1")
	for _, c := range []struct{ name, yaml, realm, want string }{
		{"memory", strings.Replace(yaml, "backend: valkey", "backend: memory", 1), "acme", "store.backend is memory"},
		{"a hook", yaml + "signups: {lookup_url: \"http://hook.test/\", lookup_secret: 0123456789abcdef0123456789abcdef}\n", "acme", "the hook alone says"},
		{"no such realm", yaml, "acmee", `"acmee" is no realm; use acme, bell, default`},
		{"several realms", yaml, "", "say which one with --realm: acme, bell, default"},
		{"nobody asks", strings.ReplaceAll(yaml, "signups:", "source:"), "acme", "nothing would look an import up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := knownImport(t, c.yaml, c.realm); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := knownImport(t, strings.Split(yaml, "realms:")[0], ""); err != nil {
		t.Errorf("with one realm only: %v", err)
	}
}
