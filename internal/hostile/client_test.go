package hostile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// client is a connection to the gateway on which anything can be said.
type client struct {
	t    testing.TB
	addr string
	conn net.Conn
	r    *bufio.Reader
}

// answer is what the gateway answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// answerTime is how long an answer may take on a machine that does other things.
const answerTime = 60 * time.Second

func open(t testing.TB, addr string) *client { return &client{t: t, addr: addr} }

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// ask sends one well-framed request and reads its answer. The connection is kept as long as both sides want it.
func (c *client) ask(raw []byte) (answer, error) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.addr, answerTime)
		if err != nil {
			return answer{}, err
		}
		c.conn, c.r = conn, bufio.NewReader(conn)
	}
	_ = c.conn.SetDeadline(time.Now().Add(answerTime))
	_, werr := c.conn.Write(raw) // a gateway that has heard enough may answer and close before it has read all
	a, keep, err := readAnswer(c.r, bytes.HasPrefix(raw, []byte("HEAD ")))
	if err != nil || werr != nil || !keep || c.r.Buffered() > 0 {
		c.close()
	}
	return a, err
}

// readAnswer reads one answer that is final.
func readAnswer(r *bufio.Reader, bodiless bool) (a answer, keep bool, err error) {
	method := "GET"
	if bodiless {
		method = "HEAD"
	}
	for {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return answer{}, false, err
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return answer{}, false, err
		}
		if res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			return answer{res.StatusCode, res.Header, body}, !res.Close, nil
		}
	}
}

// backendSaw is what the backend says in its answer, or nil if the answer is the gateway's own.
func (a *answer) backendSaw() *seen {
	if a.header.Get("X-Seen") == "" {
		return nil
	}
	s := new(seen)
	if json.Unmarshal(a.body, s) != nil {
		return nil
	}
	return s
}

// throw sends bytes on a connection of their own and reads whatever answers come until the gateway has closed it, or has said
// nothing for a while: what it waits for then, it will not get.
func throw(addr string, raw []byte, silence time.Duration) (answers []answer, err error) {
	conn, err := net.DialTimeout("tcp", addr, answerTime)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(answerTime))
	_, _ = conn.Write(raw) // the gateway may have closed it already
	r := bufio.NewReader(conn)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(silence))
		a, keep, err := readAnswer(r, bytes.HasPrefix(raw, []byte("HEAD ")))
		if err != nil {
			var timeout net.Error
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &timeout) {
				err = nil
			}
			return answers, err
		}
		answers = append(answers, a)
		if a.status == http.StatusSwitchingProtocols || !keep {
			return answers, nil
		}
	}
}

// post is a well-framed request by POST.
func post(target, contentType, body string, fields ...string) []byte {
	return message("POST", target, contentType, body, fields...)
}

func message(method, target, contentType, body string, fields ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, target)
	hosted := false
	for _, f := range fields {
		hosted = hosted || strings.HasPrefix(f, "Host:")
		b.WriteString(f + "\r\n")
	}
	if !hosted {
		b.WriteString("Host: login.test\r\n")
	}
	if contentType != "" {
		b.WriteString("Content-Type: " + contentType + "\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return []byte(b.String())
}

// signIn is a plain login of a name.
func signIn(target, name string, fields ...string) []byte {
	text, err := json.Marshal(map[string]string{"username": name, "password": "wrong"})
	if err != nil {
		panic(err)
	}
	return post(target, "application/json", string(text), fields...)
}
