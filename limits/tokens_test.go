package limits

import (
	"math/big"
	"testing"
)

func TestTokens(t *testing.T) {
	const minute = 60_000
	tests := []struct {
		name                       string
		tokens                     Tokens
		limit, burst, window, now  int64
		wantUnits, wantWait, wantE int64
	}{
		{"never charged", Tokens{}, 10, 3, minute, 5000, 3 * minute, 0, 5000},
		{"one held", Tokens{minute, minute, 5000}, 10, 3, minute, 5000, minute, 0, 5000 + 12_000},
		{"one unit short of one", Tokens{minute - 1, minute, 5000}, 10, 3, minute, 5000, minute - 1, 1, 5000 + 12_001},
		{"empty", Tokens{0, minute, 5000}, 10, 3, minute, 5000, 0, 6000, 5000 + 18_000},
		{"refilled to one", Tokens{0, minute, 5000}, 10, 3, minute, 11_000, minute, 0, 11_000 + 12_000},
		{"refilled but a millisecond", Tokens{0, minute, 5000}, 10, 3, minute, 10_999, minute - 10, 1, 10_999 + 12_001},
		{"refilled to the brim", Tokens{0, minute, 5000}, 10, 3, minute, 23_000, 3 * minute, 0, 23_000},
		{"refilled for years", Tokens{0, minute, 0}, 100_000, 100_000, minute, 1 << 42, 100_000 * minute, 0, 1 << 42},
		{"of the future", Tokens{minute / 2, minute, 9000}, 10, 3, minute, 5000, minute / 2, 3000, 5000 + 15_000},
		{"burst lowered", Tokens{5 * minute, minute, 5000}, 10, 2, minute, 5000, 2 * minute, 0, 5000},
		{"window doubled", Tokens{minute / 2, minute, 5000}, 10, 3, 2 * minute, 5000, minute, 6000, 5000 + 30_000},
		{"window doubled, burst lowered", Tokens{4 * minute, minute, 5000}, 10, 1, 2 * minute, 5000, 2 * minute, 0, 5000},
		{"thirds", Tokens{0, 1000, 0}, 3, 1, 1000, 0, 0, 334, 334},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.tokens.At(tt.limit, tt.burst, tt.window, tt.now)
			if want := (Tokens{tt.wantUnits, tt.window, tt.now}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if wait := got.Wait(tt.limit); wait != tt.wantWait {
				t.Errorf("got a wait of %d, want %d", wait, tt.wantWait)
			}
			if end := got.Expires(tt.limit, tt.burst); end != tt.wantE {
				t.Errorf("it may be forgotten at %d, want %d", end, tt.wantE)
			}
			if charged := got.Charge(); charged.Units != got.Units-tt.window || charged.Last != got.Last || charged.Window != got.Window {
				t.Errorf("charged: got %+v", charged)
			}
		})
	}
}

// fold brings a number that may be any into low..high, and leaves alone one that is there.
func fold(n, low, high int64) int64 {
	if n >= low && n <= high {
		return n
	}
	return low + int64(uint64(n)%uint64(high-low+1))
}

// FuzzTokens holds the integer arithmetic against fractions: no token is made or lost by rounding but what the burst cuts
// off, a client that waits exactly Wait is admitted, and one that waits a millisecond less is not [L3].
func FuzzTokens(f *testing.F) {
	f.Add(int64(10), int64(3), int64(60_000), int64(60_000), int64(5), int64(12_345))
	f.Add(int64(7), int64(1), int64(86_400_000), int64(1000), int64(0), int64(8_572))
	f.Add(int64(100_000), int64(100_000), int64(86_400_000), int64(86_400_000), int64(8_639_999_999_999), int64(1)<<40)
	f.Fuzz(func(t *testing.T, limit, burst, window, before, units, elapsed int64) {
		limit, burst = fold(limit, 1, MaxLimit), fold(burst, 1, MaxLimit)
		window, before = fold(window, 1000, MaxWindow.Milliseconds()), fold(before, 1000, MaxWindow.Milliseconds())
		units, elapsed = fold(units, 0, MaxLimit*before), fold(elapsed, 0, 1<<42)
		const start = 1_000_000
		got := Tokens{units, before, start}.At(limit, burst, window, start+elapsed)

		// tokens = min(burst, units/before + elapsed*limit/window), where a change of window may drop what is less than a unit.
		held := new(big.Rat).Add(big.NewRat(units, before), new(big.Rat).Mul(big.NewRat(elapsed, window), big.NewRat(limit, 1)))
		if full := big.NewRat(burst, 1); held.Cmp(full) > 0 {
			held = full
		}
		lost := new(big.Rat).Sub(held, big.NewRat(got.Units, window))
		if lost.Sign() < 0 || lost.Cmp(big.NewRat(1, window)) >= 0 {
			t.Fatalf("got %d/%d tokens, want %s", got.Units, window, held.FloatString(9))
		}
		if got.Units < 0 || got.Units > burst*window {
			t.Fatalf("got %d units, want 0..%d", got.Units, burst*window)
		}

		wait := got.Wait(limit)
		if wait == 0 {
			if got.Units < window {
				t.Fatalf("no wait with %d units of %d", got.Units, window)
			}
			return
		}
		if w := got.At(limit, burst, window, got.Last+wait).Wait(limit); w != 0 {
			t.Fatalf("after the whole wait of %d it is %d", wait, w)
		}
		if w := got.At(limit, burst, window, got.Last+wait-1).Wait(limit); w != 1 {
			t.Fatalf("a millisecond before the end of a wait of %d it is %d, want 1", wait, w)
		}
		end := got.Expires(limit, burst)
		if full := got.At(limit, burst, window, end); full.Units != burst*window {
			t.Fatalf("forgotten at %d, with %d units of %d", end, full.Units, burst*window)
		}
	})
}

// FuzzTokensStaySpent: a client that asks all the time gets burst + limit per window and not one more.
func FuzzTokensStaySpent(f *testing.F) {
	f.Add(int64(7), int64(3), int64(60_000), uint64(1))
	f.Add(int64(1), int64(1), int64(1000), uint64(2))
	f.Fuzz(func(t *testing.T, limit, burst, window int64, seed uint64) {
		limit, burst, window = fold(limit, 1, 50), fold(burst, 1, 20), fold(window, 1000, 100_000)
		var b Tokens
		admitted, now := int64(0), int64(1)
		for range 300 {
			seed = seed*6364136223846793005 + 1442695040888963407
			now += int64(seed >> 33 % uint64(window/limit+2))
			if at := b.At(limit, burst, window, now); at.Wait(limit) == 0 {
				b, admitted = at.Charge(), admitted+1
			}
		}
		most := new(big.Rat).Add(big.NewRat(burst, 1), new(big.Rat).Mul(big.NewRat(now-1, window), big.NewRat(limit, 1)))
		if big.NewRat(admitted, 1).Cmp(most) > 0 {
			t.Errorf("got %d admitted in %d ms, want at most %s", admitted, now-1, most.FloatString(3))
		}
	})
}
