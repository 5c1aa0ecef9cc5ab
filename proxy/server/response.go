package server

import (
	"bufio"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// response is an [http.ResponseWriter]. What it writes is, byte for byte, what that of net/http does, but for where it
// cuts chunks, for Transfer-Encoding, which a handler has no say in, for a Content-Length that is no number, which is left
// out, and for a type that is to be guessed, which is by the first piece of the body.
type response struct {
	x      *exchange
	header http.Header
	out    *bufio.Writer // borrowed; nil before the first line and after the last

	status   int
	wrote    bool // status and fields are in out
	framed   bool // and how the body ends, and an empty line
	chunked  bool // it says so itself
	bodiless bool // the status has none
	close    bool // no request is read after this one
	parting  bool // the handler has not said so
	guess    bool // the type is to be guessed from the body

	trailer []string // names of what was announced
	late    bool     // there may be trailers
	length  int64    // as the handler states it, or -1
	written int64    // of the body, by the handler
	pending []byte   // of the body, while it may turn out to be short or to be a small part of a chunk
	room    [32]byte // for numbers and dates on their way
}

// shortBody is how long a body may be that the handler states no length of, and that gets one nevertheless; in bytes.
const shortBody = 2 << 10

var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}

func (w *response) begin(x *exchange) {
	w.x, w.length = x, -1
	w.header = make(http.Header, 8) // which is the most that one piece of memory holds
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	switch {
	case w.wrote:
		w.x.conn.server.logf("http: superfluous response.WriteHeader call")
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if w.out == nil {
		w.out = writers.Get().(*bufio.Writer)
		w.out.Reset(w.x.conn)
	}
	w.statusLine(status)
	if status <= 199 && status != http.StatusSwitchingProtocols {
		w.fields(w.header, "Content-Length", "Transfer-Encoding")
		_, _ = w.out.WriteString("\r\n")
		_ = w.out.Flush()
		return
	}
	w.wrote, w.status = true, status
	w.head()
}

func (w *response) statusLine(status int) {
	_, _ = w.out.WriteString("HTTP/1.1 ")
	w.number(int64(status), 10)
	if name := http.StatusText(status); name != "" {
		_, _ = w.out.WriteString(" ")
		_, _ = w.out.WriteString(name)
	} else {
		_, _ = fmt.Fprintf(w.out, " status code %d", status)
	}
	_, _ = w.out.WriteString("\r\n")
}

func (w *response) number(n int64, base int) {
	_, _ = w.out.Write(strconv.AppendInt(w.room[:0], n, base))
}

// head writes the fields that the handler has set, and decides what can be decided without the body.
func (w *response) head() {
	h := w.header
	if lines, ok := h["Content-Length"]; ok {
		n, err := strconv.ParseInt(first(lines), 10, 64)
		if err == nil && n >= 0 {
			w.length = n
		} else {
			w.x.conn.server.logf("http: invalid Content-Length of %q", lines)
			delete(h, "Content-Length")
		}
	}
	for _, line := range h["Trailer"] {
		w.late = true
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)); httpguts.ValidTrailerHeader(name) {
				w.trailer = append(w.trailer, name)
			}
		}
	}
	for name := range h {
		w.late = w.late || strings.HasPrefix(name, http.TrailerPrefix)
	}
	_, typed := h["Content-Type"]
	w.bodiless = w.status < 200 || w.status == http.StatusNoContent || w.status == http.StatusNotModified
	w.guess = !w.bodiless && !typed && first(h["Content-Encoding"]) == ""
	told := first(h["Connection"]) == "close"
	w.close = told || w.x.req.Close || w.x.conn.server.closing.Load()
	w.parting = w.close && !told

	var length, kind, connection string // fields that are left out
	if w.bodiless {
		length = "Content-Length"
	}
	if w.status == http.StatusNotModified {
		kind = "Content-Type"
	}
	if w.parting {
		connection = "Connection"
	}
	w.fields(h, "Transfer-Encoding", length, kind, connection)
	if _, dated := h["Date"]; !dated {
		_, _ = w.out.WriteString("Date: ")
		_, _ = w.out.Write(time.Now().UTC().AppendFormat(w.room[:0], http.TimeFormat))
		_, _ = w.out.WriteString("\r\n")
	}
}

// frame ends the head: how the body ends, and what it is, as far as the handler has not said. Done says that all of the body
// is pending.
func (w *response) frame(done bool, body []byte) {
	w.framed = true
	head := w.x.req.Method == http.MethodHead
	if done && w.length < 0 && !w.bodiless && !w.late && (!head || len(body) > 0) {
		w.length = int64(len(body))
		_, _ = w.out.WriteString("Content-Length: ")
		w.number(w.length, 10)
		_, _ = w.out.WriteString("\r\n")
	}
	if w.guess && len(body) > 0 {
		w.field("Content-Type", http.DetectContentType(body))
	}
	if w.parting {
		w.field("Connection", "close")
	}
	if w.chunked = w.length < 0 && !w.bodiless && !head; w.chunked {
		w.field("Transfer-Encoding", "chunked")
	}
	_, _ = w.out.WriteString("\r\n")
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if w.bodiless {
		return 0, http.ErrBodyNotAllowed
	}
	w.written += int64(len(p))
	if w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	if w.length < 0 && len(w.pending)+len(p) <= shortBody {
		w.pending = append(w.pending, p...)
		return len(p), nil
	}
	return len(p), w.send(p)
}

// send sends what is pending, and p after it.
func (w *response) send(p []byte) error {
	pending := w.pending
	w.pending = w.pending[:0]
	if !w.framed {
		w.frame(false, append(pending[:len(pending):len(pending)], p...))
	}
	if w.x.req.Method == http.MethodHead || len(pending)+len(p) == 0 {
		return nil
	}
	if w.chunked {
		w.number(int64(len(pending)+len(p)), 16)
		_, _ = w.out.WriteString("\r\n")
	}
	_, _ = w.out.Write(pending)
	_, err := w.out.Write(p)
	if w.chunked {
		_, err = w.out.WriteString("\r\n")
	}
	return err
}

// FlushError is what [http.ResponseController.Flush] looks for.
func (w *response) FlushError() error {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	_ = w.send(nil)
	return w.out.Flush()
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

// SetWriteDeadline is what [http.ResponseController.SetWriteDeadline] looks for.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.x.conn.limits = true
	return w.x.conn.SetWriteDeadline(t)
}

// SetReadDeadline is what [http.ResponseController.SetReadDeadline] looks for. The body has been read.
func (w *response) SetReadDeadline(time.Time) error { return nil }

// EnableFullDuplex is what [http.ResponseController.EnableFullDuplex] looks for. The body has been read.
func (w *response) EnableFullDuplex() error { return nil }

// finish sends what is left of the answer.
func (w *response) finish() {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if !w.framed {
		w.frame(true, w.pending)
	}
	_ = w.send(nil)
	if w.chunked {
		_, _ = w.out.WriteString("0\r\n")
		w.trailers()
		_, _ = w.out.WriteString("\r\n")
	}
	_ = w.out.Flush()
	w.giveBack()
}

// giveBack ends the use of the buffer.
func (w *response) giveBack() {
	if w.out != nil {
		w.out.Reset(nil)
		writers.Put(w.out)
		w.out = nil
	}
}

// trailers writes what comes after the body.
func (w *response) trailers() {
	var t http.Header
	add := func(name string, lines []string) {
		if t == nil {
			t = http.Header{}
		}
		t[name] = append(t[name], lines...)
	}
	for name, lines := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			add(name, lines)
		}
	}
	for _, name := range w.trailer {
		add(name, w.header[name])
	}
	w.fields(t)
}

// reusable reports whether the connection can take another request after this answer.
func (w *response) reusable() bool {
	short := w.x.req.Method != http.MethodHead && w.length >= 0 && !w.bodiless && w.length != w.written
	return !w.close && !short && !w.x.conn.failed
}

// fields writes all fields but some, in the order of their names.
func (w *response) fields(h http.Header, but ...string) {
	var room [32]string
	names := room[:0]
	for name := range h {
		if !slices.Contains(but, name) && httpguts.ValidHeaderFieldName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range h[name] {
			w.field(name, value)
		}
	}
}

// field writes one line. A value cannot end it.
func (w *response) field(name, value string) {
	if strings.ContainsAny(value, "\r\n") {
		value = newlines.Replace(value)
	}
	_, _ = w.out.WriteString(name)
	_, _ = w.out.WriteString(": ")
	_, _ = w.out.WriteString(textproto.TrimString(value))
	_, _ = w.out.WriteString("\r\n")
}

var newlines = strings.NewReplacer("\n", " ", "\r", " ")

// first is the first line of a field, or "".
func first(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}
