package server

import (
	"io"
	"net"
	"net/http"
	"testing"
)

const login = "POST /login HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{\"\":"

// judge answers a login.
func judge(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Content-Length"] = []string{"2"}
	_, _ = w.Write([]byte("{}"))
}

// BenchmarkRequest is a login that is answered at once, over a socket of this machine, by both servers.
func BenchmarkRequest(b *testing.B) {
	for name, serve := range map[string]func(*http.Server) func(net.Listener) error{
		"own":      func(s *http.Server) func(net.Listener) error { return New(s).Serve },
		"net/http": func(s *http.Server) func(net.Listener) error { return s.Serve },
	} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			std := newStandard(http.HandlerFunc(judge))
			defer std.Close()
			go func() { _ = serve(std)(l) }()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			answer := make([]byte, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := io.WriteString(c, login); err != nil {
					b.Fatal(err)
				}
				if _, err := c.Read(answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
