//go:build !unix

package transport

// talk stands in for the way in which sockets are used on unix systems. Here a connection that the upstream has closed
// is only found out by using it.
type talk struct{}

func (*talk) init(*conn) {}

func (*talk) able() bool { return false }

func (*talk) ask(_ *exchange, _, _ []byte) (n int, sent bool, err error) { return 0, false, errStale }

func (*talk) quiet() bool { return true }
