package fuzz

import "queend/broker"

// ack makes an ack call: the whole batch, a part of it, a wild mix, or the
// repetition of one that settled a batch.
func (g *gen) ack() op {
	if done := g.lanes(func(r *mRow) bool { return !r.settled.IsZero() }); len(done) > 0 && g.oneIn(10) {
		return g.repeated(pick(g.Rand, done...))
	}
	l, found := g.lane()
	if !found {
		return ackOp{Group: g.group(), Items: []ackItem{{Queue: g.queues[0], Off: g.IntN(4), Signal: broker.Completed}}}
	}
	o := ackOp{Group: l.g.name, Items: g.items(l)}
	if g.oneIn(15) {
		o.Group = g.group()
	}
	id := l.g.cursor(l.p).lease
	for _, other := range g.lanes(func(r *mRow) bool { return r.lease == id && !id.IsZero() }) {
		if other.p != l.p && other.g.name == l.g.name {
			o.Items = append(o.Items, g.items(other)...)
		}
	}
	if g.oneIn(4) {
		g.Shuffle(len(o.Items), func(i, j int) { o.Items[i], o.Items[j] = o.Items[j], o.Items[i] })
	}
	return o
}

// items acks some of what a lane was given.
func (g *gen) items(l lane) (items []ackItem) {
	r := l.g.cursor(l.p)
	from, to := r.committed+1, r.lastSpan()
	if r.conflated {
		from = to
	}
	to = min(max(to, from), max(l.p.end()-1, 0))
	if g.oneIn(8) {
		to = min(to+2, max(l.p.end()-1, 0))
	}
	lease := leaseRef{"row", l.p.q.name, l.p.name, l.g.name}
	switch {
	case g.oneIn(8):
		lease = leaseRef{}
	case g.oneIn(20):
		lease = g.leaseRef("row")
	}
	one := func(off int, signal broker.Signal) {
		it := ackItem{Queue: l.p.q.name, Part: l.p.name, Off: off, Lease: lease, Signal: signal, Error: pick(g.Rand, errTexts...)}
		if g.oneIn(5) && (signal == broker.Failed || signal == broker.Retry || g.oneIn(5)) {
			it.Delay = pick(g.Rand, int64(500), 4000)
		}
		if g.oneIn(30) {
			it.Lease = leaseRef{}
		}
		items = append(items, it)
	}
	switch g.IntN(6) {
	case 0, 1:
		for off := from; off <= to; off++ {
			one(off, broker.Completed)
		}
	case 2:
		one(to, broker.Completed)
	case 3:
		one(g.between(from, to), g.signal())
	default:
		for off := from; off <= to; off++ {
			if !g.oneIn(4) {
				one(off, g.signal())
			}
		}
		if g.oneIn(3) {
			one(g.between(0, l.p.end()), g.signal())
		}
		if g.oneIn(6) {
			one(-1, g.signal())
		}
	}
	if len(items) == 0 {
		one(from, g.signal())
	}
	return items
}

func (g *gen) between(from, to int) int { return from + g.IntN(max(to-from, 0)+1) }

func (g *gen) signal() broker.Signal {
	return pick(g.Rand, broker.Completed, broker.Completed, broker.Completed, broker.Retry, broker.Failed, broker.Failed, broker.DLQ)
}

// repeated acks a settled batch again (R34).
func (g *gen) repeated(l lane) op {
	r := l.g.cursor(l.p)
	o := ackOp{Group: l.g.name}
	for off := r.settledFrom; off <= r.settledTo+1; off++ {
		if off >= 0 && !g.oneIn(3) {
			signal := broker.Completed
			if g.oneIn(8) {
				signal = g.signal()
			}
			o.Items = append(o.Items, ackItem{
				Queue: l.p.q.name, Part: l.p.name, Off: off, Signal: signal, Lease: leaseRef{"settled", l.p.q.name, l.p.name, l.g.name},
			})
		}
	}
	return o
}

// txn makes a transaction of acks and pushes.
func (g *gen) txn() op {
	o := txnOp{Producer: g.producer()}
	for range g.IntN(3) {
		l, found := g.lane()
		if !found {
			break
		}
		for _, it := range g.items(l) {
			if !g.oneIn(4) && (it.Delay == 0 || it.Signal == broker.Failed || it.Signal == broker.Retry) {
				o.Parts = append(o.Parts, txnPartOp{Ack: ptr(it), Group: l.g.name})
			}
		}
		if g.oneIn(3) {
			o.Required = append(o.Required, leaseRef{"row", l.p.q.name, l.p.name, l.g.name})
			for i := range o.Parts {
				if a := o.Parts[i].Ack; a != nil && !g.oneIn(4) {
					a.Lease = leaseRef{}
				}
			}
		}
	}
	for range g.IntN(4) {
		it := g.item()
		if g.oneIn(2) && it.Txn != "" {
			it.Txn += itoa(g.n) // else most are duplicates
		}
		o.Parts = append(o.Parts, txnPartOp{Push: &it})
		if g.oneIn(6) {
			o.Parts = append(o.Parts, txnPartOp{Push: ptr(it)})
		}
	}
	return o
}
