package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/internal/acmetest"
	"authgate/internal/config"
	"authgate/internal/gateway"
)

// pair writes a certificate for names and its key to NAME.pem and NAME-key.pem of a folder.
func pair(t testing.TB, dir, name string, names ...string) (cert []byte) {
	t.Helper()
	cert, key := acmetest.Pair(t, time.Hour, names...)
	for suffix, data := range map[string][]byte{".pem": cert, "-key.pem": key} {
		path := filepath.Join(dir, name+suffix)
		if err := os.WriteFile(path+"~", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
	}
	return cert
}

// secured makes settings whose public listener has the pairs of a folder, given by name, and more under server.tls.
func secured(yaml, dir, more string, pairs ...string) string {
	var list []string
	for _, name := range pairs {
		list = append(list, fmt.Sprintf("{cert: %s/%s.pem, key: %s/%s-key.pem}", dir, name, dir, name))
	}
	return strings.Replace(yaml, `server: {listen: "127.0.0.1:0"`,
		fmt.Sprintf(`server: {listen: "127.0.0.1:0", tls: {mode: files, certificates: [%s]%s}`, strings.Join(list, ", "), more), 1)
}

// over is a client that believes the certificates given, reaches the site whatever the host, and speaks the protocols
// asked for: 1 is HTTP/1.1, 2 is HTTP/2.
func over(s *site, version int, roots ...[]byte) *http.Client {
	pool := x509.NewCertPool()
	for _, pem := range roots {
		pool.AppendCertsFromPEM(pem)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.g.Addr().String())
		},
	}
	transport.Protocols.SetHTTP1(version == 1)
	transport.Protocols.SetHTTP2(version == 2)
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func fetch(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// told is a backend that says how the client came, as the gateway tells it.
func told(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Strict-Transport-Security", "max-age=1") // which is the gateway's to say
	if r.URL.Path == "/early" {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
	}
	_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-Proto")+" "+r.Header.Get("X-Forwarded-Port")+" "+r.Host)
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	a, b := pair(t, dir, "a", "a.test"), pair(t, dir, "b", "b.test", "*.b.test")
	s := start(t, secured(settings(backend(t, http.HandlerFunc(told)), loginPolicy("target: {limit: 1, window: 1h}")), dir, `, hsts: "max-age=31536000"`, "a", "b"))
	for _, version := range []int{1, 2} {
		client := over(s, version, a, b)
		for _, host := range []string{"a.test", "b.test", "x.b.test"} {
			res, body := fetch(t, client, "https://"+host+"/")
			if want := "https 443 " + host; body != want || res.ProtoMajor != version {
				t.Errorf("HTTP/%d: got %q by %s, want %q", version, body, res.Proto, want)
			}
			expect(t, "what the answer says", res.Header["Strict-Transport-Security"], "[max-age=31536000]")
		}
		res, _ := fetch(t, client, "https://a.test/early")
		expect(t, "what an answer after hints says", res.Header["Strict-Transport-Security"], "[max-age=31536000]")
		res, _ = fetch(t, client, "https://a.test/.gateway/none")
		expect(t, "the gateway's own", fmt.Sprint(res.StatusCode, res.Header["Strict-Transport-Security"]), "404 [max-age=31536000]")
		if _, err := client.Get("https://c.test/"); err == nil || !strings.Contains(err.Error(), "certificate is valid for a.test") {
			t.Errorf("a host of nobody: got %v, want the first certificate, which a browser refuses", err)
		}
		for range 2 {
			res, err := client.Post("https://a.test/login", "application/json", strings.NewReader(`{"user":"bob","password":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			expect(t, "a refusal", res.Header["Strict-Transport-Security"], "[max-age=31536000]")
		}
	}
	if v := s.metric(`gateway_certificate_expiry_timestamp_seconds{name="a.test"}`); !strings.HasPrefix(v, "1.") && len(v) < 10 {
		t.Errorf("the end of the certificate: %s", v)
	}
	expect(t, "names in metrics", s.metric(`gateway_certificate_expiry_timestamp_seconds{name="c.test"}`), "none")
}

// Who speaks plain HTTP to a TLS listener gets nothing of the backend, and the log does not say who it was.
func TestPlainToTLS(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "a", "a.test")
	s := start(t, secured(settings(backend(t, http.HandlerFunc(told)), ""), dir, "", "a"))
	c, err := net.Dial("tcp", s.g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != 400 {
		t.Errorf("got %v, %v; want 400", res, err)
	}
	eventually(t, "the log", func() bool { return len(s.log.lines("connection failed")) == 1 })
	line := s.log.lines("connection failed")[0]
	if strings.Contains(fmt.Sprint(line), "127.0.0.1") || line["peer"] == nil || !strings.HasPrefix(fmt.Sprint(line["error"]), "http: TLS handshake error") {
		t.Errorf("logged %v, want the peer as a digest", line)
	}
}

// The same address gets HTTP/2 without TLS only from a client that begins with it, and holds nobody's connection open who
// begins with nothing.
func TestHTTP2WithoutTLS(t *testing.T) {
	s := start(t, strings.Replace(settings(backend(t, http.HandlerFunc(told)), ""), `listen: "127.0.0.1:0"`, `listen: "127.0.0.1:0", read_header_timeout: 200ms`, 1))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	res, body := fetch(t, &http.Client{Transport: transport}, "http://"+s.g.Addr().String()+"/")
	if res.ProtoMajor != 2 || !strings.HasPrefix(body, "http ") {
		t.Errorf("got %q by %s", body, res.Proto)
	}
	for _, begin := range []string{"", "PRI * HTTP/2.0\r\n\r\nSM", "GET / HT"} {
		c, err := net.Dial("tcp", s.g.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, begin)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("after %q the connection stays: %v", begin, err)
		}
		c.Close()
	}
	c, err := net.Dial("tcp", s.g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 200 {
		t.Errorf("a request that wants to switch to HTTP/2: got %v, %v; want an answer as ever", res, err)
	}
}

// The plain port sends to https, and knows only hosts that have a certificate.
func TestRedirectListener(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "a", "a.test")
	s := start(t, secured(settings(backend(t, http.HandlerFunc(told)), ""), dir, `, hsts: max-age=1, redirect_from: "127.0.0.1:0"`, "a"))
	ask := func(method, host string) string {
		t.Helper()
		r, _ := http.NewRequest(method, "http://"+s.g.RedirectAddr().String()+"/x?y", nil)
		r.Host = host
		a := s.do(r)
		return fmt.Sprint(a.status, " ", a.header.Get("Location"), a.header.Get("Strict-Transport-Security"))
	}
	expect(t, "a page", ask("GET", "a.test:8080"), "301 https://a.test/x?y")
	expect(t, "a form", ask("POST", "a.test"), "308 https://a.test/x?y")
	expect(t, "a host of nobody", ask("GET", "evil.test"), "404 ")
	addr := s.g.RedirectAddr().String()
	s.stop()
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("the plain port is open after the stop")
	}
}

// A certificate that is replaced on disk is shown without anybody asking, one that does not work is not, and no
// connection suffers.
func TestCertificateReplaced(t *testing.T) {
	dir := t.TempDir()
	first := pair(t, dir, "a", "a.test")
	adminFirst := pair(t, dir, "admin", "127.0.0.1")
	yaml := secured(settings(backend(t, http.HandlerFunc(told)), ""), dir, "", "a")
	yaml = strings.Replace(yaml, "admin:\n", fmt.Sprintf("admin:\n  tls: {cert: %s/admin.pem, key: %s/admin-key.pem}\n", dir, dir), 1)
	s := start(t, yaml)
	client := over(s, 2, first)
	fetch(t, client, "https://a.test/")
	works := func(roots ...[]byte) bool {
		c := over(s, 1, roots...)
		res, err := c.Get("https://a.test/")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	}
	if err := os.WriteFile(filepath.Join(dir, "a.pem"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the complaint", func() bool { return len(s.log.lines("certificates not reloaded; the old ones stay in use")) == 1 })
	if !works(first) {
		t.Error("the old certificate is gone")
	}
	if err := s.g.Reload(parseConfig(t, yaml)); err == nil || !strings.Contains(err.Error(), "reading certificate") {
		t.Errorf("a reload that cannot read the certificates: got %v", err)
	}
	second := pair(t, dir, "a", "a.test")
	eventually(t, "the new certificate", func() bool { return works(second) })
	if works(first) {
		t.Error("the old certificate is still shown")
	}
	adminSecond := pair(t, dir, "admin", "127.0.0.1")
	admin := func(root []byte) bool {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(root)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Get("https://" + s.g.AdminAddr().String() + "/readyz")
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == 200
	}
	eventually(t, "the admin listener's new certificate", func() bool { return admin(adminSecond) })
	if admin(adminFirst) {
		t.Error("the admin listener still shows the old certificate")
	}
	if _, body := fetch(t, client, "https://a.test/"); !strings.HasPrefix(body, "https") {
		t.Errorf("the open connection: got %q", body)
	}
	third := pair(t, dir, "a", "a.test")
	if err := s.g.Reload(parseConfig(t, yaml)); err != nil {
		t.Fatal(err)
	}
	if !works(third) {
		t.Error("a reload did not read the certificate at once")
	}
}

// parseConfig parses without looking at the files that the configuration names.
func parseConfig(t *testing.T, yaml string) *config.Config {
	t.Helper()
	cert, key := acmetest.Pair(t, time.Hour, "any.test")
	cfg, _, err := config.Parse("test.yaml", []byte(yaml), config.Options{ReadFile: func(path string) ([]byte, error) {
		if strings.HasSuffix(path, "-key.pem") {
			return key, nil
		}
		return cert, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// A balancer's header comes before the handshake, and the client's address from it.
func TestTLSBehindBalancer(t *testing.T) {
	dir := t.TempDir()
	root := pair(t, dir, "a", "a.test")
	yaml := secured(settings(backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-For")+" "+r.Header.Get("X-Forwarded-Proto"))
	})), ""), dir, `, redirect_from: "127.0.0.1:0"`, "a")
	yaml = strings.Replace(yaml, `server: {`, `server: {proxy_protocol: 127.0.0.1, `, 1)
	s := start(t, yaml)
	client := over(s, 1, root)
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, s.g.Addr().String())
		if err == nil {
			_, err = io.WriteString(c, "PROXY TCP4 192.0.2.9 192.0.2.1 1234 443\r\n")
		}
		return c, err
	}
	_, body := fetch(t, client, "https://a.test/")
	expect(t, "the client", body, "192.0.2.9 https")
	if _, err := over(s, 1, root).Get("https://a.test/"); err == nil {
		t.Error("a connection without the balancer's header was served")
	}
	c, err := net.Dial("tcp", s.g.RedirectAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "PROXY TCP4 192.0.2.9 192.0.2.1 1234 80\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 301 {
		t.Errorf("the plain port: got %v, %v; want the redirect", res, err)
	}
}

// A gateway that has no certificate yet is up, ready for the authority to reach it, and says what is missing.
func TestWithoutCertificateYet(t *testing.T) {
	nobody := acmetest.FreePorts(t, 1)[0]
	folder := filepath.Join(t.TempDir(), "kept")
	acme := func(path string) string {
		return strings.Replace(settings(backend(t, http.HandlerFunc(told)), ""), `listen: "127.0.0.1:0"`,
			fmt.Sprintf(`listen: "127.0.0.1:0", tls: {mode: acme, redirect_from: "127.0.0.1:0", acme: {domains: [waiting.example.test], directory: "https://127.0.0.1:%d/dir", path: %s}}`, nobody, path), 1)
	}
	s := start(t, acme(folder))
	eventually(t, "the warning", func() bool {
		return len(s.log.lines("no certificate yet; https is not answered for this name until there is one")) == 1
	})
	expect(t, "readiness", s.meta("GET", "/readyz", "").status, 200)
	expect(t, "the metric", s.metric(`gateway_certificate_expiry_timestamp_seconds{name="waiting.example.test"}`), "0")
	if _, err := over(s, 1).Get("https://waiting.example.test/"); err == nil || !strings.Contains(err.Error(), "tls: internal error") {
		t.Errorf("a handshake without a certificate: got %v", err)
	}
	eventually(t, "the failed order", func() bool { return len(s.log.lines("certificate not obtained")) > 0 })
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(parse(t, acme(filepath.Join(file, "below"))), gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(); err == nil || !strings.Contains(err.Error(), "preparing server.tls.acme") {
		t.Errorf("starting without a place for certificates: got %v", err)
	}
	_ = g.Stop(t.Context())
}

// What does not work is told at the start.
func TestCannotSecure(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "a", "a.test")
	before := ours()
	for what, yaml := range map[string]string{
		"server.tls": secured(settings("http://backend.test", ""), dir, "", "a", "none"),
		"admin.tls":  strings.Replace(settings("http://backend.test", ""), "admin:\n", fmt.Sprintf("admin:\n  tls: {cert: %s/none.pem, key: %s/none-key.pem}\n", dir, dir), 1),
	} {
		if _, err := gateway.New(parseConfig(t, yaml), gateway.Options{}); err == nil || !strings.Contains(err.Error(), "preparing "+what+": reading certificate") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	eventually(t, "the end of its goroutines", func() bool { return ours() <= before })
}
