package proxy

import (
	"time"

	"authgate/limits"
)

// Events is what a handler tells the program for its metrics. No method gets an address, a name or a secret. They are
// called from any number of goroutines and must not block.
type Events interface {
	// Served: a request was answered; policy is the first that covered it, or "".
	Served(policy string, status int)
	// Rejected: a bucket of the rule refused, or would have, in the mode.
	Rejected(r *limits.Rule, mode, realm string)
	// MissingKey: a request named nobody, or not clearly; reason is one of a fixed set of words.
	MissingKey(policy, reason string)
	// Verdict: the backend has judged.
	Verdict(policy, verdict string)
	// Settled: a verdict was settled in a bucket of the rule.
	Settled(r *limits.Rule, e limits.Effect)
	// Decided: the limiter took so long to answer.
	Decided(took time.Duration)
	// Upstream: the backend took so long until its header.
	Upstream(took time.Duration)
}
