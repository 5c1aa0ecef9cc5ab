package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// untilHungUp says nothing.
func untilHungUp(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) }

const limit = 10 * time.Second

var large = strings.Repeat("x", 100_000)

var timeLimits = []struct {
	name  string
	req   func() *http.Request
	serve func(c net.Conn, r *bufio.Reader)
	want  time.Duration // zero: no timeout
}{
	{"no answer", get, untilHungUp, limit},
	{"no answer to a body", func() *http.Request { return post("abc") }, untilHungUp, limit},
	{"no answer to a large body", func() *http.Request { return post(large) }, untilHungUp, limit},
	{"half a header", get, func(c net.Conn, r *bufio.Reader) {
		_, _, _ = hear(r)
		say(c, "HTTP/1.1 200 OK\r\nA")
		untilHungUp(c, r)
	}, limit},
	{"a header byte by byte", get, func(c net.Conn, r *bufio.Reader) {
		_, _, _ = hear(r)
		for _, b := range []byte(okAnswer) {
			_, _ = c.Write([]byte{b})
			time.Sleep(time.Second)
		}
	}, limit},
	{"1xx only", get, func(c net.Conn, r *bufio.Reader) {
		_, _, _ = hear(r)
		for range 10 {
			say(c, "HTTP/1.1 102 Processing\r\n\r\n")
			time.Sleep(3 * time.Second)
		}
	}, limit},
	{"not read", func() *http.Request { return post("abc") }, func(net.Conn, *bufio.Reader) { time.Sleep(time.Hour) }, limit},
	{"large body not read", func() *http.Request { return post(large) }, func(c net.Conn, r *bufio.Reader) {
		time.Sleep(5 * time.Second)
		_, _ = io.CopyN(io.Discard, r, 50_000)
		time.Sleep(time.Hour)
	}, 5*time.Second + limit},
	{"body read slowly", func() *http.Request { return post(large) }, func(c net.Conn, r *bufio.Reader) {
		req, _ := http.ReadRequest(r)
		for range 4 {
			time.Sleep(4 * time.Second)
			_, _ = io.CopyN(io.Discard, req.Body, 25_000)
		}
		time.Sleep(8 * time.Second)
		say(c, okAnswer)
	}, 0},
	{"a slow client", func() *http.Request {
		req := request(http.MethodPost, "", -1)
		req.Body = plain{&slowly{pieces: 5, pause: 8 * time.Second}}
		return req
	}, func(c net.Conn, r *bufio.Reader) {
		_, _, _ = hear(r)
		time.Sleep(8 * time.Second)
		say(c, okAnswer)
	}, 0},
	{"a slow body", get, func(c net.Conn, r *bufio.Reader) {
		_, _, _ = hear(r)
		time.Sleep(8 * time.Second)
		say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
		time.Sleep(time.Hour)
		say(c, "ok")
	}, 0},
	{"a slow body after a large one", func() *http.Request { return post(large) }, func(c net.Conn, r *bufio.Reader) {
		_, _, _ = hear(r)
		say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
		time.Sleep(time.Hour)
		say(c, "ok")
	}, 0},
	{"an early answer with a slow body", func() *http.Request { return post(large) }, func(c net.Conn, r *bufio.Reader) {
		_, _ = http.ReadRequest(r)
		say(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n")
		time.Sleep(time.Hour)
		say(c, "ok")
	}, 0},
}

func TestResponseTimeout(t *testing.T) {
	for _, tt := range timeLimits {
		t.Run(tt.name, func(t *testing.T) {
			piped(t, Config{ResponseTimeout: limit, MaxIdle: 1}, tt.serve, func(t *testing.T, tr *Transport) {
				began := time.Now()
				_, body, err := fetch(tr, tt.req())
				took := time.Since(began)
				var timeout interface{ Timeout() bool }
				switch {
				case tt.want == 0 && (err != nil || body != "ok"):
					t.Errorf("got %q, %v", body, err)
				case tt.want > 0 && (!errors.As(err, &timeout) || !timeout.Timeout() || took != tt.want):
					t.Errorf("got %v after %v, want a timeout after %v", err, took, tt.want)
				}
			})
		})
	}
}

// An early answer is not lost because the rest of the request is not taken, however slowly the answer is read.
func TestEarlyAnswerOutlivesTheRequest(t *testing.T) {
	piped(t, Config{ResponseTimeout: 10 * time.Second}, func(c net.Conn, r *bufio.Reader) {
		_, _ = http.ReadRequest(r)
		say(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n")
		say(c, "ok")
		time.Sleep(time.Hour)
	}, func(t *testing.T, tr *Transport) {
		res, err := tr.RoundTrip(post(strings.Repeat("x", 100_000)))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if body, err := io.ReadAll(res.Body); string(body) != "ok" || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
		_ = res.Body.Close()
	})
}

// slowly is a body of small pieces.
type slowly struct {
	pieces int
	pause  time.Duration
}

func (s *slowly) Read(p []byte) (int, error) {
	if s.pieces == 0 {
		return 0, io.EOF
	}
	s.pieces--
	time.Sleep(s.pause)
	return copy(p, "piece"), nil
}

// A limit is one request's: those after it on the connection have their own.
func TestResponseTimeoutStartsAnew(t *testing.T) {
	piped(t, Config{ResponseTimeout: 10 * time.Second, MaxIdle: 1}, func(c net.Conn, r *bufio.Reader) {
		for {
			if _, _, err := hear(r); err != nil {
				return
			}
			time.Sleep(8 * time.Second)
			say(c, okAnswer)
		}
	}, func(t *testing.T, tr *Transport) {
		for range 3 {
			mustFetch(t, tr, get())
			time.Sleep(5 * time.Second)
		}
	})
}

func TestCancel(t *testing.T) {
	const after = 3 * time.Second
	cause := errors.New("not interested any more")
	for _, tt := range []struct {
		name  string
		req   func() *http.Request
		serve func(c net.Conn, r *bufio.Reader)
	}{
		{"waiting for an answer", get, untilHungUp},
		{"writing", func() *http.Request { return post("abc") }, func(c net.Conn, r *bufio.Reader) { time.Sleep(time.Hour) }},
		{"sending a large body", func() *http.Request { return post(strings.Repeat("x", 100_000)) }, func(c net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
			time.Sleep(time.Hour)
		}},
		{"reading the body", get, func(c net.Conn, r *bufio.Reader) {
			_, _, _ = hear(r)
			say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
			untilHungUp(c, r)
		}},
		{"reading to the end", get, func(c net.Conn, r *bufio.Reader) {
			_, _, _ = hear(r)
			say(c, "HTTP/1.1 200 OK\r\n\r\nabc")
			untilHungUp(c, r)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, limit := range []time.Duration{0, time.Minute} {
				piped(t, Config{ResponseTimeout: limit, MaxIdle: 1}, tt.serve, func(t *testing.T, tr *Transport) {
					ctx, cancel := context.WithCancelCause(context.Background())
					time.AfterFunc(after, func() { cancel(cause) })
					began := time.Now()
					_, _, err := fetch(tr, tt.req().WithContext(ctx))
					if took := time.Since(began); took != after || !errors.Is(err, cause) || isTimeout(err) {
						t.Errorf("got %v after %v, want %v after %v", err, took, cause, after)
					}
					if tr.waiting() != 0 {
						t.Error("the connection was kept")
					}
				})
			}
		})
	}
}

// The context ends between the first attempt and the second.
func TestCancelBeforeRepeating(t *testing.T) {
	piped(t, Config{MaxIdle: 1}, func(c net.Conn, r *bufio.Reader) {
		_, _, _ = hear(r)
		say(c, okAnswer)
	}, func(t *testing.T, tr *Transport) {
		mustFetch(t, tr, get())
		ctx, cancel := context.WithCancel(context.Background())
		dial := tr.cfg.Dial
		tr.cfg.Dial = func(ctx context.Context) (net.Conn, error) {
			cancel()
			synctest.Wait()
			return dial(ctx)
		}
		if _, _, err := fetch(tr, post("abc").WithContext(ctx)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
}

func TestDeadline(t *testing.T) {
	piped(t, Config{}, untilHungUp, func(t *testing.T, tr *Transport) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := tr.RoundTrip(get().WithContext(ctx))
		if !errors.Is(err, context.DeadlineExceeded) || !isTimeout(err) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// The same over sockets, where it goes another way.
func TestLimitsOverSockets(t *testing.T) {
	serve := func(_ int, c net.Conn, r *bufio.Reader) { untilHungUp(c, r) }
	for _, req := range []*http.Request{get(), post("abc"), post(strings.Repeat("x", 100_000))} {
		u := listen(t, Config{ResponseTimeout: 10 * time.Millisecond}, serve)
		if _, err := u.RoundTrip(req); !isTimeout(err) {
			t.Errorf("got %v, want a timeout", err)
		}
	}
	u := listen(t, Config{ResponseTimeout: time.Hour}, serve)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := u.RoundTrip(get().WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if _, err := u.RoundTrip(get().WithContext(ctx)); !errors.Is(err, context.Canceled) || u.accepted() > 1 {
		t.Errorf("got %v, want %v before anything is dialled", err, context.Canceled)
	}
}

// A context that ends after the answer does no harm to the connection, whose next user has another.
func TestCancelAfterTheEnd(t *testing.T) {
	u := listen(t, Config{MaxIdle: 1}, polite)
	for range 100 {
		ctx, cancel := context.WithCancel(context.Background())
		mustFetch(t, u, get().WithContext(ctx))
		cancel()
		mustFetch(t, u, post("abc"))
	}
	if got := u.accepted(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// A context that ends while the answer does must not hit the next user either.
func TestCancelAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait func() // after the context has ended
	}{
		{"interrupted before", synctest.Wait},
		{"interrupted about then", func() {}},
	} {
		for range 50 {
			piped(t, Config{MaxIdle: 1}, func(c net.Conn, r *bufio.Reader) { polite(1, c, r) }, func(t *testing.T, tr *Transport) {
				ctx, cancel := context.WithCancel(context.Background())
				res, err := tr.RoundTrip(get().WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				cancel()
				tt.wait()
				_, _ = io.ReadAll(res.Body)
				synctest.Wait()
				if _, _, err := fetch(tr, post("abc")); err != nil {
					t.Fatalf("%s: %v", tt.name, err)
				}
			})
		}
	}
}

func TestIdleTimeout(t *testing.T) {
	var hungUp atomic.Pointer[time.Time]
	serve := func(c net.Conn, r *bufio.Reader) {
		for {
			if _, _, err := hear(r); err != nil {
				now := time.Now()
				hungUp.Store(&now)
				return
			}
			say(c, okAnswer)
		}
	}
	piped(t, Config{MaxIdle: 1, IdleTimeout: 10 * time.Second}, serve, func(t *testing.T, tr *Transport) {
		for range 3 {
			mustFetch(t, tr, get())
			time.Sleep(9 * time.Second)
		}
		mustFetch(t, tr, get())
		last := time.Now()
		synctest.Wait()
		if hungUp.Load() != nil {
			t.Fatal("a connection that was used was closed")
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if waited := hungUp.Load().Sub(last); waited < 10*time.Second || waited > 10*time.Second+sweepEvery {
			t.Errorf("closed after %v, want 10s", waited)
		}
		if tr.waiting() != 0 || tr.pool.ticking {
			t.Error("an empty pool is swept")
		}
	})
	// Between the limit and the sweep a connection is not used any more.
	piped(t, Config{MaxIdle: 1, IdleTimeout: sweepEvery / 2}, serve, func(t *testing.T, tr *Transport) {
		mustFetch(t, tr, get())
		time.Sleep(sweepEvery / 2)
		first := tr.pool.idle[0]
		mustFetch(t, tr, get())
		if n := tr.waiting(); n != 1 || tr.pool.idle[0] == first {
			t.Error("an expired connection was used")
		}
	})
}
