package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"authgate/internal/acmetest"
)

// front is an entrance of a balancer: what is said to its port goes on to a gateway, with a PROXY header that option asks for.
type front struct {
	name, option string
	secure       bool
	port         int
	to           *site
}

// addresses are those that a front is reached at.
func (f front) addresses() []string {
	out := []string{fmt.Sprintf("127.0.0.1:%d", f.port)}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil { // not every container has it
		_ = l.Close()
		out = append(out, fmt.Sprintf("[::1]:%d", f.port))
	}
	return out
}

// sbin finds a program that Debian keeps where users do not look.
func sbin(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		t.Skipf("%s is missing; scripts/install-bench-peers installs it on Debian", name)
	}
	return path
}

// launch runs a balancer until the test ends, and waits for its fronts.
func launch(t *testing.T, fronts []front, path string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if <-ended; t.Failed() {
			t.Logf("%s says: %s", path, said.String())
		}
	})
	for _, f := range fronts {
		eventually(t, f.name, func() bool {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.port))
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// beginNginx has nginx pass streams on. It sends version 1 only.
func beginNginx(t *testing.T, fronts []front) {
	path, dir, load := sbin(t, "nginx"), t.TempDir(), ""
	about, err := exec.Command(path, "-V").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, about)
	}
	if bytes.Contains(about, []byte("--with-stream=dynamic")) {
		folder := regexp.MustCompile(`--modules-path=(\S+)`).FindSubmatch(about)
		if folder == nil {
			t.Fatalf("nginx does not say where its modules are: %s", about)
		}
		module := filepath.Join(string(folder[1]), "ngx_stream_module.so")
		if _, err := os.Stat(module); err != nil {
			t.Skip("nginx has no stream module; Debian's package libnginx-mod-stream has it")
		}
		load = "load_module " + module + ";\n"
	}
	text := fmt.Sprintf("%sdaemon off; master_process off; pid %[2]s/pid; error_log %[2]s/error.log; events {}\nstream {\n", load, dir)
	for _, f := range fronts {
		text += "server { listen " + strings.Join(f.addresses(), "; listen ") + "; proxy_pass " + f.to.g.Addr().String() + "; " + f.option + "; }\n"
	}
	conf := filepath.Join(dir, "nginx.conf")
	write(t, conf, text+"}\n")
	launch(t, fronts, path, "-e", filepath.Join(dir, "error.log"), "-p", dir, "-c", conf)
}

// beginHAProxy has HAProxy pass connections on, and ask whether the gateway is well as often as it can.
func beginHAProxy(t *testing.T, fronts []front) {
	path, conf := sbin(t, "haproxy"), filepath.Join(t.TempDir(), "haproxy.cfg")
	text := "global\n maxconn 100\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n option httpchk GET /.gateway/healthz\n"
	for i, f := range fronts {
		text += fmt.Sprintf("listen front%d\n bind %s\n server gateway %s %s check inter 100ms", i, strings.Join(f.addresses(), ","), f.to.g.Addr(), f.option)
		if f.secure {
			text += " check-ssl verify none"
		}
		text += "\n"
	}
	write(t, conf, text)
	launch(t, fronts, path, "-db", "-f", conf)
}

// With real balancers in front, whoever has connected to them is the client: to the backend, in the log, and for the rules. Their
// checks of health, which they send for themselves, are answered. What clients say of themselves counts for nothing, and
// who comes past the balancers is not listened to.
func TestBalancers(t *testing.T) {
	if l, err := net.Listen("tcp", "127.0.1.5:0"); err != nil {
		t.Skipf("clients need addresses of their own, and this machine has but one: %v", err)
	} else {
		_ = l.Close()
	}
	dir := t.TempDir()
	root := pair(t, dir, "a", "a.test")
	yaml := strings.Replace(settings(backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Header["X-Forwarded-For"], r.Header["X-Real-Ip"], r.Header["Forwarded"], r.Header["X-Forwarded-Proto"])
	})), `
log: {identifiers: plain}
policies: {mail: {match: [{path: /mail}], requests: {source: {limit: 1, window: 24h}}}}
`), `listen: "127.0.0.1:0"`, `listen: "127.0.0.1:0", proxy_protocol: 127.0.0.1`, 1)
	for _, b := range []struct {
		name    string
		begin   func(*testing.T, []front)
		options []string
	}{
		{"nginx", beginNginx, []string{"proxy_protocol on"}},
		{"HAProxy", beginHAProxy, []string{"send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id"}},
	} {
		t.Run(b.name, func(t *testing.T) {
			var fronts []front
			ports := acmetest.FreePorts(t, 2*len(b.options))
			for i, option := range b.options {
				fronts = append(fronts, front{option, option, false, ports[2*i], start(t, yaml)},
					front{option + " and TLS", option, true, ports[2*i+1], start(t, secured(yaml, dir, "", "a"))})
			}
			b.begin(t, fronts)
			for _, f := range fronts {
				t.Run(f.name, func(t *testing.T) {
					for _, address := range f.addresses() {
						clients := []string{"127.0.1.5", "127.0.1.6"}
						if strings.HasPrefix(address, "[") {
							clients = []string{"::1"}
						}
						for _, from := range clients {
							checkClient(t, f, address, from, root)
						}
					}
					checkSecondHeader(t, f)
					checkStrangers(t, f.to)
					if b.name == "HAProxy" {
						eventually(t, "a check of health", func() bool { return served(f.to, "127.0.0.1", 200) })
					}
				})
			}
		})
	}
}

// through is a client at an address, of a front at another.
func through(f front, at, from string, root []byte) (*http.Client, string) {
	version, base := 1, "http://a.test"
	if f.secure {
		version, base = 2, "https://a.test"
	}
	c := over(f.to, version, root)
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		return d.DialContext(ctx, network, at)
	}
	return c, base
}

// served reports whether the log has a request of a client with that answer.
func served(s *site, client string, status int) bool {
	for _, line := range s.log.lines("request") {
		if line["client"] == client && line["status"] == float64(status) {
			return true
		}
	}
	return false
}

// checkClient has a client come through a front, with headers that say it were somebody else, until it has used up its limit.
func checkClient(t *testing.T, f front, at, from string, root []byte) {
	t.Helper()
	c, base := through(f, at, from, root)
	scheme, _, _ := strings.Cut(base, ":")
	for _, want := range []string{fmt.Sprintf("200 [%s] [%[1]s] [] [%s]", from, scheme), "429"} {
		r, _ := http.NewRequest("POST", base+"/mail", nil)
		for name, value := range map[string]string{"X-Forwarded-For": "203.0.113.9", "X-Real-Ip": "203.0.113.9", "Forwarded": "for=203.0.113.9", "X-Forwarded-Proto": "gopher"} {
			r.Header.Set(name, value)
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if got := fmt.Sprint(res.StatusCode, " ", string(body)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", from, got, want)
		}
		eventually(t, "the log", func() bool { return served(f.to, from, res.StatusCode) })
	}
}

// checkSecondHeader has a client send a header as if it were a balancer. That comes after the real one, where a request or a
// handshake is to begin.
func checkSecondHeader(t *testing.T, f front) {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, "PROXY TCP4 203.0.113.9 192.0.2.1 1234 80\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	answer, _ := io.ReadAll(c)
	if bytes.Contains(answer, []byte("HTTP/1.1 200")) || served(f.to, "203.0.113.9", 200) {
		t.Errorf("a client was taken for a balancer: %s", answer)
	}
}

// checkStrangers has others than the balancers connect, and the balancers' machine without a header.
func checkStrangers(t *testing.T, s *site) {
	t.Helper()
	for what, c := range map[string]struct{ from, header string }{
		"a stranger":               {"127.0.9.9", ""},
		"a stranger with a header": {"127.0.9.9", "PROXY TCP4 203.0.113.9 192.0.2.1 1234 80\r\n"},
		"no header":                {"127.0.0.1", ""},
	} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}}
		conn, err := d.Dial("tcp", s.g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(conn, c.header+"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		answer, err := io.ReadAll(conn)
		_ = conn.Close()
		if timeout, ok := err.(net.Error); len(answer) > 0 || ok && timeout.Timeout() {
			t.Errorf("%s: got %q, %v; want the connection closed", what, answer, err)
		}
	}
}
