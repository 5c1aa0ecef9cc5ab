package notify_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"authgate/internal/notify"
	"authgate/internal/redact"
)

var names = redact.New(redact.Hashed, []byte("a key of these tests, long enough"))

// events are the records of a file or a log, one a line.
func events(t *testing.T, text string) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("got %q: %v", line, err)
		}
		out = append(out, record)
	}
	return out
}

func read(t *testing.T, path string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return events(t, string(text))
}

// An event says who did what, when, with identities as the operator wants them, in the log and in the file.
func TestAudit(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "audit")
	a, err := notify.NewAudit(slog.New(slog.NewJSONHandler(&log, nil)), names, path)
	if err != nil {
		t.Fatal(err)
	}
	a.Event("release", "ops", slog.String("scope", "user"), slog.String("identity", "bob@example.org"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a.Event("clear", "ops") // to the log alone
	if err := a.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	logged, filed := events(t, log.String()), read(t, path)
	if len(logged) != 2 || len(filed) != 1 || logged[0]["level"] != "WARN" {
		t.Fatalf("got %v logged and %v filed, want 2 and 1", logged, filed)
	}
	for _, e := range []map[string]any{logged[0], filed[0]} {
		for name, want := range map[string]any{"msg": "audit", "event": "release", "who": "ops", "scope": "user", "identity": names.Text("bob@example.org")} {
			if e[name] != want {
				t.Errorf("got %s: %v, want %v", name, e[name], want)
			}
		}
		if e["time"] == nil {
			t.Error("the event has no time")
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v; want a file of its owner alone", info.Mode(), err)
	}
}

// A file is appended to, and opened anew after it was rotated; if that cannot be, the old one stays in use.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit")
	discard := slog.New(slog.DiscardHandler)
	for range 2 {
		a, err := notify.NewAudit(discard, names, path)
		if err != nil {
			t.Fatal(err)
		}
		a.Event("one", "ops")
		_ = a.Close()
	}
	if n := len(read(t, path)); n != 2 {
		t.Errorf("got %d events after a restart, want both", n)
	}
	a, err := notify.NewAudit(discard, names, path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	a.Event("two", "ops")
	if err := a.Reopen(); err != nil {
		t.Fatal(err)
	}
	a.Event("three", "ops")
	if err := os.Mkdir(filepath.Join(dir, "moved"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, filepath.Join(dir, "moved", "audit")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil { // nothing that could be written to
		t.Fatal(err)
	}
	if err := a.Reopen(); err == nil || !strings.HasPrefix(err.Error(), "opening the audit file: ") {
		t.Errorf("got %v, want it told", err)
	}
	a.Event("four", "ops")
	if n := len(read(t, path+".1")); n != 3 {
		t.Errorf("got %d events in the rotated file, want 3", n)
	}
	if got := read(t, filepath.Join(dir, "moved", "audit")); len(got) != 2 || got[1]["event"] != "four" {
		t.Errorf("got %v in the last file, want events three and four", got)
	}
}

func TestNoFile(t *testing.T) {
	var log bytes.Buffer
	a, err := notify.NewAudit(slog.New(slog.NewJSONHandler(&log, nil)), names, "")
	if err != nil {
		t.Fatal(err)
	}
	a.Event("mode", "ops")
	if err := a.Reopen(); err != nil {
		t.Errorf("got %v without a file", err)
	}
	if err := a.Close(); err != nil || len(events(t, log.String())) != 1 {
		t.Errorf("got %v and %s", err, log.String())
	}
	if _, err := notify.NewAudit(slog.New(slog.DiscardHandler), names, filepath.Join(t.TempDir(), "no", "such")); err == nil {
		t.Error("a file that cannot be opened is no error")
	}
}

// Events of several goroutines, and a rotation in between, do not mix.
func TestAuditInParallel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, err := notify.NewAudit(slog.New(slog.DiscardHandler), names, path)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 50 {
				a.Event("mode", "ops")
			}
			_ = a.Reopen()
		})
	}
	done.Wait()
	_ = a.Close()
	if n := len(read(t, path)); n != 400 {
		t.Errorf("got %d events, want 400", n)
	}
}
