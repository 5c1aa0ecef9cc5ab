package valkeytest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestStart(t *testing.T) {
	a, b := Start(t), Start(t)
	if a.Addr() == b.Addr() {
		t.Fatalf("two servers have the address %s", a.Addr())
	}
	a.Do("SET", "who", "a")
	b.Do("SET", "who", "b")
	if got := a.Do("GET", "who"); got != "a" {
		t.Errorf("GET on the first server = %v, want a", got)
	}
	if got := a.Do("DEBUG", "SLEEP", "0"); got != "OK" {
		t.Errorf("DEBUG SLEEP 0 = %v, want OK", got)
	}
	for key, want := range map[string]string{"save": "", "appendonly": "no", "bind": "127.0.0.1"} {
		if got := a.Do("CONFIG", "GET", key); !reflect.DeepEqual(got, map[string]any{key: want}) {
			t.Errorf("CONFIG GET %s = %v, want %q", key, got, want)
		}
	}
}

func TestDoReplies(t *testing.T) {
	s := Start(t)
	for _, tt := range []struct {
		name string
		args []string
		want any
	}{
		{"status", []string{"SET", "k", "v"}, "OK"},
		{"string", []string{"GET", "k"}, "v"},
		{"nil", []string{"GET", "missing"}, nil},
		{"integer", []string{"STRLEN", "k"}, int64(1)},
		{"array", []string{"MGET", "k"}, []any{"v"}},
		{"binary and empty", []string{"ECHO", "\x00\r\n"}, "\x00\r\n"},
	} {
		if got := s.Do(tt.args...); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: Do(%q) = %#v, want %#v", tt.name, tt.args, got, tt.want)
		}
	}
	got := fatal(t, func(tb testing.TB) {
		s.t = tb
		s.Do("INCR", "k")
	})
	if !strings.Contains(got, "valkey INCR k: ") {
		t.Errorf("Do with an error reply ended the test with %q", got)
	}
}

func TestKillAndRestart(t *testing.T) {
	s := Start(t, Flag("maxmemory", "7mb"))
	addr := s.Addr()
	s.Config("maxclients", "77")
	if got := s.Do("CONFIG", "GET", "maxclients"); !reflect.DeepEqual(got, map[string]any{"maxclients": "77"}) {
		t.Errorf("maxclients after Config = %v, want 77", got)
	}
	s.Do("SET", "k", "v")

	s.Kill()
	s.Kill() // twice does no harm
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Fatal("a killed server still accepts connections")
	}
	s.Restart()
	if s.Addr() != addr {
		t.Errorf("address after Restart = %s, want %s", s.Addr(), addr)
	}
	if got := s.Do("GET", "k"); got != nil {
		t.Errorf("GET after Restart = %v, want nothing", got)
	}
	if got := s.Do("CONFIG", "GET", "maxmemory"); !reflect.DeepEqual(got, map[string]any{"maxmemory": "7340032"}) {
		t.Errorf("a Flag after Restart = %v, want 7340032", got)
	}
	if got := s.Do("CONFIG", "GET", "maxclients"); reflect.DeepEqual(got, map[string]any{"maxclients": "77"}) {
		t.Error("a Config outlived Restart")
	}
	s.Restart() // of a running server
	s.Do("PING")
}

func TestPauseAndResume(t *testing.T) {
	s := Start(t)
	s.Pause()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatalf("connecting to a paused server: %v", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 7)
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(reply); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a paused server answered %q, %v", reply[:n], err)
	}
	s.Resume()
	if err := conn.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(reply); string(reply[:n]) != "+PONG\r\n" {
		t.Fatalf("a resumed server answered %q, %v", reply[:n], err)
	}
	s.Pause()
	s.Kill() // a paused server can be killed
	got := fatal(t, func(tb testing.TB) {
		s.t = tb
		s.Pause()
	})
	if !strings.Contains(got, "it is down") {
		t.Errorf("Pause of a server that is down ended the test with %q", got)
	}
}

func TestPasswordIsKnownToDo(t *testing.T) {
	s := Start(t, Flag("requirepass", "letmein"))
	s.Do("SET", "k", "v")
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET k\r\n")); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 64)
	if n, err := conn.Read(reply); !strings.HasPrefix(string(reply[:n]), "-NOAUTH") {
		t.Errorf("a client without the password got %q, %v", reply[:n], err)
	}
}

func TestUnixSocket(t *testing.T) {
	s := Start(t, UnixSocket())
	conn, err := net.Dial("unix", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	s.Restart()
	if got := s.Do("CONFIG", "GET", "port"); !reflect.DeepEqual(got, map[string]any{"port": "0"}) {
		t.Errorf("CONFIG GET port = %v, want 0", got)
	}
}

func TestStats(t *testing.T) {
	s := Start(t)
	if got, found := s.Stats()["get"]; found {
		t.Errorf("Stats before any GET = %+v", got)
	}
	s.Do("SET", "k", "v")
	s.Do("GET", "k")
	s.Do("GET", "k")
	if _, err := s.ask(t.Context(), "INCR", "k"); err == nil {
		t.Error("INCR of a word succeeded")
	}
	stats := s.Stats()
	if got := stats["get"]; got.Calls != 2 || got.Failed != 0 || got.Time > time.Second {
		t.Errorf("Stats of GET = %+v, want two calls", got)
	}
	if got := stats["incr"]; got.Calls != 1 || got.Failed != 1 {
		t.Errorf("Stats of INCR = %+v, want one call, failed", got)
	}
}

func TestParseStat(t *testing.T) {
	got := parseStat("calls=3,usec=1500,usec_per_call=500.00,rejected_calls=2,failed_calls=1")
	want := Stat{Calls: 3, Rejected: 2, Failed: 1, Time: 1500 * time.Microsecond}
	if got != want {
		t.Errorf("parseStat = %+v, want %+v", got, want)
	}
}

func TestTakenPorts(t *testing.T) {
	squatter, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	taken := squatter.Addr().(*net.TCPAddr).Port

	t.Run("the next one is tried", func(t *testing.T) {
		calls := 0
		s := Start(t, func(s *settings) {
			s.pick = func() int {
				if calls++; calls == 1 {
					return taken
				}
				return pickPort()
			}
		})
		if calls != 2 || s.port == taken {
			t.Errorf("port %d after %d tries, want another than %d after 2", s.port, calls, taken)
		}
	})
	t.Run("it gives up", func(t *testing.T) {
		got := fatal(t, func(tb testing.TB) {
			Start(tb, func(s *settings) { s.pick = func() int { return taken } })
		})
		if !strings.Contains(got, errPortTaken.Error()) {
			t.Errorf("Start without a free port ended the test with %q", got)
		}
	})
}

func TestRestartWaitsForItsPort(t *testing.T) {
	s := Start(t)
	s.Kill()
	squatter, err := net.Listen("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { squatter.Close() })
	s.Restart()
	s.Do("PING")
}

func TestCleanup(t *testing.T) {
	var s *Server
	var p *process
	t.Run("with a server", func(t *testing.T) {
		s = Start(t)
		p = s.process
	})
	select {
	case <-p.ended:
	default:
		t.Error("the server outlived its test")
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the server's folder outlived its test: %v", err)
	}
}

func TestStartFails(t *testing.T) {
	for _, tt := range []struct {
		name, server string
		opts         []Option
		want         string
	}{
		{"no server", "/nowhere/valkey-server", nil, "make test"},
		{"unknown setting", os.Getenv("VALKEY_SERVER"), []Option{Flag("no-such-setting", "1")}, "no-such-setting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("VALKEY_SERVER", tt.server)
			got := fatal(t, func(tb testing.TB) { Start(tb, tt.opts...) })
			if !strings.Contains(got, tt.want) {
				t.Errorf("Start ended the test with %q, want a word of %q", got, tt.want)
			}
		})
	}
}

func TestCheckVersion(t *testing.T) {
	for version, ok := range map[string]bool{"8.0.1": true, "9.1.0": true, "10.0.0": true, "7.2.11": false, "": false} {
		if err := checkVersion(version); (err == nil) != ok {
			t.Errorf("checkVersion(%q) = %v", version, err)
		}
	}
}

func TestSomebodyElseAnswers(t *testing.T) {
	s := Start(t)
	other := Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.process.waitReady(ctx, other.info); err == nil {
		t.Error("the answer of another server passed for its own")
	}
}

// fatal runs f and returns the message with which it ended its test.
func fatal(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	tb := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(tb)
	}()
	<-done
	if tb.message == "" {
		t.Fatal("the test went on")
	}
	return tb.message
}

// recorder is a test that keeps the message of its end instead of failing.
type recorder struct {
	testing.TB
	message string
}

func (r *recorder) Fatal(args ...any) {
	r.message = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }
