package hostile

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stream is one request in HTTP/2, which the gateway hands on in HTTP/1.1: whatever bytes a field may have there, none may end a
// line here.
type stream struct {
	fields  []string // "name: value"; pseudo fields begin with a colon
	body    string
	trailer []string
}

// TestHTTP2 is TestFraming for requests that come in HTTP/2.
func TestHTTP2(t *testing.T) {
	tally := class("HTTP/2 and downgrading")
	list := streams()
	for _, b := range backends.all(t) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, b, framing, framingPolicies)
			b.settle(t)
			parallel(list, 16, func(q stream) { throwStream(t, s.addr(), q) })
			tally.try(len(list))
			s.stop()
			s.wire.close()
			checkAccounts(t, tally, b, s, nil)
		})
	}
}

// connection is one in HTTP/2, by prior knowledge.
type connection struct {
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	packer *hpack.Encoder
}

func connect(t testing.TB, addr string) *connection {
	conn, err := net.DialTimeout("tcp", addr, answerTime)
	if err != nil {
		t.Error(err)
		return nil
	}
	c := &connection{conn: conn, framer: http2.NewFramer(conn, conn)}
	c.framer.AllowIllegalWrites, c.framer.AllowIllegalReads = true, true
	c.packer = hpack.NewEncoder(&c.block)
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = c.framer.WriteSettings()
	return c
}

// pack encodes fields as they are.
func (c *connection) pack(fields []string) []byte {
	c.block.Reset()
	for _, f := range fields {
		at := strings.Index(f[1:], ": ") + 1
		_ = c.packer.WriteField(hpack.HeaderField{Name: f[:at], Value: f[at+2:]})
	}
	return bytes.Clone(c.block.Bytes())
}

// throwStream sends one request and waits for its end, or for silence.
func throwStream(t testing.TB, addr string, q stream) {
	c := connect(t, addr)
	if c == nil {
		return
	}
	defer c.conn.Close()
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.pack(q.fields), EndHeaders: true, EndStream: q.body == "" && q.trailer == nil})
	if q.body != "" {
		_ = c.framer.WriteData(1, q.trailer == nil, []byte(q.body))
	}
	if q.trailer != nil {
		_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.pack(q.trailer), EndHeaders: true, EndStream: true})
	}
	for {
		_ = c.conn.SetReadDeadline(time.Now().Add(2 * silence))
		f, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = c.framer.WriteSettingsAck()
			}
		default:
			if f.Header().Flags.Has(http2.FlagDataEndStream) && f.Header().StreamID == 1 {
				return
			}
		}
	}
}

// streams are all requests of the class.
func streams() []stream {
	var list []stream
	plain := []string{":method: POST", ":scheme: http", ":path: /login", ":authority: login.test", "content-type: application/json"}
	with := func(more ...string) []string { return append(append([]string(nil), plain...), more...) }
	in := func(at int, field string) []string {
		fields := with()
		fields[at] = field
		return fields
	}
	add := func(fields []string) {
		list = append(list, stream{fields: fields, body: loginBody}, stream{fields: fields})
	}
	add(plain)
	for _, end := range []string{"\r\n", "\n", "\r", "\x00", " ", "\t", "\v", "\x7f", "\x80", "\r\n\r\n" + stowaway, "%0d%0a", "\u560d\u560a"} {
		for _, field := range []string{"x-a: b%sPlain: 1", "x-a%sPlain: b", "cookie: a=b%sPlain: 1", "authorization: Basic Ym9iOng=%sPlain: 1", "content-type: application/json%sTransfer-Encoding: chunked", "content-length: 18%sTransfer-Encoding: chunked", "host: a%sPlain: 1", "user-agent: %s", "te: trailers%sTransfer-Encoding: chunked", "trailer: X%sPlain: 1"} {
			add(with(strings.ReplaceAll(field, "%s", end)))
		}
		for at, field := range []string{":method: POST%s/x HTTP/1.1", ":scheme: http%sPlain: 1", ":path: /login%sPlain: 1", ":authority: login.test%sPlain: 1", "content-type: a%sb"} {
			add(in(at, strings.ReplaceAll(field, "%s", end)))
		}
	}
	for _, field := range []string{
		"transfer-encoding: chunked", "Transfer-Encoding: chunked", "transfer_encoding: chunked", "transfer-encoding: identity", "connection: close", "connection: x-forwarded-for", "connection: keep-alive, content-length", "keep-alive: x", "proxy-connection: keep-alive", "upgrade: h2c", "upgrade: websocket", "te: chunked", "te: trailers", "te: trailers, chunked",
		"http2-settings: AAMAAABkAARAAAAAAAIAAAAA", "content-length: 0", "content-length: 1", "content-length: 17", "content-length: 18", "content-length: 19", "content-length: 999", "content-length: -1", "content-length: +18", "content-length: 18, 18", "content-length: 0x12", "content-length: ", "content-length: x", "content-length: 99999999999999999999", "content_length: 3",
		"host: login.test", "host: other.test", "host: a, b", "host: ", "host_: x", "x-forwarded-for: 203.0.113.66", "x_forwarded_for: 203.0.113.66", "x.forwarded.for: 203.0.113.66", "X-Forwarded-For: 203.0.113.66", "x-real-ip: 203.0.113.66", "forwarded: for=203.0.113.66", "x-request-id: 203.0.113.66", "expect: 100-continue", "expect: x", "trailer: content-length",
		":path: /other", ":method: GET", ":authority: other.test", ":scheme: https", ":status: 200", ":protocol: websocket", ":unknown: x", ": x", "x: ", "X-Upper: y", "x y: z", "x:y: z", "x\xff: y", "(: x", "cookie: a=b", "priority: u=1", "http: x", "x-http-method-override: GET", ":path: ",
	} {
		add(with(field))
		add(append([]string{field}, plain...))
		add(with(field, field))
	}
	for _, path := range []string{"", "login", "*", "//login", "/login HTTP/1.1", "http://other.test/login", "/login#x", "/login?a b", "/\\login", "/%", "/login\x01", "/" + strings.Repeat("a", 9000), "?", "/..", "://", "/\xff", "/login;x", "/open"} {
		add(in(2, ":path: "+path))
	}
	for _, method := range []string{"", "GET", "HEAD", "CONNECT", "PRI", "post", "P OST", "OPTIONS", "TRACE", "FOO", "POST\x00", "\"POST\"", "GET /x HTTP/1.1"} {
		add(in(0, ":method: "+method))
	}
	for _, scheme := range []string{"", "https", "HTTP", "x", "http://other.test/?", "http ", "javascript"} {
		add(in(1, ":scheme: "+scheme))
	}
	for _, authority := range []string{"", "a b", "a/b", "a@b", "a:b", "a:80", "[::1]", "a,b", "a?b", "a#b", "\xff", "..", "a\\b", "a%0d%0ab"} {
		add(in(3, ":authority: "+authority))
	}
	for skip := range 4 { // one pseudo field is missing, or comes too late
		fields := append(append([]string(nil), plain[:skip]...), plain[skip+1:]...)
		add(fields)
		add(append(fields, plain[skip]))
	}
	for _, t := range []string{"content-length: 0", "transfer-encoding: chunked", "host: x", "x-forwarded-for: 203.0.113.66", "x_real_ip: 203.0.113.66", ":path: /x", ":status: 200", "X-Upper: y", "x: y\r\nPlain: 1", "authorization: Basic dmljdGltOng=", "cookie: a=b", "connection: close", "x-request-id: 203.0.113.66", "x: y", "trailer: x", "x: " + strings.Repeat("y", 20000)} {
		list = append(list, stream{with(), loginBody, []string{t}}, stream{with("trailer: " + strings.Trim(strings.SplitN(t[1:], ":", 2)[0], ":")), loginBody, []string{t}}, stream{with("te: trailers"), "", []string{t}})
	}
	return list
}

// floods2 are attacks by HTTP/2 alone: streams that are begun and dropped, headers without end, and frames that ask for answers.
func floods2(t *testing.T, tally *tally, s *abused) {
	head := []string{":method: POST", ":scheme: http", ":path: /login", ":authority: a", "content-type: application/json", "x: y"}
	flood := func(n int, frame func(c *connection, i int) error) {
		tally.try(n)
		parallel([]int{1, 2, 3, 4}, 4, func(int) {
			c := connect(t, s.addr())
			if c == nil {
				return
			}
			defer c.conn.Close()
			go func() { _, _ = io.Copy(io.Discard, c.conn) }()
			for i := range n / 4 {
				if frame(c, i) != nil {
					return // the gateway has had enough
				}
			}
		})
	}
	flood(4000, func(c *connection, i int) error { // rapid reset
		id := uint32(2*i + 1)
		if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.pack(head), EndHeaders: true}); err != nil {
			return err
		}
		return c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
	})
	flood(4000, func(c *connection, i int) error { // streams that are begun and stay
		return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: c.pack(head), EndHeaders: true})
	})
	flood(6000, func(c *connection, i int) error { // a header without an end
		if i == 0 {
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.pack(head)})
		}
		return c.framer.WriteContinuation(1, false, c.pack([]string{fmt.Sprintf("x-%d: %s", i, strings.Repeat("y", 100))}))
	})
	flood(400, func(c *connection, i int) error { // a header that is small, and large when it is decoded
		fields := append([]string(nil), head...)
		for range 3000 {
			fields = append(fields, "large: "+strings.Repeat("z", 3000)) // a reference to the table, but for the first
		}
		return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: c.pack(fields), EndHeaders: true, EndStream: true})
	})
	flood(6000, func(c *connection, _ int) error { return c.framer.WritePing(false, [8]byte{}) })
	flood(6000, func(c *connection, _ int) error { return c.framer.WriteSettings() })
	flood(6000, func(c *connection, _ int) error { return c.framer.WriteWindowUpdate(0, 1) })
	flood(6000, func(c *connection, i int) error { return c.framer.WriteData(uint32(2*i+1), false, nil) })
	flood(6000, func(c *connection, i int) error {
		return c.framer.WritePriority(uint32(2*i+1), http2.PriorityParam{StreamDep: uint32(2*i + 3)})
	})
}
