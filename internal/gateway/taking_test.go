package gateway_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// hasty gives clients little time for the next piece of anything.
func hasty(yaml string) string {
	return strings.Replace(yaml, "server: {", "server: {read_body_timeout: 200ms, ", 1)
}

// TestClientsThatTakeNothing: a client that asks again and again and never reads loses its connection, whoever answers it and
// however small the answers are.
func TestClientsThatTakeNothing(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "a", "a.test")
	yaml := settings(backend(t, http.NotFoundHandler()), loginPolicy("target: {limit: 5, window: 1h}"))
	plain, secure := start(t, hasty(yaml)), start(t, hasty(secured(yaml, dir, "", "a")))
	for name, open := range map[string]func() (net.Conn, error){
		"plain": func() (net.Conn, error) { return net.Dial("tcp", plain.g.Addr().String()) },
		"TLS": func() (net.Conn, error) {
			return tls.Dial("tcp", secure.g.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: "a.test"})
		},
	} {
		for kind, request := range map[string]string{
			"answers of the backend": "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n",
			"answers of our own":     "POST /login HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{",
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				c, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(30 * time.Second))
				many := strings.Repeat(request, 1000)
				for err == nil {
					_, err = io.WriteString(c, many)
				}
				if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
					t.Error("the connection is still open")
				}
			})
		}
	}
}

// TestStreamsThatTakeNothing: a stream of HTTP/2 whose client leaves no room for the answer ends, and its connection lives.
func TestStreamsThatTakeNothing(t *testing.T) {
	s := start(t, hasty(settings(backend(t, http.NotFoundHandler()), loginPolicy("target: {limit: 5, window: 1h}"))))
	for _, path := range []string{"/x", "/login"} {
		c, err := net.Dial("tcp", s.g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, http2.ClientPreface)
		f := http2.NewFramer(c, c)
		_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		var block bytes.Buffer
		h := hpack.NewEncoder(&block)
		for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "a.test"}, {":path", path}, {"content-type", "application/json"}} {
			_ = h.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
		_ = f.WriteData(1, true, []byte("{"))
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Errorf("%s: the stream did not end: %v", path, err)
				break
			}
			if _, reset := frame.(*http2.RSTStreamFrame); reset && frame.Header().StreamID == 1 {
				break
			}
		}
	}
}
