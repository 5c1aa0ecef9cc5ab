package transport

import (
	"bytes"
	"net/http"
)

// chunks reads a chunked body (RFC 9112, section 7.1).
type chunks struct {
	state    chunkState
	left     int64 // bytes of the current chunk
	overhead int64 // bytes of lines beyond what data excuses
}

type chunkState uint8

const (
	atSize chunkState = iota
	inData
	afterData
	atTrailer
	atEnd
)

const (
	maxSizeDigits = 15 // and so no length overflows
	maxChunkLine  = 1 << 10
	// maxOverhead bounds the lines between the data. As in net/http a chunk may have 16 bytes of overhead and twice its
	// data, which allows streams of single bytes; what is beyond adds up. Extensions mean nothing to anybody.
	maxOverhead = 8 << 10
)

var (
	errChunkSize = malformed("chunk size")
	errChunkEnd  = malformed("chunk longer than its size")
	errOverhead  = malformed("more chunk extensions than data")
)

// read reads body bytes into p, and says done with or after the last. It waits for the upstream only if it has
// nothing to return otherwise. Trailer fields are added to res.
func (c *chunks) read(in *inbox, p []byte, res *http.Response) (n int, done bool, err error) {
	for n < len(p) && c.state != atEnd && (n == 0 || c.ready(in)) {
		switch c.state {
		case atSize:
			err = c.size(in)
		case inData:
			var m int
			m, err = in.read(p[n:min(int64(len(p)), int64(n)+c.left)])
			n += m
			if c.left -= int64(m); c.left == 0 {
				c.state = afterData
			}
		case afterData:
			err = c.dataEnd(in)
		case atTrailer:
			if err = readTrailer(in, res); err == nil {
				c.state = atEnd
			}
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, c.state == atEnd, nil
}

// ready reports whether the next step can be taken without waiting.
func (c *chunks) ready(in *inbox) bool {
	unread := in.unread()
	switch c.state {
	case atSize:
		return bytes.IndexByte(unread, '\n') >= 0
	case afterData:
		return len(unread) >= 2
	case atTrailer:
		return bytes.HasPrefix(unread, []byte("\r\n")) || bytes.Contains(unread, []byte("\r\n\r\n"))
	default:
		return len(unread) > 0
	}
}

// size reads the line before a chunk.
func (c *chunks) size(in *inbox) error {
	line, err := in.line(maxChunkLine)
	if err != nil {
		return err
	}
	size, digits := int64(0), 0
	for ; digits < len(line); digits++ {
		d := hexDigit(line[digits])
		if d < 0 {
			break
		}
		size = size<<4 | int64(d)
		if digits == maxSizeDigits {
			return errChunkSize
		}
	}
	if digits == 0 || !validExtension(line[digits:]) {
		return errChunkSize
	}
	c.overhead = max(0, c.overhead+int64(len(line)+len("\r\n"))-16-2*size)
	if c.overhead > maxOverhead {
		return errOverhead
	}
	c.left, c.state = size, inData
	if size == 0 {
		c.state = atTrailer
	}
	return nil
}

// validExtension accepts what may follow a size: blanks, and anything on the line after a semicolon.
func validExtension(b []byte) bool {
	rest := bytes.TrimLeft(b, " \t")
	return len(rest) == 0 || rest[0] == ';' && validValue(string(rest))
}

// dataEnd reads the line end after a chunk's data.
func (c *chunks) dataEnd(in *inbox) error {
	for in.buffered() < 2 {
		if err := in.fill(); err != nil {
			return err
		}
	}
	if string(in.unread()[:2]) != "\r\n" {
		return errChunkEnd
	}
	in.r += 2
	c.state = atSize
	return nil
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
