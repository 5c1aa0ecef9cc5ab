package selector

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// Reading is what the selectors of one Spec found in one request.
type Reading struct {
	// State says how to take Values; the zero value, Missing, has none.
	State State
	// Reason is one stable word for logs and metrics; empty when Named.
	Reason Reason
	// Values are the distinct keys that were found, at most eight: exactly one when Named, one or more when Ambiguous. When
	// Malformed they are what could be made out, and no complete list.
	Values []string
	// Raw is the one spelling in which the name was stated, trimmed, unbounded; empty if it was stated in several, or if the
	// values are digests.
	Raw string
}

// State is how far a request named somebody.
type State uint8

// The states of a reading, from the mildest on.
const (
	// Missing: no selector found anything, or only what is empty or null [I5].
	Missing State = iota
	// Named: every reading of the request gives the same one name.
	Named
	// Ambiguous: backends may read different names, or a name where another reads none [I3].
	Ambiguous
	// Malformed: refuse with 400, whatever the policy says of ambiguity.
	Malformed
)

// Reason is a stable word that says why a reading is not simply Named. It never holds anything of the request.
type Reason string

// The reasons, each with the state that it comes with.
const (
	Absent Reason = "absent" // Missing: nowhere in the request
	Null   Reason = "null"   // Missing: null
	Empty  Reason = "empty"  // Missing: nothing, or nothing but blanks
	Unread Reason = "unread" // Missing: there is a body of a kind that no selector reads

	Duplicate Reason = "duplicate" // Ambiguous: one selector finds several values
	Disagree  Reason = "disagree"  // Ambiguous: two selectors find different values
	Encoding  Reason = "encoding"  // Ambiguous, in JSON Malformed: bytes that are read by one's choice of character set
	Escape    Reason = "escape"    // Ambiguous: a percent escape that decoders treat differently
	Spelling  Reason = "spelling"  // Ambiguous: a field that only some backends take for this one
	Separator Reason = "separator" // Ambiguous: a bare semicolon, which some backends split at
	Mismatch  Reason = "mismatch"  // Ambiguous or Malformed: the body is not, or not only, what its type says

	Type      Reason = "type"      // Malformed: a list, an object or a file where a name should be
	Number    Reason = "number"    // Malformed: a number that is not a plain integer of up to 15 digits
	NUL       Reason = "nul"       // Malformed: a NUL character
	Line      Reason = "line"      // Malformed: a line break within a name, which could become a header of a mail
	Many      Reason = "many"      // Malformed: more than eight different values, 1000 fields or 2000 elements
	Batch     Reason = "batch"     // Malformed: several calls in one body [I7]
	Syntax    Reason = "syntax"    // Malformed: not strictly of its form
	Trailing  Reason = "trailing"  // Malformed: more behind the end
	Depth     Reason = "depth"     // Malformed: nested deeper than 100
	Surrogate Reason = "surrogate" // Malformed: half of a UTF-16 pair
	DTD       Reason = "dtd"       // Malformed: a document type in XML
	Charset   Reason = "charset"   // Malformed: a character set stated within the body that is not read
	Basics    Reason = "basic"     // Malformed: Basic credentials that decoders read differently

	TooLarge   Reason = "too_large"  // Malformed: a body of which not all was read
	Unreadable Reason = "unreadable" // Malformed: a body that could not be decoded
)

// maxValues bounds the candidates of one request, and with them what charging all of them can cost.
const maxValues = 8

// gather collects what one Spec finds. It lives on the stack of one Read.
type gather struct {
	spec   *Spec
	values [maxValues]string
	n      int
	raw    string
	raws   bool // more than one spelling

	missing, doubt, fault Reason

	// Of the selector that is being read:
	cookie bool   // its values are digested, whatever the Spec says
	first  int    // values before it
	named  bool   // it found a value
	empty  Reason // it found an empty one, or null
	hidden bool   // it found a plain value where it expects an object
}

func (g *gather) open(cookie bool) {
	g.first, g.named, g.empty, g.hidden, g.cookie = g.n, false, "", false, cookie
}

// close weighs what one selector found as a whole: one value beside nothing is two readings.
func (g *gather) close() {
	switch {
	case g.named && g.empty != "":
		g.unsure(Duplicate)
	case g.empty != "" && (g.missing == "" || g.empty == Null):
		g.missing = g.empty
	case !g.named && g.hidden:
		g.refuse(Type)
	}
}

// void records a value that is stated and says nothing.
func (g *gather) void(why Reason) {
	if g.empty != Null {
		g.empty = why
	}
}

// unsure keeps the first doubt, refuse the first fault.
func (g *gather) unsure(why Reason) {
	if g.doubt == "" {
		g.doubt = why
	}
}

func (g *gather) refuse(why Reason) {
	if g.fault == "" {
		g.fault = why
	}
}

// text takes decoded bytes of a value. latin says that the request declared a Latin code page; odd is why a backend may
// not find this value at all, and empty in the usual case.
func (g *gather) text(b []byte, latin bool, odd Reason) {
	wide := false
	for _, c := range b {
		if c == 0 {
			g.refuse(NUL)
			return
		}
		wide = wide || c >= utf8.RuneSelf
	}
	if wide && (latin || !utf8.Valid(b)) {
		for _, s := range spellings(b) {
			g.name(s, Encoding)
		}
		return
	}
	g.name(string(b), odd)
}

// name takes one whole value. A value that holds NUL never gets here.
func (g *gather) name(s string, odd Reason) {
	raw := trimBlanks(s)
	if !g.cookie && !g.spec.digest && strings.ContainsAny(raw, "\r\n") {
		g.refuse(Line)
		return
	}
	key := g.spec.key(s, g.cookie)
	if key == "" {
		g.void(Empty)
		return
	}
	g.named = true
	g.raws = g.raws || g.cookie
	switch {
	case g.n == 0:
		g.raw = raw
	case g.raw != raw:
		g.raws = true
	}
	if at := slices.Index(g.values[:g.n], key); at >= 0 {
		return
	}
	if odd != "" {
		g.unsure(odd)
	}
	if g.n > g.first {
		g.unsure(Duplicate)
	} else if g.n > 0 {
		g.unsure(Disagree)
	}
	if g.n == maxValues {
		g.refuse(Many)
		return
	}
	g.values[g.n] = key
	g.n++
}

func (g *gather) reading() Reading {
	r := Reading{State: Named}
	if g.n > 0 {
		r.Values = slices.Clone(g.values[:g.n])
		if !g.raws && !g.spec.digest {
			r.Raw = g.raw
		}
	}
	switch {
	case g.fault != "":
		r.State, r.Reason = Malformed, g.fault
	case g.doubt != "":
		r.State, r.Reason = Ambiguous, g.doubt
	case g.n == 0:
		r.State, r.Reason = Missing, g.missing
		if g.missing == "" {
			r.Reason = Absent
		}
	}
	return r
}

// number takes the text of a JSON number. Only a plain integer within the 53 bits of a double has one spelling in every
// language [I5]: 1e3 is 1000 or 1000.0 to backends, and the last digits of a long one are lost in some.
func (g *gather) number(b []byte) {
	digits := bytes.TrimPrefix(b, []byte("-"))
	plain := len(digits) <= 15 && (digits[0] != '0' || len(b) == 1)
	for _, c := range digits {
		plain = plain && c >= '0' && c <= '9'
	}
	if !plain {
		g.refuse(Number)
		return
	}
	g.name(string(b), "")
}
