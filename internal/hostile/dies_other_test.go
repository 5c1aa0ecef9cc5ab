//go:build !linux

package hostile

import "syscall"

// diesWithTest can ask for nothing here: a server outlives a test binary that dies without cleaning up.
func diesWithTest() *syscall.SysProcAttr { return nil }
