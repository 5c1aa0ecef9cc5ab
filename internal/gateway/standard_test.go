package gateway_test

import (
	"flag"
	"os"
	"os/exec"
	"testing"
)

// standard has the standard library carry the requests to the backend, as it carries those over TLS anyway.
var standard = flag.Bool("standard-transport", false, "carry requests to the backend by net/http's transport")

// noBackend are slow tests in which no request crosses a transport.
const noBackend = "^Test(Model|CertificateReplaced)$"

// TestStandardTransport runs the tests of this package once more, over net/http's transport: nothing may depend on who
// carries a request.
func TestStandardTransport(t *testing.T) {
	if *standard {
		t.Skip("these are those tests")
	}
	if testing.Short() {
		t.Skip("they take as long again")
	}
	out, err := exec.Command(os.Args[0], "-standard-transport", "-test.skip", noBackend).CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
