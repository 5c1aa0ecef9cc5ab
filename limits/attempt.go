package limits

import "time"

// Attempt is one request as the limiter sees it: every bucket it touches, of all policies that cover it [L1].
// It is built for one request, used by one goroutine at a time, and not changed after Decide was called with it.
type Attempt struct {
	// ID names the reservations of this attempt. It is random and not 0 when a failure bucket is among
	// the charges, so that no late answer of another attempt can touch them.
	ID uint64

	// Charges are in file order of the policies, and in tie order of the dimensions within one [L10]. No two of them
	// have the same key.
	Charges []Charge

	// Lenient makes every charge log-only, whatever its policy says: the kill switch, or a store that only
	// keeps the account of what another one decided.
	Lenient bool

	// Quotas asks for what is left in the buckets of request rules by source and by client.
	Quotas bool

	// Facts are what the store may know of those whom the attempt is about, looked up in the same step; at most MaxFacts, none
	// twice.
	Facts []Fact
}

// MaxFacts bounds the facts of one attempt: as many as a set of them has bits.
const MaxFacts = 32

// Charge is one bucket of an attempt.
type Charge struct {
	Rule    *Rule
	Key     string // the bucket's whole name; bounded, see Key
	LogOnly bool   // the policy is in mode log-only: report, never refuse [L11]
	Outage  Outage // what the policy does while the shared store is out

	// If and Unless are sets of the attempt's facts, the index of each as the number of a bit. The charge takes part only if
	// the store knows one of If (0: always) and none of Unless.
	If, Unless uint32

	// Doubt has the charge only report while the shared store is out, since an instance alone may not know the fact [S4].
	Doubt bool
}

// Applies reports whether the charge takes part in an attempt of which the store knows these facts; see [Decision.Known].
func (c *Charge) Applies(known uint32) bool {
	return (c.If == 0 || known&c.If != 0) && known&c.Unless == 0
}

// OnSilent reports whether the bucket is charged although the request is refused, because the refusal is
// silent: a caller must not be able to tell it from an admission by what is left afterwards [L1].
func (c *Charge) OnSilent() bool {
	if c.Rule.Class != Requests {
		return false
	}
	return c.Rule.Dimension == Source || c.Rule.Dimension == Target || c.Rule.Dimension == Client
}

// Reserves reports whether a failure bucket is among the charges, so that an admission must be settled.
func (a *Attempt) Reserves() bool {
	for i := range a.Charges {
		if k := a.Charges[i].Rule.Kind(); k == KindFailures || k == KindSignal {
			return true
		}
	}
	return false
}

// Decision is the one answer to an attempt. The zero value refuses without a reason and is never returned
// without an error.
type Decision struct {
	Admitted bool

	// Refusals are the buckets without room, in the order of the charges; log-only ones among them did
	// not stand in the way.
	Refusals []Refusal

	// Quotas, when asked for, tell what is left after the decision.
	Quotas []Quota

	// Known says, by the index of a fact as the number of a bit, what the store knew.
	Known uint32

	// Alone: the decision was made by this instance alone, the shared store being out [S4].
	Alone bool
}

// Refusal is one bucket that refuses, or that would have.
type Refusal struct {
	Charge int // index into Attempt.Charges
	Cause  Cause
	Wait   Millis // until the bucket may have room; > 0
}

// Quota is what is left of one bucket.
type Quota struct {
	Charge    int // index into Attempt.Charges
	Remaining int64
	Reset     Millis // until the bucket is whole again
}

// Knew reports whether the store knew a fact of the attempt.
func (d *Decision) Knew(fact int) bool { return d.Known>>fact&1 == 1 }

// Refused is the refusal that the caller is told about, out of those that stand in the way: loud before
// uniform before silent; among equals the longest wait, ties in order of the charges [L10]. ok is false
// when nothing stands in the way.
func (d *Decision) Refused(a *Attempt) (worst Refusal, ok bool) {
	for _, r := range d.Refusals {
		c := &a.Charges[r.Charge]
		if a.Lenient || c.LogOnly {
			continue
		}
		if !ok || before(c.Rule.Refuse, r.certain(), a.Charges[worst.Charge].Rule.Refuse, worst.certain()) {
			worst, ok = r, true
		}
	}
	return worst, ok
}

func before(form Refuse, wait Millis, thanForm Refuse, thanWait Millis) bool {
	if form != thanForm {
		return form < thanForm
	}
	return wait > thanWait
}

// HeldOnly reports whether nothing but live reservations stands in the way, so that waiting for their
// verdicts may help [L8].
func (d *Decision) HeldOnly(a *Attempt) bool {
	held := false
	for _, r := range d.Refusals {
		if a.Lenient || a.Charges[r.Charge].LogOnly {
			continue
		}
		if r.Cause != Held {
			return false
		}
		held = true
	}
	return held
}

// certain is the wait that is known to be needed: none for a bucket that reservations fill.
func (r Refusal) certain() Millis {
	if r.Cause == Held {
		return 0
	}
	return r.Wait
}

// RetryAfter is the wait in whole seconds, rounded up and at least 1 [L10]. A bucket that only live
// reservations fill may free at any moment, so its wait is always 1.
func (r Refusal) RetryAfter() int {
	return max(1, int(ceilDiv(r.certain(), 1000)))
}

// Settlement closes the reservations of one attempt [L7].
type Settlement struct {
	ID       uint64 // the attempt's
	Alone    bool   // the shared store never heard of the attempt
	Closings []Closing
	Repeats  []RepeatCheck
}

// Closing is what the verdict does to one bucket.
type Closing struct {
	Rule   *Rule
	Key    string
	Do     Action
	Repeat int // 1 + index into Settlement.Repeats: if that is a repetition, Count becomes Free; 0: none
}

// RepeatCheck asks whether a wrong secret was seen before [D6].
type RepeatCheck struct {
	Key    string
	Sum    uint64 // truncated keyed digest of the secret; never the secret
	Window time.Duration
}

// Settled is what came of a settlement.
type Settled struct {
	Effects  []Effect // one for each closing
	Repeated []bool   // one for each repeat check
}

// Outage is what a policy does while the shared store does not answer [S4].
type Outage uint8

// The ways through an outage.
const (
	OutageLocal Outage = iota // the same rules, per instance
	OutageAllow               // the policy's rules do not apply
	OutageDeny                // 503
)

// String is the name in the configuration file.
func (o Outage) String() string {
	return [...]string{"local", "allow", "deny", "?"}[o&3]
}

// HasQuota reports whether what is left of the bucket may be told to the caller: source and client only, since
// what is left for a target would tell what others did [R1].
func (c *Charge) HasQuota() bool {
	return c.Rule.Class == Requests && (c.Rule.Dimension == Source || c.Rule.Dimension == Client)
}

// applying is the attempt without the charges that take no part in it.
func (a *Attempt) applying(known uint32) *Attempt {
	for i := range a.Charges {
		if a.Charges[i].Applies(known) {
			continue
		}
		part := *a
		part.Charges = append(make([]Charge, 0, len(a.Charges)-1), a.Charges[:i]...)
		for _, c := range a.Charges[i+1:] {
			if c.Applies(known) {
				part.Charges = append(part.Charges, c)
			}
		}
		return &part
	}
	return a
}

// Release is the settlement that gives back every reservation of the attempt without a verdict, for an attempt
// that was never sent [L9].
func (a *Attempt) Release() *Settlement {
	s := &Settlement{ID: a.ID, Closings: make([]Closing, 0, len(a.Charges))}
	for i := range a.Charges {
		if c := &a.Charges[i]; c.Rule.Kind() == KindFailures {
			s.Closings = append(s.Closings, Closing{Rule: c.Rule, Key: c.Key, Do: Free})
		}
	}
	return s
}
