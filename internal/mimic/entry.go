package mimic

import (
	"math/bits"
	"slices"
)

// entry is what is known for one key. The book's lock guards it.
type entry struct {
	key      Key
	delays   delays
	learned  Answer // status 0: nothing yet
	print    uint64 // of learned
	telltale string // a volatile header that was left out of it

	candidates [4]observation // learnable answers that were seen once, other than learned; print 0: none
	oldest     int            // of candidates, the next to give way
	rejected   int            // answers in a row that could not be learned
	reason     Reason         // why the last odd one was odd

	seen uint64 // answers
	odd  uint64 // one bit for each of the last 64 answers: it was another than learned

	compared      *Answer // the configured answer that differences are about
	comparedPrint uint64  // of the real one
	differences   []string
}

// observation is a real answer, as far as it is remembered before it is learned.
type observation struct {
	print                   uint64
	target, source, session uint64
	telltale                string
	reason                  Reason // "": it can be learned
}

// How often an answer that could not be learned is looked at again, when there were so many in a row that the backend seems to
// make no others.
const (
	manyRejected = 32
	lookEvery    = 16
)

// worthALook reports whether an answer other than the learned one should be examined, which is not cheap.
func (e *entry) worthALook() bool {
	if e.rejected < manyRejected || e.seen%lookEvery == 0 {
		return true
	}
	e.count(true)
	return false
}

// again notes that the learned answer is in use, so that another one has not taken its place.
func (e *entry) again() {
	e.count(false)
	e.rejected = 0
	e.candidates = [4]observation{}
}

// judge takes an answer that was examined, and reports whether it is to be learned now.
func (e *entry) judge(seen observation) bool {
	if e.learned.Status != 0 && e.print == seen.print { // it has been learned meanwhile
		e.again()
		return false
	}
	e.count(true)
	if seen.reason != "" {
		e.reason = seen.reason
		e.rejected++
		return false
	}
	e.rejected = 0
	e.reason = Varies
	if e.learned.Status == 0 {
		e.reason = OnlyOne
	}
	known := false
	for i := range e.candidates {
		if c := &e.candidates[i]; c.print == seen.print {
			if c.independent(&seen) {
				return true
			}
			known = true
		}
	}
	if !known {
		e.candidates[e.oldest] = seen
		e.oldest = (e.oldest + 1) % len(e.candidates)
	}
	return false
}

func (e *entry) learn(seen observation, a Answer) {
	e.learned, e.print, e.telltale = a, seen.print, seen.telltale
	e.candidates, e.rejected, e.reason = [4]observation{}, 0, ""
	e.seen, e.odd = 1, 0
}

func (e *entry) count(odd bool) {
	e.seen++
	e.odd <<= 1
	if odd {
		e.odd |= 1
	}
}

// oddities is how many of the last answers, and of how many, were others than the learned one.
func (e *entry) oddities() (odd, of int) {
	return bits.OnesCount64(e.odd), int(min(e.seen, 64))
}

// independent reports whether two requests are none of one client: they come from different sources, or are about different
// targets and do not share a session, in which one client tries several.
func (o *observation) independent(other *observation) bool {
	if differ(o.source, other.source) {
		return true
	}
	return differ(o.target, other.target) && (o.session == 0 || o.session != other.session)
}

// differ reports whether two digests are of different values, as far as they are known.
func differ(a, b uint64) bool { return a != 0 && b != 0 && a != b }

// state is what Status tells of the entry, if the configuration says look.
func (e *entry) state(look *Answer) State {
	s := State{
		Policy: e.key.Policy, Form: e.key.Form, Realm: e.key.Realm, Method: e.key.Method, Kind: e.key.Kind.String(),
		Delays: len(e.delays.recent),
	}
	if look.Status != 0 {
		s.Shows = Configured
		if e.compared == look && len(e.differences) > 0 {
			s.Reason, s.Differences = Differs, slices.Clone(e.differences)
		}
		return s
	}
	s.Odd, s.Of = e.oddities()
	switch {
	case e.learned.Status == 0:
		s.Shows, s.Reason = Plain, e.reason
		return s
	case s.Odd*manyOdd > s.Of:
		s.Reason = e.reason
	case e.telltale != "":
		s.Reason = VolatileHeader
	}
	s.Shows = Learned
	return s
}

// manyOdd is which part of the latest answers may be others than the learned one before that is worth telling: an eighth.
const manyOdd = 8
