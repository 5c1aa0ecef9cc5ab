package valkeystore

import (
	"context"
	"sync/atomic"
	"time"
)

// allowance gives each call the time that it may take. Calls that begin at nearly the same moment share a context: to make one with a
// timer for each, and to take it down, costs as much as all else that is done here for a call. The zero value gives none.
type allowance struct {
	most    time.Duration
	current atomic.Pointer[span]
}

// span is a context with the time until which calls may begin with it: each has at least seven eighths of the time, and no call
// more than all of it.
type span struct {
	ctx    context.Context
	cancel context.CancelFunc // not needed: it ends by itself
	until  time.Time
}

func (a *allowance) context() context.Context {
	now := time.Now()
	if s := a.current.Load(); s != nil && now.Before(s.until) {
		return s.ctx
	}
	s := &span{until: now.Add(a.most / 8)}
	s.ctx, s.cancel = context.WithDeadline(context.Background(), now.Add(a.most))
	a.current.Store(s)
	return s.ctx
}
