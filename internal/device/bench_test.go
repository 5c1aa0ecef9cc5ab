package device

import (
	"testing"

	"authgate/limits/memstore"
)

func BenchmarkFacts(b *testing.B) {
	w := newWorld(b, &watched{})
	for b.Loop() {
		w.Facts(someID, bob("bob"))
	}
}

// A success in memory: of a browser that is known, and of a client without a memory for cookies.
func BenchmarkTrust(b *testing.B) {
	s := memstore.New(memstore.Config{MaxEntries: 1 << 20})
	defer s.Close()
	g, err := NewRegistry(Config{Records: s, Key: keyA, TTL: testTTL, MaxUsers: 10})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("known", func(b *testing.B) {
		id, _, _ := g.Trust(b.Context(), user1("alice"), nil)
		seen := []ID{id}
		for b.Loop() {
			if _, added, err := g.Trust(b.Context(), user1("alice"), seen); added || err != nil {
				b.Fatal(added, err)
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			if _, added, err := g.Trust(b.Context(), bob("bob"), nil); !added || err != nil {
				b.Fatal(added, err)
			}
		}
	})
}
