package broker

import (
	"queend"
	"queend/segment"
)

// candidate is a lane that a pop has taken out of the ring to look at closely.
// It holds nothing: whatever happens to the lane meanwhile, prepare finds out.
type candidate struct {
	p      *partition
	g      *group
	max    int // messages it may give
	seen   *row
	cur    cursor
	from   queend.Offset // first message of the claim
	seal   bool          // nothing is retained: the cursor goes to the end (R9)
	head   bool          // the message the claim would begin with was delivered too often (A3)
	headAt queend.Offset // that message
	msgs   []segment.Message
	view   *view // of [from, ...), to be read or read
	got    []segment.Message
	want   int   // messages that view asks for
	asOf   int64 // when it was first looked at, so that every round asks about the same instant
	// broken says that what it would give is damaged on disk.
	broken error
}

// finding is what a closer look at a candidate gave.
type finding uint8

const (
	_           finding = iota
	findNothing         // nothing for this pop now
	findReady           // msgs, seal or head can be acted on
	findDisk            // the view or the finder must read first
)

// brokenPause is how long a lane that cannot be read is left alone, in
// microseconds: pops of the whole queue serve the others meanwhile.
const brokenPause = 5 * Second

// noteBroken remembers that a lane cannot be read, until it gives something.
func (g *group) noteBroken(p *partition, err error) {
	if g.d.broken == nil {
		g.d.broken = map[queend.PartitionID]error{}
	}
	g.d.broken[p.id] = err
}

// broken is why a pop that found nothing may not say that there is nothing:
// one of its lanes cannot be read.
func (p *popper) broken() error {
	groups := []*group{p.group}
	if p.label != nil {
		groups = p.label.d.groups
	}
	for _, g := range groups {
		for id, err := range g.d.broken {
			if lost := p.b.state.partitions.get(id); lost == nil || lost.retained() == 0 {
				delete(g.d.broken, id)
				continue
			}
			if p.pin == nil || p.pin.id == id {
				return err
			}
		}
	}
	return nil
}

// prepare looks closely at a candidate. maxBytes bounds the payload it may
// give, after one message.
func (p *popper) prepare(c *candidate, maxBytes int64) finding {
	b, now := p.b, p.b.now()
	c.msgs, c.seal, c.head = nil, false, false
	if c.p.ord < 0 || b.state.groups[c.g.id] != c.g {
		return findNothing
	}
	if c.broken != nil {
		c.g.noteBroken(c.p, c.broken)
		b.arm(c.p, c.g, now+brokenPause)
		return findNothing
	}
	if state, due := b.lookAt(c.p, c.g, now); state != laneReady {
		if state == laneWaits {
			b.arm(c.p, c.g, due)
		}
		return findNothing
	}
	c.cur = cursor{row: c.p.rows.find(c.g.id)}
	if c.cur.row != nil {
		c.cur.committed = c.cur.row.committed
	} else {
		var known bool
		if c.cur.committed, known = b.implied(c.g, c.p, p.f); !known {
			return findDisk
		}
	}
	next := c.cur.next(c.p)
	if seen := p.inspect(c, next); seen != findReady {
		return seen
	}
	if next >= c.p.end {
		c.seal = c.p.empty() && c.cur.committed < c.p.end-1
		if c.seal || c.cur.row != nil {
			return findingIf(c.seal)
		}
		return findNothing
	}
	if !c.g.conflation && c.overDelivered(next) {
		return findReady
	}
	return p.gather(c, next, maxBytes)
}

func findingIf(ok bool) finding {
	if ok {
		return findReady
	}
	return findNothing
}

// overDelivered notes and reports whether the message the claim would begin
// with has had all its deliveries (A3).
func (c *candidate) overDelivered(first queend.Offset) bool {
	limit := c.p.q.opts.MaxDeliveries
	if limit <= 0 || c.cur.row == nil || c.cur.row.lane == nil {
		return false
	}
	l := c.cur.row.lane
	c.head, c.headAt = l.headOffset == first && l.headAttempts >= limit, first
	return c.head
}

// gather collects the messages of the claim from the tail or from what was
// read, and cuts them at the first one that is not visible yet.
func (p *popper) gather(c *candidate, next queend.Offset, maxBytes int64) finding {
	visible := p.b.now() // of a queue without a delay everything is
	if delay := c.p.q.opts.DelayedProcessing * Second; delay > 0 {
		if c.asOf == 0 {
			c.asOf = visible
		}
		visible = c.asOf - delay
	}
	from, limit := next, c.max
	if c.isolated(next) {
		limit = 1
	}
	if c.g.conflation {
		var known bool
		if from, known = p.newest(c.p, visible); !known {
			return findDisk
		}
		limit = 1
		if from < next {
			return p.hidden(c, next)
		}
		if c.overDelivered(from) {
			return findReady
		}
	}
	limit = min(limit, int(c.p.end-from))
	switch {
	case c.p.inTail(from):
		c.msgs = c.p.fromTail(from, limit, maxBytes)
	case c.got != nil && c.from == from && c.seen == c.cur.row && limit <= c.want:
		c.msgs = c.got[:min(limit, len(c.got))]
	default:
		c.release()
		c.from, c.seen, c.want = from, c.cur.row, limit
		c.view = p.b.viewSpan(c.p, from, int64(limit))
		return findDisk
	}
	c.from = from
	return p.visibleOnly(c, visible)
}

// isolated reports whether the queue wants this message alone: it is part of
// a span that was delivered before without an ack (A3).
func (c *candidate) isolated(next queend.Offset) bool {
	if c.p.q.opts.MaxDeliveries <= 0 || c.cur.row == nil || c.cur.row.lane == nil {
		return false
	}
	return c.cur.redelivers(c.p) || next <= c.cur.row.lane.isolate
}

// newest is the offset of the newest visible message (R71), below next when
// there is none.
func (p *popper) newest(part *partition, visible int64) (queend.Offset, bool) {
	if part.lastTime <= visible {
		return part.end - 1, true
	}
	off, known := p.f.firstAt(part, visible+1)
	return off - 1, known
}

// hidden arms the wheel for the first message of a lane that has none to
// show; its stamp may be on disk, then the answer comes with the next look.
func (p *popper) hidden(c *candidate, first queend.Offset) finding {
	at, known := p.f.timeAt(c.p, first)
	if !known {
		return findDisk
	}
	p.b.arm(c.p, c.g, at+c.p.q.opts.DelayedProcessing*Second)
	return findNothing
}

// visibleOnly cuts what is not due (R50) and checks the window with the
// stamp that only reading gave.
func (p *popper) visibleOnly(c *candidate, visible int64) finding {
	if len(c.msgs) == 0 {
		return findNothing
	}
	if !c.g.conflation {
		if due := p.b.visibleAt(c.p, c.cur, c.msgs[0].Time, true); due > p.b.now() {
			p.b.arm(c.p, c.g, due)
			return findNothing
		}
	}
	for i := range c.msgs {
		if c.msgs[i].Time > visible && c.p.q.opts.DelayedProcessing > 0 {
			c.msgs = c.msgs[:i]
			break
		}
	}
	return findingIf(len(c.msgs) > 0)
}

// fromTail decodes up to limit messages that are in memory, and stops at
// maxBytes of payload after at least one.
func (p *partition) fromTail(from queend.Offset, limit int, maxBytes int64) []segment.Message {
	msgs := make([]segment.Message, 0, limit)
	for off := from; len(msgs) < limit && off < p.end; off++ {
		m := p.message(off)
		maxBytes -= int64(len(m.Payload))
		if maxBytes < 0 && len(msgs) > 0 {
			break
		}
		msgs = append(msgs, m)
	}
	return msgs
}

// release lets go of the files the candidate reads.
func (c *candidate) release() {
	if c.view != nil {
		c.view.release()
		c.view = nil
	}
	c.got = nil
}
