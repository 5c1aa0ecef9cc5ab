package hostile

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// Clients that stall do not keep the backend from others: neither those who ask and never read, nor those who never send what
// they announced.
func TestStalledClients(t *testing.T) {
	tally := class("stalled clients")
	for _, say := range []string{"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", "POST /open HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"} {
		b := &counting{}
		s := &abused{site: beginDirect(t, inProcess(t, b), hasty+", max_upstream: 20", abusePolicies), backend: b}
		var conns []net.Conn
		tries := 0
		got := func() int {
			conn := open(t, s.addr())
			defer conn.close()
			tries++ // each in a name of its own: those that find no room are charged, too
			a, err := conn.ask(signIn("/login", fmt.Sprint("honest", tries)))
			if err != nil {
				return 0
			}
			return a.status
		}
		taken := func() bool { // for as long as the gateway waits for those who stall; on a busy machine that may pass unseen
			conns = append(conns, s.dial(t, tally, 40, say)...) // twice as many as there are places, for an honest one may have had one first
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
				if got() == 503 {
					return true
				}
			}
			return false
		}
		if !eventually(taken) {
			t.Errorf("%q: the places are not taken, so this shows little", say)
		}
		if !eventually(func() bool { return got() == 200 }) {
			tally.evasion(t, "%q: nobody gets through any more", say)
		}
		for _, c := range conns {
			_ = c.Close()
		}
	}
}
