package limits

// Tokens is the state of a token bucket [L3]. Tokens are counted in units of 1/window of a token, where
// window is in milliseconds: then one millisecond refills exactly limit units, one token costs exactly
// window units, and everything stays a whole number (at most 1e5 * 8.64e7 < 2^53). The zero value is a
// bucket that was never charged; it is full.
type Tokens struct {
	Units  int64  // tokens held, times Window
	Window Millis // the window that Units are expressed in; 0 for the zero value
	Last   Millis // when Units was true
}

// At is the bucket as it stands at now under a rule of limit tokens per window and at most burst of them.
// Tokens held survive a change of the rule, clamped to the new burst [L12].
func (t Tokens) At(limit, burst int64, window, now Millis) Tokens {
	full := burst * window
	if t.Window == 0 {
		return Tokens{Units: full, Window: window, Last: now}
	}
	if t.Window != window {
		whole, part := t.Units/t.Window, t.Units%t.Window
		t.Units = min(whole, burst)*window + part*window/t.Window
	}
	if t.Units < full && now > t.Last {
		// Compare in time first: elapsed * limit could leave the exact range, missing / limit cannot.
		if elapsed := now - t.Last; elapsed >= ceilDiv(full-t.Units, limit) {
			t.Units = full
		} else {
			t.Units += elapsed * limit
		}
	}
	return Tokens{Units: min(t.Units, full), Window: window, Last: now}
}

// Wait is how long until the bucket holds a whole token; 0 means that it does. t must come from [Tokens.At].
func (t Tokens) Wait(limit int64) Millis {
	if t.Units >= t.Window {
		return 0
	}
	return ceilDiv(t.Window-t.Units, limit)
}

// Charge is the bucket with one token less. t must come from [Tokens.At] and hold one.
func (t Tokens) Charge() Tokens {
	t.Units -= t.Window
	return t
}

// Expires is when the state may be forgotten: when it would be full again.
func (t Tokens) Expires(limit, burst int64) Millis {
	return t.Last + ceilDiv(burst*t.Window-t.Units, limit)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
