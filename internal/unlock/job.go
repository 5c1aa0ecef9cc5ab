package unlock

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"authgate/limits"
)

// job is a notice that is to be sent. It is kept as a record, so that it outlives the process where the store does. A job
// belongs to the process that is its owner until a moment; then any other may take it over. Only a job that waits is taken over
// to be sent: if its owner fell silent while it was sending, the notice may have arrived.
type job struct {
	ID      string `json:"id"`    // names the delivery
	Owner   string `json:"owner"` // a process
	Realm   string `json:"realm"`
	Policy  string `json:"policy"`
	Target  string `json:"target"`
	Window  int64  `json:"window"` // of the bucket that filled, ms
	Tries   int    `json:"tries"`  // that failed
	Sending bool   `json:"sending"`
	Until   int64  `json:"until"` // its owner's, Unix ms
	End     int64  `json:"end"`   // no try begins later, Unix ms

	at time.Time // of the next try; not kept
}

// jobsIndex is the list of all jobs.
const jobsIndex = "unlock:jobs"

const (
	// lease is how long a job is its owner's while it is sent; it covers sendWithin and confirming.
	lease = 90 * time.Second
	// grace is how long after the due time a job that waits is left to its owner.
	grace = 10 * time.Second
)

// key is where a job is kept: there is at most one for a user at a time.
func (j *job) key() string { return jobKey(j.Realm, j.Target) }

// change keeps the job as it now is.
func (j *job) change(now time.Time) limits.Change {
	return limits.Change{Key: j.key(), Text: encode(j), TTL: max(time.UnixMilli(j.End).Sub(now), 0) + lease, Index: jobsIndex}
}

// wait makes the job wait for its next try.
func (j *job) wait(at time.Time) {
	j.Sending, j.at, j.Until = false, at, at.Add(grace).UnixMilli()
}

// parseJob reads what is kept under a key; ok is false if that is no job, or that of another key.
func parseJob(key, text string) (j job, ok bool) {
	err := json.Unmarshal([]byte(text), &j)
	return j, err == nil && j.ID != "" && j.key() == key
}

// ledger is what was sent to a user lately.
type ledger struct {
	Until int64   `json:"until"` // the window of the last notice, Unix ms
	At    []int64 `json:"at"`    // the notices of the last day, Unix ms
}

const day = 24 * time.Hour

func parseLedger(text string, now time.Time) ledger {
	var l ledger
	if json.Unmarshal([]byte(text), &l) != nil {
		return ledger{}
	}
	recent := l.At[:0]
	for _, at := range l.At {
		if now.Sub(time.UnixMilli(at)) < day {
			recent = append(recent, at)
		}
	}
	l.At = recent
	return l
}

// room reports whether one more notice may be sent [D3].
func (l *ledger) room(perDay int, now time.Time) bool {
	return now.UnixMilli() >= l.Until && len(l.At) < perDay
}

// sent enters a notice.
func (l *ledger) sent(now time.Time, window time.Duration) {
	l.Until, l.At = now.Add(window).UnixMilli(), append(l.At, now.UnixMilli())
}

func jobKey(realm, target string) string    { return "unlock:job:" + digest(realm, target) }
func ledgerKey(realm, target string) string { return "unlock:sent:" + digest(realm, target) }

// digest makes a short key of names of any length.
func digest(realm, target string) string {
	sum := sha256.Sum256([]byte(realm + "\x00" + target))
	return hex.EncodeToString(sum[:16])
}

// encode is the text of a record. Its types cannot fail.
func encode(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
