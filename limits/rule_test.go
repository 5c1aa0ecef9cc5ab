package limits

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
)

// requestRule, failureRule and signalRule are rules that validate; cases change one thing in them.
func requestRule(change func(*Rule)) Rule {
	r := Rule{Policy: "p", Dimension: Source, Limit: 5, Window: time.Minute, PrefixV4: 32, PrefixV6: 64}
	change(&r)
	return r
}

func failureRule(change func(*Rule)) Rule {
	r := requestRule(func(*Rule) {})
	r.Class = Failures
	change(&r)
	return r
}

func signalRule(change func(*Rule)) Rule {
	r := failureRule(func(*Rule) {})
	r.Signal = true
	change(&r)
	return r
}

func TestRuleValidate(t *testing.T) {
	tests := []struct {
		name string
		rule Rule
		want string // "": valid; else in the error
	}{
		{"request rule", requestRule(func(*Rule) {}), ""},
		{"limit 0", requestRule(func(r *Rule) { r.Limit = 0 }), "limit: 0 is out of range; use 1..100000"},
		{"limit below 0", requestRule(func(r *Rule) { r.Limit = -1 }), "limit: -1 is out of range"},
		{"highest limit", requestRule(func(r *Rule) { r.Limit = 100_000 }), ""},
		{"limit too high", requestRule(func(r *Rule) { r.Limit = 100_001 }), "limit: 100001 is out of range; use 1..100000"},
		{"shortest window", requestRule(func(r *Rule) { r.Window = time.Second }), ""},
		{"window too short", requestRule(func(r *Rule) { r.Window = 999 * time.Millisecond }), "window: 999ms is out of range; use 1s..24h"},
		{"no window", requestRule(func(r *Rule) { r.Window = 0 }), "window: 0s is out of range"},
		{"longest window", requestRule(func(r *Rule) { r.Window = 24 * time.Hour }), ""},
		{"window too long", requestRule(func(r *Rule) { r.Window = 24*time.Hour + time.Millisecond }), "window: 24h0m0.001s is out of range; use 1s..24h"},
		{"window in microseconds", requestRule(func(r *Rule) { r.Window += time.Microsecond }), "window: 1m0.000001s is finer than a millisecond"},
		{"burst", requestRule(func(r *Rule) { r.Burst = 1 }), ""},
		{"highest burst", requestRule(func(r *Rule) { r.Burst = 100_000 }), ""},
		{"burst too high", requestRule(func(r *Rule) { r.Burst = 100_001 }), "burst: 100001 is out of range; use 1..100000"},
		{"burst below 0", requestRule(func(r *Rule) { r.Burst = -1 }), "burst: -1 is out of range"},
		{"request rule that locks", requestRule(func(r *Rule) { r.Lockout = Lockout{time.Minute, time.Hour} }), "lockout: only a failure rule"},
		{"request rule that signals", requestRule(func(r *Rule) { r.Signal = true }), "signal: only a failure rule"},
		{"request rule by device", requestRule(func(r *Rule) { r.Dimension = Device }), "device: requests has no such dimension"},

		{"failure rule", failureRule(func(*Rule) {}), ""},
		{"highest failure limit", failureRule(func(r *Rule) { r.Limit = 1000 }), ""},
		{"failure limit too high", failureRule(func(r *Rule) { r.Limit = 1001 }), "limit: 1001 is out of range; use 1..1000"},
		{"subnet is wider", failureRule(func(r *Rule) { r.Dimension, r.Limit = Subnet, 10_000 }), ""},
		{"subnet too wide", failureRule(func(r *Rule) { r.Dimension, r.Limit = Subnet, 10_001 }), "limit: 10001 is out of range; use 1..10000"},
		{"devices of one target together", failureRule(func(r *Rule) { r.Dimension, r.Limit = Device, 10_000 }), ""},
		{"too many devices", failureRule(func(r *Rule) { r.Dimension, r.Limit = Device, 10_001 }), "limit: 10001 is out of range; use 1..10000"},
		{"longest failure window", failureRule(func(r *Rule) { r.Window = 30 * 24 * time.Hour }), ""},
		{"failure window too long", failureRule(func(r *Rule) { r.Window = 30*24*time.Hour + time.Second }), "use 1s..30d"},
		{"failure rule with burst", failureRule(func(r *Rule) { r.Burst = 5 }), "burst: a failure rule counts a sliding window"},
		{"failure rule by app", failureRule(func(r *Rule) { r.Dimension = App }), "app: failures has no such dimension"},
		{"failure rule by signups", failureRule(func(r *Rule) { r.Dimension = Signups }), "signups: failures has no such dimension"},
		{"lockout", failureRule(func(r *Rule) { r.Lockout = Lockout{5 * time.Minute, 24 * time.Hour} }), ""},
		{"lockout of one length", failureRule(func(r *Rule) { r.Lockout = Lockout{time.Second, time.Second} }), ""},
		{"lockout without base", failureRule(func(r *Rule) { r.Lockout.Max = time.Hour }), "lockout.base: 0s is out of range; use 1s..30d"},
		{"lockout base too long", failureRule(func(r *Rule) { r.Lockout = Lockout{31 * 24 * time.Hour, 31 * 24 * time.Hour} }), "lockout.base: 744h0m0s is out of range"},
		{"lockout max below base", failureRule(func(r *Rule) { r.Lockout = Lockout{time.Hour, time.Minute} }), "lockout.max: 1m0s is shorter than the base of 1h0m0s"},
		{"lockout max too long", failureRule(func(r *Rule) { r.Lockout = Lockout{time.Hour, 31 * 24 * time.Hour} }), "lockout.max: 744h0m0s is out of range; use at most 30d"},
		{"longest lockout", failureRule(func(r *Rule) { r.Lockout = Lockout{MaxLockout, MaxLockout} }), ""},
		{"lockout in microseconds", failureRule(func(r *Rule) { r.Lockout = Lockout{time.Second + 1, time.Hour} }), "lockout: finer than a millisecond"},
		{"lockout max in microseconds", failureRule(func(r *Rule) { r.Lockout = Lockout{time.Second, time.Hour + 1} }), "lockout: finer than a millisecond"},

		{"factors", failureRule(func(r *Rule) { r.Class, r.Dimension = Factors, Target }), ""},
		{"factors by client", failureRule(func(r *Rule) { r.Class, r.Dimension = Factors, Client }), "client: factors has no such dimension"},
		{"factors too high", failureRule(func(r *Rule) { r.Class, r.Limit = Factors, 1001 }), "use 1..1000"},

		{"signal", signalRule(func(*Rule) {}), ""},
		{"highest signal", signalRule(func(r *Rule) { r.Limit = 100_000 }), ""},
		{"signal too high", signalRule(func(r *Rule) { r.Limit = 100_001 }), "use 1..100000"},
		{"signal that locks", signalRule(func(r *Rule) { r.Lockout = Lockout{time.Minute, time.Hour} }), "lockout: only a failure rule that refuses"},
		{"signal on factors", signalRule(func(r *Rule) { r.Class = Factors }), "signal: only a failure rule"},

		{"whole address", requestRule(func(r *Rule) { r.PrefixV4, r.PrefixV6 = 32, 128 }), ""},
		{"no address", requestRule(func(r *Rule) { r.PrefixV4, r.PrefixV6 = 0, 0 }), ""},
		{"IPv4 prefix too long", requestRule(func(r *Rule) { r.PrefixV4 = 33 }), "prefix_v4: 33 is out of range; use 0..32"},
		{"IPv4 prefix below 0", requestRule(func(r *Rule) { r.PrefixV4 = -1 }), "prefix_v4: -1"},
		{"IPv6 prefix too long", requestRule(func(r *Rule) { r.PrefixV6 = 129 }), "prefix_v6: 129 is out of range; use 0..128"},
		{"IPv6 prefix below 0", requestRule(func(r *Rule) { r.PrefixV6 = -1 }), "prefix_v6: -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.rule.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want a valid rule", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestRuleValidateTellsEverything(t *testing.T) {
	r := Rule{Class: Failures, Dimension: App, Burst: 1, PrefixV4: 99, PrefixV6: 999, Lockout: Lockout{Base: 1}}
	err := r.Validate()
	if err == nil {
		t.Fatal("got a valid rule")
	}
	for _, want := range []string{"limit:", "window:", "burst:", "lockout.base:", "app:", "prefix_v4:", "prefix_v6:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
}

func TestRuleKind(t *testing.T) {
	tests := []struct {
		name string
		rule Rule
		want Kind
	}{
		{"window", requestRule(func(*Rule) {}), KindWindow},
		{"tokens", requestRule(func(r *Rule) { r.Burst = 1 }), KindTokens},
		{"failures", failureRule(func(*Rule) {}), KindFailures},
		{"factors", failureRule(func(r *Rule) { r.Class = Factors }), KindFailures},
		{"signal", signalRule(func(*Rule) {}), KindSignal},
	}
	for _, tt := range tests {
		if got := tt.rule.Kind(); got != tt.want {
			t.Errorf("%s: got kind %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestRuleLease(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{
		time.Second: 5 * time.Second, 5 * time.Second: 5 * time.Second, 5001 * time.Millisecond: 5001 * time.Millisecond,
		time.Minute: time.Minute, 61 * time.Second: time.Minute, MaxFailureWindow: time.Minute,
	} {
		if got := (&Rule{Window: window}).Lease(); got != want {
			t.Errorf("window %s: got a lease of %s, want %s", window, got, want)
		}
	}
}

func TestRuleShadowed(t *testing.T) {
	want := map[Dimension]bool{Source: true, Target: true, TargetSource: true, Device: true}
	for d := range numDimensions {
		r := failureRule(func(r *Rule) { r.Dimension = d })
		if got := r.Shadowed(); got != want[d] {
			t.Errorf("failures by %s: got %t, want %t", d, got, want[d])
		}
		for _, other := range []Rule{
			requestRule(func(r *Rule) { r.Dimension = d }),
			signalRule(func(r *Rule) { r.Dimension = d }),
			failureRule(func(r *Rule) { r.Class, r.Dimension = Factors, d }),
		} {
			if other.Shadowed() {
				t.Errorf("%s by %s, signal %t: shadowed", other.Class, d, other.Signal)
			}
		}
	}
}

func TestLockoutDuration(t *testing.T) {
	day := Lockout{5 * time.Minute, 24 * time.Hour}
	tests := []struct {
		name    string
		lockout Lockout
		level   int
		want    time.Duration
	}{
		{"level 1", day, 1, 5 * time.Minute},
		{"level 2", day, 2, 10 * time.Minute},
		{"level 3", day, 3, 20 * time.Minute},
		{"below the cap", day, 9, 21*time.Hour + 20*time.Minute},
		{"at the cap", day, 10, 24 * time.Hour},
		{"level 64", day, 64, 24 * time.Hour},
		{"level a million", day, 1_000_000, 24 * time.Hour},
		{"the highest level", day, maxLevel, 24 * time.Hour},
		{"no level", day, 0, 5 * time.Minute},
		{"below any level", day, -1, 5 * time.Minute},
		{"one length", Lockout{time.Hour, time.Hour}, 5, time.Hour},
		{"the widest span", Lockout{time.Second, MaxLockout}, 64, MaxLockout},
		{"the longest", Lockout{MaxLockout, MaxLockout}, math.MaxInt32, MaxLockout},
		{"none", Lockout{}, 7, 0},
	}
	for _, tt := range tests {
		if got := tt.lockout.Duration(tt.level); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// FuzzLockoutDuration holds the lock against min(base * 2^(level-1), max) in whole numbers of any size [L5].
func FuzzLockoutDuration(f *testing.F) {
	f.Add(int64(300_000), int64(86_400_000), 1)
	f.Add(int64(1000), int64(2_592_000_000), 64)
	f.Add(int64(2_592_000_000), int64(2_592_000_000), 1<<30)
	f.Fuzz(func(t *testing.T, base, most int64, level int) {
		base = fold(base, 1000, MaxLockout.Milliseconds())
		most, level = fold(most, base, MaxLockout.Milliseconds()), int(fold(int64(level), 1, maxLevel))
		l := Lockout{time.Duration(base) * time.Millisecond, time.Duration(most) * time.Millisecond}
		if err := l.validate(); err != nil {
			t.Fatal(err)
		}
		want := new(big.Int).Lsh(big.NewInt(base), uint(min(level-1, 1<<12)))
		if cap := big.NewInt(most); want.Cmp(cap) > 0 {
			want = cap
		}
		if got := l.Duration(level).Milliseconds(); got != want.Int64() {
			t.Errorf("base %d ms, most %d ms, level %d: got %d ms, want %d", base, most, level, got, want)
		}
	})
}
