package gateway

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is how many bytes the system has for the client that it has not taken; false if nobody can tell.
func unsent(c net.Conn) (n int, ok bool) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, false
	}
	var failed error
	err = raw.Control(func(fd uintptr) { n, failed = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
	return n, err == nil && failed == nil
}
