package transport

import (
	"net/http"
	"net/textproto"
	"strings"

	"authgate/proxy/field"
)

// malformed is why an answer is not taken: it could mean one thing here and another to somebody else. It never
// repeats what the upstream said.
type malformed string

func (m malformed) Error() string { return "malformed answer: " + string(m) }

var (
	errStatusLine   = malformed("status line")
	errField        = malformed("header field")
	errBothLengths  = malformed("both Content-Length and Transfer-Encoding")
	errLength       = malformed("Content-Length")
	errCoding       = malformed("Transfer-Encoding")
	errTrailerNamed = malformed("Trailer names a field that frames the message")
)

// parseHead reads a status line and header into res. block is lines that end in CRLF, without the empty one.
func parseHead(block string, res *http.Response) error {
	line, rest, _ := strings.Cut(block, "\r\n")
	// HTTP/1.x 200, then nothing or a blank and a reason. RFC 9112, section 4.
	if len(line) < 12 || line[:7] != "HTTP/1." || line[7] != '0' && line[7] != '1' || line[8] != ' ' {
		return errStatusLine
	}
	code := 0
	for _, c := range []byte(line[9:12]) {
		if c < '0' || c > '9' {
			return errStatusLine
		}
		code = code*10 + int(c-'0')
	}
	if code < 100 || !validValue(line[12:]) || len(line) > 12 && line[12] != ' ' {
		return errStatusLine
	}
	h, ok := field.Parse(rest)
	if !ok {
		return errField
	}
	res.Status, res.StatusCode, res.Header = line[9:], code, h
	res.Proto, res.ProtoMajor, res.ProtoMinor = line[:8], 1, int(line[7]-'0')
	return nil
}

// bodyKind is how one knows where a body ends.
type bodyKind uint8

const (
	bodyNone    bodyKind = iota
	bodySized            // after so many bytes
	bodyChunked          // it says so
	bodyToEnd            // when the connection does
)

// framing is what an answer's header says about its body and about the connection.
type framing struct {
	kind   bodyKind
	length int64 // of a sized body
	close  bool  // the connection is not for another request
}

// frame decides where the answer's body ends (RFC 9112, section 6.3), and fills in what the response tells about it.
func frame(method string, res *http.Response) (framing, error) {
	h := res.Header
	length, err := contentLength(h)
	if err != nil {
		return framing{}, err
	}
	coded, err := isChunked(res)
	if err != nil {
		return framing{}, err
	}
	f := framing{close: hasToken(h["Connection"], "close")}
	if res.ProtoMinor == 0 && !hasToken(h["Connection"], "keep-alive") {
		f.close = true
	}
	res.Close = f.close
	res.ContentLength = length
	bodiless := res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified
	switch {
	case method == http.MethodHead:
	case bodiless:
		res.ContentLength = 0
		// Who announces a body where there is none may send one, which would be taken for the next answer.
		f.close = f.close || coded || res.StatusCode == http.StatusNoContent && length > 0
	case coded:
		f.kind = bodyChunked
	case length > 0:
		f.kind, f.length = bodySized, length
	case length < 0:
		f.kind, f.close, res.Close = bodyToEnd, true, true
	}
	if coded {
		res.Trailer, err = announcedTrailer(h)
	}
	return f, err
}

// contentLength is the length that a header states, or -1. Several equal ones count as one, as RFC 9110, section 8.6 allows.
func contentLength(h http.Header) (int64, error) {
	vv := h["Content-Length"]
	if len(vv) == 0 {
		return -1, nil
	}
	if len(h["Transfer-Encoding"]) > 0 {
		return 0, errBothLengths
	}
	for _, v := range vv[1:] {
		if v != vv[0] {
			return 0, errLength
		}
	}
	if len(vv) > 1 {
		h["Content-Length"] = vv[:1]
	}
	if vv[0] == "" || len(vv[0]) > 18 { // 18 digits always fit
		return 0, errLength
	}
	var n int64
	for _, c := range []byte(vv[0]) {
		if c < '0' || c > '9' {
			return 0, errLength
		}
		n = n*10 + int64(c-'0')
	}
	return n, nil
}

// isChunked reports whether the answer is chunked, and takes the field away that says so. Other codings are not understood,
// and must not be, since one more or less would move the end of the body.
func isChunked(res *http.Response) (bool, error) {
	vv, ok := res.Header["Transfer-Encoding"]
	if !ok {
		return false, nil
	}
	if len(vv) != 1 || !strings.EqualFold(vv[0], "chunked") || res.ProtoMinor == 0 {
		return false, errCoding
	}
	delete(res.Header, "Transfer-Encoding")
	res.TransferEncoding = []string{"chunked"}
	return true, nil
}

// checkInformational refuses 1xx answers with a body, which cannot have one (RFC 9110, section 8.6).
func checkInformational(h http.Header) error {
	if len(h["Transfer-Encoding"]) > 0 {
		return errCoding
	}
	n, err := contentLength(h)
	if err == nil && n > 0 {
		err = errLength
	}
	return err
}

// announcedTrailer takes the field Trailer away and returns the names in it, without values.
func announcedTrailer(h http.Header) (http.Header, error) {
	lines, ok := h["Trailer"]
	if !ok {
		return nil, nil
	}
	delete(h, "Trailer")
	var trailer http.Header
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = textproto.CanonicalMIMEHeaderKey(strings.Trim(name, " \t"))
			if framesMessage(name) {
				return nil, errTrailerNamed
			}
			if !validToken(name) || !safeTrailer(name) {
				continue
			}
			if trailer == nil {
				trailer = http.Header{}
			}
			trailer[name] = nil
		}
	}
	return trailer, nil
}

// readTrailer reads the fields after the last chunk, and adds the safe ones to the response.
func readTrailer(in *inbox, res *http.Response) error {
	block, err := in.section(maxTrailerBytes)
	if err != nil || block == "" {
		return err
	}
	fields, ok := field.Parse(block)
	if !ok {
		return errField
	}
	for name, vv := range fields {
		if !safeTrailer(name) {
			continue
		}
		if res.Trailer == nil {
			res.Trailer = http.Header{}
		}
		res.Trailer[name] = vv
	}
	return nil
}
