package limits

import (
	"testing"
	"time"
)

// chargeBy is a charge of a request rule by that dimension, refused in that form.
func chargeBy(d Dimension, form Refuse) Charge {
	return Charge{Rule: &Rule{Policy: d.String(), Dimension: d, Refuse: form, Limit: 1, Window: time.Minute}}
}

func TestDecisionRefused(t *testing.T) {
	full := func(at int, wait Millis) Refusal { return Refusal{Charge: at, Cause: Full, Wait: wait} }
	held := func(at int, wait Millis) Refusal { return Refusal{Charge: at, Cause: Held, Wait: wait} }
	logOnly := func(c Charge) Charge { c.LogOnly = true; return c }
	tests := []struct {
		name     string
		charges  []Charge
		lenient  bool
		refusals []Refusal
		want     int // index of the charge; -1: nothing stands in the way
	}{
		{"none", []Charge{chargeBy(Source, Loud)}, false, nil, -1},
		{"one", []Charge{chargeBy(Source, Loud), chargeBy(Target, Loud)}, false, []Refusal{full(1, 5)}, 1},
		{"the longest wait", []Charge{chargeBy(Source, Loud), chargeBy(Target, Loud), chargeBy(Client, Loud)}, false, []Refusal{full(0, 5), full(1, 7), full(2, 6)}, 1},
		{"a tie goes to the first", []Charge{chargeBy(Source, Loud), chargeBy(Target, Loud)}, false, []Refusal{full(0, 7), full(1, 7)}, 0},
		{"loud before uniform", []Charge{chargeBy(Source, Uniform), chargeBy(Target, Loud)}, false, []Refusal{full(0, 9000), full(1, 1)}, 1},
		{"uniform before silent", []Charge{chargeBy(Source, Silent), chargeBy(Target, Uniform)}, false, []Refusal{full(0, 9000), full(1, 1)}, 1},
		{"loud first, then silent", []Charge{chargeBy(Source, Loud), chargeBy(Target, Silent)}, false, []Refusal{full(0, 1), full(1, 9000)}, 0},
		{"the longest among uniform ones", []Charge{chargeBy(Source, Uniform), chargeBy(Target, Uniform), chargeBy(Client, Silent)}, false, []Refusal{full(0, 1), full(1, 2), full(2, 3)}, 1},
		{"log-only is passed over", []Charge{logOnly(chargeBy(Source, Loud)), chargeBy(Target, Silent)}, false, []Refusal{full(0, 9), full(1, 1)}, 1},
		{"all log-only", []Charge{logOnly(chargeBy(Source, Loud))}, false, []Refusal{full(0, 9)}, -1},
		{"lenient", []Charge{chargeBy(Source, Loud)}, true, []Refusal{full(0, 9)}, -1},
		{"held has no certain wait", []Charge{chargeBy(Source, Loud), chargeBy(Target, Loud)}, false, []Refusal{held(0, 60_000), full(1, 10)}, 1},
		{"held but loud", []Charge{chargeBy(Source, Loud), chargeBy(Target, Uniform)}, false, []Refusal{held(0, 60_000), full(1, 9000)}, 0},
		{"two held, the first", []Charge{chargeBy(Source, Loud), chargeBy(Target, Loud)}, false, []Refusal{held(0, 1), held(1, 60_000)}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &Attempt{Charges: tt.charges, Lenient: tt.lenient}
			got, ok := (&Decision{Refusals: tt.refusals}).Refused(a)
			switch {
			case ok != (tt.want >= 0):
				t.Errorf("got %+v %t, want charge %d", got, ok, tt.want)
			case ok && got.Charge != tt.want:
				t.Errorf("got charge %d, want %d", got.Charge, tt.want)
			}
		})
	}
}

func TestRefusalRetryAfter(t *testing.T) {
	tests := []struct {
		cause Cause
		wait  Millis
		want  int
	}{
		{Full, 0, 1},
		{Full, 1, 1},
		{Full, 999, 1},
		{Full, 1000, 1},
		{Full, 1001, 2},
		{Full, 86_400_000, 86_400},
		{Full, -5, 1},
		{Locked, 1_740_000, 1740},
		{Locked, 2_592_000_000, 2_592_000},
		{Held, 60_000, 1},
		{Held, 1, 1},
		{Full, Forever, 1_099_511_628},
	}
	for _, tt := range tests {
		if got := (Refusal{Cause: tt.cause, Wait: tt.wait}).RetryAfter(); got != tt.want {
			t.Errorf("%s for %d ms: got %d s, want %d", tt.cause, tt.wait, got, tt.want)
		}
	}
}

func TestDecisionHeldOnly(t *testing.T) {
	loud, logged := chargeBy(Source, Loud), chargeBy(Target, Loud)
	logged.LogOnly = true
	a := &Attempt{Charges: []Charge{loud, logged, chargeBy(Client, Loud)}}
	tests := []struct {
		name     string
		refusals []Refusal
		want     bool
	}{
		{"nothing", nil, false},
		{"held", []Refusal{{0, Held, 1}}, true},
		{"two held", []Refusal{{0, Held, 1}, {2, Held, 1}}, true},
		{"held and full", []Refusal{{0, Held, 1}, {2, Full, 1}}, false},
		{"held and locked", []Refusal{{0, Locked, 1}, {2, Held, 1}}, false},
		{"held and full in log-only", []Refusal{{0, Held, 1}, {1, Full, 1}}, true},
		{"held in log-only", []Refusal{{1, Held, 1}}, false},
	}
	for _, tt := range tests {
		if got := (&Decision{Refusals: tt.refusals}).HeldOnly(a); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
	lenient := *a
	lenient.Lenient = true
	if (&Decision{Refusals: []Refusal{{0, Held, 1}}}).HeldOnly(&lenient) {
		t.Error("held, but lenient: got true, want false")
	}
}

func TestChargeByDimension(t *testing.T) {
	onSilent := map[Dimension]bool{Source: true, Target: true, Client: true} // [L1]
	quota := map[Dimension]bool{Source: true, Client: true}                  // [R1]
	for d := range numDimensions {
		for _, class := range []Class{Requests, Failures, Factors} {
			c := Charge{Rule: &Rule{Class: class, Dimension: d}}
			if got, want := c.OnSilent(), class == Requests && onSilent[d]; got != want {
				t.Errorf("%s by %s, charged by a silent refusal: got %t, want %t", class, d, got, want)
			}
			if got, want := c.HasQuota(), class == Requests && quota[d]; got != want {
				t.Errorf("%s by %s, tells what is left: got %t, want %t", class, d, got, want)
			}
		}
	}
}

func TestAttemptRelease(t *testing.T) {
	failures, factors := &Rule{Class: Failures}, &Rule{Class: Factors}
	a := &Attempt{ID: 7, Charges: []Charge{
		{Rule: &Rule{}, Key: "w"},
		{Rule: &Rule{Burst: 1}, Key: "t"},
		{Rule: failures, Key: "f"},
		{Rule: &Rule{Class: Failures, Signal: true}, Key: "s"},
		{Rule: factors, Key: "k"},
	}}
	got := a.Release()
	want := []Closing{{Rule: failures, Key: "f", Do: Free}, {Rule: factors, Key: "k", Do: Free}}
	if got.ID != 7 || len(got.Closings) != 2 || got.Closings[0] != want[0] || got.Closings[1] != want[1] || len(got.Repeats) != 0 {
		t.Errorf("got %+v, want %+v of attempt 7", got, want)
	}
}

func TestAttemptReserves(t *testing.T) {
	tests := []struct {
		name  string
		rules []*Rule
		want  bool
	}{
		{"nothing", nil, false},
		{"request rules", []*Rule{{}, {Burst: 3}}, false},
		{"a failure rule", []*Rule{{}, {Class: Failures}}, true},
		{"factors", []*Rule{{Class: Factors}}, true},
		{"a signal, which settles too", []*Rule{{Class: Failures, Signal: true}}, true},
	}
	for _, tt := range tests {
		a := &Attempt{}
		for _, r := range tt.rules {
			a.Charges = append(a.Charges, Charge{Rule: r})
		}
		if got := a.Reserves(); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}
