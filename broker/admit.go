package broker

import (
	"context"
	"slices"
	"sync"
	"time"
)

// admission is the write budget: it bounds the bytes of pushes under way and
// of what they left in the tail beyond the size at which it should have been
// flushed. Who does not fit waits in line.
type admission struct {
	budget int64        // negative: none
	over   func() int64 // bytes of the tail beyond its size

	mu      sync.Mutex
	taken   int64
	waiters []*admitted
}

// admitted is a push that waits, or has come through.
type admitted struct {
	bytes int64
	in    chan struct{} // closed when it came through
}

// admit reserves bytes of the write budget, waiting up to AdmitHoldMS. release
// gives them back and must be called once the push is durable or has failed.
// The error is a *Refusal.
func (b *Broker) admit(ctx context.Context, bytes int64) (release func(), err error) {
	a := &b.storage.admit
	if b.storage.disk.full.Load() {
		return nil, refuse(CodeStorageFull, "disk is nearly full: pushes are refused until space is freed")
	}
	if a.budget < 0 {
		return func() {}, nil
	}
	w := a.enter(bytes)
	release = func() { a.leave(w) }
	select {
	case <-w.in:
		return release, nil
	default:
	}
	hold := time.NewTimer(time.Duration(b.cfg.AdmitHoldMS) * time.Millisecond)
	defer hold.Stop()
	select {
	case <-w.in:
		return release, nil
	case <-ctx.Done():
		release()
		return nil, refuse(CodeTimeout, "deadline passed while waiting for the write budget; nothing was stored")
	case <-hold.C:
		release()
		return nil, refuse(CodeOverloaded, "the write budget is full")
	case <-b.quit:
		release()
		return nil, refuse(CodeTimeout, "the broker is closing; nothing was stored")
	}
}

func (a *admission) enter(bytes int64) *admitted {
	w := &admitted{bytes: bytes, in: make(chan struct{})}
	over := a.over()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiters = append(a.waiters, w)
	a.advance(over)
	return w
}

// leave takes a push out, whether it came through or not.
func (a *admission) leave(w *admitted) {
	over := a.over()
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.waiters, w); i >= 0 {
		a.waiters = slices.Delete(a.waiters, i, i+1)
	} else {
		a.taken -= w.bytes
	}
	a.advance(over)
}

// changed lets those in line look again.
func (a *admission) changed() {
	over := a.over()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(over)
}

// advance lets in who fits, first come first. One that is larger than the
// whole budget comes through alone.
func (a *admission) advance(over int64) {
	for len(a.waiters) > 0 {
		w := a.waiters[0]
		alone := a.taken == 0 && over == 0
		if a.taken+over+w.bytes > a.budget && !alone {
			return
		}
		a.taken += w.bytes
		a.waiters = a.waiters[1:]
		close(w.in)
	}
}

// tailOver is how many bytes the tail has beyond twice its size.
func (b *Broker) tailOver() (over int64) {
	b.locked(func() { over = max(b.state.tailBytes-2*b.cfg.TailBytes, 0) })
	return over
}
