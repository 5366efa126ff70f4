package broker

import (
	"cmp"
	"slices"

	"queend/sched"
)

// waiter is a parked pop. One pop has one waiter and one arrival number for
// its whole life: a pop that was woken and got nothing keeps its place.
type waiter struct {
	arrival uint64
	wake    chan struct{} // one token; told when woken or timed out
	due     int64         // microseconds: its time is over
	armed   bool          // the wheel knows due
	expired bool          // the wheel says its time is over
	parked  *waitList     // where it waits, nil while it runs
	// token is the partition it was woken for: until it claims that partition
	// it must pass the wake on when it leaves.
	token      *partition
	tokenGroup *group
}

// waitList holds parked pops in the order of their arrival.
type waitList struct {
	waiters []*waiter
	emptied func() // called when the last one left; may be nil
}

func byArrival(w *waiter, arrival uint64) int { return cmp.Compare(w.arrival, arrival) }

func (l *waitList) add(w *waiter) {
	i, _ := slices.BinarySearchFunc(l.waiters, w.arrival, byArrival)
	l.waiters = slices.Insert(l.waiters, i, w)
	w.parked = l
}

func (l *waitList) remove(w *waiter) {
	if i, found := slices.BinarySearchFunc(l.waiters, w.arrival, byArrival); found {
		l.waiters = slices.Delete(l.waiters, i, i+1)
	}
	w.parked = nil
	l.left()
}

// left lets go of what an empty list holds.
func (l *waitList) left() {
	if len(l.waiters) == 0 && l.emptied != nil {
		l.emptied()
	}
}

// first returns the oldest waiter, nil when nobody waits.
func (l *waitList) first() *waiter {
	if l == nil || len(l.waiters) == 0 {
		return nil
	}
	return l.waiters[0]
}

// newWaiter registers a pop that may have to wait until due.
func (b *Broker) newWaiter(due int64) *waiter {
	b.delivery.arrivals++
	w := &waiter{arrival: b.delivery.arrivals, wake: make(chan struct{}, 1), due: due}
	b.delivery.waiters[w.arrival] = w
	return w
}

// armWaiter has the wheel end a wait in time. Most pops are served at once
// and never come to it.
func (b *Broker) armWaiter(w *waiter) {
	if !w.armed {
		w.armed = true
		b.at(w.due, sched.Key{Kind: wheelWaiter, A: w.arrival})
	}
}

// rouse tells a waiter to look again. It is safe to tell it twice.
func (w *waiter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// wakeFor wakes the oldest pop that may claim p for g: those on the queue, on
// the partition and on a label that covers the queue share one order.
func (b *Broker) wakeFor(g *group, p *partition) {
	oldest := g.d.waiters.first()
	consider := func(w *waiter) {
		if w != nil && (oldest == nil || w.arrival < oldest.arrival) {
			oldest = w
		}
	}
	consider(g.d.pinned[p.name].first())
	for _, l := range g.d.labels {
		consider(l.d.waiters.first())
	}
	if oldest == nil {
		return
	}
	oldest.parked.remove(oldest)
	oldest.token, oldest.tokenGroup = p, g
	oldest.rouse()
}

// leave ends a waiter: it waits no more, and a wake it did not use goes on.
func (b *Broker) leave(w *waiter) {
	if w.parked != nil {
		w.parked.remove(w)
	}
	delete(b.delivery.waiters, w.arrival)
	b.passOn(w)
}

// passOn hands the wake of a waiter to the next one, if what it was woken
// for is still there to be claimed.
func (b *Broker) passOn(w *waiter) {
	p, g := w.token, w.tokenGroup
	w.token, w.tokenGroup = nil, nil
	if p == nil || p.ord < 0 || !g.d.ring.has(p) {
		return
	}
	// The ring may be out of date: two pops would then wake each other for ever.
	if state, _ := b.lookAt(p, g, b.now()); state == laneReady {
		b.wakeFor(g, p)
	}
}

// StopWaiting answers every parked pop at once and lets none park any more:
// the broker is about to close.
func (b *Broker) StopWaiting() {
	b.locked(func() {
		b.delivery.stopping = true
		for _, w := range b.delivery.waiters {
			w.expired = true
			w.rouse()
		}
	})
}

// pinned returns the line of pops that want one partition, by its name: it
// need not exist yet. The caller adds a pop to it; it is gone with its last one.
func (g *group) pinned(name string) *waitList {
	list := g.d.pinned[name]
	if list == nil {
		list = &waitList{emptied: func() { delete(g.d.pinned, name) }}
		if g.d.pinned == nil {
			g.d.pinned = map[string]*waitList{}
		}
		g.d.pinned[name] = list
	}
	return list
}
