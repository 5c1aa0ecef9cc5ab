package acmetest

import "syscall"

// diesWithTest makes the kernel end the authority when the test binary dies without cleaning up, as after a timeout.
func diesWithTest() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
