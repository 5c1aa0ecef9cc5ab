package gateway_test

import (
	"flag"
	"os"
	"os/exec"
	"testing"
)

// standard has the standard library read all requests and carry them to the backend, as it does with those over TLS anyway.
var standard = flag.Bool("standard", false, "serve clients by net/http's server, and ask the backend by its transport")

// noBackend are slow tests in which no request crosses a socket.
const noBackend = "^Test(Model|CertificateReplaced)$"

// TestStandard runs the tests of this package once more, over net/http's server and transport: nothing may depend on who
// reads and carries a request.
func TestStandard(t *testing.T) {
	if *standard {
		t.Skip("these are those tests")
	}
	if testing.Short() {
		t.Skip("they take as long again")
	}
	out, err := exec.Command(os.Args[0], "-standard", "-test.skip", noBackend).CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
