package clients

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// Hash is a stored form of a secret: argon2id or bcrypt as usual, or sha256:SALT:HEX for secrets that are long and random
// anyway. The zero value matches nothing.
type Hash struct {
	text  string
	check func(secret string) bool
}

// Bounds of what a hash may cost: a configuration must not be able to stop the gateway.
const (
	maxArgonMemory = 256 << 10 // KiB
	maxArgonTime   = 16
	maxArgonLanes  = 16
	maxBcryptCost  = 14
	minSalt        = 8
)

// ParseHash reads a stored form. The error says what is wrong and what would be right, and never repeats the text.
func ParseHash(text string) (Hash, error) {
	var check func(string) bool
	var err error
	switch {
	case strings.HasPrefix(text, "$argon2id$"):
		check, err = parseArgon2id(text)
	case strings.HasPrefix(text, "$2a$"), strings.HasPrefix(text, "$2b$"), strings.HasPrefix(text, "$2y$"):
		check, err = parseBcrypt(text)
	case strings.HasPrefix(text, "sha256:"):
		check, err = parseSHA256(text)
	default:
		err = errors.New("is no hash that is known; use $argon2id$..., $2b$... (bcrypt) or sha256:SALT:HEX; gateway hash-secret --client prints the first")
	}
	if err != nil {
		return Hash{}, err
	}
	return Hash{text: text, check: check}, nil
}

// Matches reports whether secret is the one that was stored, in a time that does not depend on how much of it is right.
func (h Hash) Matches(secret string) bool { return h.check != nil && h.check(secret) }

// parseArgon2id reads $argon2id$v=19$m=65536,t=3,p=4$SALT$HASH.
func parseArgon2id(text string) (func(string) bool, error) {
	f := strings.Split(text, "$")
	if len(f) != 6 || f[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return nil, errors.New("is no argon2id hash of version 19; use $argon2id$v=19$m=M,t=T,p=P$SALT$HASH")
	}
	var memory, time uint32
	var lanes uint8
	if n, err := fmt.Sscanf(f[3], "m=%d,t=%d,p=%d", &memory, &time, &lanes); n != 3 || err != nil {
		return nil, errors.New("has no argon2id parameters; use m=M,t=T,p=P")
	}
	if memory < 8 || memory > maxArgonMemory || time < 1 || time > maxArgonTime || lanes < 1 || lanes > maxArgonLanes {
		return nil, fmt.Errorf("asks for too much or too little: use m up to %d, t up to %d, p up to %d", maxArgonMemory, maxArgonTime, maxArgonLanes)
	}
	salt, err := base64.RawStdEncoding.DecodeString(f[4])
	if err != nil || len(salt) < minSalt {
		return nil, errors.New("has no salt of at least 8 bytes in unpadded base64")
	}
	want, err := base64.RawStdEncoding.DecodeString(f[5])
	if err != nil || len(want) < 16 || len(want) > 64 {
		return nil, errors.New("has no hash of 16 to 64 bytes in unpadded base64")
	}
	return func(secret string) bool {
		got := argon2.IDKey([]byte(secret), salt, time, memory, lanes, uint32(len(want)))
		return subtle.ConstantTimeCompare(got, want) == 1
	}, nil
}

func parseBcrypt(text string) (func(string) bool, error) {
	cost, err := bcrypt.Cost([]byte(text))
	if err != nil || len(text) != 60 {
		return nil, errors.New("is no bcrypt hash of 60 characters")
	}
	if cost > maxBcryptCost {
		return nil, fmt.Errorf("has a bcrypt cost of %d; use at most %d", cost, maxBcryptCost)
	}
	return func(secret string) bool { return bcrypt.CompareHashAndPassword([]byte(text), []byte(secret)) == nil }, nil
}

// parseSHA256 reads sha256:SALT:HEX, the digest of SALT followed by the secret.
func parseSHA256(text string) (func(string) bool, error) {
	f := strings.Split(text, ":")
	if len(f) != 3 || len(f[1]) < minSalt {
		return nil, errors.New("is no salted digest; use sha256:SALT:HEX with a salt of at least 8 characters")
	}
	want, err := hex.DecodeString(f[2])
	if err != nil || len(want) != sha256.Size {
		return nil, errors.New("has no SHA-256 digest of 64 hex digits at its end")
	}
	return func(secret string) bool {
		got := sha256.Sum256([]byte(f[1] + secret))
		return subtle.ConstantTimeCompare(got[:], want) == 1
	}, nil
}

// Parameters of new hashes: those that OWASP's cheat sheet on password storage gives for argon2id. One lane, since a gateway
// must not give all its processors to whoever sends a wrong secret.
const (
	argonMemory = 19 << 10 // KiB
	argonTime   = 2
	argonLanes  = 1
	argonBytes  = 32
	argonSalt   = 16
)

// NewHash is the argon2id hash of a secret, with a salt of 16 bytes.
func NewHash(secret string, salt [argonSalt]byte) string {
	sum := argon2.IDKey([]byte(secret), salt[:], argonTime, argonMemory, argonLanes, argonBytes)
	enc := base64.RawStdEncoding.EncodeToString
	return "$argon2id$v=" + strconv.Itoa(argon2.Version) + fmt.Sprintf("$m=%d,t=%d,p=%d$", argonMemory, argonTime, argonLanes) + enc(salt[:]) + "$" + enc(sum)
}
