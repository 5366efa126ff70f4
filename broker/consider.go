package broker

import "queend"

// readiness is what a lane can offer now.
type readiness uint8

const (
	_         readiness = iota
	laneIdle            // nothing to deliver
	laneWaits           // something, at a known time
	laneReady           // something now, or only the disk can tell
)

// cursor is how far a group is on a partition: its row, or what its
// registration implies.
type cursor struct {
	row       *row // nil: implied
	committed queend.Offset
}

// next is the offset a claim would begin at.
func (c cursor) next(p *partition) queend.Offset { return max(c.committed+1, p.start) }

// consider looks at a lane and puts it where it belongs: into the ring, on
// the wheel, or nowhere.
func (b *Broker) consider(p *partition, g *group) {
	if p.ord < 0 {
		return
	}
	switch state, due := b.lookAt(p, g, b.now()); state {
	case laneReady:
		g.d.ring.add(p)
		b.wakeFor(g, p)
	case laneWaits:
		b.arm(p, g, due)
	}
}

func (b *Broker) considerAll(p *partition) {
	for _, g := range p.q.groups {
		b.consider(p, g)
	}
}

// considerGroup looks at the lanes of a group whose registration has changed.
func (b *Broker) considerGroup(g *group) {
	if !b.live {
		return
	}
	for p := range b.state.partitionsOf(g.q) {
		b.consider(p, g)
	}
}

// lookAt says what a lane can offer at now, and when it may offer more, from
// memory alone. Where only the disk could tell it says ready; the claim,
// which reads, finds out.
func (b *Broker) lookAt(p *partition, g *group, now int64) (readiness, int64) {
	c := cursor{row: p.rows.find(g.id)}
	if c.row != nil {
		c.committed = c.row.committed
		if c.row.live(now) {
			return laneWaits, c.row.lane.leaseUntil
		}
	} else {
		var ready bool
		if c.committed, ready = b.impliedSeen(g, p); !ready {
			return laneReady, 0
		}
	}
	next := c.next(p)
	if next >= p.end {
		if c.committed < p.end-1 {
			return laneReady, 0 // to be sealed (R9)
		}
		return laneIdle, 0
	}
	first, known := g.timeSeen(p, next)
	due := b.visibleAt(p, c, first, known)
	if due > now {
		return laneWaits, due
	}
	return laneReady, 0
}

// timeInTail is the stamp of a message that is in memory.
func (p *partition) timeInTail(off queend.Offset) (int64, bool) {
	if p.tail == nil || off < p.tail.from || off >= p.tail.from+queend.Offset(len(p.tail.messages)) {
		return 0, false
	}
	return p.tail.messages[off-p.tail.from].time, true
}

// visibleAt is when the first pending message may be delivered (R50, R51,
// A2). When its stamp is not known the answer is a time that is not too late.
func (b *Broker) visibleAt(p *partition, c cursor, first int64, known bool) int64 {
	o := &p.q.opts
	due := int64(0)
	if c.row != nil && c.row.lane != nil {
		due = c.row.lane.notBefore
	}
	if !known {
		// Not the newest message, so at most as new as it.
		if p.lastTime+max(o.DelayedProcessing, o.WindowBuffer)*Second > b.now() {
			first = 0
		} else {
			first = p.lastTime
		}
	}
	if o.DelayedProcessing > 0 {
		due = max(due, first+o.DelayedProcessing*Second)
	}
	if o.WindowBuffer > 0 && !c.redelivers(p) {
		due = max(due, b.windowEnd(p, c, first))
	}
	return due
}

// windowEnd is when windowBuffer lets the lane go (R51): a window after its
// first pending message or the last delivery, at once with a full batch; in
// quiet mode a window after the newest message.
func (b *Broker) windowEnd(p *partition, c cursor, first int64) int64 {
	window := p.q.opts.WindowBuffer * Second
	if b.cfg.QuietWindow {
		return p.lastTime + window
	}
	if int64(p.end-c.next(p)) >= b.cfg.WindowBatch {
		return 0
	}
	if c.row != nil {
		first = max(first, c.row.lastDelivery)
	}
	return first + window
}

// redelivers reports whether the next message was delivered before: such ones
// are never held by a window.
func (c cursor) redelivers(p *partition) bool {
	if c.row == nil || c.row.lane == nil || c.row.lane.attempts == 0 {
		return false
	}
	return c.next(p) <= c.row.lane.attemptEnd
}
