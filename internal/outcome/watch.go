package outcome

import (
	"io"
	"net/http"
	"strconv"
	"sync"
)

// Watch judges one answer while its body streams by. It keeps at most InspectBytes of it, none once the verdict is
// there. It is for one goroutine at a time.
type Watch struct {
	c       *Classifier
	status  int
	header  http.Header
	req     RequestView
	buf     []byte
	length  int // declared length of the body, or -1
	next    int // number of bytes at which it is worth looking again
	result  Result
	decided bool
}

// Watch begins to judge an answer by its head; see [Classifier.Head] for req. It keeps header and req until the verdict is there.
func (c *Classifier) Watch(status int, header http.Header, req RequestView) *Watch {
	if result, decided := c.Head(status, header, req); decided {
		return &Watch{c: c, status: status, result: result, decided: true}
	}
	return c.watchBody(status, header, req)
}

// watchBody goes on where the head has left the verdict open.
func (c *Classifier) watchBody(status int, header http.Header, req RequestView) *Watch {
	w := &Watch{c: c, status: status, header: header, req: req, length: declaredLength(header)}
	if w.length == 0 {
		w.conclude(whole)
	}
	return w
}

// Result is the verdict; it is false as long as more of the body must be seen.
func (w *Watch) Result() (Result, bool) { return w.result, w.decided }

// Feed takes the next bytes of the body, as received, and says whether the verdict is there.
func (w *Watch) Feed(p []byte) bool {
	if w.decided || len(p) == 0 {
		return w.decided
	}
	w.buf = append(w.buf, p[:min(len(p), w.c.inspectBytes-len(w.buf))]...)
	return w.look()
}

// look judges what has been collected. A text that has come is enough, so it is looked for on the first bytes and
// whenever they have doubled; what is compressed is only read once.
func (w *Watch) look() bool {
	switch {
	case len(w.buf) == w.length:
		w.conclude(whole)
	case len(w.buf) >= w.c.inspectBytes:
		w.conclude(cut)
	case len(w.buf) >= w.next && contentCoding(w.header) == "":
		w.next = 2 * len(w.buf)
		w.conclude(partial)
	}
	return w.decided
}

// End says that no more of the body will come: because it is over (err is nil or io.EOF), or because it broke off or is not
// wanted any more. If it was not seen whole and no rule matches what was, the verdict is neutral [V4].
func (w *Watch) End(err error) Result {
	if w.decided {
		return w.result
	}
	if err == nil || err == io.EOF {
		w.conclude(whole)
		return w.result
	}
	w.conclude(cut)
	if w.result.Verdict == Unknown {
		w.result.Verdict, w.result.Counts = Neutral, Neutral
	}
	return w.result
}

func (w *Watch) conclude(body bodyState) {
	e := evidence{c: w.c, status: w.status, header: w.header, req: w.req, prefix: w.buf, body: body}
	w.result, w.decided = e.decide()
	if w.decided {
		w.buf, w.header, w.req = nil, nil, nil
	}
}

// declaredLength is the Content-Length, or -1.
func declaredLength(header http.Header) int {
	lines := header["Content-Length"]
	if len(lines) != 1 {
		return -1
	}
	n, err := strconv.Atoi(lines[0])
	if err != nil {
		return -1
	}
	return n
}

// Hold reads from the body as far as the verdict needs, and no further: for answers whose header depends on it. It returns what it
// has read, which is at most InspectBytes and must be sent on before the rest of body. The error is the body's, other than
// io.EOF; there is a verdict even then.
func (c *Classifier) Hold(body io.Reader, status int, header http.Header, req RequestView) (Result, []byte, error) {
	w := c.Watch(status, header, req)
	if w.decided {
		return w.result, nil, nil
	}
	size := 2 << 10
	if w.length > 0 {
		size = w.length
	}
	buf := make([]byte, 0, min(size, c.inspectBytes))
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*cap(buf), c.inspectBytes))
			copy(grown, buf)
			buf = grown
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		w.buf = buf
		if n > 0 && w.look() {
			return w.result, buf, cause(err)
		}
		if err != nil {
			return w.End(err), buf, cause(err)
		}
	}
}

// cause is an error other than the end of the body.
func cause(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// Observe returns a body that passes everything on as it is read and calls done once, as soon as the verdict is there: at
// once if the head decides (then it is body itself), while the reader reads, or, at the latest, at the end of the body, an error or
// Close. done is called in the goroutine that reads or closes, before Read or Close returns; it must not call them.
func (c *Classifier) Observe(body io.ReadCloser, status int, header http.Header, req RequestView, done func(Result)) io.ReadCloser {
	var w *Watch
	result, decided := c.Head(status, header, req)
	if !decided {
		w = c.watchBody(status, header, req)
		result, decided = w.Result()
	}
	if decided {
		done(result)
		return body
	}
	return &observed{body: body, watch: w, done: done}
}

// observed is a body under observation. Close may come from another goroutine than Read.
type observed struct {
	body  io.ReadCloser
	mu    sync.Mutex // guards watch and done
	watch *Watch
	done  func(Result) // nil once called
}

func (o *observed) Read(p []byte) (int, error) {
	n, err := o.body.Read(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done == nil {
		return n, err
	}
	if o.watch.Feed(p[:n]); err != nil {
		o.watch.End(err)
	}
	o.report()
	return n, err
}

func (o *observed) Close() error {
	err := o.body.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done != nil {
		o.watch.End(io.ErrUnexpectedEOF)
		o.report()
	}
	return err
}

// report calls done if the verdict is there.
func (o *observed) report() {
	if result, ok := o.watch.Result(); ok {
		done := o.done
		o.done = nil
		done(result)
	}
}
