package limits

import (
	"errors"
	"fmt"
	"time"
)

// Rule says how much one bucket of one dimension admits. The zero value admits nothing and is not
// valid; a rule that is off is simply absent. A Rule is immutable once a plan holds it, so it may be
// shared by any number of goroutines.
type Rule struct {
	Policy    string // name of the policy the rule belongs to
	Dimension Dimension
	Class     Class
	Index     int // position in the dimension's list of rules, from 0

	Limit  int           // charges, tokens per window, or failures
	Window time.Duration // whole milliseconds
	Burst  int           // > 0: a token bucket [L3] (request rules only)

	Lockout Lockout // failure and factor rules only; zero: no lock, the window alone refuses
	Signal  bool    // counts and reports, never refuses [L14] (failure rules only)
	Refuse  Refuse

	PrefixV4, PrefixV6 int // how an address is masked to become a value (source, subnet, target_source)
}

// Lockout makes the failure that reaches the limit lock its bucket for min(Base*2^(level-1), Max) [L5].
// The zero value locks nothing.
type Lockout struct {
	Base, Max time.Duration
}

// Bounds of what a rule may say [M4]. Subnet failure rules may be wider than the others, since one
// subnet stands for many sources; those by device as well, since all devices of one target share a pool of five times what
// one may fail [D2]. The upper bound of a failure window and of a lock keeps every time in
// the 32 bits of milliseconds that the scripts are given.
const (
	MaxLimit         = 100_000
	MaxFailureLimit  = 1_000
	MaxSubnetFailure = 10_000
	MaxPoolFailure   = 10_000
	MinWindow        = time.Second
	MaxWindow        = 24 * time.Hour
	MaxFailureWindow = 30 * 24 * time.Hour
	MaxLockout       = 30 * 24 * time.Hour
)

// Kind is the way a rule counts, which follows from its fields.
func (r *Rule) Kind() Kind {
	switch {
	case r.Signal:
		return KindSignal
	case r.Class != Requests:
		return KindFailures
	case r.Burst > 0:
		return KindTokens
	default:
		return KindWindow
	}
}

// Lease is how long a reservation of this rule lives without being renewed: the window, clamped to
// 5..60 s [L6].
func (r *Rule) Lease() time.Duration {
	return min(max(r.Window, 5*time.Second), time.Minute)
}

// Shadowed reports whether verdicts that tell nothing are counted against this rule's bucket as well,
// so that look-alikes of a failure are no free way to guess [L16].
func (r *Rule) Shadowed() bool {
	if r.Class != Failures || r.Signal {
		return false
	}
	return r.Dimension == Target || r.Dimension == TargetSource || r.Dimension == Source || r.Dimension == Device
}

// Limits of the shadow counts of a bucket, as multiples of the rule's own limit [L16].
const (
	NeutralFactor = 10
	PendingFactor = 5
)

// Validate reports everything that is wrong with the rule, joined; each error names the key at fault
// and what would be right.
func (r *Rule) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	maxLimit, maxWindow := MaxLimit, MaxWindow
	if r.Class != Requests {
		maxWindow = MaxFailureWindow
		switch {
		case r.Signal:
		case r.Dimension == Subnet:
			maxLimit = MaxSubnetFailure
		case r.Dimension == Device:
			maxLimit = MaxPoolFailure
		default:
			maxLimit = MaxFailureLimit
		}
	}
	if r.Limit < 1 || r.Limit > maxLimit {
		bad("limit: %d is out of range; use 1..%d", r.Limit, maxLimit)
	}
	if r.Window < MinWindow || r.Window > maxWindow {
		bad("window: %s is out of range; use %s..%s", r.Window, MinWindow, shortHours(maxWindow))
	}
	if r.Window%time.Millisecond != 0 {
		bad("window: %s is finer than a millisecond; use whole milliseconds", r.Window)
	}
	if r.Burst != 0 {
		if r.Class != Requests {
			bad("burst: a failure rule counts a sliding window; leave burst out")
		} else if r.Burst < 1 || r.Burst > MaxLimit {
			bad("burst: %d is out of range; use 1..%d", r.Burst, MaxLimit)
		}
	}
	if r.Lockout != (Lockout{}) {
		if r.Class == Requests || r.Signal {
			bad("lockout: only a failure rule that refuses can lock; leave lockout out")
		} else if err := r.Lockout.validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if r.Signal && r.Class != Failures {
		bad("signal: only a failure rule can be a signal; leave signal out")
	}
	if !r.Dimension.allows(r.Class) {
		bad("%s: %s has no such dimension", r.Dimension, r.Class)
	}
	if r.PrefixV4 < 0 || r.PrefixV4 > 32 {
		bad("prefix_v4: %d is out of range; use 0..32", r.PrefixV4)
	}
	if r.PrefixV6 < 0 || r.PrefixV6 > 128 {
		bad("prefix_v6: %d is out of range; use 0..128", r.PrefixV6)
	}
	return errors.Join(errs...)
}

func (l Lockout) validate() error {
	switch {
	case l.Base < time.Second || l.Base > MaxLockout:
		return fmt.Errorf("lockout.base: %s is out of range; use 1s..%s", l.Base, shortHours(MaxLockout))
	case l.Max < l.Base:
		return fmt.Errorf("lockout.max: %s is shorter than the base of %s; use at least the base", l.Max, l.Base)
	case l.Max > MaxLockout:
		return fmt.Errorf("lockout.max: %s is out of range; use at most %s", l.Max, shortHours(MaxLockout))
	case l.Base%time.Millisecond != 0 || l.Max%time.Millisecond != 0:
		return errors.New("lockout: finer than a millisecond; use whole milliseconds")
	}
	return nil
}

// Duration is how long a lock of the given level (1 is the first) lasts. It never overflows: the level
// is only raised until the cap is reached.
func (l Lockout) Duration(level int) time.Duration {
	d := l.Base
	for i := 1; i < level && d < l.Max; i++ {
		d *= 2 // at most 2*MaxLockout, far inside int64
	}
	return min(d, l.Max)
}

// shortHours prints whole hours or days the way the configuration file spells them.
func shortHours(d time.Duration) string {
	if d%(24*time.Hour) == 0 && d > 24*time.Hour {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return fmt.Sprintf("%dh", d/time.Hour)
}
