package broker

import (
	"slices"

	"queend"
	"queend/segment"
)

// maxSeals bounds the empty lanes one look seals, so that a pop after a large
// retention cycle does not hold the lock for long.
const maxSeals = 256

// claimed is a lane of a pop's result and the row before the claim.
type claimed struct {
	p        *partition
	g        *group
	before   *row
	messages int // of the result, in its order
}

// collect takes candidates out of the rings, oldest ready first, until what
// they look good for fills the pop.
func (p *popper) collect() {
	left := p.limits.batch
	switch {
	case p.r.Pinned:
		if p.pin != nil {
			p.pick(p.pin, p.group, &left)
		}
	case p.label != nil:
		l := p.label
		for range l.d.groups {
			if left <= 0 || len(p.picked) >= p.limits.partitions {
				return
			}
			l.d.next = (l.d.next + 1) % len(l.d.groups)
			p.collectFrom(l.d.groups[l.d.next], &left)
		}
	default:
		p.collectFrom(p.group, &left)
	}
}

func (p *popper) collectFrom(g *group, left *int) {
	for n := g.d.ring.len(); n > 0 && *left > 0 && p.wanted(); n-- {
		part := g.d.ring.take()
		if part == nil {
			return
		}
		p.pick(part, g, left)
	}
}

// wanted reports whether another partition may be picked. Lanes that are only
// sealed give nothing, so they do not count as partitions.
func (p *popper) wanted() bool {
	giving := 0
	for _, c := range p.picked {
		if !c.seal {
			giving++
		}
	}
	return giving < p.limits.partitions && len(p.picked) < p.limits.partitions+maxSeals
}

// pick keeps a lane as a candidate if it looks good.
func (p *popper) pick(part *partition, g *group, left *int) {
	c := &candidate{p: part, g: g, max: *left}
	switch p.prepare(c, p.b.cfg.PopMaxBytes) {
	case findNothing:
		return
	case findDisk:
		*left -= min(*left, c.atMost())
	case findReady:
		*left -= len(c.msgs)
	}
	p.picked = append(p.picked, c)
}

// maxRounds bounds how often a pop that could claim something reads more for
// its other candidates.
const maxRounds = 3

// deepen is a claim on trial: it notes what candidates need next, now that the
// first answers of the disk are there, so that one which needs more is not left
// out when the others could claim.
func (p *popper) deepen() {
	if p.rounds >= maxRounds {
		return
	}
	p.rounds++
	left := p.limits.batch
	for _, c := range p.picked {
		if left <= 0 {
			return
		}
		c.max = left
		if p.prepare(c, p.b.cfg.PopMaxBytes) == findReady {
			left -= len(c.msgs)
		}
	}
}

// atMost bounds what a candidate may give once it has been read.
func (c *candidate) atMost() int {
	if c.g.conflation {
		return 1
	}
	return int(c.p.pending(c.cur.committed))
}

// needsDisk reports whether a candidate cannot go on without reading.
func (p *popper) needsDisk() bool {
	if p.f.waiting() || p.heads.waiting() {
		return true
	}
	for _, c := range p.picked {
		if c.view != nil && c.got == nil {
			return true
		}
	}
	return false
}

// read reads what the candidates and the finder need, outside the lock.
func (p *popper) read() error {
	if err := p.f.load(); err != nil {
		return err
	}
	if err := p.heads.load(); err != nil {
		return err
	}
	bytes := p.b.cfg.PopMaxBytes
	for _, c := range p.picked {
		if c.view == nil || c.got != nil {
			continue
		}
		msgs, err := p.readOn(c, max(bytes, 0))
		if isDamage(err) && !p.r.Pinned {
			// The other lanes are served.
			c.got, c.broken = []segment.Message{}, err
			continue
		}
		if err != nil {
			return err
		}
		for i := range msgs {
			bytes -= int64(len(msgs[i].Payload))
		}
		c.got = msgs
	}
	return nil
}

// readOn reads what a candidate needs, from where the pop before it on the same
// lane has stopped if that is still known.
func (p *popper) readOn(c *candidate, maxBytes int64) ([]segment.Message, error) {
	key := laneKey{c.p.id, c.g.id}
	if at, known := p.b.storage.bookmarks.Take(key); known {
		c.view.at = at
	}
	msgs, err := c.view.read(maxBytes)
	if at := c.view.at; at.Inside() {
		p.b.storage.bookmarks.Put(key, at, at.Size())
		c.view.at = &segment.Bookmark{}
	}
	return msgs, err
}

// drop gives the candidates back: each lane is looked at again.
func (p *popper) drop() {
	for _, c := range p.picked {
		c.release()
		if c.p.ord >= 0 && p.b.state.groups[c.g.id] == c.g {
			p.b.consider(c.p, c.g)
		}
	}
	p.picked = p.picked[:0]
}

// claim turns candidates into a result, in one record. It reports whether
// the pop has its answer.
func (p *popper) claim() bool {
	b := p.b
	t := b.begin()
	lease := b.newID(t.stamp)
	left, bytes := p.limits.batch, b.cfg.PopMaxBytes
	rest := p.picked[:0]
	var taken []*candidate
	for _, c := range p.picked {
		if left <= 0 || bytes <= 0 {
			rest = append(rest, c)
			continue
		}
		c.max = left
		v := p.prepare(c, bytes)
		if v == findReady && c.head {
			var ready bool
			if ready = b.fileHead(t, p.heads, c.p, c.g, c.cur.row, c.headAt); ready {
				p.acted = true
				c.release()
				continue
			}
			v = findDisk
		}
		switch v {
		case findDisk:
			rest = append(rest, c)
		case findReady:
			taken = append(taken, c)
			p.add(t, c, lease)
			left -= len(c.msgs)
			for i := range c.msgs {
				bytes -= int64(len(c.msgs[i].Payload))
			}
		}
		if v == findNothing {
			c.release()
		}
	}
	p.picked = rest
	p.conclude(t, lease)
	for _, c := range taken {
		c.release()
	}
	if len(p.result.Messages) > 0 {
		p.drop()
		return true
	}
	return false
}

// add plans the claim of a candidate.
func (p *popper) add(t *bundle, c *candidate, lease queend.ID) {
	if c.seal {
		p.acted = true
		r := c.copyRow()
		r.committed = c.p.end - 1
		t.add(&rowSet{partition: c.p.id, row: r})
		return
	}
	r := p.claimedRow(t.stamp, c, lease)
	t.add(&rowSet{partition: c.p.id, row: r})
	t.count.PopMessages += uint64(len(c.msgs))
	var traffic Traffic
	traffic.delivered(t.stamp, c.msgs, p.r.AutoAck)
	p.b.note(c.p.q, t.stamp, &traffic)
	attempt := 1
	if !p.r.AutoAck {
		attempt = int(r.lane.attempts)
	}
	p.result.Messages = slices.Grow(p.result.Messages, len(c.msgs))
	for i := range c.msgs {
		p.result.Messages = append(p.result.Messages, Delivered{
			Message: c.msgs[i], Queue: c.p.q.name, Partition: c.p.name, PartitionUUID: c.p.uuid, Attempt: attempt,
		})
	}
	delete(c.g.d.sights, c.p.id)
	delete(c.g.d.broken, c.p.id)
	p.result.Claimed++
	p.result.giveBack = append(p.result.giveBack, claimed{c.p, c.g, c.cur.row, len(c.msgs)})
	if p.w != nil && p.w.token == c.p && p.w.tokenGroup == c.g {
		p.w.token, p.w.tokenGroup = nil, nil
	}
}

// copyRow is a row of its own with what the candidate's row holds.
func (c *candidate) copyRow() row {
	r := row{group: c.g.id, committed: c.cur.committed}
	if c.cur.row != nil {
		r = *c.cur.row
		if r.lane != nil {
			l := *r.lane
			r.lane = &l
		}
	}
	return r
}

// claimedRow is the row after the claim (R2, R7, R10).
func (p *popper) claimedRow(now int64, c *candidate, lease queend.ID) row {
	r := c.copyRow()
	r.lastDelivery = now
	last := c.msgs[len(c.msgs)-1].Offset
	if p.r.AutoAck {
		r.committed = last
		if r.lane != nil {
			r.lane = &lane{retry: r.lane.retry}
			if r.lane.retry == 0 {
				r.lane = nil
			}
		}
		return r
	}
	if r.lane == nil {
		r.lane = &lane{}
	}
	l := r.lane
	p.countAttempt(l, c, last)
	l.lease, l.leaseUntil, l.claimed = lease, now+p.leaseLength(c.p.q), now
	l.batchEnd = last
	l.conflated = c.g.conflation
	l.notBefore = 0
	return r
}

// countAttempt counts a delivery: one higher when it begins where the last
// one began or inside its span (R10), and per head message on queues with a
// delivery limit (A3).
func (p *popper) countAttempt(l *lane, c *candidate, last queend.Offset) {
	again := l.attempts > 0 && c.from >= l.attemptStart && c.from <= l.attemptEnd
	if c.p.q.opts.MaxDeliveries > 0 {
		if again {
			l.isolate = max(l.isolate, l.attemptEnd)
		}
		if l.isolate < c.from {
			l.isolate = 0
		}
		if l.headOffset == c.from {
			l.headAttempts++
		} else {
			l.headOffset, l.headAttempts = c.from, 1
		}
	}
	if again {
		l.attempts++
	} else {
		l.attempts = 1
	}
	l.attemptStart, l.attemptEnd = c.from, last
}

// leaseLength is how long the lease of a claim lasts (R5), in microseconds.
func (p *popper) leaseLength(q *queue) int64 {
	seconds := p.r.LeaseSeconds
	if seconds <= 0 && !p.r.Discovery {
		seconds = q.opts.LeaseTime
	}
	if seconds <= 0 {
		seconds = implicitLeaseSeconds
	}
	return min(seconds, maxLeaseSeconds) * Second
}

// maxLeaseSeconds keeps instants far from overflow: a hundred years.
const maxLeaseSeconds = 100 * 365 * 24 * 3600

// conclude commits what was planned and completes the result.
func (p *popper) conclude(t *bundle, lease queend.ID) {
	if len(p.result.Messages) > 0 {
		t.count.PopRequests++
		if !p.r.AutoAck {
			p.result.LeaseID = lease
		}
		if p.label != nil {
			g := p.result.giveBack[0].g
			p.result.Conflation = g.conflation
			p.result.Conflict = p.r.Conflation && !g.conflation
		}
	}
	p.lsn = p.b.commit(t)
}

// decrypt opens the payloads of the result, outside the lock (R101).
func (p *popper) decrypt() {
	for i := range p.result.Messages {
		m := &p.result.Messages[i]
		m.Payload, _ = p.b.open(m.Payload)
	}
}
