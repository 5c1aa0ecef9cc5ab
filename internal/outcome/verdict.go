package outcome

import (
	"fmt"
	"strings"
)

// Verdict is what an answer says about the attempt that it answers. The zero value is Unknown.
type Verdict uint8

// The verdicts, with what each does to the account of the attempt.
const (
	Unknown       Verdict = iota // no rule matched: counted as the policy's unknown_as says
	Success                      // the credential was right and the login is complete
	Failure                      // the credential was wrong
	Pending                      // the credential was right, a second step is due [V5]
	FactorFailure                // the second factor was wrong: charges `factors` rules
	ClientFailure                // the client's own secret was wrong: charges `failures.client`
	Locked                       // the backend's own throttle answered: counts nowhere
	Neutral                      // says nothing about the credential
)

var verdictWords = [...]string{"unknown", "success", "failure", "pending", "factor_failure", "client_failure", "locked", "neutral"}

// String is the word of the configuration, the metrics and the logs, such as `factor_failure`.
func (v Verdict) String() string {
	if int(v) >= len(verdictWords) {
		return fmt.Sprintf("verdict(%d)", uint8(v))
	}
	return verdictWords[v]
}

// ParseVerdict is the reverse of [Verdict.String], `unknown` included.
func ParseVerdict(word string) (Verdict, error) {
	for i, w := range verdictWords {
		if w == word {
			return Verdict(i), nil
		}
	}
	return Unknown, fmt.Errorf("parsing verdict %q: no such verdict, use one of %s", word, strings.Join(verdictWords[1:], ", "))
}

// grade ranks verdicts by what they are worth to a guesser: a success clears and trusts, a failure counts, all others
// leave the failure buckets alone.
func (v Verdict) grade() int {
	switch v {
	case Success:
		return 2
	case Failure:
		return 0
	default:
		return 1
	}
}
