//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that was started, with those that it has started.
type process struct {
	cmd *exec.Cmd
	log string
}

// launch starts a program and waits until something listens at address.
func launch(ctx context.Context, dir, address, name string, args ...string) (*process, error) {
	log := filepath.Join(dir, filepath.Base(name)+"-"+strings.ReplaceAll(address, ":", "-")+".log")
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, log}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			return p, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			p.stop()
			text, _ := os.ReadFile(log)
			return nil, errors.Join(ctx.Err(), fmt.Errorf("%s does not listen at %s: %s", name, address, text))
		}
	}
}

func (p *process) stop() {
	if p == nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// tree are the process and its descendants.
func (p *process) tree() []int {
	parents := map[int]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		if f := stat(pid); len(f) > 1 {
			parents[pid], _ = strconv.Atoi(f[1])
		}
	}
	tree := []int{p.cmd.Process.Pid}
	for i := 0; i < len(tree); i++ {
		for pid, parent := range parents {
			if parent == tree[i] {
				tree = append(tree, pid)
			}
		}
	}
	return tree
}

// stat are the fields of a process after its name, from the state on; see proc_pid_stat(5).
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// tick is the unit of times in stat: a hundredth of a second on every Linux.
const tick = 10 * time.Millisecond

// used is the processor time, user and system, that the tree has taken so far.
func (p *process) used() time.Duration {
	var sum time.Duration
	for _, pid := range p.tree() {
		if f := stat(pid); len(f) > 12 {
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			sum += time.Duration(user+system) * tick
		}
	}
	return sum
}

// memory is what the tree holds in memory, in MiB.
func (p *process) memory() float64 {
	pages := 0
	for _, pid := range p.tree() {
		if f := stat(pid); len(f) > 21 {
			n, _ := strconv.Atoi(f[21])
			pages += n
		}
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}
