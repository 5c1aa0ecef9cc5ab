//go:build unix

package transport

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// backendEnv makes the test binary serve as the backend of the benchmarks, so that their processor time is not counted.
const backendEnv = "TRANSPORT_BENCH_BACKEND"

func TestMain(m *testing.M) {
	if os.Getenv(backendEnv) != "" {
		serveBench()
		return
	}
	os.Exit(m.Run())
}

// serveBench answers each request of one write at once, until standard input ends.
func serveBench() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				buf := make([]byte, 4<<10)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					_, _ = c.Write([]byte(benchAnswer))
				}
			}()
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

const (
	benchBody   = `{"username":"somebody@example.com","password":"correct horse batter"}`
	benchAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n" +
		"Server: backend\r\nCache-Control: no-store\r\nSet-Cookie: sid=31d4d96e407aad42; Path=/; HttpOnly\r\nContent-Length: 27\r\n\r\n" +
		`{"token":"31d4d96e407aad4"}`
)

func benchBackend(b testing.TB) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), backendEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(addr)
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLogin sends a login and reads its answer, as a gateway does, with a context that can end.
func BenchmarkLogin(b *testing.B) {
	addr := benchBackend(b)
	dial := func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	std := &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		ResponseHeaderTimeout: 30 * time.Second, MaxIdleConnsPerHost: 64, DisableCompression: true,
		ReadBufferSize: 16 << 10, WriteBufferSize: 16 << 10,
	}
	own := New(Config{Dial: dial, ResponseTimeout: 30 * time.Second, IdleTimeout: 90 * time.Second, MaxIdle: 64})
	for _, side := range []struct {
		name string
		rt   http.RoundTripper
	}{{"transport", own}, {"net-http", std}} {
		b.Run(side.name, func(b *testing.B) {
			b.ReportAllocs()
			used := processorTime(b)
			buf := make([]byte, 32<<10)
			for b.Loop() {
				login(b, side.rt, addr, buf)
			}
			b.ReportMetric(float64(processorTime(b)-used)/float64(b.N), "cpu-ns/op")
		})
		b.Run(side.name+"-parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8)
			used := processorTime(b)
			b.RunParallel(func(pb *testing.PB) {
				buf := make([]byte, 32<<10)
				for pb.Next() {
					login(b, side.rt, addr, buf)
				}
			})
			b.ReportMetric(float64(processorTime(b)-used)/float64(b.N), "cpu-ns/op")
		})
	}
}

func login(b testing.TB, rt http.RoundTripper, addr string, buf []byte) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/api/login", io.NopCloser(strings.NewReader(benchBody)))
	if err != nil {
		b.Fatal(err)
	}
	req.ContentLength = int64(len(benchBody))
	req.Header["Content-Type"] = []string{"application/json"}
	req.Header["User-Agent"] = []string{"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/143.0"}
	req.Header["Accept"] = []string{"application/json"}
	req.Header["X-Forwarded-For"] = []string{"203.0.113.7"}
	req.Header["X-Forwarded-Proto"] = []string{"https"}
	req.Header["X-Request-Id"] = []string{"31d4d96e407aad4231d4d96e407aad42"}
	res, err := rt.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	for err == nil {
		_, err = res.Body.Read(buf)
	}
	if err != io.EOF {
		b.Fatal(err)
	}
	_ = res.Body.Close()
}
