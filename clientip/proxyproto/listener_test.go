package proxyproto

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/clientip"
)

// pipeListener hands out the connections it is given.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener(conns ...net.Conn) *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn, len(conns)), closed: make(chan struct{})}
	for _, conn := range conns {
		l.conns <- conn
	}
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// addressedConn is a pipe that claims an address.
type addressedConn struct {
	net.Conn
	peer net.Addr
}

func (c addressedConn) RemoteAddr() net.Addr { return c.peer }

// pipe returns our end, with the peer's address, and the peer's end.
func pipe(peer string) (ours, theirs net.Conn) {
	ours, theirs = net.Pipe()
	return addressedConn{ours, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(peer))}, theirs
}

func prefixes(t *testing.T, entries ...string) clientip.PrefixSet {
	t.Helper()
	set, _, err := clientip.ParsePrefixes(entries)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// rejects collects what onReject is told.
type rejects struct {
	mu   sync.Mutex
	errs []error
}

func (r *rejects) add(_ net.Addr, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

func (r *rejects) all() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errs
}

func TestListenerVectors(t *testing.T) {
	tested := 0
	for _, v := range loadVectors(t) {
		if !v.ListenerLevel {
			continue
		}
		tested++
		t.Run(v.ID, func(t *testing.T) {
			ours, theirs := pipe(v.SocketPeer)
			inner := newPipeListener(ours)
			var rejected rejects
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, "%s %s", r.RemoteAddr, v.client(t, r))
			})}
			served := make(chan error)
			go func() { served <- server.Serve(NewListener(inner, prefixes(t, v.PPTrusted...), rejected.add)) }()

			go func() { _, _ = theirs.Write(v.input(t)) }()
			answer := v.answer(t, theirs)
			_ = server.Close()
			<-served
			want := fmt.Sprintf("200 %s %s", v.WantSource, v.WantClient)
			switch {
			case v.Want == "reject":
				want = "closed"
			case strings.Count(v.InputASCII, "PROXY ") > 1:
				want = "400 400 Bad Request"
			}
			if answer != want {
				t.Errorf("got %q, want %q: %s", answer, want, v.Note)
			}
			if got, want := len(rejected.all()) > 0, v.Want == "reject"; got != want {
				t.Errorf("rejected %v, want %t", rejected.all(), want)
			}
		})
	}
	if tested == 0 {
		t.Fatal("no vector is of the listener level")
	}
}

// answer reads the status and the body of the answer; "closed" if there is none.
func (v vector) answer(t *testing.T, conn net.Conn) string {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "closed"
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, body)
}

// client resolves the client of r as the vector configures it, "" if it does not.
func (v vector) client(t *testing.T, r *http.Request) string {
	if v.Config == nil {
		return ""
	}
	list, _, err := clientip.ParseTrustList(v.Config.TrustedProxies)
	if err != nil {
		t.Error(err)
	}
	resolver, _, err := clientip.New(clientip.Config{
		TrustHeaders: v.Config.TrustHeaders, TrustedProxies: list, TrustedHops: v.Config.Hops, Header: v.Config.Header,
	})
	if err != nil {
		t.Error(err)
		return ""
	}
	return resolver.Resolve(r.RemoteAddr, r.Header[resolver.Header()]).Addr.String()
}

// TestConnSource reads each parser vector through a connection: the address it shows and the bytes that follow.
func TestConnSource(t *testing.T) {
	for _, v := range loadVectors(t) {
		if v.ListenerLevel {
			continue
		}
		t.Run(v.ID, func(t *testing.T) {
			const request = "GET / HTTP/1.1\r\n"
			input := v.input(t)
			if v.Consumed != nil {
				input = append(input[:*v.Consumed:*v.Consumed], strings.Repeat(request, 100)...)
			}
			ours, theirs := pipe("203.0.113.1:5000")
			listener := NewListener(newPipeListener(ours), prefixes(t, "203.0.113.0/24"), nil)
			conn, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = theirs.Write(input)
				_ = theirs.Close()
			}()
			rest, err := io.ReadAll(conn)
			if (err != nil) != (v.Want == "reject") {
				t.Fatalf("error %v, want %s: %s", err, v.Want, v.Note)
			}
			want := v.WantSource
			if v.Want != "proxy" {
				want = "203.0.113.1:5000"
			}
			if got := conn.RemoteAddr().String(); got != want {
				t.Errorf("RemoteAddr %s, want %s: %s", got, want, v.Note)
			}
			if v.Consumed != nil && !bytes.Equal(rest, input[*v.Consumed:]) {
				t.Errorf("%d bytes follow, want %d", len(rest), len(input)-*v.Consumed)
			}
			if got := conn.(*Conn).SocketAddr().String(); got != "203.0.113.1:5000" {
				t.Errorf("SocketAddr %s", got)
			}
		})
	}
}

// TestLoopback serves HTTP over real sockets, plain and with TLS on top, on connections that are kept alive.
func TestLoopback(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls %t", secure), func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.RemoteAddr)
			}))
			server.Listener = NewListener(server.Listener, prefixes(t, "127.0.0.0/8"), nil)
			if secure {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			transport := server.Client().Transport.(*http.Transport)
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				if err == nil {
					_, err = conn.Write([]byte(v2(0x21, 0x11, inet)))
				}
				return conn, err
			}
			for range 2 {
				response, err := server.Client().Get(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if got, want := string(body), "198.51.100.9:56324"; got != want {
					t.Errorf("RemoteAddr %q, want %q", got, want)
				}
			}
		})
	}
}

// TestSilentPeer lets a listed balancer say nothing: others are accepted meanwhile, and after 5 seconds it is closed.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, theirs := pipe("203.0.113.1:1")
		second, _ := pipe("203.0.113.1:2")
		var rejected rejects
		listener := NewListener(newPipeListener(silent, second), prefixes(t, "203.0.113.0/24"), rejected.add)
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if other, err := listener.Accept(); err != nil || other.(*Conn).SocketAddr().String() != "203.0.113.1:2" {
			t.Fatalf("second connection: %v", err)
		}
		if err := conn.SetDeadline(time.Now().Add(time.Hour)); err != nil { // cannot lengthen the header's time
			t.Fatal(err)
		}
		go func() { _, _ = theirs.Write([]byte("PROXY ")) }() // a start is not enough
		start := time.Now()
		if got := conn.RemoteAddr().String(); got != "203.0.113.1:1" {
			t.Errorf("RemoteAddr %s", got)
		}
		if got := time.Since(start); got != 5*time.Second {
			t.Errorf("waited %s", got)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: %v", err)
		}
		if _, err := theirs.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection was left open: %v", err)
		}
		if got := rejected.all(); len(got) != 1 || !errors.Is(got[0], os.ErrDeadlineExceeded) {
			t.Errorf("rejected %v", got)
		}
	})
}

// TestDeadlineOfTheUser is set before the header is read, and must hold for what follows it.
func TestDeadlineOfTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := pipe("203.0.113.1:1")
		conn, err := NewListener(newPipeListener(ours), prefixes(t, "203.0.113.0/24"), nil).Accept()
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := conn.SetReadDeadline(start.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = theirs.Write([]byte("PROXY UNKNOWN\r\nx")) }()
		text, err := io.ReadAll(conn)
		if string(text) != "x" || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("read %q, %v after %s", text, err, time.Since(start))
		}
		if err := conn.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = theirs.Write([]byte("y")) }()
		if n, err := conn.Read(make([]byte, 9)); n != 1 || err != nil {
			t.Errorf("after lifting the deadline: %d, %v", n, err)
		}
	})
}

// TestShorterDeadlineOfTheUser ends the wait for the header before its own time is up.
func TestShorterDeadlineOfTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, _ := pipe("203.0.113.1:1")
		conn, err := NewListener(newPipeListener(ours), prefixes(t, "203.0.113.0/24"), nil).Accept()
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		go func() {
			time.Sleep(time.Second) // virtual
			_ = conn.SetReadDeadline(start.Add(2 * time.Second))
		}()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// TestCloseWhileWaiting ends a wait for the header; synctest fails if a goroutine stays behind.
func TestCloseWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, _ := pipe("203.0.113.1:1")
		conn, err := NewListener(newPipeListener(ours), prefixes(t, "203.0.113.0/24"), nil).Accept()
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-read; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Read: %v", err)
		}
	})
}

func TestUnlistedPeersAreClosedUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stranger, theirs := pipe("198.51.100.77:1")
		nameless, _ := net.Pipe()
		mapped, _ := pipe("[::ffff:203.0.113.1]:2")
		var rejected rejects
		listener := NewListener(newPipeListener(stranger, nameless, mapped), prefixes(t, "203.0.113.0/24"), rejected.add)
		conn, err := listener.Accept() // passes over the first two without waiting for them
		if err != nil || !strings.HasSuffix(conn.(*Conn).SocketAddr().String(), ":2") {
			t.Fatalf("accepted %v, %v", conn, err)
		}
		if _, err := theirs.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the stranger may still write: %v", err)
		}
		for _, err := range rejected.all() {
			if !errors.Is(err, errNotListed) {
				t.Errorf("rejected with %v", err)
			}
		}
		if len(rejected.all()) != 2 {
			t.Errorf("rejected %d connections, want 2", len(rejected.all()))
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v", err)
		}
	})
}

func TestCloseWrite(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := NewListener(inner, prefixes(t, "127.0.0.1"), nil)
	defer listener.Close()
	client, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*Conn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the client reads %v, want EOF", err)
	}
	ours, _ := pipe("203.0.113.1:1")
	if err := (&Conn{Conn: ours}).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a pipe: %v", err)
	}
}
