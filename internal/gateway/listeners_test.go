package gateway_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

// Several listeners serve side by side, without TLS and with it.
func TestSeveralListeners(t *testing.T) {
	dir := t.TempDir()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pair(t, dir, "a", "a.test"))
	yaml := settings(backend(t, &accounts{}), "")
	for scheme, text := range map[string]string{"http": yaml, "https": secured(yaml, dir, "", "a")} {
		s := start(t, strings.Replace(text, `listen: "127.0.0.1:0"`, `listen: ["127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"]`, 1))
		if n := len(s.g.Addrs()); n != 3 {
			t.Fatalf("%s: %d listeners, want 3", scheme, n)
		}
		for range 2 {
			for _, addr := range s.g.Addrs() {
				r, _ := http.NewRequest("GET", scheme+"://"+addr.String()+"/.gateway/healthz", nil)
				r.Host = "a.test"
				client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "a.test"}}, Timeout: 10 * time.Second}
				res, err := client.Do(r)
				if err != nil {
					t.Fatalf("%s: %v", scheme, err)
				}
				_ = res.Body.Close()
				client.CloseIdleConnections()
				expect(t, scheme, res.StatusCode, 200)
			}
		}
		select {
		case err := <-s.g.Failed():
			t.Errorf("%s: a listener ended: %v", scheme, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// A backend that answers before it has read all of an upload, and reads on, has the transport read on after the request is over: of
// a connection that is somebody else's by then.
func TestEarlyAnswerToAnUpload(t *testing.T) {
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		w.Header().Set("Content-Length", "2")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "no")
		_ = rc.Flush()
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(b.Close)
	s := start(t, settings(b.URL, ""))
	for _, two := range []bool{false, true} {
		transport := &http.Transport{}
		if two {
			transport.Protocols = new(http.Protocols)
			transport.Protocols.SetUnencryptedHTTP2(true)
		}
		client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
		for i := range 20 {
			res, err := client.Post("http://"+s.g.Addr().String()+"/upload", "", io.LimitReader(zeros{}, 4<<20))
			if err != nil {
				continue // of an upload that is refused half-way a client may see no more than that
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusForbidden {
				t.Errorf("HTTP/2 %v, upload %d: got %d", two, i, res.StatusCode)
			}
		}
		transport.CloseIdleConnections()
	}
	expect(t, "afterwards", s.meta("GET", "/healthz", "").status, 200)
}

// A stop gives WebSockets the time that requests have.
func TestStopWaitsForWebSockets(t *testing.T) {
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, _, err := ws.UpgradeHTTP(r, w)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			text, op, err := wsutil.ReadClientData(c)
			if err != nil || wsutil.WriteServerMessage(c, op, text) != nil {
				return
			}
		}
	}))
	t.Cleanup(b.Close)
	s := start(t, settings(b.URL, ""))
	addr := s.g.Addr().String()
	c, _, _, err := ws.Dial(t.Context(), "ws://"+addr+"/chat")
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan bool)
	go func() { s.stop(); close(stopped) }()
	eventually(t, "the end of listening", func() bool {
		probe, err := net.Dial("tcp", addr)
		if err == nil {
			_ = probe.Close()
		}
		return err != nil
	})
	for i := range 5 {
		text := fmt.Sprint("message ", i)
		if err := wsutil.WriteClientText(c, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := wsutil.ReadServerText(c); err != nil || string(got) != text {
			t.Fatalf("got %q, %v; want %q", got, err, text)
		}
	}
	_ = c.Close()
	select {
	case <-stopped:
	case <-time.After(8 * time.Second):
		t.Error("the stop goes on although the socket is closed")
	}
}
