//go:build unix && (race || !linux || (!amd64 && !arm64))

package socket

import "syscall"

// The race detector takes what passes through a socket for an order of events only if it is told of it; other systems than Linux have
// no stable system calls, and not every processor's numbers for them are known to package syscall.

func read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

func write(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
