package unlock

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	"authgate/limits"
)

// Claim is what a link was made for: whoever follows it owns the target.
type Claim struct {
	Realm  string `json:"realm"`
	Policy string `json:"policy"` // whose bucket had filled
	Target string `json:"target"` // normalised
}

// ticket is the record behind a link. The store knows the token's digest alone, so that whoever reads the store gets no link.
type ticket struct {
	Claim
	Until int64 `json:"until"` // Unix ms
}

// tokenBytes makes a token that nobody guesses: 256 bits [D3].
const tokenBytes = 32

func newToken() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// ticketKey is where the ticket of a token is; ok is false for what cannot be a token.
func ticketKey(token string) (key string, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != tokenBytes || len(token) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return "", false
	}
	sum := sha256.Sum256(b)
	return "unlock:" + hex.EncodeToString(sum[:]), true
}

// change keeps a ticket for ttl.
func (t *ticket) change(key string, ttl time.Duration) limits.Change {
	return limits.Change{Key: key, Text: encode(t), TTL: ttl}
}

// look finds the live ticket of a token in a realm; text is what is kept, "" if there is none.
func (s *Service) look(ctx context.Context, realm, token string) (t ticket, text string, err error) {
	key, ok := ticketKey(token)
	if !ok {
		return ticket{}, "", nil
	}
	texts, err := s.cfg.Records.Load(ctx, key)
	if err != nil {
		return ticket{}, "", err
	}
	if json.Unmarshal([]byte(texts[0]), &t) != nil || t.Realm != realm {
		return ticket{}, "", nil
	}
	return t, texts[0], nil
}

// redeem uses a token up; ok is false if it is dead, or was used just now.
func (s *Service) redeem(ctx context.Context, realm, token string) (t ticket, ok bool, err error) {
	t, text, err := s.look(ctx, realm, token)
	if err != nil || text == "" {
		return ticket{}, false, err
	}
	key, _ := ticketKey(token)
	ok, err = s.cfg.Records.Swap(ctx, []limits.Kept{{Key: key, Text: text}}, limits.Change{Key: key})
	return t, ok && err == nil, err
}

// restore gives a token back for the time that it has left, after its owner got nothing for it.
func (s *Service) restore(token string, t ticket) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin) // the client may have gone
	defer cancel()
	key, _ := ticketKey(token)
	if left := time.Until(time.UnixMilli(t.Until)); left > 0 {
		_, _ = s.cfg.Records.Swap(ctx, []limits.Kept{{Key: key}}, t.change(key, left)) // the store may be out: then it is lost
	}
}
