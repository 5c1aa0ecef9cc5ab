package hostile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// backend is a real server that says of every request what it took it for: in its answer, and in an account of its own, which
// also tells of requests whose answers got lost.
type backend struct {
	name  string
	addr  string // of one within the test
	dial  func() (net.Conn, error)
	end   func()
	names bool // it reads names by itself, so that bodies are worth trying
	// whole is set where the account says how long each body was.
	whole bool

	mu      sync.Mutex
	account []seen
}

// seen is one request as a backend took it.
type seen struct {
	ID     string            `json:"id"` // what the gateway calls the request
	Login  bool              `json:"login"`
	Method string            `json:"method"`
	Target string            `json:"target"`
	Length int               `json:"length"` // of the body
	Sum    string            `json:"sum"`    // of the body, SHA-256
	Names  map[string]string `json:"names"`  // by reader
}

// reachedLogin reports whether the login handler ran, as a POST: any other method it would have refused.
func (s *seen) reachedLogin() bool { return s.Login && s.Method == "POST" }

func (b *backend) note(line []byte) {
	var s seen
	if json.Unmarshal(line, &s) != nil || s.Target == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account = append(b.account, s)
}

// take returns the account and begins a new one.
func (b *backend) take() []seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	account := b.account
	b.account = nil
	return account
}

// settle returns the account once all is in it that the backend has answered, and begins a new one. It asks the backend for
// something, and waits until that is in the account.
func (b *backend) settle(t testing.TB) []seen {
	t.Helper()
	conn, err := b.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	id := fmt.Sprintf("settled-%d", time.Now().UnixNano())
	if _, err := fmt.Fprintf(conn, "GET /settled HTTP/1.1\r\nHost: a\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n", id); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(answerTime); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		at := slices.IndexFunc(b.account, func(s seen) bool { return s.ID == id })
		b.mu.Unlock()
		if at >= 0 {
			return slices.DeleteFunc(b.take(), func(s seen) bool { return s.ID == id })
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not tell what it sees", b.name)
		}
	}
}

// errMissing says that a server is not installed.
var errMissing = errors.New("not installed")

// fleet are the backends of one run. It starts with the first test that wants it and ends with the last.
type fleet struct {
	once     sync.Once
	list     []*backend
	missing  []string
	problems []error
}

var backends fleet

// all returns every backend that can be run here. What is installed and does not start is a failure.
func (f *fleet) all(t testing.TB) []*backend {
	t.Helper()
	f.once.Do(f.start)
	for _, err := range f.problems {
		t.Fatal(err)
	}
	if len(f.missing) > 0 {
		t.Logf("left out, since not installed: %s", strings.Join(f.missing, ", "))
	}
	return f.list
}

func (f *fleet) start() {
	starters := []struct {
		name  string
		start func() (*backend, error)
	}{
		{"go", startGo},
		{"node", scripted("node", "backend.js")},
		{"python", scripted("python3", "backend.py")},
		{"ruby", scripted("ruby", "backend.rb")},
		{"php", startPHP},
		{"nginx", startNginx},
	}
	var wait sync.WaitGroup
	started, errs := make([]*backend, len(starters)), make([]error, len(starters))
	for i, s := range starters {
		wait.Go(func() { started[i], errs[i] = s.start() })
	}
	wait.Wait()
	for i, s := range starters {
		switch b := started[i]; {
		case errors.Is(errs[i], errMissing):
			f.missing = append(f.missing, s.name)
		case errs[i] != nil:
			f.problems = append(f.problems, fmt.Errorf("starting %s: %w", s.name, errs[i]))
		default:
			b.name = s.name
			f.list = append(f.list, b)
		}
	}
}

func (f *fleet) stop() {
	for _, b := range f.list {
		b.end()
	}
}

// startTime is what a server is given to come up: minutes, for a machine that does other things.
const startTime = 2 * time.Minute

// run starts a command that ends with the tests at the latest, and hands every line that it prints to each.
func run(each func(line []byte), name string, args ...string) (end func(), err error) {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = diesWithTest()
	stdin, err := cmd.StdinPipe() // its end tells the scripts to leave
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			each(lines.Bytes())
		}
	}()
	return func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	}, nil
}

// scripted makes a starter of an interpreter's script that chooses its port and prints it first.
func scripted(interpreter, script string) func() (*backend, error) {
	return func() (*backend, error) {
		path, err := exec.LookPath(interpreter)
		if err != nil {
			return nil, errMissing
		}
		if interpreter == "ruby" && exec.Command(path, "-e", "require 'rack'; require 'webrick'; Rack::Handler::WEBrick").Run() != nil {
			return nil, errMissing
		}
		b := &backend{names: true, whole: true}
		port, known := make(chan int, 1), false
		b.end, err = run(func(line []byte) {
			if known {
				b.note(line)
				return
			}
			var first struct{ Port int }
			if json.Unmarshal(line, &first) == nil && first.Port != 0 {
				known = true
				port <- first.Port
			}
		}, path, filepath.Join("testdata", script))
		if err != nil {
			return nil, err
		}
		select {
		case p := <-port:
			b.dial = dialer("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			return b, nil
		case <-time.After(startTime):
			b.end()
			return nil, errors.New("it does not say that it is there")
		}
	}
}

func dialer(network, address string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.DialTimeout(network, address, 20*time.Second) }
}

// startPHP starts the server that comes with PHP. It answers one request after the other and does not say which port it
// has, so one is chosen; another process may get it first.
func startPHP() (*backend, error) {
	path, err := exec.LookPath("php")
	if err != nil {
		return nil, errMissing
	}
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		address := l.Addr().String()
		_ = l.Close()
		b := &backend{names: true, dial: dialer("tcp", address)}
		b.end, err = run(b.note, path, "-d", "html_errors=0", "-S", address, "-t", filepath.Join("testdata", "php"))
		if err != nil {
			return nil, err
		}
		if b.comesUp() {
			return b, nil
		}
		b.end()
	}
	return nil, errors.New("it does not answer")
}

// startNginx starts nginx in front of a Go server of its own. Its account is the Go server's.
func startNginx() (*backend, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return nil, errMissing
		}
	}
	behind, address, err := newGo(true)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile("testdata/nginx.conf")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		return nil, err
	}
	conf := strings.NewReplacer("DIR", dir, "GO", address).Replace(string(text))
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600); err != nil {
		return nil, err
	}
	endNginx, err := run(func([]byte) {}, path, "-e", filepath.Join(dir, "error.log"), "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	if err != nil {
		return nil, err
	}
	b := behind
	endGo := b.end
	b.dial = dialer("unix", filepath.Join(dir, "socket"))
	b.names = false // its Go server reads what it reads without it
	b.end = func() {
		endNginx()
		endGo()
		_ = os.RemoveAll(dir)
	}
	if !b.comesUp() {
		why, _ := os.ReadFile(filepath.Join(dir, "error.log"))
		b.end()
		return nil, fmt.Errorf("it does not answer: %s", why)
	}
	return b, nil
}

// comesUp waits until the server takes connections.
func (b *backend) comesUp() bool {
	for end := time.Now().Add(startTime / 5); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err := b.dial(); err == nil {
			_ = c.Close()
			return true
		}
	}
	return false
}
