package main

import (
	"testing"

	"authgate/clientip"
	"authgate/internal/gateway"
)

// Every way in which an address may be found is told in a sentence.
func TestReasonText(t *testing.T) {
	n := 0
	for r := clientip.Reason(0); r.String() != "invalid"; r++ {
		n++
		c := &gateway.ClientView{Reason: r.String(), Header: "X-Forwarded-For"}
		if got := reasonText(c); got == c.Reason {
			t.Errorf("%s has no sentence", c.Reason)
		}
	}
	if n < 10 {
		t.Errorf("got %d reasons", n)
	}
}

func TestSeconds(t *testing.T) {
	for n, want := range map[float64]string{1: "1s", 90: "1m30s", 60: "1m", 600: "10m", 3600: "1h", 36000: "10h", 5400: "1h30m", 86400: "24h", 3601: "1h0m1s"} {
		if got := seconds(n); got != want {
			t.Errorf("%v: got %s, want %s", n, got, want)
		}
	}
}
