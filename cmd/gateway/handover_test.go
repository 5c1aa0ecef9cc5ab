//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// handed is a gateway process that was given its sockets as systemd gives them.
func handed(t *testing.T, config string, sockets ...*os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", fmt.Sprintf("LISTEN_PID=$$ LISTEN_FDS=%d LISTEN_FDNAMES=public exec gateway run --config '%s'", len(sockets), config))
	cmd.ExtraFiles = sockets
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("process %d:\n%s", cmd.Process.Pid, log.String())
		}
	})
	return cmd
}

// sockets opens listeners as a service manager does, and writes a configuration that names their addresses.
func sockets(t *testing.T, backend string) (config string, public, admin *os.File, addr string) {
	t.Helper()
	open := func() (*os.File, string) {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close() // the file is a descriptor of its own
		t.Cleanup(func() { _ = f.Close() })
		return f, l.Addr().String()
	}
	public, addr = open()
	admin, adminAddr := open()
	config = filepath.Join(t.TempDir(), "gateway.yaml")
	text := fmt.Sprintf("server: {listen: %q}\nadmin: {listen: %q}\nupstream: {url: %q}\nlog: {level: debug}\npolicies: {all: {match: [{path: /limited}], requests: {source: {limit: 1, window: 1h}}}}\n", addr, adminAddr, backend)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config, public, admin, addr
}

// A restart behind a socket that stays open loses no request, however they come.
func TestRestartLosesNothing(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond) // so that some are always under way
		_, _ = io.Copy(w, r.Body)
	}))
	defer backend.Close()
	config, public, admin, addr := sockets(t, backend.URL)
	var answered atomic.Int64
	stop := make(chan bool)
	var load sync.WaitGroup
	for i := range 4 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}, Timeout: 30 * time.Second}
		load.Go(func() {
			defer client.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				default:
				}
				var res *http.Response
				var err error
				if i%2 == 0 {
					res, err = client.Post("http://"+addr+"/", "text/plain", strings.NewReader("hello"))
				} else {
					res, err = client.Get("http://" + addr + "/") // which a client repeats when an idle connection ends
				}
				if err != nil {
					t.Errorf("request %d: %v", answered.Load(), err)
					return
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || res.StatusCode != 200 || i%2 == 0 && string(body) != "hello" {
					t.Errorf("request %d: got %d %q, %v", answered.Load(), res.StatusCode, body, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	more := func() {
		t.Helper()
		from, end := answered.Load(), time.Now().Add(20*time.Second)
		for answered.Load() < from+100 && !t.Failed() {
			if time.Now().After(end) {
				t.Errorf("%d answers, and no more", answered.Load())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	process := handed(t, config, public, admin)
	for range 3 {
		more()
		if err := process.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := process.Wait(); err != nil {
			t.Errorf("the stop: %v", err)
		}
		process = handed(t, config, public, admin)
	}
	more()
	close(stop)
	load.Wait()
}

// A socket that nobody configured is no matter to pass over: somebody waits behind it.
func TestStrangeSocket(t *testing.T) {
	config, public, admin, _ := sockets(t, "http://backend.test")
	_, strange, _, at := sockets(t, "http://backend.test")
	cmd := exec.Command("sh", "-c", fmt.Sprintf("LISTEN_PID=$$ LISTEN_FDS=3 exec gateway run --config '%s'", config))
	cmd.ExtraFiles = []*os.File{public, admin, strange}
	out, err := cmd.CombinedOutput()
	if want := "the socket at " + at + " was handed over, which is no address of the configuration"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("got %v, %s; want %q", err, out, want)
	}
	for env, want := range map[string]string{
		"LISTEN_PID=$$ LISTEN_FDS=two": `LISTEN_FDS is "two", and no number`,
		"LISTEN_PID=$$ LISTEN_FDS=9":   "taking over sockets: descriptor",
		"LISTEN_PID=1 LISTEN_FDS=9":    "address already in use", // not for this process
	} {
		cmd := exec.Command("sh", "-c", fmt.Sprintf("%s exec gateway run --config '%s'", env, config))
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: got %v, %s; want %q", env, err, out, want)
		}
	}
}
