package device

import (
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/limits"
)

const digestA = "00112233445566778899aabbccddeeff"

var (
	deviceA = digest{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	deviceB = digest{0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00}
)

func TestParsePairs(t *testing.T) {
	// Computed by hand: a record that is kept must be read by every later version.
	const good = "\x01\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff\x01\x23\x45\x67\x89\xab\xcd\xef\x69\x55\xb9\x00\xff\xff\xff\xff\x03"
	want := pair{
		device: deviceA, spelling: spelling{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef},
		since: 1767225600, last: 1<<32 - 1, failures: 3,
	}
	loose := pair{device: deviceB, since: 1, last: 2}
	for _, c := range []struct {
		name, text string
		want       []pair
	}{
		{"nothing", "", nil},
		{"no pair", "\x01", nil},
		{"one", good, []pair{want}},
		{"two", good + formatPairs([]pair{loose})[1:], []pair{want, loose}},
		{"twice", good + good[1:], []pair{want}},
		{"something at the end", good + good[1:33], []pair{want}},
		{"another version", "\x02" + good[1:], nil},
	} {
		if got := parsePairs(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if got := formatPairs([]pair{want}); got != good {
		t.Errorf("got %x, want %x", got, good)
	}
}

func TestParseDevice(t *testing.T) {
	for _, c := range []struct {
		name, text string
		device     digest
		targets    []string
	}{
		{"nothing", "", digest{}, nil},
		{"no users", digestA, deviceA, nil},
		{"users", digestA + "\nbob\na%3A+b%0A%FF\nbob", deviceA, []string{"bob", "a: b\n\xff"}},
		{"broken lines", digestA + "\n%\n\nbob", deviceA, []string{"bob"}},
		{"no digest", "bob\nalice", digest{}, nil},
	} {
		device, targets, ok := parseDevice(c.text)
		if device != c.device || ok != (c.device != digest{}) || !slices.Equal(targets, c.targets) {
			t.Errorf("%s: got %s %q, %t, want %s %q", c.name, device, targets, ok, c.device, c.targets)
		}
	}
}

// The fullest records that there can be fit.
func TestRecordsFit(t *testing.T) {
	p := pair{device: deviceA, spelling: spelling{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}, failures: MaxFailures}
	if n := len(formatPairs(slices.Repeat([]pair{p}, maxPairs))); n > limits.MaxRecord/2 {
		t.Errorf("the pairs of a target take %d bytes", n)
	}
	if n := len(formatDevice(deviceA, slices.Repeat([]string{strings.Repeat("\xff", 128)}, maxUsers))); n > limits.MaxRecord/2 {
		t.Errorf("the targets of a device take %d bytes", n)
	}
	long := User{strings.Repeat("r", 64), strings.Repeat("t", 128), "x"}
	if exact, _ := new(Registry).Facts(NewID(), long); len(exact) > limits.MaxRecordKey {
		t.Errorf("a key takes %d bytes", len(exact))
	}
}

// A record of another version is no obstacle.
func TestForeignRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		change := limits.Change{Key: userKey(realm, "bob"), Text: "{\"v\":2}\n", TTL: time.Hour, Index: listName(realm)}
		if _, err := w.records.Records.Swap(t.Context(), nil, change); err != nil {
			t.Fatal(err)
		}
		if got := w.list(""); len(got) != 0 {
			t.Errorf("got list %v", got)
		}
		w.wantKnown("anew", w.first(bob("bob")), bob("bob"), "exact")
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(formatPairs([]pair{{device: deviceA, failures: 3}, {device: deviceB, spelling: spelling{1}, last: 9}, {device: deviceA}}) + "x")
	f.Add(digestA + "\nbob\na%3A+b%0A%FF")
	f.Fuzz(func(t *testing.T, text string) {
		pairs := parsePairs(text)
		if again := parsePairs(formatPairs(pairs)); !slices.Equal(again, pairs) {
			t.Errorf("pairs %v are read back as %v", pairs, again)
		}
		device, targets, ok := parseDevice(text)
		if !ok {
			return
		}
		if d, again, ok := parseDevice(formatDevice(device, targets)); !ok || d != device || !slices.Equal(again, targets) {
			t.Errorf("targets %q are read back as %q", targets, again)
		}
	})
}
