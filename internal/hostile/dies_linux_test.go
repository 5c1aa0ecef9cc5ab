package hostile

import "syscall"

// diesWithTest makes the kernel end a server when the test binary dies without cleaning up, as after a timeout.
func diesWithTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
