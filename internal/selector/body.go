package selector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Body is the buffered body of one request: the bytes as received, for sending on, and what they say, parsed at most once
// per form. A nil Body is an empty one. It is not safe for concurrent use.
type Body struct {
	raw     []byte // as received
	decoded []byte // storage of text where that is not raw itself
	text    []byte // without its content encoding
	doc     []byte // text in UTF-8, as parsers of JSON and XML see it that detect UTF-16 and UTF-32
	media   media
	looks   Kind // JSON, XML or Multipart by its first characters; else 0
	encoded bool // it had a content encoding

	checked bool // everything is parsed
	wrong   Reason

	json       jsonDoc
	form       fields
	loose      fields // of a text that is no form
	rawForm    fields // of the bytes before decoding
	parts      fields
	rawParts   fields
	xml        xmlDoc
	operations jsonDoc
}

// Errors that ReadBody wraps. What fails otherwise is the connection.
var (
	// ErrTooLarge: the body as received is larger than the policy reads (413).
	ErrTooLarge = errors.New("body too large")
	// ErrUnreadable: an unknown content encoding or character set, a broken or overlong compressed body (415).
	ErrUnreadable = errors.New("body cannot be read")
)

const (
	// firstRead is what a buffer begins with, whatever Content-Length promises: a login body fits.
	firstRead = 2 << 10
	// keepBuffer bounds the buffers that Release keeps for the next request, in bytes; keepItems bounds the tables.
	keepBuffer = 128 << 10
	keepItems  = 1 << 10
	// mostBody bounds what any policy may read, in bytes: offsets into a body are 32 bits wide.
	mostBody = 1 << 30
	// maxIdleReads is how often a reader may give nothing without an error (as io.ErrNoProgress has it elsewhere).
	maxIdleReads = 100
)

// bodies recycles the buffers of bodies that were released.
var bodies = sync.Pool{New: func() any { return new(Body) }}

// ReadBody reads a whole request body of at most max bytes (1 GiB at the most), and decodes it within the same bound.
// header is that of the request; contentLength is -1 if it is not known. Errors: ErrTooLarge, ErrUnreadable, io.ErrUnexpectedEOF for less than
// contentLength promised, and whatever r fails with, each wrapped. The caller releases the body when the request is over.
//
// With ErrTooLarge and ErrUnreadable there is a body all the same, for whoever sends it on unread: Raw is what was taken
// from r so far (the rest is still there), and every reading of it is Malformed.
func ReadBody(r io.Reader, header http.Header, contentLength, max int64) (*Body, error) {
	b := bodies.Get().(*Body)
	err := b.take(r, header, contentLength, min(max, mostBody))
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, ErrTooLarge):
		b.unfit(TooLarge)
	case errors.Is(err, ErrUnreadable):
		b.unfit(Unreadable)
	default:
		b.Release()
		b = nil
	}
	return b, fmt.Errorf("reading body: %w", err)
}

// take reads the body and finds out what it is.
func (b *Body) take(r io.Reader, header http.Header, contentLength, max int64) error {
	if contentLength > max {
		return fmt.Errorf("%d bytes: %w", contentLength, ErrTooLarge)
	}
	if err := b.fill(r, max); err != nil {
		return err
	}
	if int64(len(b.raw)) < contentLength {
		return io.ErrUnexpectedEOF
	}
	if len(b.raw) == 0 {
		return nil
	}
	return b.decode(header, max)
}

// unfit makes b a body of which nothing is known but its bytes.
func (b *Body) unfit(why Reason) {
	b.text, b.media, b.looks, b.encoded = nil, media{}, 0, false
	b.doc, b.checked, b.wrong = b.raw, true, why
}

// Raw returns the bytes exactly as they were received. They are valid until Release.
func (b *Body) Raw() []byte {
	if b == nil {
		return nil
	}
	return b.raw
}

// Release gives the buffers back. Neither the body nor what Raw returned may be used afterwards; readings may.
func (b *Body) Release() {
	if b == nil {
		return
	}
	next := Body{raw: recycle(b.raw, keepBuffer), decoded: recycle(b.decoded, keepBuffer)}
	next.json.nodes = recycle(b.json.nodes, keepItems)
	next.form.list = recycle(b.form.list, keepItems)
	next.parts.list = recycle(b.parts.list, keepItems)
	*b = next
	bodies.Put(b)
}

// recycle keeps a buffer that is not too large, without what it held: secrets do not linger, nor pointers to other buffers.
func recycle[T any](s []T, most int) []T {
	if cap(s) > most {
		return nil
	}
	clear(s)
	return s[:0]
}

// fill reads to the end, or one byte beyond max to know that there is more.
func (b *Body) fill(r io.Reader, max int64) error {
	if r == nil {
		return nil
	}
	if cap(b.raw) == 0 {
		b.raw = make([]byte, 0, firstRead)
	}
	for idle := 0; idle < maxIdleReads; {
		if len(b.raw) == cap(b.raw) {
			b.raw = append(b.raw, 0)[:len(b.raw)]
		}
		n, err := r.Read(b.raw[len(b.raw):cap(b.raw)])
		b.raw = b.raw[:len(b.raw)+n]
		switch {
		case int64(len(b.raw)) > max:
			return ErrTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case n == 0:
			idle++
		default:
			idle = 0
		}
	}
	return io.ErrNoProgress
}

// decode makes the text of the body and finds out what it is.
func (b *Body) decode(header http.Header, max int64) error {
	coding, err := contentCoding(header)
	if err != nil {
		return err
	}
	if b.media, err = parseMedia(header); err != nil {
		return err
	}
	b.text = b.raw
	if coding == "" && isPacked(b.raw) && !b.media.packed {
		return fmt.Errorf("compressed, and its header does not say so: %w", ErrUnreadable) // some backends go by the first bytes
	}
	if coding != "" {
		// Backends that never decode a body read these bytes as they are; what they may find there is no encoded body.
		if looksLike(b.raw) != 0 {
			return fmt.Errorf("%s by its header, text by its bytes: %w", coding, ErrUnreadable)
		}
		if b.decoded, err = decompress(b.decoded[:0], b.raw, coding, max); err != nil {
			return err
		}
		b.text, b.encoded = b.decoded, true
	}
	b.doc = b.text
	if bytes.HasPrefix(b.text, ebcdicXML) {
		return fmt.Errorf("XML in EBCDIC: %w", ErrUnreadable)
	}
	if form := sniffUnicode(b.text); form.width > 0 {
		doc, err := form.decode(b.text)
		if err == nil {
			b.doc = doc
		} else if b.media.kind == JSON || b.media.kind == XML {
			return err
		}
	} else if b.media.wide {
		return fmt.Errorf("not in the character set that it is said to be in: %w", ErrUnreadable)
	}
	b.looks = looksLike(b.doc)
	return nil
}

// looksLike tells the form of a body by its first characters, as a reader does that never looks at its type: JSON (or
// what a lenient parser takes for it), XML, Multipart, or 0.
func looksLike(text []byte) Kind {
	text = trimStart(text)
	if len(text) == 0 {
		return 0
	}
	switch text[0] {
	case '{', '[':
		return JSON
	case '<':
		return XML
	case '/':
		if len(text) > 1 && (text[1] == '/' || text[1] == '*') {
			return JSON // a comment first
		}
	case '-':
		if len(text) > 1 && text[1] == '-' && containsFold(text, "content-disposition") {
			return Multipart
		}
	}
	return 0
}

// trimStart drops what parsers pass over before a document, and what backends strip before they parse one: blanks of all
// kinds, control characters, a byte order mark.
func trimStart(text []byte) []byte {
	for len(text) > 0 {
		if text[0] <= ' ' {
			text = text[1:]
			continue
		}
		if text[0] < utf8.RuneSelf {
			return text
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case unicode.IsSpace(r) || r == '\ufeff' || r == '\u180e': // the last was a blank up to Unicode 6.2
		case r == utf8.RuneError && (text[0] == 0x85 || text[0] == 0xa0): // blanks of Latin-1
		default:
			return text
		}
		text = text[size:]
	}
	return text
}

// is reports whether the body is read in a form: because its type says so, or because it looks so.
func (b *Body) is(form Kind) bool {
	return b.media.kind == form || b.looks == form && form != Multipart
}

// isForm reports whether the body is read as a form body: every one that is not plainly something else.
func (b *Body) isForm() bool {
	return b.media.kind == Form || b.media.kind == 0 && b.looks == 0
}

// unread holds for a body that no selector can read.
func (b *Body) unread() bool {
	return b != nil && len(trimStart(b.doc)) > 0 && b.media.kind == 0 && b.looks == 0
}

// fault parses every form that the body is read in and returns what is wrong with the first that fails, if any.
func (b *Body) fault() Reason {
	if b == nil {
		return ""
	}
	if b.checked {
		return b.wrong
	}
	b.checked = true
	if len(trimStart(b.doc)) == 0 {
		return ""
	}
	if b.looks == Multipart && b.media.kind != Multipart {
		b.note(Mismatch)
	}
	if b.is(JSON) {
		b.note(b.json.parse(b.doc))
	}
	if b.is(XML) {
		b.note(b.xml.parse(b.doc, b.media.latin))
	}
	if b.media.kind == Multipart {
		b.parts.latin = b.media.latin
		b.parts.parseMultipart(b.text, b.media.boundary)
		b.note(b.parts.fault)
		b.parseOperations(&b.parts)
		if b.encoded { // a reader that ignores the encoding may find parts in the bytes as they came
			b.rawParts.parseMultipart(b.raw, b.media.boundary)
		}
	}
	if b.isForm() {
		b.form.latin = b.media.latin
		b.form.parse(b.text)
		b.note(b.form.fault)
		b.parseOperations(&b.form)
	} else {
		b.loose.parseLoosely(b.text, b.is(JSON))
	}
	if b.encoded {
		b.rawForm.parseLoosely(b.raw, false)
	}
	return b.wrong
}

// note keeps the first fault.
func (b *Body) note(why Reason) {
	if b.wrong == "" {
		b.wrong = why
	}
}

// read looks for one selector in every form that the body is read in.
func (b *Body) read(w *wanted, g *gather) {
	b.fault() // parses
	s := g.spec
	if b.is(JSON) && s.takes(w, JSON) {
		b.json.read(w, b.media.latin, g)
	}
	switch {
	case b.is(XML) && s.takes(w, XML):
		b.xml.read(w, g)
	case s.native[XML] && !b.is(XML) && b.isForm() && bytes.IndexByte(b.text, '<') >= 0:
		g.refuse(Mismatch) // there are parsers that pass over all text in front of the document
	}
	if b.media.kind == Multipart && s.takes(w, Multipart) {
		b.parts.read(w, false, g)
		b.rawParts.readLoosely(w, g)
	}
	if b.operations.text != nil && s.takes(w, JSON) {
		b.operations.read(w, b.media.latin, g)
	}
	// A reader of forms that never looks at the type, or at the encoding, finds its fields between the ampersands of anything.
	switch {
	case b.isForm() && s.takes(w, Form):
		b.form.read(w, false, g)
	case !b.isForm():
		b.loose.readLoosely(w, g)
	}
	b.rawForm.readLoosely(w, g)
}

// parseOperations parses the JSON that a GraphQL upload carries in a field of that name.
func (b *Body) parseOperations(f *fields) {
	for i := range f.list {
		if e := &f.list[i]; e.called("operations") {
			if value, _ := e.decode(); looksLike(value) == JSON && b.operations.text == nil {
				b.note(b.operations.parse(value))
			}
		}
	}
}
