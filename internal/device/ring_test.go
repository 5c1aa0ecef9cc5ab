package device

import (
	"strings"
	"testing"
	"time"
)

var (
	keyA, keyB = []byte("0123456789abcdef"), []byte("fedcba9876543210")
	someID     = ID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	issued     = time.Unix(1767225600, 0)
)

// golden is what keyA signs for someID in realm acme at the time above, computed by other means.
const golden = "AQABAgMEBQYHCAkKCwwNDg8AAAAAaVW5AM_1CGlmXH9ievuUssavZJA"

const day = 24 * time.Hour

func ring(t testing.TB, keys ...[]byte) *Ring {
	t.Helper()
	r, err := NewRing(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNewRing(t *testing.T) {
	for _, c := range []struct {
		name string
		keys [][]byte
		want string
	}{
		{"no key", nil, "making a key ring: 0 keys; use 1..16"},
		{"most keys", make([][]byte, 17), "making a key ring: 17 keys; use 1..16"},
		{"short key", [][]byte{keyA, keyA[:15]}, "making a key ring: key 2 has 15 bytes; use at least 16"},
	} {
		if _, err := NewRing(c.keys); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	own := []byte("0123456789abcdef")
	r := ring(t, own)
	own[0] = 'x'
	if got := r.Sign("acme", someID, issued); got != golden {
		t.Error("the ring changes with the caller's key")
	}
}

// A cookie that was issued must be valid in every later version.
func TestSignIsFixed(t *testing.T) {
	if got := ring(t, keyA, keyB).Sign("acme", someID, issued); got != golden {
		t.Errorf("got %s, want %s", got, golden)
	}
	if got, want := someID.Public(), "be45cb2605bf"; got != want {
		t.Errorf("got public id %s, want %s", got, want)
	}
}

func TestVerify(t *testing.T) {
	const ttl = 90 * day
	now := issued.Add(time.Hour)
	one := ring(t, keyA)
	swap := func(i int, c byte) string { return golden[:i] + string(c) + golden[i+1:] }
	for _, c := range []struct {
		name  string
		ring  *Ring
		realm string
		value string
		now   time.Time
		want  bool
	}{
		{"as issued", one, "acme", golden, now, true},
		{"key rotated", ring(t, keyB, keyA), "acme", golden, now, true},
		{"key gone", ring(t, keyB), "acme", golden, now, false},
		{"other realm", one, "acm", golden, now, false},
		{"no realm", one, "", golden, now, false},
		{"last second", one, "acme", golden, issued.Add(ttl - time.Second), true},
		{"expired", one, "acme", golden, issued.Add(ttl), false},
		{"slow clock", one, "acme", golden, issued.Add(-time.Minute), true},
		{"from the future", one, "acme", golden, issued.Add(-time.Minute - time.Second), false},
		{"empty", one, "acme", "", now, false},
		{"short", one, "acme", golden[:len(golden)-1], now, false},
		{"long", one, "acme", golden + "A", now, false},
		{"padded", one, "acme", golden + "=", now, false},
		{"padding inside", one, "acme", golden[:len(golden)-1] + "=", now, false},
		{"other trailing bits", one, "acme", swap(len(golden)-1, 'B'), now, false},
		{"other alphabet", one, "acme", strings.Replace(golden, "_", "/", 1), now, false},
		{"line break for a character", one, "acme", golden[:len(golden)-1] + "\n", now, false},
		{"quoted", one, "acme", `"` + golden[2:] + `"`, now, false},
		{"other version", one, "acme", swap(1, 'g'), now, false},
		{"escape", one, "acme", golden[:len(golden)-3] + "%4A", now, false},
	} {
		id, ok := c.ring.Verify(c.realm, c.value, ttl, c.now)
		if ok != c.want || (ok && id != someID) || (!ok && id != ID{}) {
			t.Errorf("%s: got %x, %t, want %t", c.name, id, ok, c.want)
		}
	}
}

func TestEveryBitCounts(t *testing.T) {
	r := ring(t, keyA)
	raw, err := encoding.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		if _, ok := r.Verify("acme", encoding.EncodeToString(raw), 90*day, issued); ok {
			t.Errorf("the value with bit %d flipped is taken", bit)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
}

// The decoder passes over line breaks, and what it leaves out is zero: no other spelling of a MAC that ends so.
func TestLineBreakForZero(t *testing.T) {
	r := ring(t, keyA)
	for at := issued; ; at = at.Add(-time.Second) {
		value := r.Sign("acme", someID, at)
		raw, err := encoding.DecodeString(value)
		if err != nil {
			t.Fatal(err)
		}
		if raw[rawSize-1] != 0 { // as one in 256 is
			continue
		}
		if _, ok := r.Verify("acme", value[:textSize-1]+"\n", 90*day, issued); ok {
			t.Error("a line break is taken for a zero")
		}
		return
	}
}

// A version that is not this one is refused, even when it was signed with the ring's key.
func TestOtherVersion(t *testing.T) {
	raw, err := encoding.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	raw[0] = version + 1
	copy(raw[macAt:], mac(keyA, "acme", raw[:macAt]))
	if _, ok := ring(t, keyA).Verify("acme", encoding.EncodeToString(raw), 90*day, issued); ok {
		t.Error("a value of another version is taken")
	}
}

func TestNewID(t *testing.T) {
	a, b := NewID(), NewID()
	if a == b || a == (ID{}) || a.Public() == b.Public() {
		t.Errorf("got %x and %x, want two random ids", a, b)
	}
	if len(a.Public()) != 12 || strings.Trim(a.Public(), "0123456789abcdef") != "" {
		t.Errorf("got public id %q", a.Public())
	}
}

func FuzzVerify(f *testing.F) {
	r := ring(f, keyA, keyB)
	f.Add("acme", golden)
	f.Add("", r.Sign("", NewID(), issued))
	f.Add("acme", golden[:54]+"B")
	f.Add("acme", golden[:54]+"\n")
	f.Add("acm", "e"+golden)
	f.Add("", "")
	f.Fuzz(func(t *testing.T, realm, value string) {
		id, ok := r.Verify(realm, value, 90*day, issued)
		if !ok {
			if id != (ID{}) {
				t.Errorf("%q is no device, but id %x", value, id)
			}
			return
		}
		// Nobody can guess a MAC, so what verifies is what was signed, to the letter.
		for _, key := range [][]byte{keyA, keyB} {
			for at := issued.Add(-time.Minute); !at.After(issued.Add(time.Minute)); at = at.Add(time.Second) {
				if ring(t, key).Sign(realm, id, at) == value {
					return
				}
			}
		}
		t.Errorf("%q verifies, but was never signed", value)
	})
}

func BenchmarkVerify(b *testing.B) {
	r := ring(b, keyA)
	for b.Loop() {
		if _, ok := r.Verify("acme", golden, 90*day, issued); !ok {
			b.Fatal("not verified")
		}
	}
}
