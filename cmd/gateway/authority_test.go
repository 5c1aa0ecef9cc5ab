package main

import (
	"net"
	"os"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"authgate/internal/acmetest"
)

// authority runs a real ACME authority:
//
//	authority start TLS HTTP    it validates at these two addresses; $DIRECTORY is its own, ca.pem whom to believe there,
//	                            root.pem what its certificates lead to
//	authority issued N          it has issued so many
func (s *story) runAuthority(ts *testscript.TestScript, args []string) {
	switch {
	case len(args) == 3 && args[0] == "start":
		s.authority = acmetest.Start(s.t, acmetest.Settings{TLSPort: portOf(ts, args[1]), HTTPPort: portOf(ts, args[2])})
		ts.Setenv("DIRECTORY", s.authority.Directory)
		for name, from := range map[string]string{"ca.pem": s.authority.CAFile, "root.pem": s.authority.RootFile()} {
			data, err := os.ReadFile(from)
			ts.Check(err)
			ts.Check(os.WriteFile(ts.MkAbs(name), data, 0o600))
		}
	case len(args) == 2 && args[0] == "issued":
		if got, want := s.authority.Issued(), number(ts, args[1]); got != want {
			ts.Fatalf("%d certificates were issued, want %d:\n%s", got, want, s.authority.Log())
		}
	default:
		ts.Fatalf("usage: authority start TLS HTTP | authority issued N")
	}
}

func portOf(ts *testscript.TestScript, addr string) int {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		ts.Fatalf("%v", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		ts.Fatalf("%v", err)
	}
	return n
}

// makePair writes a certificate that signs itself: pair FILE KEYFILE NAME...
func (s *story) makePair(ts *testscript.TestScript, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: pair FILE KEYFILE NAME...")
	}
	cert, key := acmetest.Pair(s.t, time.Hour, args[2:]...)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), cert, 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), key, 0o600))
}
