// Package notify tells people and other systems what happened: audit events to the log, a file and a webhook, signed posts,
// and mail.
package notify

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"authgate/internal/redact"
)

// Audit takes down events that somebody may want to prove later: who changed what, and when. It is safe for concurrent
// use. Identities go through [redact.Names].
type Audit struct {
	log   *slog.Logger
	names redact.Names
	path  string

	mu   sync.Mutex
	file *os.File // nil: none
	hook *sink    // nil: none
	line bytes.Buffer
	json *slog.Logger // writes to line
}

// NewAudit makes an audit trail to the log and, unless path is empty, to a file that is appended to.
func NewAudit(log *slog.Logger, names redact.Names, path string) (*Audit, error) {
	a := &Audit{log: log, names: names, path: path}
	a.json = slog.New(slog.NewJSONHandler(&a.line, nil))
	if err := a.Reopen(); err != nil {
		return nil, err
	}
	return a, nil
}

// Post makes events from now on go to a webhook, too, one a post, as the JSON line that a file gets. Call it at most once. The
// caller of Event never waits for it: at most 1000 events wait, each is tried for a quarter of an hour, and one that cannot be
// delivered is counted by lost and told in the log, once until another arrives.
func (a *Audit) Post(hook *Webhook, lost func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hook = newSink(hook, a.log, lost)
}

// identityKey is the attribute whose value is a name or an address.
const identityKey = "identity"

// Event takes down what happened, by whom, and details. An attribute "identity" is written as the operator wants names.
func (a *Audit) Event(event, who string, details ...slog.Attr) {
	attrs := append(make([]slog.Attr, 0, len(details)+2), slog.String("event", event), slog.String("who", who))
	for _, d := range details {
		if d.Key == identityKey {
			d = a.names.Name(identityKey, d.Value.String())
		}
		attrs = append(attrs, d)
	}
	ctx := context.Background()
	a.log.LogAttrs(ctx, slog.LevelWarn, "audit", attrs...) // at warning level, so that no usual level loses it
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil && a.hook == nil {
		return
	}
	a.line.Reset()
	a.json.LogAttrs(ctx, slog.LevelInfo, "audit", attrs...)
	if a.file != nil {
		_, _ = a.file.Write(a.line.Bytes())
	}
	if a.hook != nil {
		a.hook.put(bytes.Clone(bytes.TrimSuffix(a.line.Bytes(), []byte("\n"))))
	}
}

// Reopen opens the file anew, after a rotation took the old one away. If that fails the old one stays in use.
func (a *Audit) Reopen() error {
	if a.path == "" {
		return nil
	}
	file, err := os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the audit file: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file != nil {
		_ = a.file.Close()
	}
	a.file = file
	return nil
}

// Close closes the file, and takes at most a few seconds to deliver what waits for the webhook. Later events go to the log only.
func (a *Audit) Close() error {
	a.mu.Lock()
	file, hook := a.file, a.hook
	a.file, a.hook = nil, nil
	a.mu.Unlock()
	if hook != nil {
		hook.close()
	}
	if file == nil {
		return nil
	}
	return file.Close()
}
