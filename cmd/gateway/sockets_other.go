//go:build !unix

package main

import "net"

// inherited are the sockets that a service manager handed over, which there is none of on this system.
func inherited() ([]net.Listener, error) { return nil, nil }
