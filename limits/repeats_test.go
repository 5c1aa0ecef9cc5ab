package limits

import "testing"

func TestRepeatsExpires(t *testing.T) {
	const window = 60_000
	tests := []struct {
		name    string
		repeats Repeats
		want    Millis
	}{
		{"one secret", Repeats{Seen: [3]Digest{{1, moment}}}, moment + window},
		{"the latest secret", Repeats{Seen: [3]Digest{{1, moment - 9}, {2, moment}, {3, moment - 5}}}, moment + window},
		{"freed repetitions", Repeats{Seen: [3]Digest{{1, moment - 50_000}}, Freed: Window{moment, 2}}, moment + window},
	}
	for _, tt := range tests {
		if got := tt.repeats.Expires(window); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestRepeatsOfNothing(t *testing.T) {
	var p Repeats
	for range 3 {
		if p.Again(0, 60_000, moment) {
			t.Fatal("a secret that could not be read was a repetition")
		}
	}
	if p != (Repeats{}) {
		t.Errorf("got %+v, want nothing remembered", p)
	}
}

func TestRepeatsLeavesOrderAlone(t *testing.T) {
	var p Repeats
	for i, sum := range []uint64{1, 2, 3, 2, 1, 3} {
		if got, want := p.Again(sum, 60_000, moment+Millis(i)), i > 2; got != want {
			t.Errorf("step %d: got %t, want %t", i, got, want)
		}
	}
	// A repetition does not make a secret younger: it is forgotten a window after it was counted.
	if want := [3]Digest{{3, moment + 2}, {2, moment + 1}, {1, moment}}; p.Seen != want {
		t.Errorf("got %v, want %v", p.Seen, want)
	}
	p.Again(4, 60_000, moment+9)
	if want := [3]Digest{{4, moment + 9}, {3, moment + 2}, {2, moment + 1}}; p.Seen != want {
		t.Errorf("got %v, want %v", p.Seen, want)
	}
}
