package broker

import (
	"queend"
)

// acker plans acks into a bundle: those of an ack call, or those of a
// transaction. Several calls on one row see each other's result.
type acker struct {
	b        *Broker
	tenant   queend.ID
	fallback string // error text for dead letters whose items have none (R30)
	f        *finder
	messages *fetcher

	t     *bundle
	ready bool // nothing needs the disk
	lanes map[laneRef]*ackLane
	order []*ackLane
}

// ackLane is a row that acks are planned on.
type ackLane struct {
	laneRef
	row     *row      // as the plan stands
	before  *row      // as the state has it, or as the registration implies it
	batch   *batchIDs // of what it was given last; nil: not kept
	filings []letterFiling
	done    int64 // accepted items
	traffic Traffic
}

// ackEntry is an item on its way: own says that it names the live lease.
type ackEntry struct {
	item    *AckItem
	own     bool
	refused string
}

func (b *Broker) newAcker(tenant queend.ID, fallback string) *acker {
	return &acker{b: b, tenant: tenant, fallback: fallback, f: b.newFinder(), messages: b.newFetcher()}
}

// begin starts a plan anew, under the lock.
func (a *acker) begin() {
	a.t = a.b.begin()
	a.ready = true
	a.lanes, a.order = map[laneRef]*ackLane{}, nil
}

// load reads what the last plan needed, outside the lock.
func (a *acker) load() error {
	if err := a.f.load(); err != nil {
		return err
	}
	return a.messages.load()
}

// finish adds the events of the plan to the bundle.
func (a *acker) finish() {
	for _, l := range a.order {
		if l.row != l.before {
			a.t.add(&rowSet{partition: l.p.id, row: *l.row})
		}
		if l.batch != nil && !l.row.live(a.t.stamp) {
			a.b.storage.batches.Drop(laneKey{l.p.id, l.g.id})
		}
		for i := range l.filings {
			a.b.fileLetter(a.t, l.g, l.p, &l.filings[i])
		}
		l.g.d.speed.add(a.t.stamp, l.done)
		a.b.note(l.p.q, a.t.stamp, &l.traffic)
	}
}

func (a *acker) commit() queend.LSN {
	a.finish()
	return a.b.commit(a.t)
}

// count adds the call to the cumulative totals.
func (a *acker) count(items []AckItem, results []AckResult) {
	a.t.count.AckRequests++
	a.t.count.AckMessages += uint64(len(items))
	for i := range results {
		if !results[i].Success || items[i].Signal == Failed || items[i].Signal == DLQ {
			a.t.count.AckFailed++
		}
	}
}

// partition finds the partition an item names. Another tenant's is answered
// like one that does not exist.
func (a *acker) partition(public string) (*partition, string) {
	id, err := queend.ParseID(public)
	if err != nil {
		return nil, "malformed partitionId"
	}
	if p := a.b.state.byUUID(id); p != nil && p.q.tenant == a.tenant {
		return p, ""
	}
	if a.tenant != DefaultTenant {
		return nil, "partition not owned by tenant"
	}
	return nil, "unknown partitionId"
}

// lane finds the row of a group, planned, stored or implied. A group has a
// cursor on a partition once it was delivered from it, and on all that
// existed when it registered (R40); found is false without one (R33).
func (a *acker) lane(p *partition, group string) (*ackLane, bool) {
	g := p.q.groups[group]
	if g == nil || !g.hasCursor(p) {
		return nil, false
	}
	ref := laneRef{p, g}
	if l := a.lanes[ref]; l != nil {
		return l, true
	}
	l := &ackLane{laneRef: ref, row: p.rows.find(g.id)}
	if l.row == nil {
		committed, ready := a.b.implied(g, p, a.f)
		a.ready = a.ready && ready
		l.row = &row{group: g.id, committed: committed}
	}
	l.before = l.row
	if l.row.live(a.t.stamp) {
		l.batch, _ = a.b.storage.batches.Get(laneKey{p.id, g.id})
	}
	a.lanes[ref] = l
	a.order = append(a.order, l)
	return l, true
}

// hasCursor reports whether the group stands somewhere on the partition
// already: one it registered before it was created, or has a row on.
func (g *group) hasCursor(p *partition) bool {
	return g.popped && (p.id <= g.seedMax || p.rows.find(g.id) != nil)
}

// settle settles entries of one lane together; own says that one of them
// names the live lease.
func (a *acker) settle(l *ackLane, own bool, entries []ackEntry) []AckResult {
	s := settling{
		row: l.row, opts: &l.p.q.opts, now: a.t.stamp, own: own, fallback: a.fallback,
		items: make([]settleItem, len(entries)),
	}
	for i, e := range entries {
		s.items[i] = settleItem{signal: e.item.Signal, text: e.item.Error, delayMS: e.item.DelayMS, refused: e.refused}
		if e.refused == "" {
			a.place(l, e, &s.items[i])
		}
	}
	if !a.ready {
		return make([]AckResult, len(entries))
	}
	out := s.settle()
	filings, ok := a.gather(l, &s, out.filed)
	if !ok {
		return out.results
	}
	if len(s.gone) > 0 {
		out = s.settle() // what cannot be filed bounds the cursor
	}
	l.row = out.row
	l.filings = append(l.filings, filings...)
	l.traffic.acked(s.items, out.results)
	for i := range out.results {
		if out.results[i].Success {
			l.done++
		}
	}
	return out.results
}

// gather fetches the messages to be filed up to the first one that retention
// has taken (R31), which it notes. ok is false when some must be loaded.
func (a *acker) gather(l *ackLane, s *settling, filed []filing) (filings []letterFiling, ok bool) {
	ok = true
	for _, f := range filed {
		m, found, ready := a.messages.get(l.p, f.at)
		if !ready {
			a.ready, ok = false, false
			continue
		}
		if !found {
			if s.gone == nil {
				s.gone = map[queend.Offset]bool{}
			}
			s.gone[f.at] = true
			break
		}
		filings = append(filings, letterFiling{filing: f, m: m})
	}
	return filings, ok
}

// place finds the message an item is about (R21) and notes in it where that
// is, or why it counts for nothing.
func (a *acker) place(l *ackLane, e ackEntry, it *settleItem) {
	r, txn := l.row, e.item.TxnID
	since := a.since(l.p)
	lo, hi := r.committed+1, a.reach(l, e.item.Signal)
	within := since
	if e.own {
		within = 0 // an id under one's own lease resolves however old it is
	}
	if only := l.delivered(); only > r.committed {
		if at, found := a.look(l, txn, within, only, only); found {
			it.at = at
			return
		}
		if e.item.Signal != Completed || r.live(a.t.stamp) {
			hi = queend.NoOffset // what a conflated batch skipped was not delivered
		}
	}
	if e.item.Signal != Completed && !r.live(a.t.stamp) && r.lane != nil {
		lo = max(lo, r.lane.attemptStart)
	}
	var at queend.Offset
	found := false
	if r.live(a.t.stamp) && lo < r.lane.attemptStart && r.lane.attemptStart <= hi {
		// What lies between the cursor and the batch was removed before it: an
		// id that was used again means the message that was delivered.
		if at, found = a.look(l, txn, within, r.lane.attemptStart, hi); !found {
			within, hi = since, r.lane.attemptStart-1
		}
	}
	if !found {
		at, found = a.look(l, txn, within, lo, hi)
	}
	if !found {
		at, found = a.look(l, txn, since, 0, r.committed)
	}
	it.at = at
	if !found {
		it.refused = errUnresolvable
	}
}

// reach is the last offset an item may name: the end of the live batch; with
// no live lease a completed may name anything and the other words only the
// last delivered span (docs/rules.md, S20).
func (a *acker) reach(l *ackLane, signal Signal) queend.Offset {
	switch {
	case l.row.live(a.t.stamp):
		return l.row.lane.batchEnd
	case signal == Completed:
		return l.p.end - 1
	case l.row.lane != nil && l.row.lane.attempts > 0:
		return l.row.lane.attemptEnd
	}
	return queend.NoOffset
}

// delivered is the one message that a conflating group was given last (R71),
// NoOffset for other groups.
func (l *ackLane) delivered() queend.Offset {
	if !l.g.conflation {
		return queend.NoOffset
	}
	return l.row.lane.spanEnd()
}

// since is how far back an id resolves that is not under the acker's own
// lease (R85).
func (a *acker) since(p *partition) int64 {
	return a.t.stamp - p.q.opts.ackWindow(a.b.cfg.TxnWindowSeconds*Second)
}

// look finds an id; when only the disk knows it notes that and says found, so
// that the plan asks no further for this item.
func (a *acker) look(l *ackLane, txn []byte, since int64, lo, hi queend.Offset) (queend.Offset, bool) {
	if lo > hi {
		return queend.NoOffset, false
	}
	if l.batch.covers(since, lo, hi) {
		return l.batch.find(txn, lo, hi)
	}
	m, ready := a.f.lookup(l.p, txn, since, lo, hi)
	if !ready {
		a.ready = false
		return lo, true
	}
	return m.off, m.found
}
