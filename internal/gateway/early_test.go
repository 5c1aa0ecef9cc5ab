package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestEarlyAnswers: a backend may answer before it has read the request, while the client is still sending. Nobody reads from the
// client's connection once it is the server's again, what is left of such a body is never a request, and each client gets its
// answer.
func TestEarlyAnswers(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	b := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.URL.Path)
		mu.Unlock()
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "ok")
		_ = rc.Flush()
		_, _ = io.Copy(io.Discard, r.Body)
	})
	addr := start(t, settings(backend(t, b), "")).g.Addr().String()
	const head, body = "POST /up HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n"
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			return nil, nil
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c, bufio.NewReader(c)
	}

	// The body comes while the answer does.
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			c, in := dial()
			for range 100 {
				if c == nil {
					return
				}
				_, _ = io.WriteString(c, head)
				_, _ = io.WriteString(c, body)
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Errorf("no answer: %v", err)
					break
				}
				text, err := io.ReadAll(res.Body)
				expect(t, "the answer", fmt.Sprint(res.StatusCode, string(text), err), "200ok<nil>")
				if res.Close {
					_ = c.Close()
					c, in = dial()
				}
			}
			if c != nil {
				_ = c.Close()
			}
		})
	}
	clients.Wait()

	// The rest of a chunk comes after the answer, and looks like a request.
	for range 10 {
		c, in := dial()
		if c == nil {
			return
		}
		inner := "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n"
		_, _ = fmt.Fprintf(c, "%s%x\r\nabc", head, len("abc")+len(inner))
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		time.Sleep(2 * time.Millisecond) // some before the handler ends, and some after it
		_, _ = io.WriteString(c, inner+"\r\n0\r\n\r\n")
		if rest, _ := io.ReadAll(in); len(rest) > 0 {
			t.Errorf("a second answer: %q", rest)
		}
		_ = c.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	if all := strings.Join(seen, ", "); strings.Contains(all, "GET") {
		t.Errorf("the backend was asked for %s", all)
	}
}

// A large answer reaches a client that sends on while it reads.
func TestLargeEarlyAnswer(t *testing.T) {
	const size = 3 << 20
	b := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.CopyN(w, zeros{}, size)
		_ = rc.Flush()
		_, _ = io.Copy(io.Discard, r.Body)
	})
	s := start(t, settings(backend(t, b), ""))
	c, err := net.Dial("tcp", s.g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	const pieces, piece = 200, 10_000
	_, _ = fmt.Fprintf(c, "POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n", pieces*piece)
	go func() {
		for range pieces {
			if _, err := c.Write(make([]byte, piece)); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for p := make([]byte, 20_000); err == nil; time.Sleep(5 * time.Millisecond) {
		var n int
		n, err = res.Body.Read(p)
		got += n
	}
	expect(t, "the answer", fmt.Sprint(got, err), fmt.Sprint(size, io.EOF))
}

// An upgrade with a body is not offered to the backend: the two would share the connection.
func TestUpgradeWithABody(t *testing.T) {
	b := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%q %q", r.Header.Get("Upgrade"), body)
	})
	s := start(t, settings(backend(t, b), ""))
	for _, body := range []string{"Content-Length: 4\r\n\r\nbody", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"} {
		c, err := net.Dial("tcp", s.g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+body)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		expect(t, "what the backend saw", string(text), `"" "body"`)
	}
}
