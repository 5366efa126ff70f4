package api

import (
	"context"
	"sync/atomic"
	"time"
)

// deadline is the context of an operation that may take so long.
func (r *request) deadline(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.server.background, d)
}

// sharedDeadline gives contexts to operations that may take d each. Those that
// begin within a 64th of it share one and may take up to that much longer, so that
// a request needs no timer of its own.
type sharedDeadline struct {
	d    time.Duration
	last atomic.Pointer[begun]
}

// begun is a context and until when it is given.
type begun struct {
	ctx   context.Context
	until time.Time
}

// from returns the context of an operation that begins now. It ends by itself.
func (s *sharedDeadline) from(parent context.Context, now time.Time) context.Context {
	if b := s.last.Load(); b != nil && now.Before(b.until) {
		return b.ctx
	}
	spread := s.d / 64
	ctx, cancel := context.WithTimeout(parent, s.d+spread)
	context.AfterFunc(ctx, cancel)
	s.last.Store(&begun{ctx, now.Add(spread)})
	return ctx
}
