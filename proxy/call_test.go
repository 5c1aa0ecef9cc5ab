package proxy

import (
	"context"
	"net/http"
	"testing"

	"authgate/limits"
)

// The context of a call does what any context does, whoever looks at it and when.
func TestCallContext(t *testing.T) {
	for _, judged := range []bool{false, true} {
		for _, free := range []int{0, 1} { // places for calls that go on without their client
			client, hangUp := context.WithCancel(context.Background())
			h := &Handler{closing: context.Background(), orphans: newSlots(free)}
			r, _ := http.NewRequestWithContext(client, http.MethodPost, "/", nil)
			x := &exchange{h: h, Plan: &Plan{upstream: &Upstream{}}, r: r}
			if judged {
				x.reservation = &limits.Reservation{}
			}
			c := &x.call
			c.begin(x)
			called := make(chan struct{})
			c.AfterFunc(func() { close(called) })
			child, cancel := context.WithCancel(c)
			defer cancel()
			if c.Err() != nil || child.Err() != nil {
				t.Fatalf("judged %v: ended before it began: %v", judged, c.Err())
			}
			hangUp()
			goesOn := judged && free > 0
			if !goesOn {
				<-c.Done()
				<-called
			}
			if ended := c.Err() != nil; ended == goesOn {
				t.Errorf("judged %v, %d places: ended %v when the client hung up", judged, free, ended)
			}
			c.end()
			<-c.Done()
			<-child.Done()
			<-called
			if c.Err() != context.Canceled {
				t.Errorf("judged %v: got %v after the end, want %v", judged, c.Err(), context.Canceled)
			}
			if len(h.orphans.c) != 0 {
				t.Errorf("judged %v: a place is still taken", judged)
			}
		}
	}
}

// A call that is over has ended even if its client stays, whenever its context is first looked at.
func TestCallContextEnds(t *testing.T) {
	client, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	for _, early := range []bool{true, false} {
		r, _ := http.NewRequestWithContext(client, http.MethodPost, "/", nil)
		x := &exchange{h: &Handler{closing: context.Background(), orphans: newSlots(1)}, r: r, reservation: &limits.Reservation{}}
		c := &x.call
		c.begin(x)
		if early {
			c.Done()
		}
		c.end()
		select {
		case <-c.Done():
		default:
			t.Errorf("asked early %v: the call is over and its context is not", early)
		}
	}
}
