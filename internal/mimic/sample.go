package mimic

import (
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Sample is one real answer of the backend, of the form of its key: a failure for Failure, a success for Success. Nothing of
// it is kept beyond the call of [Book.Observe], which copies what it learns.
type Sample struct {
	// Answer is as the backend gave it, in no encoding: header as received, body as received.
	Answer Answer
	// Cut says that Body is not all of it; [Capture] tells.
	Cut bool
	// Took is how long the answer's header took, counted from the moment since which a refusal is delayed. It must not include
	// time that the client takes to send or to read. 0: not known.
	Took time.Duration
	// Target and Source are digests, by a key of the caller's, of whom the request was about and where it came from; 0: unknown.
	Target, Source uint64
	// Host, Path and Header are the client's: the Host, the decoded path, and the header as the client sent it, or what of it goes
	// on. The package reads header values, cookies and Basic credentials itself.
	Host, Path string
	Header     http.Header
	// Values yields everything else that the client may have chosen, decoded: the values of query, body and placeholders of
	// the path, and the names beside them, for which name is true; the path, unless it is spelled as the configuration spells
	// it; the host, unless a realm names it; and the client's address. nil: not known, and nothing is learned from this sample.
	Values iter.Seq2[string, bool]
}

// Reason is a stable word that says why an answer cannot be learned, or why a refusal is not quite like the real answer.
type Reason string

// The reasons. The first ones keep an answer from being learned.
const (
	Status       Reason = "status"        // 1xx, 206 and 304 are parts of an answer
	Cookie       Reason = "cookie"        // it sets a cookie
	RetryAfter   Reason = "retry_after"   // it asks to wait, which a wrong password does not
	Encoded      Reason = "encoded"       // it has a Content-Encoding
	TooLong      Reason = "too_long"      // its body exceeds MaxBody, or broke off
	NoText       Reason = "no_text"       // its body is not plain UTF-8, so that nobody can tell what is in it
	Date         Reason = "date"          // it holds a date or a time of day
	Token        Reason = "token"         // it holds what looks like a random token
	RequestValue Reason = "request_value" // it holds something that the request carried, or a part of it behind asterisks
	Unjudged     Reason = "unjudged"      // what the request carried is not known

	Unseen         Reason = "unseen"          // there was no real answer yet
	OnlyOne        Reason = "only_one"        // there were answers, but no two that differ in target or source and agree
	Varies         Reason = "varies"          // several answers are in use at once
	VolatileHeader Reason = "volatile_header" // real answers have a header that cannot be copied
	Differs        Reason = "differs"         // the configured answer is another one than the real one
)

// whole says that the body is all of the answer.
func (s *Sample) whole(method string) bool {
	if s.Cut || len(s.Answer.Body) > MaxBody {
		return false
	}
	lines := s.Answer.Header["Content-Length"]
	if method == http.MethodHead || len(lines) == 0 {
		return true
	}
	n, err := strconv.Atoi(lines[0])
	return err == nil && n == len(s.Answer.Body)
}

// unlearnable says why the answer is not one to be shown to others, or "". head is its stable part. What is cheap to tell comes
// first.
func (s *Sample) unlearnable(method string, head http.Header, p *policy) Reason {
	a := &s.Answer
	switch {
	case a.Status < 200 || a.Status > 599 || a.Status == http.StatusPartialContent || a.Status == http.StatusNotModified:
		return Status
	case len(head["Set-Cookie"]) > 0:
		return Cookie
	case len(head["Retry-After"]) > 0:
		return RetryAfter
	case encoded(head):
		return Encoded
	case !s.whole(method):
		return TooLong
	case !isText(a.Body):
		return NoText
	case s.Values == nil:
		return Unjudged
	}
	body := string(a.Body)
	for name, lines := range head {
		for _, line := range lines {
			switch {
			case holdsDate(line) && !longPast(line):
				return Date
			case name != "Etag" && holdsToken(line): // an ETag is made of the content, which is the same in both
				return Token
			}
		}
	}
	switch {
	case holdsDate(body):
		return Date
	case holdsToken(body):
		return Token
	case holdsMasked(body), s.echoes(head, body, p):
		return RequestValue
	}
	return ""
}

func encoded(h http.Header) bool {
	for _, line := range h["Content-Encoding"] {
		if line = strings.TrimSpace(line); line != "" && !strings.EqualFold(line, "identity") {
			return true
		}
	}
	return false
}

// longPast says that a header's date is a constant: Expires in the last century, as PHP writes it against caching.
func longPast(line string) bool {
	t, err := http.ParseTime(strings.TrimSpace(line))
	return err == nil && time.Since(t) > 365*24*time.Hour
}
