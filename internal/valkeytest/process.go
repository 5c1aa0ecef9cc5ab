package valkeytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// oldest is the first major version that the gateway supports.
const oldest = 8

// errPortTaken says that somebody else listens on the port that the server was to have.
var errPortTaken = errors.New("the port is taken")

// process is one run of valkey-server.
type process struct {
	cmd     *exec.Cmd
	logFile string
	ended   chan struct{} // closed once the process is gone and reaped
}

// infoFunc asks whoever listens on the server's address for the server section of INFO.
type infoFunc func(context.Context) (map[string]string, error)

// launch runs the binary with its output in logFile, and returns without waiting for it to be ready.
func launch(binary, logFile string, args []string) (*process, error) {
	out, err := os.Create(logFile)
	if err != nil {
		return nil, fmt.Errorf("opening the server's log: %w", err)
	}
	defer out.Close()
	p := &process{cmd: exec.Command(binary, args...), logFile: logFile, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = diesWithTest()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ended is in the log
	}()
	return p, nil
}

// waitReady returns once info, which asks the address, is answered by this very process.
func (p *process) waitReady(ctx context.Context, info infoFunc) error {
	ctx, cancel := context.WithCancel(ctx) // so that nobody goes on asking
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- p.poll(ctx, info) }()
	select {
	case err := <-answered:
		return err
	case <-p.ended: // perhaps because another process got the port, which may leave the question unanswered
	}
	if strings.Contains(p.log(), "Address already in use") {
		return errPortTaken
	}
	return errors.New("it ended at once")
}

// poll asks until the process answers. On a shared machine another server may have got the port first.
func (p *process) poll(ctx context.Context, info infoFunc) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	err := errors.New("not asked")
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v: %w", readyWithin, err)
		case <-tick.C:
		}
		var answer map[string]string
		answer, err = info(ctx)
		if err == nil && answer["process_id"] == strconv.Itoa(p.cmd.Process.Pid) {
			return checkVersion(answer["valkey_version"])
		}
		if err == nil {
			err = errors.New("another server answered")
		}
	}
}

// kill ends the process and waits until it is gone, so that its port is free.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended already
	<-p.ended
}

// log returns what the process printed.
func (p *process) log() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text))
}

func checkVersion(version string) error {
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldest {
		return fmt.Errorf("its valkey_version is %q, and %d or newer is needed", version, oldest)
	}
	return nil
}

// pickPort returns a port of 127.0.0.1 that nobody listens on right now. It is below the range that Linux (32768 and up) and
// macOS (49152 and up) give to outgoing connections and to listeners on port 0: those cannot take it while a killed server
// is down, and a client that dials it then cannot meet itself.
func pickPort() int {
	const lowest, highest = 20000, 32000
	port := 0
	for range portTries {
		port = lowest + rand.IntN(highest-lowest)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			l.Close()
			return port
		}
	}
	return port // starting will say what is wrong with it
}
