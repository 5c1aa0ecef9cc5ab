package gateway_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"golang.org/x/net/http2"
)

// echo is a backend that answers with hints, or else with what it got and with a digest of that in a trailer.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		return
	}
	w.Header().Set("Trailer", "Digest")
	w.Header().Set("Backend-Proto", r.Proto)
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		w.Header().Set("Backend-Peer", r.TLS.PeerCertificates[0].DNSNames[0])
	}
	_ = http.NewResponseController(w).EnableFullDuplex() // which HTTP/2 is anyway
	h := sha256.New()
	_, _ = io.Copy(w, io.TeeReader(r.Body, h))
	w.Header().Set("Digest", hex.EncodeToString(h.Sum(nil))+" "+r.Trailer.Get("Client-Trailer"))
}

// upstreams are backends of every kind, by kind: the upstream section and the protocol that they are to be spoken to by.
func upstreams(t *testing.T, h http.Handler) map[string][2]string {
	t.Helper()
	dir := t.TempDir()
	pair(t, dir, "backend", "127.0.0.1")
	pair(t, dir, "gateway", "gateway.test")
	serve := func(change func(*http.Server)) net.Addr {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
		s.Protocols.SetHTTP1(true)
		change(s)
		t.Cleanup(func() { _ = s.Close() })
		if s.TLSConfig != nil {
			go func() { _ = s.ServeTLS(l, filepath.Join(dir, "backend.pem"), filepath.Join(dir, "backend-key.pem")) }()
		} else {
			go func() { _ = s.Serve(l) }()
		}
		return l.Addr()
	}
	sock := filepath.Join(dir, "backend.sock")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	local := &http.Server{Handler: h}
	go func() { _ = local.Serve(l) }()
	t.Cleanup(func() { _ = local.Close() })
	trusted := x509.NewCertPool()
	gatewayCert, err := os.ReadFile(filepath.Join(dir, "gateway.pem"))
	if err != nil || !trusted.AppendCertsFromPEM(gatewayCert) {
		t.Fatal(err)
	}
	plain := serve(func(*http.Server) {})
	h2c := serve(func(s *http.Server) { s.Protocols.SetHTTP1(false); s.Protocols.SetUnencryptedHTTP2(true) })
	secure := serve(func(s *http.Server) { s.TLSConfig = &tls.Config{}; s.Protocols.SetHTTP2(true) })
	mutual := serve(func(s *http.Server) {
		s.TLSConfig = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted}
	})
	return map[string][2]string{
		"http":  {fmt.Sprintf("url: http://%s", plain), "HTTP/1.1"},
		"unix":  {fmt.Sprintf("url: unix://%s", sock), "HTTP/1.1"},
		"h2c":   {fmt.Sprintf("url: h2c://%s", h2c), "HTTP/2.0"},
		"https": {fmt.Sprintf("url: https://%s, tls: {ca_file: %s/backend.pem}", secure, dir), "HTTP/2.0"},
		"mtls":  {fmt.Sprintf("url: https://%s, tls: {ca_file: %s/backend.pem, cert: %s/gateway.pem, key: %s/gateway-key.pem}", mutual, dir, dir, dir), "HTTP/1.1"},
	}
}

// clientsOf are clients of every kind for a plain and a secured gateway.
func clientsOf(t *testing.T, plain, secure *site, root []byte) map[string]func() (*http.Client, string) {
	t.Helper()
	unencrypted := func(version int) func() (*http.Client, string) {
		return func() (*http.Client, string) {
			transport := &http.Transport{Protocols: new(http.Protocols), ExpectContinueTimeout: 10 * time.Second}
			transport.Protocols.SetHTTP1(version == 1)
			transport.Protocols.SetUnencryptedHTTP2(version == 2)
			t.Cleanup(transport.CloseIdleConnections)
			return &http.Client{Transport: transport, Timeout: 20 * time.Second}, "http://" + plain.g.Addr().String()
		}
	}
	encrypted := func(version int) func() (*http.Client, string) {
		return func() (*http.Client, string) { return over(secure, version, root), "https://a.test" }
	}
	return map[string]func() (*http.Client, string){
		"HTTP/1.1": unencrypted(1), "HTTP/2 without TLS": unencrypted(2), "HTTP/1.1 with TLS": encrypted(1), "HTTP/2 with TLS": encrypted(2),
	}
}

// Whatever the client speaks and whatever the backend does: hints, both bodies, both trailers and a wish for 100 arrive.
func TestEveryProtocol(t *testing.T) {
	dir := t.TempDir()
	root := pair(t, dir, "a", "a.test")
	for kind, up := range upstreams(t, http.HandlerFunc(echo)) {
		yaml := strings.Replace(settings("URL", loginPolicy("target: {limit: 5, window: 1h}")), `upstream: {url: "URL"}`, "upstream: {"+up[0]+"}", 1)
		plain, secure := start(t, yaml), start(t, secured(yaml, dir, "", "a"))
		for name, client := range clientsOf(t, plain, secure, root) {
			t.Run(name+" to "+kind, func(t *testing.T) {
				c, base := client()
				var hints, continued atomic.Int32
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					Got100Continue: func() { continued.Add(1) },
					Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
						if code == http.StatusEarlyHints && h.Get("Link") == "</style.css>; rel=preload" {
							hints.Add(1)
						}
						return nil
					},
				})
				body := strings.Repeat("0123456789", 10000)
				r, _ := http.NewRequestWithContext(ctx, "POST", base+"/echo", io.MultiReader(strings.NewReader(body))) // of no stated length
				r.Header.Set("Expect", "100-continue")
				r.Trailer = http.Header{"Client-Trailer": {"sent"}}
				res, err := c.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				got, err := io.ReadAll(res.Body)
				sum := sha256.Sum256([]byte(body))
				if err != nil || string(got) != body || res.Trailer.Get("Digest") != hex.EncodeToString(sum[:])+" sent" {
					t.Errorf("got %d bytes, trailer %q, %v; want what was sent", len(got), res.Trailer.Get("Digest"), err)
				}
				expect(t, "continued", continued.Load(), 1)
				expect(t, "the backend's protocol", res.Header.Get("Backend-Proto"), up[1])
				peer := ""
				if kind == "mtls" {
					peer = "gateway.test"
				}
				expect(t, "the backend's peer", res.Header.Get("Backend-Peer"), peer)
				r, _ = http.NewRequestWithContext(ctx, "GET", base+"/echo", nil)
				if res, err = c.Do(r); err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				expect(t, "hints", hints.Load(), 1)
			})
		}
	}
}

// A chat over WebSocket, through a policy that watches answers, with and without TLS: a real library at both ends.
func TestWebSocket(t *testing.T) {
	chat := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		c, _, _, err := ws.UpgradeHTTP(r, w)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			text, op, err := wsutil.ReadClientData(c)
			if err != nil {
				return
			}
			if err := wsutil.WriteServerMessage(c, op, []byte(strings.ToUpper(string(text)))); err != nil {
				return
			}
		}
	})
	dir := t.TempDir()
	root := pair(t, dir, "a", "a.test")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root)
	yaml := settings(backend(t, chat), `
policies:
  chat:
    match: [{path: /chat}]
    failures: {source: {limit: 2, window: 1h}}
    outcome: [{is: success, status: 101}, {is: failure, status: 401}]
`)
	for name, s := range map[string]*site{"ws": start(t, yaml), "wss": start(t, secured(yaml, dir, ", hsts: max-age=60", "a"))} {
		t.Run(name, func(t *testing.T) {
			dial := func(authorization string) (net.Conn, error) {
				d := ws.Dialer{
					NetDial: func(ctx context.Context, network, _ string) (net.Conn, error) {
						return (&net.Dialer{}).DialContext(ctx, network, s.g.Addr().String())
					},
					TLSConfig: &tls.Config{RootCAs: pool, ServerName: "a.test"},
				}
				if authorization != "" {
					d.Header = ws.HandshakeHeaderHTTP{"Authorization": {authorization}}
				}
				c, _, _, err := d.Dial(t.Context(), name+"://a.test/chat")
				return c, err
			}
			for range 3 { // successes do not count
				c, err := dial("Bearer x")
				if err != nil {
					t.Fatal(err)
				}
				for _, text := range []string{"hello", strings.Repeat("x", 100000)} {
					if err := wsutil.WriteClientText(c, []byte(text)); err != nil {
						t.Fatal(err)
					}
					if got, err := wsutil.ReadServerText(c); err != nil || string(got) != strings.ToUpper(text) {
						t.Errorf("got %.20q, %v", got, err)
					}
				}
				_ = c.Close()
			}
			for _, want := range []string{"401", "401", "429"} {
				if _, err := dial(""); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("without a name: got %v, want %s", err, want)
				}
			}
		})
	}
}

// Events arrive one by one, while a policy reads the answer: the backend sends the next only when the last has arrived.
func TestServerSentEvents(t *testing.T) {
	next := make(chan bool)
	events := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			_, _ = fmt.Fprintf(w, "id: %d\ndata: something\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	dir := t.TempDir()
	root := pair(t, dir, "a", "a.test")
	yaml := settings(backend(t, events), `
policies:
  events:
    match: [{path: /events}]
    failures: {source: {limit: 2, window: 1h}}
    outcome: [{is: failure, status: 200, body: "access denied"}, {is: success, status: 200, header: {Content-Type: "text/event-stream*"}}]
`)
	plain, secure := start(t, yaml), start(t, secured(yaml, dir, ", hsts: max-age=60", "a"))
	for name, client := range clientsOf(t, plain, secure, root) {
		t.Run(name, func(t *testing.T) {
			c, base := client()
			res, err := c.Get(base + "/events")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			lines := bufio.NewScanner(res.Body)
			for i := range 5 {
				for _, want := range []string{fmt.Sprintf("id: %d", i), "data: something", ""} {
					if !lines.Scan() || lines.Text() != want {
						t.Fatalf("event %d: got %q, %v; want %q", i, lines.Text(), lines.Err(), want)
					}
				}
				next <- true
			}
			if lines.Scan() {
				t.Errorf("got %q after the last event", lines.Text())
			}
		})
	}
}

// large is how much goes through at once in each direction, and lean how much of it may be in memory, that of client and
// backend included.
const (
	large = 96 << 20
	lean  = 32 << 20
)

// Uploads and downloads of any size take the same memory, over TLS and HTTP/2 as well.
func TestLargeInConstantMemory(t *testing.T) {
	b := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			_, _ = io.CopyN(w, zeros{}, large)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	})
	dir := t.TempDir()
	root := pair(t, dir, "a", "a.test")
	yaml := settings(backend(t, b), "")
	plain, secure := start(t, yaml), start(t, secured(yaml, dir, "", "a"))
	for name, client := range clientsOf(t, plain, secure, root) {
		t.Run(name, func(t *testing.T) {
			c, base := client()
			c.Timeout = time.Minute
			most := watchMemory(t)
			res, err := c.Post(base+"/", "application/octet-stream", io.LimitReader(zeros{}, large))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(res.Body)
			res.Body.Close()
			expect(t, "uploaded", string(got), large)
			if res, err = c.Get(base + "/"); err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, res.Body)
			res.Body.Close()
			expect(t, "downloaded", fmt.Sprint(n, err), fmt.Sprint(large, nil))
			if grown := most(); grown > lean {
				t.Errorf("memory grew by %d MiB for %d", grown>>20, large>>20)
			}
		})
	}
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// watchMemory begins to look at what is in use, as each collection finds it; the function gives the most that came to it since.
func watchMemory(t *testing.T) func() uint64 {
	t.Helper()
	inUse := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	base, most := inUse(), uint64(0)
	stop, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			most = max(most, inUse())
		}
	}()
	return func() uint64 {
		close(stop)
		<-ended
		return max(most, base) - base
	}
}

// A connection has as many streams as server.max_streams says, with TLS and without.
func TestMaxStreams(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "a", "a.test")
	yaml := strings.Replace(settings(backend(t, http.HandlerFunc(told)), ""), `listen: "127.0.0.1:0"`, `listen: "127.0.0.1:0", max_streams: 7`, 1)
	plain, err := net.Dial("tcp", start(t, yaml).g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	secure, err := tls.Dial("tcp", start(t, secured(yaml, dir, "", "a")).g.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]net.Conn{"plain": plain, "TLS": secure} {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, http2.ClientPreface)
		framer := http2.NewFramer(c, c)
		_ = framer.WriteSettings()
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		settings, ok := frame.(*http2.SettingsFrame)
		if !ok {
			t.Fatalf("%s: got %v first", name, frame)
		}
		got, _ := settings.Value(http2.SettingMaxConcurrentStreams)
		expect(t, name, got, 7)
	}
}

// TestConversation: once the backend has begun to answer, a client that says nothing for longer than it may take for a piece of
// a body is no slow client.
func TestConversation(t *testing.T) {
	b := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		_ = rc.Flush()
		line := bufio.NewScanner(r.Body)
		for line.Scan() {
			_, _ = fmt.Fprintln(w, "heard", line.Text())
			_ = rc.Flush()
		}
	})
	dir := t.TempDir()
	root := pair(t, dir, "a", "a.test")
	hasty := func(yaml string) string {
		return strings.Replace(yaml, "server: {", "server: {read_body_timeout: 100ms, ", 1)
	}
	yaml := settings(backend(t, b), "")
	plain, secure := start(t, hasty(yaml)), start(t, hasty(secured(yaml, dir, "", "a")))
	for name, client := range clientsOf(t, plain, secure, root) {
		t.Run(name, func(t *testing.T) {
			c, base := client()
			said, say := io.Pipe()
			defer say.Close()
			res, err := c.Post(base+"/", "text/plain", said)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			heard := bufio.NewReader(res.Body)
			for range 3 {
				time.Sleep(250 * time.Millisecond) // of silence, which nothing can be waited for in
				_, _ = io.WriteString(say, "word\n")
				line, err := heard.ReadString('\n')
				expect(t, "an answer", fmt.Sprint(line, err), "heard word\n<nil>")
			}
			_ = say.Close()
			rest, err := io.ReadAll(heard)
			expect(t, "the end", fmt.Sprint(string(rest), err), "<nil>")
		})
	}
}
