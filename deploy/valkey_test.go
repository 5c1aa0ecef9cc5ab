package deploy_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/internal/certs"
)

// TestValkeyStart starts a real Valkey by start.sh: the gateway's user may do what it needs under its prefix, and nobody else anything.
func TestValkeyStart(t *testing.T) {
	password, address := "s3cret", startValkey(t, "s3cret\n")
	ask := func(user, password string, args ...string) (string, error) {
		c, err := valkey.NewClient(valkey.ClientOption{
			InitAddress: []string{address}, Username: user, Password: password,
			DisableCache: true, ForceSingleClient: true, DisableRetry: true,
		})
		if err != nil {
			return "", err
		}
		defer c.Close()
		return c.Do(t.Context(), c.B().Arbitrary(args...).Build()).ToString()
	}
	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, err := ask("authgate", password, "SET", "gateway:a", "1"); err == nil {
			break
		} else if deadline.Err() != nil {
			t.Fatalf("it never answered: %v", err)
		}
	}
	if got, err := ask("authgate", password, "GET", "gateway:a"); got != "1" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	keepsCertificates(t, address, password)
	for name, c := range map[string][]string{
		"another key":     {"authgate", password, "SET", "other:a", "1"},
		"another command": {"authgate", password, "FLUSHALL"},
		"a wrong word":    {"authgate", "wrong", "GET", "gateway:a"},
		"no user":         {"", "", "GET", "gateway:a"},
		"default's":       {"default", password, "GET", "gateway:a"},
	} {
		if got, err := ask(c[0], c[1], c[2:]...); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
}

// keepsCertificates goes through all that certificates need of the server.
func keepsCertificates(t *testing.T, address, password string) {
	t.Helper()
	v, err := certs.NewValkey(certs.ValkeyConfig{Addresses: []string{address}, Username: "authgate", Password: password, Prefix: "gateway", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	ctx := t.Context()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"locking", func() error { return v.Lock(ctx, "a.test") }},
		{"storing", func() error { return v.Store(ctx, "certificates/a.test", []byte("x")) }},
		{"loading", func() error { _, err := v.Load(ctx, "certificates/a.test"); return err }},
		{"asking", func() error { _, err := v.Stat(ctx, "certificates/a.test"); return err }},
		{"listing", func() error { _, err := v.List(ctx, "certificates", true); return err }},
		{"deleting", func() error { return v.Delete(ctx, "certificates/a.test") }},
		{"unlocking", func() error { return v.Unlock(ctx, "a.test") }},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s certificates: %v", step.name, err)
		}
	}
}

// startValkey runs start.sh on a free port, until the test ends.
func startValkey(t *testing.T, secret string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	cmd := startCommand(t, secret, "PORT="+strconv.Itoa(port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // start.sh has become the server
		_ = cmd.Wait()
	})
	return address
}

// startCommand is start.sh with a folder, a secret and a Valkey of this machine.
func startCommand(t *testing.T, secret string, env ...string) *exec.Cmd {
	t.Helper()
	server := os.Getenv("VALKEY_SERVER")
	if server == "" {
		server = "valkey-server"
	}
	server, err := exec.LookPath(server)
	if err != nil {
		t.Fatalf("%v; run `make test`, which installs it", err)
	}
	bin, data := t.TempDir(), t.TempDir()
	if err := os.Symlink(server, filepath.Join(bin, "valkey-server")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "valkey-password")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "kubernetes/valkey/start.sh")
	cmd.Env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "DATA=" + data, "SECRET=" + file}, env...)
	return cmd
}

// TestValkeyStartRefuses wants no server where the password would be read as something else, or as none.
func TestValkeyStartRefuses(t *testing.T) {
	for name, secret := range map[string]string{"empty": "", "a line end": "a\nuser default on", "a blank": "a +@all"} {
		t.Run(name, func(t *testing.T) {
			out, err := startCommand(t, secret, "PORT=0").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "letters and digits") {
				t.Errorf("got %v, %s", err, out)
			}
		})
	}
}

// TestValkeyUser holds the rights in start.sh against those that docs/operations.md gives to a user of the gateway's own.
func TestValkeyUser(t *testing.T) {
	find := func(path, prefix string) string {
		for _, line := range lines(read(t, path)) {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				_, rights, _ := strings.Cut(rest, " ")
				return rights
			}
		}
		t.Fatalf("%s: no line begins with %q", path, prefix)
		return ""
	}
	got := find("kubernetes/valkey/start.sh", "user authgate on >")
	if want := find("../docs/operations.md", "ACL SETUSER authgate on >"); got != want {
		t.Errorf("the user may\n%s\nbut docs/operations.md says\n%s", got, want)
	}
	for _, line := range []string{"maxmemory-policy noeviction", "appendonly yes"} {
		if !strings.Contains(read(t, "kubernetes/valkey/start.sh"), "\n"+line+"\n") || !strings.Contains(read(t, "../docs/operations.md"), line) {
			t.Errorf("%q is not said in both", line)
		}
	}
}
