package server

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/internal/logtest"
)

var quiet = log.New(io.Discard, "", 0)

const (
	plainGet = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
	chunkGet = "GET / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
)

// running is a server on a socket.
type running struct {
	*Server
	t     *testing.T
	addr  string
	log   *logtest.Buffer
	ended chan error
}

func run(t *testing.T, h http.HandlerFunc) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	buf := &logtest.Buffer{}
	std := newStandard(h)
	std.ErrorLog = log.New(buf, "", 0)
	s := &running{New(std), t, l.Addr().String(), buf, make(chan error, 1)}
	go func() { s.ended <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = l.Close()
		_ = s.Close()
		<-s.ended
	})
	return s
}

// dial opens a connection and says something.
func (s *running) dial(say string) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, say); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// expectAnswer reads an answer without a body.
func expectAnswer(t *testing.T, c net.Conn) {
	t.Helper()
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil || !strings.HasPrefix(string(b[:n]), "HTTP/1.1 200 OK\r\n") {
		t.Fatalf("got %q, %v", b[:n], err)
	}
}

func expectEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if rest, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) || len(rest) > 0 {
		t.Errorf("got %q, %v, want the end", rest, err)
	}
}

// TestHangUp: a handler that waits learns that its client has gone, by whatever way it asks, and one whose client stays, or has
// even said more, does not.
func TestHangUp(t *testing.T) {
	for name, wait := range map[string]func(context.Context) <-chan struct{}{
		"Done": func(ctx context.Context) <-chan struct{} { return ctx.Done() },
		"AfterFunc": func(ctx context.Context) <-chan struct{} {
			gone := make(chan struct{})
			context.AfterFunc(ctx, func() { close(gone) })
			return gone
		},
		"a context below": func(ctx context.Context) <-chan struct{} {
			below, cancel := context.WithCancel(ctx)
			context.AfterFunc(below, cancel)
			return below.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			waiting, noticed := make(chan bool), make(chan bool)
			s := run(t, func(_ http.ResponseWriter, r *http.Request) {
				if r.Context().Err() != nil {
					t.Error("it is over before it began")
				}
				gone := wait(r.Context())
				waiting <- true
				<-gone
				if !errors.Is(r.Context().Err(), context.Canceled) {
					t.Errorf("got %v", r.Context().Err())
				}
				noticed <- true
			})
			c := s.dial(plainGet)
			<-waiting
			_ = c.Close()
			<-noticed
		})
	}
}

func TestClientThatStays(t *testing.T) {
	s := run(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.Context().Done()
		select {
		case <-r.Context().Done():
			t.Errorf("%s: the client has not left", r.URL)
		case <-time.After(4 * patience):
		}
	})
	c := s.dial(plainGet)
	expectAnswer(t, c)
	if _, err := io.WriteString(c, plainGet+plainGet); err != nil { // the second one arrives while the first is served
		t.Fatal(err)
	}
	expectAnswer(t, c)
	expectAnswer(t, c)
	if _, err := io.WriteString(c, plainGet[:5]); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * patience)
	if _, err := io.WriteString(c, plainGet[5:]); err != nil {
		t.Fatal(err)
	}
	expectAnswer(t, c)
}

// What outlives a request sees its end and nothing of the next one.
func TestAfterTheEnd(t *testing.T) {
	var kept *http.Request
	asked := make(chan struct{})
	s := run(t, func(_ http.ResponseWriter, r *http.Request) {
		if kept == nil {
			kept = r
			return
		}
		<-asked
	})
	c := s.dial("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 6\r\n\r\nsecret")
	expectAnswer(t, c)
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 6\r\n\r\nhidden"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(kept.Body); len(b) > 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("read %q, %v", b, err)
	}
	select {
	case <-kept.Context().Done():
	default:
		t.Error("the context lives on")
	}
	if err := kept.Context().Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(asked)
	expectAnswer(t, c)
}

func TestPanic(t *testing.T) {
	s := run(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a part")
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		panic("a mistake")
	})
	expectEnd(t, s.dial("GET /abort HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	if s.log.String() != "" {
		t.Errorf("logged %q", s.log)
	}
	expectEnd(t, s.dial(plainGet))
	if got := s.log.String(); !strings.HasPrefix(got, "http: panic serving 127.0.0.1:") || !strings.Contains(got, "a mistake") {
		t.Errorf("logged %q", got)
	}
}

// TestShutdown: idle connections are closed, requests waited for, and what comes after them is not begun; all the same for
// connections that were handed on.
func TestShutdown(t *testing.T) {
	for name, request := range map[string]string{"plain": plainGet, "handed on": chunkGet} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			begun, proceed := make(chan bool), make(chan bool)
			s := run(t, func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					begun <- true
					<-proceed
				}
			})
			idle := s.dial("GET /idle HTTP/1.1\r\nHost: a.test\r\n\r\n")
			expectAnswer(t, idle)
			working := s.dial(request)
			<-begun
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			expectEnd(t, idle)
			down := make(chan error)
			go func() { down <- s.Shutdown(context.Background()) }()
			if _, err := io.WriteString(working, plainGet); err != nil {
				t.Fatal(err)
			}
			proceed <- true
			expectAnswer(t, working)
			expectEnd(t, working)
			if err := <-down; err != nil {
				t.Error(err)
			}
			for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+1; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
				}
			}
		})
	}
}

// TestClose ends requests under way, and a handler learns of it.
func TestClose(t *testing.T) {
	for name, request := range map[string]string{"plain": plainGet, "handed on": chunkGet} {
		t.Run(name, func(t *testing.T) {
			begun, ended := make(chan bool), make(chan bool)
			s := run(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				gone := r.Context().Done()
				begun <- true
				<-gone
				close(ended)
			})
			c := s.dial(request)
			<-begun
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			<-ended
			expectEnd(t, c)
		})
	}
}

// TestStates: the program learns once of each connection that it begins and that it ends, whoever serves it.
func TestStates(t *testing.T) {
	type key struct{}
	var mu sync.Mutex
	open := map[net.Conn]int{}
	begun := 0
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	std := newStandard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(key{}) != "mine" || r.RemoteAddr == "" {
			t.Errorf("%v from %q", r.Context(), r.RemoteAddr)
		}
	}))
	std.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		mu.Lock()
		defer mu.Unlock()
		if r, ok := c.(*Resumed); ok {
			if open[r.Conn] != 1 {
				t.Error("handed on, and never begun")
			}
			delete(open, r.Conn)
		} else {
			begun++
		}
		open[c]++
		return context.WithValue(ctx, key{}, "mine")
	}
	std.ConnState = func(c net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateClosed {
			delete(open, c)
		}
	}
	s := New(std)
	ended := make(chan error)
	go func() { ended <- s.Serve(l) }()
	r := &running{Server: s, t: t, addr: l.Addr().String()}
	for _, say := range []string{plainGet, chunkGet, plainGet + chunkGet} {
		c := r.dial(say)
		expectAnswer(t, c)
		_ = c.Close()
	}
	_ = l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		mu.Lock()
		n := len(open)
		mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d are open", n)
		}
	}
	if begun != 3 {
		t.Errorf("%d have begun", begun)
	}
}

// failing is a listener that fails for a while.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) == 0 {
		return f.Listener.Accept()
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}

// Running out of files is no end; anything else is.
func TestAcceptErrors(t *testing.T) {
	for _, c := range []struct {
		err   error
		stays bool
	}{
		{&net.OpError{Op: "accept", Err: os.NewSyscallError("accept", syscall.EMFILE)}, true},
		{errors.New("broken"), false},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		buf := &logtest.Buffer{}
		std := newStandard(http.NotFoundHandler())
		std.ErrorLog = log.New(buf, "", 0)
		s := New(std)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(&failing{l, []error{c.err, c.err}}) }()
		if c.stays {
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			if b, err := io.ReadAll(client); err != nil || len(b) == 0 {
				t.Errorf("got %q, %v", b, err)
			}
			if n := strings.Count(buf.String(), "http: Accept error: "); n != 2 {
				t.Errorf("logged %q", buf)
			}
			_ = client.Close()
			_ = l.Close()
			<-ended
		} else if err := <-ended; !errors.Is(err, c.err) {
			t.Errorf("got %v", err)
		}
		_ = l.Close()
		_ = s.Close()
	}
}

// A client that does not take its answer is given up when the handler says so, and the limit is not that of the next request.
func TestWriteDeadline(t *testing.T) {
	failed := make(chan error, 1)
	s := run(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			return
		}
		rc := http.NewResponseController(w)
		if r.URL.RawQuery == "" {
			_ = rc.SetWriteDeadline(time.Now().Add(4 * patience))
			return
		}
		_ = rc.SetWriteDeadline(time.Now().Add(patience))
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				failed <- err
				return
			}
		}
	})
	c := s.dial("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n")
	expectAnswer(t, c)
	time.Sleep(5 * patience)
	if _, err := io.WriteString(c, plainGet); err != nil {
		t.Fatal(err)
	}
	expectAnswer(t, c)
	_ = s.dial("GET /slow?much HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if err := <-failed; !os.IsTimeout(err) {
		t.Errorf("got %v", err)
	}
}

func TestHTTP2(t *testing.T) {
	s := run(t, tell)
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Post("http://"+s.addr+"/a", "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || !strings.HasPrefix(string(b), "POST /a HTTP/2.0 ") || !strings.Contains(string(b), `4 "body"`) {
		t.Errorf("got %q, %v", b, err)
	}
}
