package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// both runs one conversation with the server of this package and with the standard library's alone, and returns what each said.
func both(t testing.TB, h http.HandlerFunc, talk func(c net.Conn)) (ours, theirs string) {
	t.Helper()
	return listen(t, h, true, talk), listen(t, h, false, talk)
}

func listen(t testing.TB, h http.HandlerFunc, plain bool, talk func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	std := newStandard(h)
	ended := make(chan error, 1)
	if plain {
		s := New(std)
		go func() { ended <- s.Serve(l) }()
		defer s.Close()
	} else {
		go func() { ended <- std.Serve(l) }()
		defer std.Close()
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	said := make(chan string)
	go func() {
		all, err := io.ReadAll(c)
		if os.IsTimeout(err) {
			all = append(all, "(and then nothing)"...)
		}
		said <- string(all)
	}()
	talk(c)
	out := <-said
	_ = c.Close()
	_ = l.Close()
	<-ended
	return out
}

func newStandard(h http.Handler) *http.Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: p, ReadHeaderTimeout: time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 4 << 10,
		DisableGeneralOptionsHandler: true, ErrorLog: quiet,
	}
}

// say writes pieces with a pause between them, and leaves the end to the server.
func say(pause time.Duration, pieces ...string) func(net.Conn) {
	return func(c net.Conn) {
		for i, p := range pieces {
			if i > 0 {
				time.Sleep(pause)
			}
			_, _ = io.WriteString(c, p)
		}
	}
}

var date = regexp.MustCompile(`Date: [^\r]*GMT`)

func undated(s string) string { return date.ReplaceAllString(s, "Date: now") }

// tell answers with what came in.
func tell(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%s %s %s %s %d %q %v %v", r.Method, r.RequestURI, r.Proto, r.Host, r.ContentLength, body, err, r.Trailer)
}

// TestConversations has both servers say the same, whatever the client does.
func TestConversations(t *testing.T) {
	const (
		plain = "GET /plain HTTP/1.1\r\nHost: a.test\r\n\r\n"
		post  = "POST /post HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody"
		last  = "GET /last HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
	)
	large := strings.Repeat("x", 40000)
	for name, pieces := range map[string][]string{
		"one":                    {last},
		"several at once":        {plain + post + plain + last},
		"several":                {plain, post, last},
		"a head in pieces":       {"GET /plain HT", "TP/1.1\r\nHost: a.test\r\n", "\r\n" + last},
		"a body in pieces":       {"POST /post HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbo", "dy", last},
		"line ends after a POST": {post + "\r\n" + plain, post + "\r\n", last},
		"line ends after a GET":  {plain + "\r\n" + last},
		"chunks":                 {plain + "POST /c HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n" + last},
		"trailers":               {"POST /c HTTP/1.1\r\nHost: a.test\r\nTrailer: A\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nA: b\r\n\r\n" + last},
		"an expectation":         {plain + "POST /c HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", "body" + last},
		"an unknown expectation": {"POST /c HTTP/1.1\r\nHost: a.test\r\nExpect: much\r\nContent-Length: 4\r\n\r\nbody"},
		"a long head":            {plain + "GET /long HTTP/1.1\r\nHost: a.test\r\nX: " + large[:3000] + "\r\n\r\n" + last},
		"a head above the limit": {plain + "GET /long HTTP/1.1\r\nHost: a.test\r\nX: " + large + "\r\n\r\n"},
		"a long body":            {plain + fmt.Sprintf("POST /c HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n", len(large)) + large + last},
		"HTTP/1.0":               {plain + "GET /old HTTP/1.0\r\n\r\n"},
		"HTTP/1.0, kept":         {"GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /old HTTP/1.0\r\n\r\n"},
		"HTTP/3.0":               {"GET /new HTTP/3.0\r\nHost: a.test\r\n\r\n"},
		"no host":                {plain + "GET /a HTTP/1.1\r\n\r\n"},
		"two hosts":              {"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
		"a bare LF":              {"GET /a HTTP/1.1\nHost: a\n\n" + last},
		"a folded line":          {"GET /a HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n" + last},
		"two lengths":            {"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody"},
		"chunks and a length":    {"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + last},
		"an unknown coding":      {"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"},
		"an absolute target":     {"GET http://b.test/a HTTP/1.1\r\nHost: a.test\r\n\r\n" + last},
		"an asterisk":            {"OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n" + last},
		"no cache":               {"GET /a HTTP/1.1\r\nHost: a.test\r\nPragma: no-cache\r\n\r\n" + last},
		"garbage":                {"\x16\x03\x01\x00\x05hello\r\n\r\n"},
		"HEAD":                   {"HEAD /a HTTP/1.1\r\nHost: a.test\r\n\r\n" + last},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pause := range []time.Duration{patience / 5, 2 * patience} {
				ours, theirs := both(t, tell, say(pause, pieces...))
				if undated(ours) != undated(theirs) {
					t.Errorf("got:\n%s\nwant:\n%s", ours, theirs)
				}
				if len(ours) == 0 {
					t.Error("nothing was said")
				}
			}
		})
	}
}

// A client that says nothing, or only a part, is given up after the time for a header.
func TestSlowClients(t *testing.T) {
	for name, pieces := range map[string][]string{
		"silence":     {""},
		"half a line": {"GET /a HT"},
		"half a head": {"GET /a HTTP/1.1\r\nHost: a.test\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := both(t, tell, say(0, pieces...))
			if ours != theirs {
				t.Errorf("got %q, want %q", ours, theirs)
			}
		})
	}
}

// script is a handler that does what it is told by bytes, and so can be fuzzed.
type script []byte

func (s script) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	for i := 0; i+1 < len(s); i += 2 {
		n := int(s[i+1])
		switch s[i] % 20 {
		case 0:
			w.WriteHeader([]int{200, 204, 304, 404, 429, 503, 299, 201, 100, 103}[n%10])
		case 1, 2:
			_, _ = w.Write(bytes.Repeat([]byte{'a' + byte(n%26)}, n))
		case 3:
			_, _ = w.Write(bytes.Repeat([]byte("<b>"), 40*n))
		case 4:
			_ = http.NewResponseController(w).Flush()
		case 5:
			h.Set("Content-Length", fmt.Sprint(n))
		case 6:
			h["Content-Type"] = [][]string{nil, {"text/plain"}, {""}}[n%3]
		case 7:
			h.Set("Content-Encoding", []string{"", "gzip"}[n%2])
		case 8:
			h.Set("Connection", []string{"close", "keep-alive", "x"}[n%3])
		case 9:
			h["Date"] = [][]string{nil, {"yesterday"}}[n%2]
		case 10:
			h.Add(fmt.Sprint("X-", n%5), fmt.Sprint(" a\r\nb ", n))
		case 11:
			h["bad name"] = []string{"a"}
		case 12:
			h.Set("Trailer", []string{"X-1, X-2", "Content-Length", "Te"}[n%3])
		case 13:
			h.Set(http.TrailerPrefix+"X-3", "late")
		case 14:
			h.Set("Content-Length", "007")
		case 15:
			_, _ = io.WriteString(w, "")
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"", "\x01\x05", "\x05\x05\x01\x05", "\x05\x05\x01\x04", "\x05\x05\x01\x06", "\x03\xff\x03\xff", "\x01\x05\x04\x00\x01\x05", "\x00\x01\x01\x05",
		"\x00\x02\x06\x01", "\x06\x01\x05\x05\x00\x02", "\x06\x00\x01\x05", "\x07\x01\x01\x09", "\x08\x00\x01\x05", "\x08\x01\x01\x05", "\x08\x02\x08\x00\x01\x01",
		"\x09\x00", "\x09\x01", "\x0a\x01\x0a\x01\x0a\x02\x0b\x00", "\x0c\x00\x01\x05\x0a\x01", "\x0c\x00\x00\x00\x0a\x01\x01\x05\x0a\x02", "\x0d\x00\x01\x05",
		"\x01\x05\x0d\x00", "\x04\x00\x0d\x00", "\x0e\x00\x01\x05", "\x0e\x03\x01\x07", "\x00\x09\x0a\x01\x00\x00", "\x00\x08\x01\x01",
		"\x03\x01\x03\x10\x03\x01", "\x0f\x00\x04\x00", "\x00\x06\x01\x01", "\x06\x02\x01\x05", "\x05\x00\x04\x00", "\x0c\x01\x04\x00", "\x00\x00\x00\x03\x01\x01",
	} {
		for _, method := range []string{"GET", "HEAD"} {
			f.Add(method, false, []byte(s))
			f.Add(method, true, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, method string, last bool, s []byte) {
		if method != "HEAD" {
			method = "GET"
		}
		head := method + " / HTTP/1.1\r\nHost: a.test\r\n"
		if last {
			head += "Connection: close\r\n"
		}
		ours, again := answer(t, script(s), true, head+"\r\n")
		theirs, theirsAgain := answer(t, script(s), false, head+"\r\n")
		if undated(ours) != undated(theirs) || again != theirsAgain {
			t.Errorf("%s %q: got (open: %v)\n%s\nwant (open: %v)\n%s", method, s, again, ours, theirsAgain, theirs)
		}
	})
}

// answer is what a server says to a request, chunks put together, and whether the connection is open after that.
func answer(t *testing.T, h http.Handler, plain bool, request string) (said string, open bool) {
	std := newStandard(h)
	l := &pipes{conns: make(chan net.Conn, 1), over: make(chan struct{})}
	if plain {
		s := New(std)
		go func() { _ = s.Serve(l) }()
		defer s.Close()
	} else {
		go func() { _ = std.Serve(l) }()
	}
	defer std.Close()
	defer l.Close()
	client, server := net.Pipe()
	l.conns <- server
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(5 * time.Second))
	go func() { _, _ = io.WriteString(client, request) }()
	var raw bytes.Buffer
	b := bufio.NewReader(io.TeeReader(client, &raw))
	method, _, _ := strings.Cut(request, " ")
	var text strings.Builder
	for {
		res, err := http.ReadResponse(b, &http.Request{Method: method})
		if err != nil {
			return text.String() + err.Error(), false
		}
		end := bytes.Index(raw.Bytes(), []byte("\r\n\r\n"))
		text.Write(raw.Bytes()[:end+4])
		if res.StatusCode < 200 { // the library's reader leaves what follows in the buffer
			rest := append([]byte(nil), raw.Bytes()[end+4:]...)
			raw.Reset()
			raw.Write(rest)
			continue
		}
		body, err := io.ReadAll(res.Body)
		fmt.Fprintf(&text, "%q %v %v", body, err, res.Trailer)
		if err != nil {
			return text.String(), false
		}
		break
	}
	go func() { _, _ = io.WriteString(client, "GET") }()
	_ = client.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := b.ReadByte()
	return text.String(), os.IsTimeout(err)
}

// pipes is a listener of connections within the process.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.over:
	default:
		close(p.over)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
