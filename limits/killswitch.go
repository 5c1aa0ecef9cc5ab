package limits

import (
	"context"
	"sync/atomic"
	"time"
)

// KillSwitch is a [Switchboard] of this process alone. The zero value is off.
type KillSwitch struct {
	until atomic.Int64
}

var _ Switchboard = (*KillSwitch)(nil)

// SetLogOnly turns the switch on for d, or off with 0. It never fails.
func (k *KillSwitch) SetLogOnly(_ context.Context, d time.Duration) error {
	if d <= 0 {
		k.until.Store(0)
		return nil
	}
	k.until.Store(ToMillis(time.Now().Add(d)))
	return nil
}

// LogOnlyFor is how much longer the switch stays on.
func (k *KillSwitch) LogOnlyFor() time.Duration {
	until := k.until.Load()
	if until == 0 {
		return 0
	}
	return max(0, time.Duration(until-ToMillis(time.Now()))*time.Millisecond)
}
