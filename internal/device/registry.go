package device

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"authgate/limits"
)

// Registry says for whom devices are trusted. Use [NewRegistry]; it is safe for concurrent use, by any number of instances
// over one store too.
type Registry struct{ cfg Config }

// Config is what a registry needs; every field is required.
type Config struct {
	Records  limits.Records
	Key      []byte        // of the digests of spellings, at least 16 bytes; the same in all instances
	TTL      time.Duration // how long a device is trusted after the last success; at least a minute
	MaxUsers int           // users of one device, 1..10 [D1]
}

// Bounds [D1] [D2].
const (
	// MaxDevices bounds the devices that are trusted for one spelling of a target.
	MaxDevices = 32
	// MaxFailures is how many failures without a success end a trust.
	MaxFailures = 30

	maxUsers     = 10
	maxSpellings = 4   // of one target on one device
	maxPairs     = 128 // of one target
)

// NewRegistry makes a registry. Nothing is asked yet.
func NewRegistry(cfg Config) (*Registry, error) {
	const doing = "making a registry of devices"
	switch {
	case cfg.Records == nil:
		return nil, fmt.Errorf("%s: no records", doing)
	case len(cfg.Key) < MinKey:
		return nil, fmt.Errorf("%s: the key has %d bytes; use at least %d", doing, len(cfg.Key), MinKey)
	case cfg.TTL < time.Minute:
		return nil, fmt.Errorf("%s: a time to live of %s; use at least a minute", doing, cfg.TTL)
	case cfg.MaxUsers < 1 || cfg.MaxUsers > maxUsers:
		return nil, fmt.Errorf("%s: %d users of a device; use 1..%d", doing, cfg.MaxUsers, maxUsers)
	}
	cfg.Key = slices.Clone(cfg.Key)
	return &Registry{cfg: cfg}, nil
}

// User is whom a device may be trusted for.
type User struct {
	Realm    string // without a colon, as all realms are
	Target   string // normalised, as the buckets have it; "" is nobody
	Spelling string // as it was typed, trimmed; in [Registry.Trust], "" is any spelling
}

// Facts are the two facts of which either makes a device a trusted one for a user: that it is trusted for the very spelling,
// and that it is for any. They always differ.
func (g *Registry) Facts(id ID, u User) (exact, loose limits.Fact) {
	device := id.digest()
	return limits.Fact(factKey(u.Realm, u.Target, device, g.spelling(u.Realm, u.Spelling))),
		limits.Fact(factKey(u.Realm, u.Target, device, anySpelling))
}

// SpellingDigest is what keys call a spelling in a realm: 16 hex digits of a keyed digest.
func (g *Registry) SpellingDigest(realm, spelling string) string {
	s := g.spelling(realm, spelling)
	return hex.EncodeToString(s[:])
}

// spelling is what records call a spelling: the beginning of a keyed digest.
type spelling [8]byte

// anySpelling is the one of a pair that does not care.
var anySpelling spelling

func (g *Registry) spelling(realm, text string) spelling {
	m := hmac.New(sha256.New, g.cfg.Key)
	m.Write([]byte("device spelling\x00" + realm + "\x00" + text)) // no realm holds a zero
	return spelling(m.Sum(nil)[:len(spelling{})])
}

// Trust makes the browser of a success a trusted device of the user, or renews it. seen are the ids that it brought and that
// verified, of which eight at most are looked at. id is what its cookie must say from now on; added reports whether it is a
// fresh one, because the browser was not trusted for this user, by this spelling, before. It takes one call of the store
// where a pair was renewed within the hour, two as a rule, three where others use the device as well.
func (g *Registry) Trust(ctx context.Context, u User, seen []ID) (id ID, added bool, err error) {
	const doing = "trusting a device"
	if u.Target == "" {
		return ID{}, false, errors.New(doing + ": there is no target")
	}
	err = g.change(ctx, doing, u.Realm, func(s *step) (err error) {
		id, added, err = s.trust(ctx, u, seen[:min(len(seen), maxSeen)])
		return err
	})
	if err != nil {
		return ID{}, false, err
	}
	return id, added, nil
}

// Doubt counts a failure of a device that was trusted for the user. ended reports whether it was the one too many, so that
// the device is trusted no more. A device that was not trusted is none of its business.
func (g *Registry) Doubt(ctx context.Context, u User, id ID) (ended bool, err error) {
	err = g.change(ctx, "doubting a device", u.Realm, func(s *step) (err error) {
		ended, err = s.doubt(ctx, u, id)
		return err
	})
	return ended && err == nil, err
}

// Entry is a device that is trusted for a user, all spellings taken together.
type Entry struct {
	ID       string // [ID.Public]
	Realm    string
	Target   string
	Since    time.Time // when it became trusted; whole seconds, as the others
	Last     time.Time // latest success
	Failures int       // since then; the most of any spelling
	Expires  time.Time
}

// maxPage bounds the users of a page.
const maxPage = 100

// List pages through the trusted devices of a target or, if target is "", of a realm: those of at most limit (1..100)
// users from cursor on, so 128 times as many entries at the most, and a page may hold none before the end. next is "" at the
// end. A cursor that this list did not give out is [limits.ErrCursor].
func (g *Registry) List(ctx context.Context, realm, target, cursor string, limit int) (entries []Entry, next string, err error) {
	keys := []string{userKey(realm, target)}
	if target == "" {
		keys, next, err = g.cfg.Records.List(ctx, listName(realm), cursor, min(max(limit, 1), maxPage))
		if err != nil {
			return nil, "", fmt.Errorf("listing devices: %w", err)
		}
	}
	texts, err := g.cfg.Records.Load(ctx, keys...)
	if err != nil {
		return nil, "", fmt.Errorf("listing devices: %w", err)
	}
	s := g.step(realm)
	for i, key := range keys {
		entries = s.entries(entries, s.user(targetOf(realm, key), texts[i]))
	}
	return entries, next, nil
}

// Revoke ends a device, by its public id, for all its users, and returns their targets; none if there is no such device.
func (g *Registry) Revoke(ctx context.Context, realm, publicID string) (targets []string, err error) {
	if len(publicID) != publicHex {
		return nil, nil
	}
	err = g.change(ctx, "revoking a device", realm, func(s *step) (err error) {
		targets, err = s.revoke(ctx, publicID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return targets, nil
}

// RevokeUser ends all devices of a target, whatever the spelling, and returns how many there were. Other users of the
// same devices keep them.
func (g *Registry) RevokeUser(ctx context.Context, realm, target string) (n int, err error) {
	err = g.change(ctx, "revoking the devices of a user", realm, func(s *step) (err error) {
		n, err = s.revokeUser(ctx, target)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
