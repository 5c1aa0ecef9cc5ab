// Package redact is the one way in which identities get into logs and audit events.
package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/netip"
)

// Names writes addresses, mailboxes and client ids the way the operator wants them. The zero value leaves them out.
// It is immutable and safe for concurrent use.
type Names struct {
	mode Mode
	key  []byte
}

// Mode is how identities appear.
type Mode uint8

// The modes.
const (
	Omit   Mode = iota // not at all
	Hashed             // as keyed digests: equal names look equal, and nobody without the key can tell whose they are
	Plain              // as they are
)

// New makes a Names; key is that of the digests.
func New(mode Mode, key []byte) Names { return Names{mode: mode, key: key} }

// digestBytes is how much of a digest is shown: 64 bits tell a service's users apart.
const digestBytes = 8

// Text is the name as it may be written, "" if it may not.
func (n Names) Text(name string) string {
	switch n.mode {
	case Plain:
		return name
	case Hashed:
		mac := hmac.New(sha256.New, n.key)
		mac.Write([]byte(name))
		return "h:" + hex.EncodeToString(mac.Sum(nil)[:digestBytes])
	}
	return ""
}

// Name is the attribute of a mailbox, a username or a client id; it vanishes where it may not be written.
func (n Names) Name(key, name string) slog.Attr {
	if n.mode == Omit || name == "" {
		return slog.Attr{}
	}
	return slog.String(key, n.Text(name))
}

// Address is the attribute of an address.
func (n Names) Address(key string, a netip.Addr) slog.Attr {
	if !a.IsValid() {
		return slog.String(key, "none")
	}
	return n.Name(key, a.String())
}
