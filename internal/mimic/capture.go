package mimic

import (
	"io"
	"net/http"
	"strconv"
	"sync"
)

// Capture is the body of an answer of the backend on its way to the client, an [io.ReadCloser] that keeps a copy of what was read,
// up to MaxBody. Make it with [NewCapture]. Its other methods may be called at any time and from any goroutine.
type Capture struct {
	body io.ReadCloser

	mu     sync.Mutex
	done   func()
	kept   []byte
	length int  // as declared, or -1
	off    bool // nothing is kept any more
	ended  bool // the body is over
}

// NewCapture begins to copy a body. What cannot be learned for its header's sake, or for its length, is not copied. done, unless
// nil, is called once, when no more will come: at the end of the body, on an error, or on Close; in the goroutine that reads
// or closes, and before that returns.
func NewCapture(body io.ReadCloser, header http.Header, done func()) *Capture {
	c := &Capture{body: body, done: done, length: -1}
	if lines := header["Content-Length"]; len(lines) == 1 {
		if n, err := strconv.Atoi(lines[0]); err == nil {
			c.length = n
		}
	}
	c.off = c.length > MaxBody || encoded(header)
	if !c.off && c.length > 0 {
		c.kept = make([]byte, 0, c.length)
	}
	return c
}

// Read reads from the body.
func (c *Capture) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	c.take(p[:n], err)
	return n, err
}

// Close closes the body.
func (c *Capture) Close() error {
	err := c.body.Close()
	c.take(nil, io.ErrClosedPipe)
	return err
}

// Body is the copy, and whether it is all of the body. It must not be changed.
func (c *Capture) Body() (body []byte, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept, !c.off && (c.ended || len(c.kept) == c.length)
}

// Discard ends the copying: the answer turned out to be of no use.
func (c *Capture) Discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.off = nil, true
}

// take keeps what was read, and notices the end.
func (c *Capture) take(p []byte, err error) {
	c.mu.Lock()
	if !c.off && len(c.kept)+len(p) > MaxBody {
		c.kept, c.off = nil, true
	}
	if !c.off {
		c.kept = append(c.kept, p...)
	}
	c.ended = c.ended || err == io.EOF
	done := c.done
	if err == nil {
		done = nil
	} else {
		c.done = nil
	}
	c.mu.Unlock()
	if done != nil {
		done()
	}
}
