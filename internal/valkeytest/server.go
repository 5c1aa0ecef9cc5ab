// Package valkeytest runs a real valkey-server for one test, and breaks it on request.
//
// A server starts in about 20 ms, so a test has one of its own; subtests share it by passing it along. There is no stand-in
// and no skipping: where no server is installed, the test fails and says what to run.
package valkeytest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const (
	// readyWithin bounds the wait for a server that is starting. It takes 20 ms on an idle machine; the rest is for busy ones.
	readyWithin = 20 * time.Second
	// pollEvery is the pause between two looks at a server that is starting.
	pollEvery = time.Millisecond
	// portTries bounds how often another port is tried because somebody took the one that was free.
	portTries = 20
)

// Server is a valkey-server process that belongs to one test. It listens on loopback, keeps nothing on disk that outlives
// the test, and answers DEBUG commands. Addr, Do, Config and Stats may be called from several goroutines; Kill, Restart,
// Pause and Resume from one at a time. Every method but Addr and CAFile ends the test when it cannot do its work, so call
// them from the test's own goroutine.
type Server struct {
	t        testing.TB
	binary   string
	dir      string // its own folder: log, socket, certificates
	settings settings
	port     int // 0: a unix socket
	tls      identity
	process  *process
}

// Option changes how a server starts.
type Option func(*settings)

type settings struct {
	flags  [][]string
	socket bool
	tls    bool
	pick   func() int // a port that seems free
}

// Flag passes a setting of valkey.conf on the command line, as in Flag("maxmemory", "1mb"). Unlike what Config sets, it
// outlives a Restart. Do knows the password of Flag("requirepass", password).
func Flag(key string, values ...string) Option {
	return func(s *settings) { s.flags = append(s.flags, append([]string{"--" + key}, values...)) }
}

// UnixSocket makes the server listen on a unix socket alone: Addr is its path.
func UnixSocket() Option {
	return func(s *settings) { s.socket = true }
}

// TLS makes the server speak TLS alone, with a certificate for 127.0.0.1 and localhost that the authority in CAFile signed.
func TLS() Option {
	return func(s *settings) { s.tls = true }
}

// Start runs a server on a free port of 127.0.0.1, waits until it answers and stops it when the test ends.
// Call it outside a synctest bubble: a process lives in real time.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{t: t, settings: settings{pick: pickPort}}
	for _, opt := range opts {
		opt(&s.settings)
	}
	var err error
	if s.binary, err = find(os.Getenv("VALKEY_SERVER")); err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: with a long test name the path of a unix socket would pass the kernel's 107 bytes.
	if s.dir, err = os.MkdirTemp("", "valkey"); err != nil {
		t.Fatalf("making the server's folder: %v", err)
	}
	t.Cleanup(s.clean)
	if s.settings.tls {
		if s.tls, err = newIdentity(s.dir); err != nil {
			t.Fatalf("making the server's certificate: %v", err)
		}
	}
	if err := s.startSomewhere(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Addr is where clients connect: host and port, or the path of the unix socket. It stays the same for the server's life.
func (s *Server) Addr() string {
	if s.settings.socket {
		return filepath.Join(s.dir, "socket")
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// CAFile is the path of the PEM file with the authority of a TLS server, empty without TLS.
func (s *Server) CAFile() string { return s.tls.caFile }

// Kill ends the process at once (SIGKILL), with all that it held. On a server that is down it does nothing.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

// Restart starts the server again on the same address, empty, after killing it if it runs. It waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	// Should somebody hold the port for a moment, wait for it: clients know only this one.
	deadline := time.Now().Add(readyWithin)
	err := s.start()
	for errors.Is(err, errPortTaken) && time.Now().Before(deadline) {
		err = s.start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Pause stops the process without ending it (SIGSTOP): connections are accepted by the kernel, and nothing answers.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
}

// Resume lets a paused server go on (SIGCONT); it then answers what has piled up.
func (s *Server) Resume() {
	s.t.Helper()
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.process == nil {
		s.t.Fatalf("sending %v to the valkey-server: it is down", sig)
	}
	if err := s.process.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("sending %v to the valkey-server: %v", sig, err)
	}
}

func (s *Server) clean() {
	s.Kill()
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Errorf("removing the server's folder: %v", err)
	}
}

// startSomewhere starts the server on the first picked port that nobody takes in the meantime.
func (s *Server) startSomewhere() error {
	var err error
	for range portTries {
		if !s.settings.socket {
			s.port = s.settings.pick()
		}
		if err = s.start(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// start runs the process and waits until it answers.
func (s *Server) start() error {
	p, err := launch(s.binary, filepath.Join(s.dir, "log"), s.args())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	asked := *s // a question that is left unanswered must not see the address of the next try
	if err := p.waitReady(ctx, asked.info); err != nil {
		p.kill()
		return fmt.Errorf("starting %s: %w; its log:\n%s", s.binary, err, p.log())
	}
	s.process = p
	return nil
}

func (s *Server) args() []string {
	args := []string{
		"--save", "", "--appendonly", "no", "--dir", s.dir, "--bind", "127.0.0.1",
		"--enable-debug-command", "yes", "--daemonize", "no", "--logfile", "",
	}
	port := strconv.Itoa(s.port)
	switch {
	case s.settings.socket:
		args = append(args, "--port", "0", "--unixsocket", s.Addr())
	case s.settings.tls:
		args = append(args, "--port", "0", "--tls-port", port, "--tls-auth-clients", "no",
			"--tls-ca-cert-file", s.tls.caFile, "--tls-cert-file", s.tls.certFile, "--tls-key-file", s.tls.keyFile)
	default:
		args = append(args, "--port", port)
	}
	for _, flag := range s.settings.flags {
		args = append(args, flag...)
	}
	return args
}

// find returns the path of the server to run: the named one, or else the one on PATH.
func find(named string) (string, error) {
	name := named
	if name == "" {
		name = "valkey-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("finding valkey-server: %w; run `make test`, which installs it, or set VALKEY_SERVER to its path", err)
	}
	return path, nil
}
