// Package notify tells people and other systems what happened: audit events, so far, to the log and to a file.
package notify

import (
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
	file *os.File
	out  *slog.Logger // to the file
}

// NewAudit makes an audit trail to the log and, unless path is empty, to a file that is appended to.
func NewAudit(log *slog.Logger, names redact.Names, path string) (*Audit, error) {
	a := &Audit{log: log, names: names, path: path}
	if err := a.Reopen(); err != nil {
		return nil, err
	}
	return a, nil
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
	if a.out != nil {
		a.out.LogAttrs(ctx, slog.LevelInfo, "audit", attrs...)
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
	a.file, a.out = file, slog.New(slog.NewJSONHandler(file, nil))
	return nil
}

// Close closes the file. Later events go to the log only.
func (a *Audit) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	err := a.file.Close()
	a.file, a.out = nil, nil
	return err
}
