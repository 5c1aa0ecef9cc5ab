package memstore

import (
	ordered "container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"authgate/limits"
)

// notes are kept apart from the buckets. At the bound the oldest makes room.
type notes struct {
	mu    sync.Mutex
	at    map[string]*ordered.Element
	order ordered.List // of note, latest first
}

type note struct {
	key, text string
	until     time.Time
}

// maxNotes bounds the notes: with MaxNote each, a few ten megabytes at the worst.
const maxNotes = 50_000

// Note keeps a text; see [limits.Notes].
func (s *Store) Note(_ context.Context, key, text string, ttl time.Duration) error {
	if len(text) > limits.MaxNote {
		return fmt.Errorf("keeping a note: %d bytes are more than %d", len(text), limits.MaxNote)
	}
	n := &s.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(key)
	for n.order.Len() >= maxNotes {
		n.drop(n.order.Back().Value.(note).key)
	}
	if n.at == nil {
		n.at = make(map[string]*ordered.Element)
	}
	n.at[key] = n.order.PushFront(note{key, text, time.Now().Add(ttl)})
	return nil
}

// Noted is a text that was kept; see [limits.Notes].
func (s *Store) Noted(_ context.Context, key string) (string, error) {
	n := &s.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.at[key]
	if e == nil {
		return "", nil
	}
	if v := e.Value.(note); time.Now().Before(v.until) {
		return v.text, nil
	}
	n.drop(key)
	return "", nil
}

// Forget drops a text; see [limits.Notes].
func (s *Store) Forget(_ context.Context, key string) error {
	s.notes.mu.Lock()
	defer s.notes.mu.Unlock()
	s.notes.drop(key)
	return nil
}

func (n *notes) drop(key string) {
	if e := n.at[key]; e != nil {
		n.order.Remove(e)
		delete(n.at, key)
	}
}
