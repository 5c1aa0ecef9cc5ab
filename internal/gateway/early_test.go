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
