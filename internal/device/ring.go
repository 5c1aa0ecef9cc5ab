package device

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// Ring signs and verifies the values of device cookies. Use [NewRing]; it is safe for concurrent use.
type Ring struct{ keys [][]byte }

// Bounds of a ring. A cookie is tried with every key.
const (
	MaxKeys = 16
	MinKey  = 16 // bytes
)

// NewRing makes a ring of 1..[MaxKeys] keys of at least [MinKey] bytes. The first one signs, all verify.
func NewRing(keys [][]byte) (*Ring, error) {
	if len(keys) == 0 || len(keys) > MaxKeys {
		return nil, fmt.Errorf("making a key ring: %d keys; use 1..%d", len(keys), MaxKeys)
	}
	r := &Ring{keys: make([][]byte, len(keys))}
	for i, key := range keys {
		if len(key) < MinKey {
			return nil, fmt.Errorf("making a key ring: key %d has %d bytes; use at least %d", i+1, len(key), MinKey)
		}
		r.keys[i] = slices.Clone(key)
	}
	return r, nil
}

// A value is the base64url text, without padding, of version, id, issue time and MAC.
const (
	version  = 1
	idAt     = 1
	timeAt   = idAt + len(ID{})
	macAt    = timeAt + 8 // seconds since the epoch, big endian
	macSize  = 16         // of an HMAC-SHA-256; nobody can try a forgery but by asking
	rawSize  = macAt + macSize
	textSize = (rawSize*8 + 5) / 6

	// maxSkew is how far the clocks of two instances may be apart.
	maxSkew = time.Minute
)

// encoding refuses a text whose last character has bits that belong to no byte, so that a cookie has one spelling.
var encoding = base64.RawURLEncoding.Strict()

// Sign makes the cookie value of a device in a realm, issued at a time.
func (r *Ring) Sign(realm string, id ID, at time.Time) string {
	var raw [rawSize]byte
	raw[0] = version
	copy(raw[idAt:], id[:])
	binary.BigEndian.PutUint64(raw[timeAt:], uint64(at.Unix()))
	copy(raw[macAt:], mac(r.keys[0], realm, raw[:macAt]))
	return encoding.EncodeToString(raw[:])
}

// Verify reads a cookie value. ok is false unless a key of the ring signed it for the realm, less than ttl before now and not
// in the future but for a minute of skew.
func (r *Ring) Verify(realm, value string, ttl time.Duration, now time.Time) (id ID, ok bool) {
	if len(value) != textSize {
		return id, false
	}
	var raw [rawSize]byte
	// The decoder passes over line breaks, so the length of the text does not make that of the bytes.
	if n, err := encoding.Decode(raw[:], []byte(value)); err != nil || n != rawSize || raw[0] != version {
		return id, false
	}
	signed := slices.ContainsFunc(r.keys, func(key []byte) bool {
		return hmac.Equal(raw[macAt:], mac(key, realm, raw[:macAt]))
	})
	age := now.Sub(time.Unix(int64(binary.BigEndian.Uint64(raw[timeAt:])), 0))
	if !signed || age >= ttl || age < -maxSkew {
		return id, false
	}
	return ID(raw[idAt:timeAt]), true
}

// mac authenticates what stands before it, and the realm.
func mac(key []byte, realm string, head []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(head[:idAt])
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(realm)))
	m.Write(size[:])
	m.Write([]byte(realm))
	m.Write(head[idAt:])
	return m.Sum(nil)[:macSize]
}

// ID names a device. It is a secret between the gateway and the browser; [ID.Public] is its name for everybody else.
type ID [16]byte

// NewID makes a random id.
func NewID() ID {
	var id ID
	_, _ = rand.Read(id[:]) // it never fails
	return id
}

// Public is what lists, logs and bucket keys call the device: 12 hex digits that do not lead back to the id.
func (id ID) Public() string { return id.digest().public() }

// digest is what records call a device: the beginning of a SHA-256 of its id.
type digest [16]byte

func (id ID) digest() digest {
	sum := sha256.Sum256(id[:])
	return digest(sum[:len(digest{})])
}

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// publicHex is the length of a public id, in hex digits: 48 bits, of which no two devices of a realm have the same.
const publicHex = 12

func (d digest) public() string { return hex.EncodeToString(d[:publicHex/2]) }
