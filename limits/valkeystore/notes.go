package valkeystore

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/limits"
)

// noteKey begins the keys of notes.
const noteKey = "note:"

// Note keeps a text; see [limits.Notes].
func (s *Store) Note(ctx context.Context, key, text string, ttl time.Duration) error {
	if len(text) > limits.MaxNote {
		return fmt.Errorf("keeping a note: %d bytes are more than %d", len(text), limits.MaxNote)
	}
	c := s.client
	return s.simple(ctx, "note", c.B().Set().Key(s.key(noteKey+key)).Value(text).PxMilliseconds(ttl.Milliseconds()).Build()).Error()
}

// Noted is a text that was kept; see [limits.Notes].
func (s *Store) Noted(ctx context.Context, key string) (string, error) {
	text, err := s.simple(ctx, "note", s.client.B().Get().Key(s.key(noteKey+key)).Build()).ToString()
	if valkey.IsValkeyNil(err) {
		return "", nil
	}
	return text, err
}

// Forget drops a text; see [limits.Notes].
func (s *Store) Forget(ctx context.Context, key string) error {
	return s.simple(ctx, "note", s.client.B().Del().Key(s.key(noteKey+key)).Build()).Error()
}

// simple sends one command within the budget, unless the breaker is open. Its error, if any, is [limits.ErrUnavailable].
func (s *Store) simple(ctx context.Context, operation string, cmd valkey.Completed) valkey.ValkeyResult {
	if s.health.open() {
		return valkey.NewErrorResult(s.unavailable(operation, errNotAsked))
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	reply := s.client.Do(ctx, cmd)
	if err := reply.Error(); err != nil && !valkey.IsValkeyNil(err) {
		return valkey.NewErrorResult(s.failed(operation, err))
	}
	s.health.answered()
	return reply
}
