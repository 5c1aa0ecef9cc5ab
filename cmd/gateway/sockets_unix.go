//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// firstSocket is the descriptor of the first socket that a service manager hands over [sd_listen_fds(3)].
const firstSocket = 3

// inherited are the sockets that systemd opened for this process, in its order. Since they stay open while the service is
// restarted, no client is refused meanwhile. Their names do not matter: each is used for the address that it listens at.
func inherited() ([]net.Listener, error) {
	if pid, err := strconv.Atoi(os.Getenv("LISTEN_PID")); err != nil || pid != os.Getpid() {
		return nil, nil // meant for another process, or for none
	}
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || n < 0 {
		return nil, fmt.Errorf("taking over sockets: LISTEN_FDS is %q, and no number", os.Getenv("LISTEN_FDS"))
	}
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name) // not for what this process may start
	}
	var out []net.Listener
	for fd := firstSocket; fd < firstSocket+n; fd++ {
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "socket "+strconv.Itoa(fd))
		l, err := net.FileListener(f) // has a descriptor of its own
		_ = f.Close()
		if err != nil {
			for _, one := range out {
				_ = one.Close()
			}
			return nil, fmt.Errorf("taking over sockets: descriptor %d: %w", fd, err)
		}
		out = append(out, l)
	}
	return out, nil
}
