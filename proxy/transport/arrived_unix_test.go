//go:build unix

package transport

import "syscall"

// arrived reports whether there is something to read from a socket, be it its end, and leaves it there.
func arrived(fd uintptr) bool {
	_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
	return err != syscall.EAGAIN
}
