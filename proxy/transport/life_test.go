package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestReuse(t *testing.T) {
	u := listen(t, Config{MaxIdle: 2}, polite)
	for range 3 {
		for _, req := range []*http.Request{get(), post("a"), post(strings.Repeat("x", 100_000)), request(http.MethodPost, "x", -1)} {
			if _, body := mustFetch(t, u, req); body != "ok" {
				t.Fatalf("got %q", body)
			}
		}
	}
	if got := u.accepted(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) }))
	server.Listener = l
	server.Start()
	defer server.Close()
	tr := New(Config{Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}, MaxIdle: 1})
	defer tr.CloseIdleConnections()
	for range 2 {
		if _, body := mustFetch(t, tr, get()); body != "upstream.test" || tr.waiting() != 1 {
			t.Errorf("got %q, %d connections kept", body, tr.waiting())
		}
	}
}

// hold answers when told to, and tells when it was asked.
func hold(asked chan<- int, answer <-chan string) func(int, net.Conn, *bufio.Reader) {
	return func(n int, c net.Conn, r *bufio.Reader) {
		for {
			if _, _, err := hear(r); err != nil {
				return
			}
			asked <- n
			say(c, <-answer)
		}
	}
}

func TestPoolIsBoundedAndLastInFirstOut(t *testing.T) {
	asked, answer := make(chan int), make(chan string)
	u := listen(t, Config{MaxIdle: 2}, hold(asked, answer))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, _, err := fetch(u, get()); err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 {
		<-asked
	}
	for range 3 {
		answer <- okAnswer
	}
	wg.Wait()
	if got := u.waiting(); got != 2 {
		t.Errorf("%d connections kept, want 2", got)
	}
	last := u.pool.idle[1]
	go func() { <-asked; answer <- okAnswer }()
	mustFetch(t, u, get())
	if u.pool.idle[1] != last || u.accepted() != 3 {
		t.Error("not the connection that was used last")
	}
}

func TestMaxIdleZeroKeepsNone(t *testing.T) {
	u := listen(t, Config{}, polite)
	mustFetch(t, u, get())
	mustFetch(t, u, get())
	if got := u.accepted(); got != 2 || u.waiting() != 0 {
		t.Errorf("%d connections, %d kept; want 2, 0", got, u.waiting())
	}
}

// What reached an upstream that gave no answer is sent again only if that is safe.
func TestRepeat(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request func() *http.Request
		partial string // of the answer
		reused  bool
		want    int // requests heard
	}{
		{"GET", get, "", true, 2},
		{"HEAD", func() *http.Request { return request(http.MethodHead, "", 0) }, "", true, 2},
		{"GET on a new connection", get, "", false, 1},
		{"GET and a reset", get, "reset", true, 2},
		{"POST and a reset", func() *http.Request { return post("a") }, "reset", true, 1},
		{"GET after a part of an answer", get, "HTTP/1.1 2", true, 1},
		{"GET with a body", func() *http.Request { return request(http.MethodGet, "a", 1) }, "", true, 1},
		{"POST", func() *http.Request { return post("a") }, "", true, 1},
		{"POST without a body", func() *http.Request { return post("") }, "", true, 1},
		{"PUT", func() *http.Request { return request(http.MethodPut, "a", 1) }, "", true, 1},
		{"DELETE", func() *http.Request { return request(http.MethodDelete, "", 0) }, "", true, 1},
		{"large POST", func() *http.Request { return post(strings.Repeat("x", 50_000)) }, "", true, 1},
		{"POST of unknown length", func() *http.Request { return request(http.MethodPost, "abc", -1) }, "", true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var heard atomic.Int32
			u := listen(t, Config{MaxIdle: 1}, func(n int, c net.Conn, r *bufio.Reader) {
				for {
					req, _, err := hear(r)
					switch {
					case err != nil:
						return
					case req.Header.Get("Warm-Up") != "":
						say(c, okAnswer)
						continue
					}
					heard.Add(1)
					switch {
					case n == 1 && tt.partial == "reset":
						_ = c.(*net.TCPConn).SetLinger(0)
						return
					case n == 1:
						say(c, tt.partial)
						return
					}
					say(c, okAnswer)
				}
			})
			if tt.reused {
				req := get()
				req.Header.Set("Warm-Up", "1")
				mustFetch(t, u, req)
			}
			_, _, err := fetch(u, tt.request())
			if ok := err == nil; ok != (tt.want == 2) || int(heard.Load()) != tt.want {
				t.Errorf("sent %d times, %v; want %d", heard.Load(), err, tt.want)
			}
		})
	}
}

// Neither is what took too long, since it may be done by now.
func TestNoRepeatAfterTimeout(t *testing.T) {
	const limit = 10 * time.Second
	dialled := 0
	piped(t, Config{MaxIdle: 1, ResponseTimeout: limit}, func(c net.Conn, r *bufio.Reader) {
		dialled++
		_, _, _ = hear(r)
		say(c, okAnswer)
		untilHungUp(c, r)
	}, func(t *testing.T, tr *Transport) {
		mustFetch(t, tr, get())
		began := time.Now()
		if _, _, err := fetch(tr, get()); !isTimeout(err) || time.Since(began) != limit || dialled != 1 {
			t.Errorf("got %v after %v on %d connections", err, time.Since(began), dialled)
		}
	})
}

func TestConnectionForOneRequest(t *testing.T) {
	for name, edit := range map[string]func(*http.Request){
		"close":            func(r *http.Request) { r.Close = true },
		"connection close": func(r *http.Request) { r.Header["Connection"] = []string{"te, Close"} },
	} {
		s := newScript(okAnswer, 0)
		tr := New(Config{Dial: dialling(s), MaxIdle: 1})
		req := get()
		edit(req)
		if mustFetch(t, tr, req); tr.waiting() != 0 || !s.closed {
			t.Errorf("%s: the connection was kept", name)
		}
	}
}

// broken is a connection that cannot be written to any more. Nothing of the request is sent, so that any may be repeated.
type broken struct {
	*script
	uses int
}

func (b *broken) Write(p []byte) (int, error) {
	if b.uses++; b.uses > 1 {
		return 0, errors.New("broken pipe")
	}
	return b.script.Write(p)
}

func TestRepeatWhatWasNotWritten(t *testing.T) {
	for _, size := range []int{3, 50_000} {
		second := newScript(okAnswer, 0)
		tr := New(Config{Dial: dialling(&broken{script: newScript(okAnswer, 0)}, second), MaxIdle: 1})
		mustFetch(t, tr, get())
		if _, body := mustFetch(t, tr, post(strings.Repeat("x", size))); body != "ok" || !strings.HasPrefix(second.said(), "POST /path HTTP/1.1\r\n") {
			t.Errorf("got %q after %.100q", body, second.said())
		}
		tr.CloseIdleConnections()
	}
	tr := New(Config{Dial: dialling(&broken{script: newScript("", 0), uses: 1}, newScript(okAnswer, 0)), MaxIdle: 1})
	if _, _, err := fetch(tr, post("abc")); err == nil {
		t.Error("a new connection was given another chance")
	}
}

func TestRepeatWhatWasNotWrittenToASocket(t *testing.T) {
	release := make(chan struct{})
	u := listen(t, Config{MaxIdle: 1}, func(n int, c net.Conn, r *bufio.Reader) {
		polite(n, c, r)
		<-release
	})
	defer close(release)
	for _, size := range []int{3, 50_000} {
		mustFetch(t, u, get())
		_ = u.pool.idle[0].Conn.(*net.TCPConn).CloseWrite()
		if _, body := mustFetch(t, u, post(strings.Repeat("x", size))); body != "ok" {
			t.Errorf("got %q", body)
		}
	}
	if got := u.accepted(); got != 3 {
		t.Errorf("%d connections, want 3", got)
	}
}

// idler is a connection that returns nothing at all, and no error.
type idler struct{ *script }

func (i idler) Read(p []byte) (int, error) {
	if n, err := i.script.Read(p); err == nil {
		return n, nil
	}
	return 0, nil
}

func TestConnectionWithoutProgress(t *testing.T) {
	for _, raw := range []string{"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"} {
		if _, _, err := fetch(New(Config{Dial: dialling(idler{newScript(raw, 0)})}), get()); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("after %q: got %v, want %v", raw, err, io.ErrNoProgress)
		}
	}
}

func TestDialFails(t *testing.T) {
	cause := errors.New("refused")
	tr := New(Config{Dial: func(context.Context) (net.Conn, error) { return nil, cause }})
	body := &closing{Reader: strings.NewReader(strings.Repeat("x", 50_000))}
	req := request(http.MethodPost, "", 50_000)
	req.Body = body
	if _, err := tr.RoundTrip(req); !errors.Is(err, cause) || isTimeout(err) || !body.closed {
		t.Errorf("got %v, body closed: %v", err, body.closed)
	}
}

func TestInformational(t *testing.T) {
	const raw = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + okAnswer
	type hint struct {
		code int
		link string
	}
	var got []hint
	var fail error
	req := get()
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			got = append(got, hint{code, h.Get("Link")})
			return fail
		},
	}))
	mustFetch(t, New(Config{Dial: dialling(newScript(raw, 0))}), req)
	if want := []hint{{100, ""}, {103, "</a>"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	fail = errors.New("enough")
	s := newScript(raw, 0)
	if _, err := New(Config{Dial: dialling(s)}).RoundTrip(req); !errors.Is(err, fail) || !s.closed {
		t.Errorf("got %v, want %v", err, fail)
	}
}

func TestCloseBody(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
	for _, tt := range []struct {
		name, raw string
		step      int
		keep      bool
	}{
		{"rest is here", "HTTP/1.1 200 OK\r\nContent-Length: 6000\r\n\r\n" + strings.Repeat("x", 6000), 0, true},
		{"rest is not here", "HTTP/1.1 200 OK\r\nContent-Length: 6000\r\n\r\n" + strings.Repeat("x", 6000), 50, false},
		{"more is here", okAnswer + "x", 0, false},
		{"chunks are here", chunked + "0\r\n\r\n", 0, true},
		{"end is not here", chunked + "0\r\n", 0, false},
		{"bad chunks", chunked + "x\r\n", 0, false},
		{"to the end", "HTTP/1.1 200 OK\r\n\r\nabc", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(tt.raw, tt.step)
			tr := New(Config{Dial: dialling(s), MaxIdle: 1})
			defer tr.CloseIdleConnections()
			res, err := tr.RoundTrip(get())
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := res.Body.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if kept := tr.waiting() == 1; kept != tt.keep || s.closed == tt.keep {
				t.Errorf("kept: %v, closed: %v; want kept: %v", kept, s.closed, tt.keep)
			}
			if n, err := res.Body.Read(make([]byte, 1)); n != 0 || err != http.ErrBodyReadAfterClose {
				t.Errorf("then read %d bytes, %v", n, err)
			}
		})
	}
}

func TestCloseBodyWhileReading(t *testing.T) {
	piped(t, Config{MaxIdle: 1}, func(c net.Conn, r *bufio.Reader) {
		_, _, _ = hear(r)
		say(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
		untilHungUp(c, r)
	}, func(t *testing.T, tr *Transport) {
		res, err := tr.RoundTrip(get())
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() {
			_, err := res.Body.Read(make([]byte, 1))
			got <- err
		}()
		synctest.Wait()
		_ = res.Body.Close()
		if err := <-got; !errors.Is(err, http.ErrBodyReadAfterClose) || tr.waiting() != 0 {
			t.Errorf("got %v, want %v", err, http.ErrBodyReadAfterClose)
		}
	})
}

func TestCloseIdleConnections(t *testing.T) {
	asked, answer := make(chan int), make(chan string)
	u := listen(t, Config{MaxIdle: 5}, hold(asked, answer))
	done := make(chan error)
	go func() {
		_, _, err := fetch(u, get())
		done <- err
	}()
	<-asked
	u.CloseIdleConnections()
	answer <- okAnswer
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if u.waiting() != 0 {
		t.Error("a connection from before was kept")
	}
	for range 2 { // the transport is as good as new
		go func() { <-asked; answer <- okAnswer }()
		mustFetch(t, u, get())
	}
	if u.accepted() != 2 || u.waiting() != 1 {
		t.Errorf("%d connections, %d kept; want 2, 1", u.accepted(), u.waiting())
	}
	u.CloseIdleConnections()
	if u.waiting() != 0 {
		t.Error("a connection is kept")
	}
}

// Many calls at once, some of them given up: each gets its own answer.
func TestConcurrent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", r.Header.Get("X-Echo"))
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	tr := New(Config{Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
	}, MaxIdle: 4, ResponseTimeout: time.Minute, IdleTimeout: time.Minute})
	defer tr.CloseIdleConnections()
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			for i := range 50 {
				ctx, cancel := context.WithCancel(context.Background())
				name := fmt.Sprintf("%d-%d-", n, i)
				body := strings.Repeat(name, 1+i*i)
				length := int64(len(body))
				if i%3 == 0 {
					length = -1
				}
				req := request(http.MethodPost, body, length).WithContext(ctx)
				req.Header.Set("X-Echo", name)
				if i%7 == 0 {
					go cancel()
				}
				res, got, err := fetch(tr, req)
				switch {
				case err != nil && i%7 != 0:
					t.Errorf("%s: %v", name, err)
				case err == nil && (got != body || res.Header.Get("X-Echo") != name):
					t.Errorf("%s got another's answer, %.20q", name, got)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}
