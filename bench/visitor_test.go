package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// visitor is a server's end of one client's connection, without the connection. It sends logins of one person after the
// other and throws the answers away. Nothing is allocated for that, so that what is allocated is the handler's.
type visitor struct {
	request *http.Request
	body    strings.Reader
	bodies  []string

	cancel context.CancelFunc
	header http.Header
	status int
}

func newVisitor(path string) *visitor {
	v := &visitor{header: make(http.Header, 16)}
	for range 1024 {
		v.bodies = append(v.bodies, fmt.Sprintf(`{"username":"user%d@example.com","password":"correct horse battery"}`, rand.IntN(names)))
	}
	ctx, cancel := context.WithCancel(context.Background()) // a server's requests can be cancelled; this one never is
	v.cancel = cancel
	v.request = (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: path}, RequestURI: path, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Host: "gate.test", RemoteAddr: "198.51.100.7:1234", Body: io.NopCloser(&v.body),
		Header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"bench"}, "Accept": {"*/*"}},
	}).WithContext(ctx)
	return v
}

// visit sends one request and returns the status of the answer.
func (v *visitor) visit(h http.Handler) int {
	body := v.bodies[rand.IntN(len(v.bodies))]
	v.body.Reset(body)
	v.request.ContentLength = int64(len(body))
	clear(v.header)
	h.ServeHTTP(v, v.request)
	return v.status
}

func (v *visitor) Header() http.Header             { return v.header }
func (v *visitor) Write(p []byte) (int, error)     { return len(p), nil }
func (v *visitor) WriteHeader(status int)          { v.status = status }
func (v *visitor) SetReadDeadline(time.Time) error { return nil }
func (v *visitor) EnableFullDuplex() error         { return nil }

// instant is a backend that answers at once. It costs next to nothing.
type instant struct{ header http.Header }

func newInstant() *instant {
	return &instant{http.Header{"Content-Type": {"application/json"}, "Date": {"Thu, 01 Jan 2026 00:00:00 GMT"}, "Content-Length": {"2"}}}
}

func (i *instant) RoundTrip(r *http.Request) (*http.Response, error) {
	var buf [512]byte
	for {
		if _, err := r.Body.Read(buf[:]); err != nil {
			break
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: i.header, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2, Request: r,
	}, nil
}
