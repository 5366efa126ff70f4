package broker

import "queend"

// sight is what only the disk could tell about a lane: pops note it, so that
// looking at the lane from memory does not call it ready again and again. It
// is a hint that is checked against what it is about.
type sight struct {
	seed      int64         // it was implied by this registration
	committed queend.Offset // cursor of a lane without a row
	first     queend.Offset // a message that may have to wait, NoOffset: none
	time      int64         // its stamp
}

// inspect learns what the disk knows about a candidate whose first pending
// message is next, and looks at the lane once more with it.
func (p *popper) inspect(c *candidate, next queend.Offset) finding {
	b, o := p.b, &c.p.q.opts
	s := sight{seed: c.g.seedFor(c.p), committed: c.cur.committed, first: queend.NoOffset}
	news := false
	if c.cur.row == nil {
		_, known := b.implied(c.g, c.p, nil)
		news = !known
	}
	newest := c.p.lastTime + max(o.DelayedProcessing, o.WindowBuffer)*Second
	if next < min(c.p.end, c.p.tailFrom()) && newest > b.now() {
		at, known := c.g.timeSeen(c.p, next)
		if !known {
			if at, known = p.f.timeAt(c.p, next); !known {
				return findDisk
			}
		}
		s.first, s.time, news = next, at, true
	}
	if !news {
		return findReady
	}
	if c.g.d.sights == nil {
		c.g.d.sights = map[queend.PartitionID]sight{}
	}
	c.g.d.sights[c.p.id] = s
	state, due := b.lookAt(c.p, c.g, b.now())
	if state == laneWaits {
		b.arm(c.p, c.g, due)
	}
	return findingIf(state == laneReady)
}

// impliedSeen is implied, or what a pop has read.
func (b *Broker) impliedSeen(g *group, p *partition) (committed queend.Offset, ready bool) {
	if committed, ready = b.implied(g, p, nil); ready {
		return committed, true
	}
	s, seen := g.d.sights[p.id]
	return s.committed, seen && s.seed == g.seedFor(p)
}

// timeSeen is the stamp of a message that is in memory or that a pop has read.
func (g *group) timeSeen(p *partition, off queend.Offset) (int64, bool) {
	if at, known := p.timeInTail(off); known {
		return at, true
	}
	s, seen := g.d.sights[p.id]
	return s.time, seen && s.first == off
}
