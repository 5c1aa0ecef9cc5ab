package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// upgradeOf is the protocol that a request or an answer switches to, or "". Other versions of HTTP are none: what is
// said in them would pass every policy by.
func upgradeOf(h http.Header) string {
	p := h["Upgrade"]
	if len(p) != 1 || !nominates(h["Connection"], "upgrade") {
		return ""
	}
	for protocol := range strings.SplitSeq(strings.ToLower(p[0]), ",") {
		name, _, _ := strings.Cut(textproto.TrimString(protocol), "/")
		if !httpguts.ValidHeaderFieldName(name) || strings.Contains(name, "h2") || strings.Contains(name, "http") || strings.Contains(name, "tls") {
			return ""
		}
	}
	return p[0]
}

// nominates reports whether lines of a Connection header hold the option.
func nominates(lines []string, option string) bool {
	for _, line := range lines {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(token), option) {
				return true
			}
		}
	}
	return false
}

// switchProtocols joins the two connections, for as long as both sides talk.
func (x *exchange) switchProtocols(res *http.Response, wanted string) error {
	backend, ok := res.Body.(io.ReadWriteCloser)
	if !ok || wanted == "" || !strings.EqualFold(upgradeOf(res.Header), wanted) {
		_ = res.Body.Close()
		return failure{status: http.StatusBadGateway, code: "bad_gateway", cause: errors.New("the backend switched to a protocol nobody asked for")}
	}
	defer backend.Close()
	h := x.w.Header()
	copyHeader(h, res.Header)
	h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{upgradeOf(res.Header)}
	x.finishHeader(h)
	rc := http.NewResponseController(&x.w)
	client, buffered, err := rc.Hijack()
	if err != nil {
		return failure{status: http.StatusBadGateway, code: "bad_gateway", cause: fmt.Errorf("taking the connection over: %w", err)}
	}
	defer client.Close()
	x.h.switched.Add(1)
	defer x.h.switched.Done()
	x.status, x.hijacked = res.StatusCode, true
	_ = client.SetDeadline(time.Time{})
	if err := writeSwitch(buffered, h); err != nil {
		return nil // the client is gone
	}
	stop := context.AfterFunc(x.h.closing, func() {
		_ = client.Close()
		_ = backend.Close()
	})
	defer stop()
	join(client, buffered.Reader, backend)
	return nil
}

// lastWord is how long one side of a switched connection may be silent when the other has said its last word.
const lastWord = time.Minute

func writeSwitch(b *bufio.ReadWriter, h http.Header) error {
	if _, err := b.WriteString("HTTP/1.1 101 Switching Protocols\r\n"); err != nil {
		return err
	}
	if err := h.Write(b); err != nil {
		return err
	}
	if _, err := b.WriteString("\r\n"); err != nil {
		return err
	}
	return b.Flush()
}

// join copies both ways. When one side has said its last word the other is told, and both end when each has, or
// when one is lost. A side that then says nothing for lastWord is taken for lost too: there may be nobody who listens.
func join(client io.WriteCloser, fromClient io.Reader, backend io.ReadWriteCloser) {
	ended := make(chan bool, 2)
	var said, saying atomic.Int64 // how often either side has said something, and what is on its way
	pipe := func(dst io.Writer, src io.Reader) {
		_, err := io.Copy(counting{dst, &said, &saying}, src)
		half, ok := dst.(interface{ CloseWrite() error })
		ended <- err == nil && ok && half.CloseWrite() == nil
	}
	go pipe(backend, fromClient)
	go pipe(client, backend)
	for clean := <-ended; clean; {
		before := said.Load()
		select {
		case <-ended:
			return
		case <-time.After(lastWord):
			clean = said.Load() > before || saying.Load() > 0 // who takes nothing is the listener's to see to
		}
	}
	_ = client.Close()
	_ = backend.Close()
	<-ended
}

// counting counts writes, and those that wait.
type counting struct {
	io.Writer
	all, waiting *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	c.all.Add(1)
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	return c.Writer.Write(p)
}
