package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A large upload that is refused gets its answer, as curl sees it, however it is sent.
func TestRefusedUploadWithCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("curl is missing; install it: it is the client that this test is about")
	}
	dir := t.TempDir()
	pair(t, dir, "a", "a.test")
	upload := filepath.Join(dir, "upload")
	if err := os.WriteFile(upload, make([]byte, 20<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(b.Close)
	yaml := settings(b.URL, "policies: {upload: {match: [{path: /upload}], requests: {source: {limit: 1, window: 24h}}}}\n")
	for name, s := range map[string]*site{"http": start(t, yaml), "https": start(t, secured(yaml, dir, "", "a"))} {
		_, port, _ := net.SplitHostPort(s.g.Addr().String())
		curl := func(args ...string) string {
			args = append([]string{
				"--silent", "--show-error", "--insecure", "--max-time", "30", "--resolve", "a.test:" + port + ":127.0.0.1", "--output", os.DevNull,
				"--write-out", "%{http_code} %{http_version}", "--data-binary", "@" + upload, name + "://a.test:" + port + "/upload",
			}, args...)
			out, err := exec.CommandContext(t.Context(), "curl", args...).Output()
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit) && (exit.ExitCode() == 92 || exit.ExitCode() == 18 && strings.HasSuffix(string(out), " 2")):
				// an older curl, after the status, as from any server of net/http: the end of a stream that is refused
			case err != nil:
				return fmt.Sprintf("%s (%v)", out, err)
			}
			return string(out)
		}
		expect(t, name+", the first", curl("--http1.1"), "200 1.1")
		for _, c := range []struct {
			what, want string
			args       []string
		}{
			{"HTTP/1.1", "429 1.1", []string{"--http1.1", "--header", "Expect:"}},
			{"HTTP/1.1, asking first", "429 1.1", []string{"--http1.1", "--header", "Expect: 100-continue"}},
			{"HTTP/1.1, chunked", "429 1.1", []string{"--http1.1", "--header", "Expect:", "--header", "Transfer-Encoding: chunked"}},
			{"HTTP/2", "429 2", []string{"--http2"}},
		} {
			if name == "http" && c.args[0] == "--http2" {
				continue // without TLS curl would ask to switch, which is for nobody to grant
			}
			expect(t, name+", "+c.what, curl(c.args...), c.want)
		}
		if name == "http" {
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetUnencryptedHTTP2(true)
			res, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Post("http://"+s.g.Addr().String()+"/upload", "", io.LimitReader(zeros{}, 20<<20))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			transport.CloseIdleConnections()
			expect(t, "HTTP/2 without TLS", res.StatusCode, 429)
		}
	}
}
