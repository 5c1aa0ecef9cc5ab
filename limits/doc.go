// Package limits decides whether an attempt may pass, and keeps the account of what it cost.
//
// # The model on one page
//
// A [Rule] says how much one bucket admits. A bucket is the live count behind one key: policy, class,
// dimension, realm and value. There are three kinds of state, one for each way of counting:
//
//	Window    at most limit charges in a window that starts with its first charge     [L2]
//	Tokens    burst tokens, refilled at limit per window, continuously                [L3]
//	Failures  a sliding log of failures, live reservations, and a lock with a level   [L4] [L5] [L6]
//
// An [Attempt] is one request with every bucket that it touches, of all the policies that cover it. The
// question "may it?" is asked once, in one atomic step [L1]: either every bucket has room, then all of
// them are charged (and a slot is reserved in each failure bucket), or nothing changes anywhere.
//
//	Attempt --Decide--> Decision --forward--> Verdict --Settle--> account closed
//
// A forwarded attempt holds its reservations until its verdict is known: [Settle] turns them into
// failures, frees them, or clears the bucket. An attempt that was never sent is released. Both are safe
// to repeat, and both touch only buckets in which that very reservation is still alive [L7].
//
// Beside the buckets a store keeps [Records], small texts that end by themselves. A [Fact] is the key of one; an attempt's facts
// are looked up in the same step, and a [Charge] may take part only if some are known, or unless others are.
//
// # Who does what
//
// The arithmetic ([Window], [Tokens], [FailureLog]) is a function of rule, stored state and now, without any I/O.
// A [Store] keeps the states: limits/memstore in this process, limits/valkeystore in a Valkey that all
// instances share, with the same arithmetic in Lua. limits/storetest proves that both mean the same.
// A [Limiter] is what a request talks to: the shared store with the local one as its net [S4], the
// waiting room [L8], the renewal of leases [L6] and the settling of verdicts.
//
// Time is in whole milliseconds since the epoch ([Millis]) everywhere behind this package's edge, so that
// the Go and the Lua arithmetic agree to the unit. The numbers of every rule are bounded so that no
// product leaves the 53 bits that a Lua number holds exactly; see [Rule.Validate].
package limits
