// Package transport carries plain HTTP/1.1 requests to one upstream, over TCP or a unix socket. It writes the request
// and reads the answer in the goroutine that asks, so that a call costs three system calls and a wake-up, where
// [http.Transport] also hands it to two goroutines and back.
//
// What it accepts as an answer, [http.Transport] accepts too, and reads the same. It is the stricter one: an answer whose
// framing or header could be read in two ways is an error, that is
//
//   - both Content-Length and Transfer-Encoding; a transfer coding in an HTTP/1.0 answer; either in a 1xx answer
//   - a line that ends without CR, a folded line, a blank before a colon, a control character
//   - a version other than HTTP/1.0 and HTTP/1.1, more than one blank before the status
//   - 101, which nobody asked for: requests for an upgrade are left to Config.Fallback
//   - lengths of more than 18 digits, chunk sizes of more than 15, extensions with control characters or in great number
//
// It differs in what it makes of some answers. A field Connection stays where it was, so that the caller can remove what
// it names. Pragma does not become Cache-Control. Trailer fields that would change how a message is framed, routed or
// trusted are dropped (RFC 9110, section 6.5.1).
package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// Transport is an [http.RoundTripper] for one upstream. Use [New]. It is safe for concurrent use.
//
// RoundTrip sends the header fields of a request as they are and adds none but Host and those of framing; names are
// not sorted. Fields that frame a message in the header are ignored in favour of Request.ContentLength and
// Request.Trailer. Names, values, host and target are checked first: of a request that could be read as something
// else nothing is sent.
//
// A body of known length up to 16 KiB is read to its end before anything is sent; the context does not interrupt that.
// A longer one, or one of unknown length, is sent from a goroutine of its own, so that an answer is seen that comes
// before its end. That goroutine may outlive the answer until the body's Read returns. Either way the body is closed.
//
// As many connections are open as there are requests under way, which is for the caller to bound, and up to
// Config.MaxIdle more.
//
// A request is sent a second time, on a new connection, only if the first was a used one and either no byte was
// written, or the method is GET, HEAD, OPTIONS or TRACE without a body and the connection ended without a byte of an answer.
//
// The end of the context interrupts a call at once where it waits for more than the first bytes of an answer, and there
// within a second. One that ends after that changes nothing.
//
// Of the hooks of httptrace only Got1xxResponse is called. Request.Cancel is ignored; contexts have replaced it.
// Errors tell by Timeout() whether time ran out; one caused by the context wraps its cause, one caused by reading the
// request's body wraps that error.
type Transport struct {
	cfg      Config
	pool     pool
	patience time.Duration
}

// Config says how the upstream is reached and how long it may take. Only Dial is required.
type Config struct {
	// Dial makes a connection. It is called in the goroutine of the request, with its context, and bounds its own time.
	// A [syscall.Conn], as package net makes them, is read from its socket, whatever its method Read does.
	Dial func(ctx context.Context) (net.Conn, error)

	// ResponseTimeout bounds the time from the end of the request to the end of the answer's header, and the time
	// in which the upstream has to take each 32 KiB of a request. Zero means no limit.
	ResponseTimeout time.Duration

	// IdleTimeout is how long a connection is kept for the next request. Zero means until the upstream closes it.
	IdleTimeout time.Duration

	// MaxIdle bounds the connections kept for the next request. Zero means none.
	MaxIdle int

	// MaxHeaderBytes bounds the header of an answer, with its status line, in bytes; zero means 64 KiB.
	MaxHeaderBytes int

	// Fallback takes the requests that this transport does not: other schemes than http, upgrades, CONNECT,
	// Expect, and those that set TransferEncoding. Without it they fail.
	Fallback http.RoundTripper
}

// defaultMaxHeaderBytes is several times what browsers send and servers accept, which is 8 to 32 KiB.
const defaultMaxHeaderBytes = 64 << 10

// New makes a transport. Nothing is dialled until the first request.
func New(cfg Config) *Transport {
	if cfg.MaxHeaderBytes <= 0 {
		cfg.MaxHeaderBytes = defaultMaxHeaderBytes
	}
	return &Transport{cfg: cfg, pool: pool{max: cfg.MaxIdle, timeout: cfg.IdleTimeout}, patience: patience}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case req.URL == nil || req.Header == nil:
		closeBody(req)
		return nil, errors.New("sending a request: it has no URL or no header")
	case !takes(req):
		if t.cfg.Fallback == nil {
			closeBody(req)
			return nil, errors.New("sending a request: it is not one for plain HTTP/1.1")
		}
		return t.cfg.Fallback.RoundTrip(req)
	}
	x := &exchange{t: t, req: req, ctx: req.Context(), began: time.Now()}
	if err := x.run(); err != nil {
		return nil, err
	}
	return &x.res, nil
}

// CloseIdleConnections closes the connections that wait for a request, here and in the fallback. Those in use
// are closed when their answer ends.
func (t *Transport) CloseIdleConnections() {
	t.pool.closeAll()
	if f, ok := t.cfg.Fallback.(interface{ CloseIdleConnections() }); ok {
		f.CloseIdleConnections()
	}
}

// takes reports whether a request is one that a single write and a single answer can settle.
func takes(req *http.Request) bool {
	h := req.Header
	return req.URL.Scheme == "http" && !strings.HasPrefix(req.URL.Opaque, "//") &&
		req.Method != http.MethodConnect &&
		len(req.TransferEncoding) == 0 &&
		len(h["Upgrade"]) == 0 && len(h["Expect"]) == 0 && !hasToken(h["Connection"], "upgrade")
}

// hasToken looks for a token in the comma separated lists of a header field, whatever its case.
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.Trim(element, " \t"), token) {
				return true
			}
		}
	}
	return false
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// callError is what a failed call returns: what was being done, and why it failed.
type callError struct {
	doing string
	cause error
}

func (e *callError) Error() string { return e.doing + ": " + e.cause.Error() }

func (e *callError) Unwrap() error { return e.cause }

// Timeout implements the method of [net.Error].
func (e *callError) Timeout() bool { return isTimeout(e.cause) }

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
