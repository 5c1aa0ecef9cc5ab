package limits

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	const window = 60_000
	tests := []struct {
		name   string
		window Window
		now    Millis
		want   Window
		wait   Millis // under a limit of 3
	}{
		{"never charged", Window{}, 5000, Window{5000, 0}, 0},
		{"one charge", Window{5000, 1}, 5001, Window{5000, 1}, 0},
		{"one short of full", Window{5000, 2}, 5001, Window{5000, 2}, 0},
		{"full", Window{5000, 3}, 5000, Window{5000, 3}, window},
		{"overfull", Window{5000, 9}, 5000, Window{5000, 9}, window},
		{"last millisecond", Window{5000, 3}, 5000 + window - 1, Window{5000, 3}, 1},
		{"over", Window{5000, 3}, 5000 + window, Window{5000 + window, 0}, 0},
		{"long over", Window{5000, 3}, 1 << 41, Window{1 << 41, 0}, 0},
		{"of the future", Window{9000, 3}, 5000, Window{5000, 3}, window},
		{"of the far future, with room", Window{1 << 41, 1}, 5000, Window{5000, 1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.window.At(window, tt.now)
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if wait := got.Wait(3, window, tt.now); wait != tt.wait {
				t.Errorf("got a wait of %d, want %d", wait, tt.wait)
			}
			if c := got.Charge(); c != (Window{got.Start, got.Count + 1}) {
				t.Errorf("charged: got %+v", c)
			}
			if end := got.Expires(window); end != got.Start+window {
				t.Errorf("it may be forgotten at %d, want %d", end, got.Start+window)
			}
		})
	}
}

func TestToMillis(t *testing.T) {
	at := time.Date(2000, 1, 1, 0, 0, 0, 1_999_999, time.UTC)
	if got, want := ToMillis(at), int64(946_684_800_001); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}
