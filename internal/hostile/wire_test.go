package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// wire stands between the gateway and its backend and keeps what the gateway says, byte for byte.
type wire struct {
	l       net.Listener
	dial    func() (net.Conn, error)
	mu      sync.Mutex
	records []*record   // one for each connection
	deaf    atomic.Bool // keeps nothing, for long runs
	done    sync.WaitGroup
}

// record is what the gateway said on one connection.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

// tap begins to listen.
func tap(dial func() (net.Conn, error)) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{l: l, dial: dial}
	w.done.Go(w.accept)
	return w, nil
}

func (w *wire) addr() string { return w.l.Addr().String() }

// close ends the wire once the gateway has ended its connections; then all that it said has been kept. It may be called twice.
func (w *wire) close() {
	_ = w.l.Close()
	w.done.Wait()
}

func (w *wire) accept() {
	for {
		near, err := w.l.Accept()
		if err != nil {
			return
		}
		w.done.Go(func() { w.join(near) })
	}
}

func (w *wire) join(near net.Conn) {
	defer near.Close()
	far, err := w.dial()
	if err != nil {
		return
	}
	defer far.Close()
	var out io.Writer = far
	if !w.deaf.Load() {
		r := new(record)
		w.mu.Lock()
		w.records = append(w.records, r)
		w.mu.Unlock()
		out = io.MultiWriter(r, far) // first kept, then sent: what the backend has seen is here
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(out, near)
	_ = far.Close()
	back.Wait()
}

// sent is one request as it stands on the wire.
type sent struct {
	method, target string
	fields         []field
	body           []byte
	partial        bool // the connection ended within it
}

type field struct{ name, value string }

// get returns the only value of a field; it is an error to have several.
func (s *sent) get(name string) (string, error) {
	found := ""
	n := 0
	for _, f := range s.fields {
		if strings.EqualFold(f.name, name) {
			found = f.value
			n++
		}
	}
	if n > 1 {
		return "", fmt.Errorf("%d fields %s", n, name)
	}
	return found, nil
}

// requests reads everything that was said. An error is a message that not everybody reads alike.
func (w *wire) requests() (all []*sent, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		r.mu.Lock()
		rest := bytes.Clone(r.buf.Bytes())
		r.mu.Unlock()
		for len(rest) > 0 {
			var s *sent
			if s, rest, err = parseSent(rest); err != nil {
				return all, fmt.Errorf("%w in %q", err, head(rest))
			}
			all = append(all, s)
		}
	}
	return all, nil
}

func head(b []byte) []byte { return b[:min(len(b), 600)] }

// parseSent reads one request in the strictest way that RFC 9112 allows, and stricter: what is ambiguous to anybody is an
// error. It shares no code with the gateway.
func parseSent(b []byte) (s *sent, rest []byte, err error) {
	s = &sent{}
	block, after, whole := bytes.Cut(b, []byte("\r\n\r\n"))
	if !whole {
		return &sent{partial: true}, nil, nil
	}
	lines := strings.Split(string(block), "\r\n")
	for _, line := range lines {
		if strings.ContainsAny(line, "\r\n\x00") {
			return nil, b, errors.New("a bare CR, LF or NUL")
		}
	}
	parts := strings.Split(lines[0], " ")
	if len(parts) != 3 || parts[2] != "HTTP/1.1" || !isToken(parts[0]) || !isTarget(parts[1]) {
		return nil, b, errors.New("an odd request line")
	}
	s.method, s.target = parts[0], parts[1]
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			return nil, b, errors.New("an odd field")
		}
		value = strings.Trim(value, " \t")
		for _, c := range []byte(value) {
			if c < ' ' && c != '\t' || c == 0x7f {
				return nil, b, errors.New("a control character in a field")
			}
		}
		s.fields = append(s.fields, field{name, value})
	}
	rest, err = s.readBody(after)
	if err != nil {
		return nil, b, err
	}
	return s, rest, nil
}

func (s *sent) readBody(after []byte) (rest []byte, err error) {
	length, err := s.get("Content-Length")
	if err != nil {
		return nil, err
	}
	coding, err := s.get("Transfer-Encoding")
	if err != nil {
		return nil, err
	}
	if host, err := s.get("Host"); err != nil || host == "" {
		return nil, fmt.Errorf("not one host: %q", host)
	}
	switch {
	case length != "" && coding != "":
		return nil, errors.New("both lengths")
	case coding == "chunked":
		return s.readChunks(after)
	case coding != "":
		return nil, errors.New("an odd coding")
	case length == "":
		return after, nil
	}
	n, err := strconv.ParseUint(length, 10, 63)
	if err != nil || strconv.FormatUint(n, 10) != length {
		return nil, errors.New("an odd length")
	}
	if n > uint64(len(after)) {
		s.body, s.partial = after, true
		return nil, nil
	}
	s.body = after[:n]
	return after[n:], nil
}

// readChunks takes chunks without extensions, which the gateway has no reason to send.
func (s *sent) readChunks(b []byte) (rest []byte, err error) {
	for {
		line, after, ok := bytes.Cut(b, []byte("\r\n"))
		if !ok {
			s.partial = true
			return nil, nil
		}
		n, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil || strconv.FormatUint(n, 16) != string(line) {
			return nil, errors.New("an odd chunk size")
		}
		if n == 0 {
			return s.readTrailer(after)
		}
		if len(after) < int(n)+2 {
			s.body, s.partial = append(s.body, after...), true
			return nil, nil
		}
		if string(after[n:n+2]) != "\r\n" {
			return nil, errors.New("a chunk that is longer than it says")
		}
		s.body = append(s.body, after[:n]...)
		b = after[n+2:]
	}
}

func (s *sent) readTrailer(b []byte) (rest []byte, err error) {
	for {
		line, after, ok := strings.Cut(string(b), "\r\n")
		switch {
		case !ok:
			s.partial = true
			return nil, nil
		case line == "":
			return []byte(after), nil
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, errors.New("an odd trailer")
		}
		s.fields = append(s.fields, field{"trailer " + name, strings.TrimSpace(value)})
		b = []byte(after)
	}
}

func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

func isTarget(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return s == "*" || strings.HasPrefix(s, "/")
}
