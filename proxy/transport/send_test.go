package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// endless is a body that goes on until it is closed or something is wrong with it.
type endless struct {
	fail  error
	after int // reads
	done  chan struct{}
}

func newEndless() *endless { return &endless{done: make(chan struct{})} }

func (e *endless) Read(p []byte) (int, error) {
	if e.after--; e.after < 0 && e.fail != nil {
		return 0, e.fail
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func (e *endless) Close() error {
	close(e.done)
	return nil
}

// An answer that comes before the request was sent is delivered, and ends the sending.
func TestEarlyAnswer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		length int64
		answer string
		body   string
		hangUp bool
	}{
		{"sized", 1 << 40, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig", "big", false},
		{"chunked", -1, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig", "big", false},
		{"without a body", -1, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "", false},
		{"to the end", -1, "HTTP/1.1 413 Too Large\r\n\r\nbig", "big", true},
		{"and hang up", 1 << 40, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig", "big", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := listen(t, Config{MaxIdle: 1}, func(_ int, c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err != nil {
					t.Error(err)
				}
				say(c, tt.answer)
				if tt.hangUp {
					_ = c.(*net.TCPConn).CloseWrite()
				}
				_, _ = io.Copy(io.Discard, r) // a kind upstream lets the answer arrive
			})
			body := newEndless()
			req := request(http.MethodPost, "", tt.length)
			req.Body = body
			if _, got := mustFetch(t, u, req); got != tt.body {
				t.Errorf("got %q, want %q", got, tt.body)
			}
			<-body.done // closed, and so not read any more
			if u.waiting() != 0 {
				t.Error("the connection was kept, with half a request on it")
			}
		})
	}
}

// An upstream that does not read at all still answers.
func TestEarlyAnswerFromWhoDoesNotRead(t *testing.T) {
	release := make(chan struct{})
	u := listen(t, Config{}, func(_ int, c net.Conn, r *bufio.Reader) {
		_, _ = c.Read(make([]byte, 1))
		say(c, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
		<-release
	})
	defer close(release)
	for _, n := range []int{maxSmallBody, 50 << 20} {
		res, body := mustFetch(t, u, post(strings.Repeat("x", n)))
		if res.StatusCode != http.StatusServiceUnavailable || body != "busy" {
			t.Errorf("%d bytes: got %d %q", n, res.StatusCode, body)
		}
	}
}

// Both directions flow at the same time.
func TestDuplex(t *testing.T) {
	u := listen(t, Config{MaxIdle: 1}, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			t.Error(err)
			return
		}
		res := http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Body: req.Body, ContentLength: -1, TransferEncoding: []string{"chunked"}}
		if err := res.Write(c); err != nil {
			t.Error(err)
		}
		_, _ = r.ReadByte()
	})
	pr, pw := io.Pipe()
	req := request(http.MethodPost, "", -1)
	req.Body = pr
	res, err := u.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	for _, word := range []string{"one", "two", "three"} {
		if _, err := io.WriteString(pw, word); err != nil {
			t.Fatal(err)
		}
		n, err := io.ReadAtLeast(res.Body, buf, len(word))
		if err != nil || string(buf[:n]) != word {
			t.Fatalf("got %q, %v; want %q", buf[:n], err, word)
		}
	}
	_ = pw.Close()
	if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
		t.Errorf("then got %q, %v", rest, err)
	}
	if u.waiting() != 1 {
		t.Error("the connection was not kept")
	}
}

func TestBodyFails(t *testing.T) {
	cause := &http.MaxBytesError{Limit: 5}
	for _, tt := range []struct {
		name   string
		length int64
		after  int
	}{
		{"small", 100, 0},
		{"sized", 1 << 40, 2},
		{"chunked", -1, 0},
		{"chunked, later", -1, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			complete := make(chan bool, 1)
			u := listen(t, Config{MaxIdle: 1}, func(_ int, c net.Conn, r *bufio.Reader) {
				_, _, err := hear(r)
				complete <- err == nil
			})
			body := newEndless()
			body.fail, body.after = cause, tt.after
			req := request(http.MethodPost, "", tt.length)
			req.Body = body
			_, _, err := fetch(u, req)
			var got *http.MaxBytesError
			if !errors.As(err, &got) || got != cause || isTimeout(err) {
				t.Errorf("got %v, want %v", err, cause)
			}
			<-body.done
			if u.accepted() > 0 && <-complete {
				t.Error("the upstream took a part of the request for the whole")
			}
		})
	}
}

func TestLargeBodyTooShort(t *testing.T) {
	u := listen(t, Config{}, func(_ int, c net.Conn, r *bufio.Reader) { _, _, _ = hear(r) })
	if _, _, err := fetch(u, request(http.MethodPost, strings.Repeat("x", 99_999), 100_000)); !errors.Is(err, errBodyShort) {
		t.Errorf("got %v, want %v", err, errBodyShort)
	}
}

// silent is a body that never says anything.
type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }
func (silent) Close() error             { return nil }

func TestBodyWithoutProgress(t *testing.T) {
	for _, length := range []int64{5, 1 << 20, -1} {
		u := listen(t, Config{}, func(_ int, c net.Conn, r *bufio.Reader) { _, _, _ = hear(r) })
		req := request(http.MethodPost, "", length)
		req.Body = silent{}
		if _, _, err := fetch(u, req); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("length %d: got %v, want %v", length, err, io.ErrNoProgress)
		}
	}
}

// piped runs f in virtual time with a transport to serve, over an in-memory connection without a buffer. Goroutines
// that are left over make it fail.
func piped(t *testing.T, cfg Config, serve func(c net.Conn, r *bufio.Reader), f func(t *testing.T, tr *Transport)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var upstream sync.WaitGroup
		cfg.Dial = func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			upstream.Go(func() {
				defer there.Close()
				serve(there, bufio.NewReader(there))
			})
			return here, nil
		}
		tr := New(cfg)
		f(t, tr)
		tr.CloseIdleConnections()
		upstream.Wait()
	})
}

// cutOff is a connection on which only the first write succeeds, and an answer comes after the second.
type cutOff struct {
	*script
	writes int
}

func (c *cutOff) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		close(c.asked)
		return 0, errors.New("connection reset")
	}
	return len(p), nil
}

func TestAnswerAfterFailedWrite(t *testing.T) {
	c := &cutOff{script: newScript(okAnswer, 0)}
	tr := New(Config{Dial: dialling(c), MaxIdle: 1})
	if _, body := mustFetch(t, tr, post(strings.Repeat("x", 20_000))); body != "ok" || tr.waiting() != 0 {
		t.Errorf("got %q, kept %d connections", body, tr.waiting())
	}
}

// The client is slow and the answer is complete: nobody waits for the rest of the request.
func TestAnswerEndsWhileBodyIsAwaited(t *testing.T) {
	var hungUp time.Time
	piped(t, Config{MaxIdle: 1}, func(c net.Conn, r *bufio.Reader) {
		_, _ = http.ReadRequest(r)
		say(c, okAnswer)
		_, _ = r.ReadByte()
		hungUp = time.Now()
	}, func(t *testing.T, tr *Transport) {
		began := time.Now()
		pr, pw := io.Pipe()
		req := request(http.MethodPost, "", -1)
		req.Body = pr
		if _, body := mustFetch(t, tr, req); body != "ok" {
			t.Errorf("got %q", body)
		}
		synctest.Wait()
		if took := time.Since(began); took != 0 || hungUp != began {
			t.Errorf("waited for %v, upstream held until %v", took, hungUp)
		}
		_ = pw.Close()
	})
}

// The end of the answer may be seen a moment before the end of the request was noticed, but not much longer.
func TestAnswerEndsWithBody(t *testing.T) {
	for _, tt := range []struct {
		late, want time.Duration
		kept       int
	}{
		{10 * time.Millisecond, 10 * time.Millisecond, 1},
		{time.Hour, maxLastWrite, 0},
	} {
		piped(t, Config{MaxIdle: 1}, func(c net.Conn, r *bufio.Reader) {
			req, _ := http.ReadRequest(r)
			_, _ = io.CopyN(io.Discard, req.Body, 20_000-8_192) // more than is buffered here
			say(c, okAnswer)
			time.Sleep(tt.late)
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = r.ReadByte()
		}, func(t *testing.T, tr *Transport) {
			began := time.Now()
			mustFetch(t, tr, post(strings.Repeat("x", 20_000)))
			if took := time.Since(began); took != tt.want || tr.waiting() != tt.kept {
				t.Errorf("waited for %v and kept %d connections, want %v, %d", took, tr.waiting(), tt.want, tt.kept)
			}
		})
	}
}
