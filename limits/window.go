package limits

import "time"

// Millis is a point in time or a span in whole milliseconds; a point counts from the Unix epoch.
type Millis = int64

// ToMillis is the millisecond in which t lies.
func ToMillis(t time.Time) Millis { return t.UnixMilli() }

// Forever is the wait of a bucket that no waiting frees. No rule that validates produces it; it is the
// upper bound of what arithmetic on a damaged state may answer.
const Forever Millis = 1 << 40

// Window is the state of a fixed window: at most limit charges from its first one on [L2]. The zero value
// is a bucket that was never charged.
type Window struct {
	Start Millis
	Count int64
}

// At is the window as it stands at now: empty once its time is over, and never begun in the future, so that
// a clock which was set back cannot stretch it [L12].
func (w Window) At(window, now Millis) Window {
	if w.Start > now {
		w.Start = now
	}
	if w.Count == 0 || now-w.Start >= window {
		return Window{Start: now}
	}
	return w
}

// Wait is how long until the window has room for one more charge; 0 means now. w must come from [Window.At].
func (w Window) Wait(limit int64, window, now Millis) Millis {
	if w.Count < limit {
		return 0
	}
	return w.Start + window - now
}

// Charge is the window after one more charge. w must come from [Window.At].
func (w Window) Charge() Window {
	w.Count++
	return w
}

// Expires is when the state may be forgotten.
func (w Window) Expires(window Millis) Millis { return w.Start + window }
