package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Buffers serve one exchange after the other. Those that wait for their next use are overwritten all the time here, so
// that whoever still looks at one sees what nobody sent, and the race detector sees it too.
func TestExchangesShareNothing(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Told", r.Header.Get("X-Name"))
		w.Header()["Trailer"] = []string{"X-Last"}
		_, _ = w.Write(body)
		w.Header().Set("X-Last", r.Header.Get("X-Name"))
	}))
	defer echo.Close()
	own := New(Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", echo.Listener.Addr().String())
		},
		ResponseTimeout: time.Minute, MaxIdle: 8,
	})
	defer own.CloseIdleConnections()
	done := make(chan struct{})
	var spoiler, callers sync.WaitGroup
	spoiler.Go(func() { spoilBuffers(done) })
	for caller := range 8 {
		callers.Go(func() {
			for i := range 100 {
				name := fmt.Sprintf("call-%d-%d", caller, i)
				body := name + strings.Repeat(string(rune('a'+caller)), []int{10, 3000, 17_000, 70_000}[i%4])
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, echo.URL, strings.NewReader(body))
				req.Header.Set("X-Name", name)
				res, err := own.RoundTrip(req)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				got, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || string(got) != body || res.Header.Get("X-Told") != name || res.Trailer.Get("X-Last") != name {
					t.Errorf("%s: got %d bytes that begin with %.40q, told %q and at last %q, %v; want %d", name, len(got), got,
						res.Header.Get("X-Told"), res.Trailer.Get("X-Last"), err, len(body))
				}
			}
		})
	}
	callers.Wait()
	close(done)
	spoiler.Wait()
}

func spoilBuffers(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		buf, piece := buffers.Get().(*[]byte), pieces.Get().(*[chunkHead + pieceBytes + chunkTail]byte)
		for i := range *buf {
			(*buf)[i] = 0xdb
		}
		for i := range piece {
			piece[i] = 0xdb
		}
		buffers.Put(buf)
		pieces.Put(piece)
	}
}
