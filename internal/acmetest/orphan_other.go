//go:build !linux

package acmetest

import "syscall"

// diesWithTest has no counterpart outside Linux: a test binary that dies without cleaning up leaves its server behind.
func diesWithTest() *syscall.SysProcAttr { return nil }
