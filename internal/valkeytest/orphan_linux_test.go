package valkeytest

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dieEnv makes TestServerDiesWithTest, in a process of its own, start a server and die without cleaning up.
const dieEnv = "VALKEYTEST_DIE"

func TestServerDiesWithTest(t *testing.T) {
	if os.Getenv(dieEnv) != "" {
		s := Start(t)
		os.Stdout.WriteString(strconv.Itoa(s.process.cmd.Process.Pid) + " " + s.dir)
		os.Exit(0) // runs no cleanup
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithTest$")
	cmd.Env = append(os.Environ(), dieEnv+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("running the test that dies: %v\n%s", err, out)
	}
	digits, dir, _ := strings.Cut(string(out), " ")
	defer os.RemoveAll(dir)
	pid, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("the test that dies printed %q, want the number of its server's process", out)
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	deadline := time.After(answerWithin)
	for !gone(pid) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the server outlived its test's process")
		}
	}
}

// gone reports whether the process has ended; one that nobody has reaped yet has.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
