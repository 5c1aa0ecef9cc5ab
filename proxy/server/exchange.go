package server

import (
	"net/http"
	"net/url"
	"time"
)

// exchange is one request with its answer: one allocation for nearly all of both, which serves no other request.
type exchange struct {
	conn *conn
	req  http.Request
	url  url.URL
	body content
	size int // of the request, in bytes
	life life
	response
}

// serve has the handler answer, and reports whether there may be another request.
func (x *exchange) serve() bool {
	c := x.conn
	x.life.Context, x.life.conn = c.ctx, c
	x.begin(x)
	x.req = *x.req.WithContext(&x.life) // which is the only way to say so; the copy does not leave this line
	x.req.RemoteAddr = c.remote
	done := false
	defer func() {
		if !done { // a panic: what was begun of the answer is all that there will be
			x.life.end()
			_ = x.body.Close()
			x.giveBack()
		}
	}()
	c.server.std.Handler.ServeHTTP(&x.response, &x.req)
	x.finish()
	done = true
	x.life.end()
	_ = x.body.Close()
	c.slack = 0
	if x.req.Method == http.MethodPost {
		c.slack = maxSlack
	}
	c.r += x.size
	if c.limits {
		c.limits = false
		_ = c.SetWriteDeadline(time.Time{})
	}
	return x.reusable()
}
