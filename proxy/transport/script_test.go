package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// script is a connection whose other end says one thing, whatever it hears, and hangs up.
type script struct {
	step int // bytes per read; zero is all at once

	mu     sync.Mutex
	rest   []byte
	heard  bytes.Buffer
	asked  chan struct{} // closed by the first write
	closed bool
}

func newScript(answer string, step int) *script {
	return &script{step: step, rest: []byte(answer), asked: make(chan struct{})}
}

func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	if s.heard.Len() == 0 && len(p) > 0 {
		close(s.asked)
	}
	return s.heard.Write(p)
}

// Read says nothing before it was asked, as http.Transport listens too early.
func (s *script) Read(p []byte) (int, error) {
	<-s.asked
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	if s.step > 0 && len(p) > s.step {
		p = p[:s.step]
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *script) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *script) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard.String()
}

func (*script) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "here"} }
func (*script) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "there"} }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

// dialling returns a Dial that hands out the connections one after the other.
func dialling(conns ...net.Conn) func(context.Context) (net.Conn, error) {
	var mu sync.Mutex
	return func(context.Context) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(conns) == 0 {
			return nil, errors.New("no more connections")
		}
		c := conns[0]
		conns = conns[1:]
		return c, nil
	}
}

// upstream is a listener on the loopback interface, and a transport to it.
type upstream struct {
	*Transport
	listener net.Listener

	mu    sync.Mutex
	conns int // accepted
}

// listen serves each connection with one call of serve, whose number begins at 1. The connection is closed after it.
func listen(t *testing.T, cfg Config, serve func(n int, c net.Conn, r *bufio.Reader)) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{listener: l}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			u.mu.Lock()
			u.conns++
			n := u.conns
			u.mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				serve(n, c, bufio.NewReader(c))
			})
		}
	})
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", l.Addr().String())
	}
	u.Transport = New(cfg)
	t.Cleanup(func() {
		_ = l.Close()
		u.CloseIdleConnections()
		wg.Wait()
	})
	return u
}

func (u *upstream) accepted() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conns
}

// hear reads one request to its end.
func hear(r *bufio.Reader) (*http.Request, string, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(req.Body)
	return req, string(body), err
}

// say writes an answer; a test fails by what comes of it.
func say(c net.Conn, answer string) { _, _ = io.WriteString(c, answer) }

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// polite answers every request with okAnswer.
func polite(_ int, c net.Conn, r *bufio.Reader) {
	for {
		if _, _, err := hear(r); err != nil {
			return
		}
		say(c, okAnswer)
	}
}

// plain hides the type of a reader, so that nobody knows that it is in memory.
type plain struct{ io.Reader }

func (plain) Close() error { return nil }

// request is one to any upstream; a body of length -1 is sent without its length.
func request(method, body string, length int64) *http.Request {
	req := &http.Request{
		Method: method,
		URL:    &url.URL{Scheme: "http", Host: "upstream.test", Path: "/path"},
		Header: http.Header{},
	}
	if body != "" || length != 0 {
		req.Body, req.ContentLength = plain{strings.NewReader(body)}, length
	}
	return req
}

func get() *http.Request { return request(http.MethodGet, "", 0) }

func post(body string) *http.Request { return request(http.MethodPost, body, int64(len(body))) }

// fetch makes a call and reads its answer to the end.
func fetch(rt http.RoundTripper, req *http.Request) (*http.Response, string, error) {
	res, err := rt.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// mustFetch is fetch where nothing may go wrong.
func mustFetch(t *testing.T, rt http.RoundTripper, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, body, err := fetch(rt, req)
	if err != nil {
		t.Fatalf("%s: %v", req.Method, err)
	}
	return res, body
}

// waiting is the number of connections in the pool.
func (t *Transport) waiting() int {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	return len(t.pool.idle)
}
