package config

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a text that must not be shown: a password, a key, an address that lets in whoever knows it.
// Every way of printing or marshalling it gives `<secret>`, or nothing when it is empty; only Reveal gives
// the text. (The fmt package calls no methods of unexported fields, so keep a Secret in an exported one.)
type Secret string

const secretMask = "<secret>"

// Reveal is the text itself.
func (s Secret) Reveal() string { return string(s) }

// String is `<secret>`, or "" for the empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return secretMask
}

// Format is what the fmt package prints, whatever the verb: the same as String.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText keeps the secret out of JSON, YAML, and whatever else marshals text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue keeps the secret out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
