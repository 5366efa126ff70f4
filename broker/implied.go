package broker

import "queend"

// implied is the cursor of a group on a partition it has no row on: just
// before the first message stamped at or after what its registration wants
// there (R40, R41). ready is false when only the disk can tell; f, which may
// be nil, then knows what to read.
func (b *Broker) implied(g *group, p *partition, f *finder) (committed queend.Offset, ready bool) {
	seed := g.seedFor(p)
	switch {
	case seed <= p.created:
		return queend.NoOffset, true
	case p.lastTime < seed:
		return p.end - 1, true
	}
	first, ready := f.firstAt(p, seed)
	return first - 1, ready
}
