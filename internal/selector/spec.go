package selector

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Spec is a compiled list of selectors with the way to normalise what they find: the `target`, `client`, `secret` or
// `pending.key` of one policy. The zero value finds nothing. It is immutable and safe for concurrent use.
type Spec struct {
	from      []wanted
	normalize Normalizer
	basic     BasicPart
	digest    bool
	digestKey []byte
	// native says which forms of a body the list itself names. Where it names none, selectors stand for the same name there.
	native [XML + 1]bool
	body   bool
}

// Config is what a Spec is compiled from.
type Config struct {
	// From are the selectors; all of them are read. None: the reading is always Missing.
	From []Selector
	// Normalize is applied to every value but cookies. The zero value keeps them as they are, which is right for secrets.
	Normalize Normalizer
	// Basic says which part of Basic credentials the selector basic reads.
	Basic BasicPart
	// Digest makes every value a keyed digest, for secrets and session ids. Cookies always are.
	Digest bool
	// DigestKey is the key of the digests (HMAC-SHA-256, truncated to 128 bits): a key for this one purpose, at least 16 bytes
	// long. Required with Digest and with a cookie selector.
	DigestKey []byte
}

// BasicPart is what the selector basic takes from an Authorization header.
type BasicPart uint8

// The parts of Basic credentials; the zero value is the user.
const (
	BasicUser     BasicPart = iota
	BasicPassword           // for `secret`
	BasicClient             // the user part, percent-decoded as OAuth clients encode it (RFC 6749, 2.3.1), for `client`
)

// minDigestKey is the shortest key of a digest in bytes: 128 bits, as many as the digest keeps.
const minDigestKey = 16

// wanted is a selector as its Spec uses it.
type wanted struct {
	Selector
	members  []string  // as a JSON pointer
	flat     string    // as one JSON member, for a field whose name has dots or brackets
	elements []segment // as an XML path
	anywhere bool      // that path begins at any depth
	field    string    // as the canonical name of a field
	bases    []string  // the outer parts of that: a plain value there hides the field
	inner    bool      // another selector of the list looks inside of this one: an object here is no fault
	outer    bool      // another one looks at an outer part: a plain value there is no fault
}

// segment is one step of a pointer or path: a name in the form in which names are compared, and for an element which of
// its siblings of that name (from 1; 0: any).
type segment struct {
	name string
	nth  int
}

// Compile builds a Spec. Errors name the selector that does not fit.
func Compile(cfg Config) (*Spec, error) {
	s := &Spec{normalize: cfg.Normalize, basic: cfg.Basic, digest: cfg.Digest, digestKey: cfg.DigestKey}
	seen := make(map[string]bool, len(cfg.From))
	for _, sel := range cfg.From {
		switch {
		case sel.kind == 0:
			return nil, fmt.Errorf("compiling selectors: an empty selector")
		case seen[sel.text]:
			return nil, fmt.Errorf("compiling selectors: %s is listed twice", sel)
		case (sel.kind == Cookie || sel.kind == SetCookie) && len(cfg.DigestKey) < minDigestKey:
			return nil, fmt.Errorf("compiling selectors: %s needs a digest key of at least %d bytes", sel, minDigestKey)
		}
		seen[sel.text] = true
		s.from = append(s.from, want(sel))
		if sel.NeedsBody() {
			s.native[sel.kind], s.body = true, true
		}
	}
	if cfg.Digest && len(cfg.DigestKey) < minDigestKey {
		return nil, fmt.Errorf("compiling selectors: digests need a key of at least %d bytes", minDigestKey)
	}
	for i := range s.from {
		for j := range s.from {
			if a, b := &s.from[i], &s.from[j]; len(a.members) > 0 && len(a.members) < len(b.members) && slices.Equal(a.members, b.members[:len(a.members)]) {
				a.inner, b.outer = true, true
			}
		}
	}
	return s, nil
}

// want works out what a selector is called in the other forms.
func want(sel Selector) wanted {
	w := wanted{Selector: sel}
	if !sel.NeedsBody() && sel.kind != Query {
		return w
	}
	w.elements, w.anywhere = sel.steps, true
	inner := sel.steps
	if sel.kind == XML {
		w.anywhere = sel.anywhere
		if !sel.anywhere && len(inner) > 1 {
			inner = inner[1:] // the root element is no part of the name elsewhere
		}
	}
	var names []string
	for _, step := range inner {
		w.members = append(w.members, step.name)
		names = append(names, canonicalField(step.name).name)
	}
	w.field = strings.Join(names, "_")
	switch sel.kind {
	case JSON, XML:
		for i := 1; i < len(names); i++ {
			w.bases = append(w.bases, strings.Join(names[:i], "_"))
		}
	default:
		canon := canonicalField(sel.name)
		w.field = canon.name
		if len(w.members) > 1 {
			w.flat = nameForm.Apply(sel.name)
		}
		if canon.base > 0 {
			w.bases = append(w.bases, canon.name[:canon.base])
		}
	}
	return w
}

// NeedsBody reports whether Read wants the body of the request. A nil Spec needs none.
func (s *Spec) NeedsBody() bool { return s != nil && s.body }

// Read applies all selectors to one request. It may be called with a nil Spec, which finds nothing. It never fails: what
// cannot be read as a name is Malformed.
func (s *Spec) Read(in *Input) Reading {
	if s == nil {
		return Reading{Reason: Absent}
	}
	g := gather{spec: s}
	if s.body {
		in.refuse(s, &g)
	}
	for i := range s.from {
		w := &s.from[i]
		g.open(w.kind == Cookie || w.kind == SetCookie)
		switch w.kind {
		case Header:
			readHeader(in.Header, w.name, &g)
		case Cookie, SetCookie:
			readCookie(in.Header, w.name, &g)
		case Basic:
			readBasic(in.Header, s.basic, &g)
		case Path:
			readParam(in.Params, w.name, &g)
		default:
			in.readField(w, &g)
		}
		g.close()
	}
	if g.missing == "" && s.body && in.Body.unread() {
		g.missing = Unread
	}
	return g.reading()
}

// ReadAnswer reads the set_cookie selectors of the list from the header of an answer, so that the digest is the one that
// Read finds in a later request. Other selectors are passed over. A cookie that the answer deletes is Missing.
func (s *Spec) ReadAnswer(header http.Header) Reading {
	if s == nil {
		return Reading{Reason: Absent}
	}
	g := gather{spec: s}
	for i := range s.from {
		if w := &s.from[i]; w.kind == SetCookie {
			g.open(true)
			readSetCookie(header, w.name, &g)
			g.close()
		}
	}
	return g.reading()
}

// takes reports whether a selector is read in a form of body: its own, or one that the list has no selector for.
func (s *Spec) takes(w *wanted, form Kind) bool {
	return w.kind == form || !s.native[form]
}

// key is the key of a value.
func (s *Spec) key(value string, cookie bool) string {
	if !cookie && !s.digest {
		return s.normalize.Key(value)
	}
	if !cookie {
		value = s.normalize.Apply(value)
	}
	if value == "" {
		return ""
	}
	mac := hmac.New(sha256.New, s.digestKey)
	mac.Write([]byte(value))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
