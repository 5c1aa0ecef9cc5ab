package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/limits"
	"authgate/proxy"
)

// Buffers serve one request after the other. What one user sends or is told must never come up in what belongs to
// another: not with bodies that are buffered or streamed, with answers that come early, nor with clients that hang up.
func TestUsersShareNothing(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Told", r.Header.Get("X-User"))
		if r.Header.Get("X-Early") != "" {
			w.WriteHeader(http.StatusUnauthorized) // before the body is read
			_, _ = io.WriteString(w, r.Header.Get("X-User"))
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body)
	}))
	defer echo.Close()
	g := newGate(t, setup{url: echo.URL, policies: []policy{{
		name: "login", target: []string{"json:/username"}, outcome: verdicts,
		rules: []limits.Rule{
			{Dimension: limits.Target, Limit: 10_000, Window: time.Hour},
			{Class: limits.Failures, Dimension: limits.Target, Limit: 1000, Window: time.Hour},
		},
	}}})
	address := g.serve()
	done := make(chan struct{})
	var spoiler, users sync.WaitGroup
	spoiler.Go(func() { proxy.SpoilBuffers(done) })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	for user := range 8 {
		users.Go(func() {
			for i := range 60 {
				name := fmt.Sprintf("user-%d-%d", user, i)
				size := []int{10, 900, 20_000, 60_000}[i%4] // sent in one write, read in two, sent in pieces
				body := fmt.Sprintf(`{"username":"%s","password":"%s"}`, name, strings.Repeat(string(rune('a'+user)), size))
				path := []string{"/login", "/untouched"}[i/4%2]
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-User", name)
				want := body
				if i%5 == 4 {
					r.Header.Set("X-Early", "1")
					want = name
				}
				res, err := client.Do(r)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if i%7 == 6 { // hangs up in the middle
					_, _ = io.ReadFull(res.Body, make([]byte, 4))
					res.Body.Close()
					continue
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || string(got) != want || res.Header.Get("X-Told") != name {
					t.Errorf("%s: got %d bytes for %q that begin with %.60q, %v; want %d that begin with %.60q", name, len(got), res.Header.Get("X-Told"), got, err, len(want), want)
				}
			}
		})
	}
	users.Wait()
	close(done)
	spoiler.Wait()
}
