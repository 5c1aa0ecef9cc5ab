package selector

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// contentCoding returns the one coding of a body, or "" for none. A stack of codings is ErrUnreadable: backends undo all of
// them, one, or none.
func contentCoding(header http.Header) (string, error) {
	lines := header["Content-Encoding"]
	if len(lines) == 0 {
		return "", nil
	}
	var coding string
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			part = strings.ToLower(strings.TrimSpace(part))
			switch part {
			case "", "identity":
				continue
			case "x-gzip":
				part = "gzip"
			case "gzip", "deflate", "br", "zstd":
			default:
				return "", fmt.Errorf("content encoding %q: %w", part, ErrUnreadable)
			}
			if coding != "" {
				return "", fmt.Errorf("content encodings on top of each other: %w", ErrUnreadable)
			}
			coding = part
		}
	}
	return coding, nil
}

// isPacked recognises gzip and zstd by the bytes that they begin with (RFC 1952, 2.3.1; RFC 8878, 3.1.1). No text begins so.
func isPacked(raw []byte) bool {
	return bytes.HasPrefix(raw, []byte("\x1f\x8b")) || bytes.HasPrefix(raw, []byte("\x28\xb5\x2f\xfd"))
}

// decompress appends the decoded body to dst. Exactly one stream is decoded, of at most max bytes: decoders differ in
// what they make of a second one, and of what follows.
func decompress(dst, raw []byte, coding string, max int64) ([]byte, error) {
	var err error
	switch coding {
	case "gzip":
		dst, err = gunzip(dst, raw, max)
	case "br":
		dst, err = readStream(dst, brotli.NewReader(bytes.NewReader(raw)), max)
	case "zstd":
		dst, err = unzstd(dst, raw, max)
	default:
		dst, err = inflate(dst, raw, max)
	}
	if err != nil {
		return dst, fmt.Errorf("decoding %s: %w: %w", coding, ErrUnreadable, err)
	}
	return dst, nil
}

func gunzip(dst, raw []byte, max int64) ([]byte, error) {
	src := bytes.NewReader(raw)
	r, err := gzip.NewReader(src)
	if err != nil {
		return dst, err
	}
	r.Multistream(false)
	if dst, err = readStream(dst, r, max); err == nil && src.Len() > 0 {
		err = fmt.Errorf("%d bytes after the end", src.Len())
	}
	return dst, err
}

// inflate reads the zlib format, which "deflate" means, or the bare one, which many send. Bytes that are both at once
// are neither.
func inflate(dst, raw []byte, max int64) ([]byte, error) {
	src := bytes.NewReader(raw)
	bare := flate.NewReader(src)
	plain, errBare := readStream(nil, bare, max)
	bareFits := errBare == nil && src.Len() == 0
	src.Reset(raw)
	r, err := zlib.NewReader(src)
	if err == nil {
		dst, err = readStream(dst, r, max)
	}
	switch {
	case err == nil && src.Len() > 0:
		return dst, fmt.Errorf("%d bytes after the end", src.Len())
	case err == nil && bareFits:
		return dst, fmt.Errorf("zlib and bare deflate at once")
	case err == nil:
		return dst, nil
	case bareFits:
		return append(dst[:0], plain...), nil
	}
	return dst, err
}

// unzstd decodes one frame. Its length is found by walking its blocks (RFC 8878, 3.1.1), for the decoder itself goes on to
// the next frame.
func unzstd(dst, raw []byte, max int64) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(raw); err != nil {
		return dst, err
	}
	if h.Skippable {
		return dst, fmt.Errorf("a skippable frame first")
	}
	at, last := h.HeaderSize, false
	for !last && at+3 <= len(raw) {
		block := int(raw[at]) | int(raw[at+1])<<8 | int(raw[at+2])<<16
		last = block&1 != 0
		size := block >> 3
		if block>>1&3 == 1 { // a run of one byte
			size = 1
		}
		at += 3 + size
	}
	if h.HasCheckSum {
		at += 4
	}
	if !last || at != len(raw) {
		return dst, fmt.Errorf("not one whole frame")
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(max)))
	if err != nil {
		return dst, err
	}
	defer dec.Close()
	return dec.DecodeAll(raw, dst)
}

// readStream appends what r gives to dst, at most max bytes of it.
func readStream(dst []byte, r io.Reader, max int64) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	n, err := buf.ReadFrom(io.LimitReader(r, max+1))
	if err == nil && n > max {
		err = fmt.Errorf("more than %d bytes", max)
	}
	return buf.Bytes(), err
}

// ebcdicXML is how a document begins in the code pages of mainframes, which readers of XML take without being told: "<?xml".
var ebcdicXML = []byte{0x4c, 0x6f, 0xa7, 0x94, 0x93}

// unicodeForm is an encoding of two or four bytes a unit.
type unicodeForm struct {
	width int // 2 or 4; 0: none, the text is taken as it is
	order binary.ByteOrder
	mark  int // bytes of its byte order mark
}

// sniffUnicode finds UTF-16 and UTF-32 by a byte order mark, or by the zeros in a first character of ASCII, as parsers do
// that detect the encoding themselves (RFC 4627, 3).
func sniffUnicode(b []byte) unicodeForm {
	var four [4]byte
	copy(four[:], b)
	switch a := four; {
	case len(b) < 2:
		return unicodeForm{}
	case len(b) >= 4 && a == [4]byte{0, 0, 0xfe, 0xff}:
		return unicodeForm{4, binary.BigEndian, 4}
	case len(b) >= 4 && a == [4]byte{0xff, 0xfe, 0, 0}:
		return unicodeForm{4, binary.LittleEndian, 4}
	case a[0] == 0xfe && a[1] == 0xff:
		return unicodeForm{2, binary.BigEndian, 2}
	case a[0] == 0xff && a[1] == 0xfe:
		return unicodeForm{2, binary.LittleEndian, 2}
	case len(b) >= 4 && a[0] == 0 && a[1] == 0 && a[2] == 0:
		return unicodeForm{4, binary.BigEndian, 0}
	case len(b) >= 4 && a[1] == 0 && a[2] == 0 && a[3] == 0:
		return unicodeForm{4, binary.LittleEndian, 0}
	case a[0] == 0:
		return unicodeForm{2, binary.BigEndian, 0}
	case a[1] == 0:
		return unicodeForm{2, binary.LittleEndian, 0}
	}
	return unicodeForm{}
}

// decode returns the text in UTF-8, in storage of its own.
func (f unicodeForm) decode(b []byte) ([]byte, error) {
	b = b[f.mark:]
	if len(b)%f.width != 0 {
		return nil, fmt.Errorf("half a character at the end: %w", ErrUnreadable)
	}
	out := make([]byte, 0, len(b))
	for ; len(b) > 0; b = b[f.width:] {
		var r rune
		if f.width == 4 {
			unit := f.order.Uint32(b)
			if r = rune(unit); unit > utf8.MaxRune {
				r = -1
			}
		} else if r = rune(f.order.Uint16(b)); utf16.IsSurrogate(r) && len(b) >= 4 {
			if r = utf16.DecodeRune(r, rune(f.order.Uint16(b[2:]))); r == utf8.RuneError {
				r = -1
			} else {
				b = b[2:]
			}
		}
		if !utf8.ValidRune(r) {
			return nil, fmt.Errorf("no character at %d bytes before the end: %w", len(b), ErrUnreadable)
		}
		out = utf8.AppendRune(out, r)
	}
	return out, nil
}
