package limits

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Records keeps small texts under keys for a while, beside the buckets: half-finished logins [V5], trusted devices [D1],
// known targets [M6], unlock links and notices that wait to be sent [D3], secrets that instances share. A [Fact] is the key
// of a record. A text may hold any bytes.
type Records interface {
	// Load returns the text kept under each key, "" where there is none.
	Load(ctx context.Context, keys ...string) ([]string, error)
	// Swap makes all changes in one atomic step, provided that every key in was still holds that text, and reports whether
	// it did. Without conditions it always does. [CheckSwap] says what is bounded. An error means that the changes may or may
	// not be made.
	Swap(ctx context.Context, was []Kept, changes ...Change) (bool, error)
	// List pages through the keys that are on an index, at most limit (1..MaxSwap) from cursor on, in no particular but stable
	// order; next is "" at the end. A key that is on the list all the while is listed, seldom twice. A cursor that this list
	// did not give out is [ErrCursor].
	List(ctx context.Context, index, cursor string, limit int) (keys []string, next string, err error)
}

// Kept is a condition on a record: what it holds; "" means that there is none.
type Kept struct{ Key, Text string }

// Change is what becomes of a record.
type Change struct {
	Key  string
	Text string        // at most MaxRecord bytes; "" forgets the record
	TTL  time.Duration // at least a millisecond unless Text is ""
	// Index is the list that the key is on while the record is kept; "": none. A key is on the same list for good, so every
	// change that keeps a text names it; one that forgets need not.
	Index string
}

// Fact is the key of a record that attempts ask about: the fact is known if there is such a record.
type Fact string

// Bounds of records.
const (
	MaxRecord    = 32 << 10 // bytes of one text
	MaxRecordKey = 1 << 10  // bytes of a key, or of the name of a list
	MaxSwap      = 1000     // keys in one call, conditions and changes together
	MaxSwapText  = 1 << 20  // bytes of all texts in one call
)

// CheckSwap reports what a store must not be asked to swap: too much at once, a record without an end, a key twice.
func CheckSwap(was []Kept, changes []Change) error {
	if n := len(was) + len(changes); n > MaxSwap {
		return fmt.Errorf("changing records: %d keys at once; use at most %d", n, MaxSwap)
	}
	total := 0
	check := func(key, text string) error {
		total += len(text)
		switch {
		case key == "" || len(key) > MaxRecordKey:
			return fmt.Errorf("changing records: a key of %d bytes; use 1..%d", len(key), MaxRecordKey)
		case len(text) > MaxRecord || total > MaxSwapText:
			return fmt.Errorf("changing records: a text of %d bytes, %d with those before it; use at most %d, and %d together",
				len(text), total, MaxRecord, MaxSwapText)
		}
		return nil
	}
	for i := range was {
		if err := check(was[i].Key, was[i].Text); err != nil {
			return err
		}
	}
	var seen map[string]bool
	if len(changes) > 1 {
		seen = make(map[string]bool, len(changes))
	}
	for i := range changes {
		c := &changes[i]
		if err := check(c.Key, c.Text); err != nil {
			return err
		}
		switch {
		case seen[c.Key]:
			return fmt.Errorf("changing records: %s is changed twice", c.Key)
		case c.Text != "" && c.TTL < time.Millisecond:
			return fmt.Errorf("changing records: %s is to be kept for %s; use at least 1ms", c.Key, c.TTL)
		case len(c.Index) > MaxRecordKey:
			return fmt.Errorf("changing records: the name of a list has %d bytes; use at most %d", len(c.Index), MaxRecordKey)
		}
		if seen != nil {
			seen[c.Key] = true
		}
	}
	return nil
}

// KeptSecret is a secret that all who use the records share: the one that is kept under the name or, if there is none, the
// one offered, which is then kept. It ends 400 days after it was last asked for; see [RenewSecret].
func KeptSecret(ctx context.Context, r Records, name string, offered []byte) ([]byte, error) {
	if len(offered) == 0 {
		return nil, fmt.Errorf("keeping secret %s: it is empty", name)
	}
	key := "secret:" + name
	for range secretTries {
		texts, err := r.Load(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("reading secret %s: %w", name, err)
		}
		secret := texts[0]
		if secret == "" {
			secret = string(offered)
		}
		done, err := r.Swap(ctx, []Kept{{Key: key, Text: texts[0]}}, Change{Key: key, Text: secret, TTL: keepSecret})
		if err != nil {
			return nil, fmt.Errorf("keeping secret %s: %w", name, err)
		}
		if done {
			return []byte(secret), nil
		}
	}
	return nil, fmt.Errorf("keeping secret %s: others change it all the time", name)
}

const (
	// keepSecret is how long a secret outlives the last instance that used it [L13].
	keepSecret = 400 * 24 * time.Hour
	// secretTries bounds how often others may be faster: a secret changes once in its life.
	secretTries = 8
)

// RenewSecret keeps a secret for another 400 days, and puts it back if it was lost. An instance calls it now and then while it
// lives. The error wraps [ErrSecretChanged] if another secret is kept under the name by now.
func RenewSecret(ctx context.Context, r Records, name string, secret []byte) error {
	kept, err := KeptSecret(ctx, r, name, secret)
	if err == nil && string(kept) != string(secret) {
		return fmt.Errorf("renewing secret %s: %w", name, ErrSecretChanged)
	}
	return err
}

// ErrSecretChanged is wrapped by the error of [RenewSecret] that only a restart mends.
var ErrSecretChanged = errors.New("another one is kept by now")
