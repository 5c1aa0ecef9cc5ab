package outcome

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// decoders reads compressed bodies and keeps its readers for the next one: each weighs tens of kilobytes. The zero value is
// ready; it is safe for concurrent use.
type decoders struct {
	gzip, flate, brotli, zstd sync.Pool
}

// zstdWindow is the largest window a zstd body may ask for, in bytes: what every HTTP client supports [RFC 9659].
const zstdWindow = 8 << 20

// text is the first limit bytes of a body of which prefix has been received, decompressed, and whether that is all of it.
// A body in an unknown coding, or in several, has no text; a broken or cut one has what comes before the break.
func (d *decoders) text(prefix []byte, header http.Header, limit int) (text []byte, whole bool) {
	coding := contentCoding(header)
	if coding == "" || len(prefix) == 0 {
		return prefix[:min(len(prefix), limit)], len(prefix) <= limit
	}
	r, err := d.open(coding, prefix)
	if err != nil {
		return nil, false
	}
	defer d.put(r)
	text = make([]byte, 0, min(limit, 4*len(prefix)))
	for len(text) < limit {
		text = slices.Grow(text, 1)
		n, err := r.Read(text[len(text):min(cap(text), limit)])
		text = text[:len(text)+n]
		if err != nil {
			return text, err == io.EOF
		}
	}
	n, err := io.ReadFull(r, make([]byte, 1))
	return text, n == 0 && err == io.EOF
}

// contentCoding is the coding of a body in lower case; empty: none.
func contentCoding(header http.Header) string {
	lines := header["Content-Encoding"]
	if len(lines) == 0 {
		return ""
	}
	coding := strings.ToLower(strings.TrimSpace(strings.Join(lines, ",")))
	if coding == "identity" {
		return ""
	}
	return coding
}

func (d *decoders) open(coding string, prefix []byte) (io.Reader, error) {
	src := bytes.NewReader(prefix)
	switch coding {
	case "gzip", "x-gzip":
		if r, ok := d.gzip.Get().(*gzip.Reader); ok {
			return r, r.Reset(src)
		}
		return gzip.NewReader(src)
	case "deflate":
		// Deflate in a zlib wrapper is the standard, bare deflate is what some servers send.
		if len(prefix) > 1 && prefix[0]&0x0f == 8 && (uint(prefix[0])<<8|uint(prefix[1]))%31 == 0 {
			src.Reset(prefix[2:])
		}
		if r, ok := d.flate.Get().(flate.Resetter); ok {
			return r.(io.Reader), r.Reset(src, nil)
		}
		return flate.NewReader(src), nil
	case "br":
		if r, ok := d.brotli.Get().(*brotli.Reader); ok {
			return r, r.Reset(src)
		}
		return brotli.NewReader(src), nil
	case "zstd":
		if r, ok := d.zstd.Get().(*zstd.Decoder); ok {
			return r, r.Reset(src)
		}
		// One goroutine, so that a reader left to the garbage collector leaves nothing running.
		return zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecodeBuffersBelow(0))
	}
	return nil, fmt.Errorf("decoding an answer: unknown coding %q", coding)
}

func (d *decoders) put(r io.Reader) {
	switch r := r.(type) {
	case *gzip.Reader:
		d.gzip.Put(r)
	case flate.Resetter:
		d.flate.Put(r)
	case *brotli.Reader:
		d.brotli.Put(r)
	case *zstd.Decoder:
		d.zstd.Put(r)
	}
}

// bodyless says that an answer of this status to this method has no body, whatever its header declares.
func bodyless(status int, method string) bool {
	return method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified || status < 200
}
