package fuzz

import (
	"queend"
	"queend/broker"
)

// The texts of refused items (docs/rules.md, S4).
const (
	errNoConsumer    = "consumer not found"
	errBadLease      = "invalid or expired lease"
	errPassed        = "already committed: the cursor moved past this message before this ack"
	errUnresolvable  = "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"
	errRejected      = "dlq rejected"
	errLeaseRequired = "lease required"
	errDelayStatus   = "delayMs applies to failed and retry"
)

// ackCall is the items of one (partition, lease) of a call.
type ackCall struct {
	lane
	own      []bool // by item: names the live lease
	items    []broker.AckItem
	fallback string // first error text of the call (R30)
}

// filing is a message to be dead-lettered.
type filing struct {
	off      int
	text     string
	retries  int64
	attempts int64
}

// settled is what an ack call comes to; nothing has changed yet.
type settled struct {
	row     *mRow // nil: unchanged
	filings []filing
	results []broker.AckResult
}

// ackLease settles items that named one lease, or none (R20, R33, R34, A7).
func (m *model) ackLease(p *mPart, group, lease string, items []broker.AckItem, fallback string) []broker.AckResult {
	g := p.q.groups[group]
	if g == nil || !g.hasCursor(p) {
		return refuseAll(items, errNoConsumer)
	}
	now := m.stamp()
	r := g.cursor(p)
	c := ackCall{lane: lane{g, p}, own: make([]bool, len(items)), items: items, fallback: fallback}
	if lease == "" {
		if p.q.opts.RequireLease {
			return refuseAll(items, errLeaseRequired)
		}
		return m.apply(&c, m.settle(&c, now), now)
	}
	id, err := queend.ParseID(lease)
	switch {
	case err == nil && r.live(now) && r.lease == id:
		for i := range c.own {
			c.own[i] = true
		}
		return m.apply(&c, m.settle(&c, now), now)
	case err == nil && !id.IsZero() && r.settled == id:
		return m.repeat(&c, r, now)
	}
	return refuseAll(items, errBadLease)
}

func refuseAll(items []broker.AckItem, text string) []broker.AckResult {
	results := make([]broker.AckResult, len(items))
	for i := range results {
		results[i].Error = text
	}
	return results
}

// apply puts the outcome of a call into the model.
func (m *model) apply(c *ackCall, s settled, now int64) []broker.AckResult {
	for _, f := range s.filings {
		m.file(c.lane, f.off, f.text, f.retries, f.attempts)
	}
	if s.row != nil {
		c.g.set(c.p, s.row, now)
	}
	return s.results
}

// repeat answers acks under a lease that was settled whole (R34).
func (m *model) repeat(c *ackCall, r *mRow, now int64) []broker.AckResult {
	results := refuseAll(c.items, errBadLease)
	released := false
	for i, it := range c.items {
		if it.Signal != broker.Completed || delayRefusal(&c.items[i]) != "" {
			continue
		}
		lo := r.settledFrom + 1
		if c.g.conflation {
			lo = r.settledTo
		}
		off, found := c.p.lookup(string(it.TxnID), now-m.ackWindow(c.p.q), lo, r.settledTo)
		if !found {
			continue
		}
		results[i] = broker.AckResult{Success: true}
		if c.g.conflation {
			results[i].Conflated = int64(r.settledTo-r.settledFrom) - 1
		}
		released = released || off == r.settledTo
	}
	for i := range results {
		results[i].LeaseReleased = released
	}
	return results
}

// delayRefusal refuses delayMs where it does not apply (A2).
func delayRefusal(it *broker.AckItem) string {
	if it.DelayMS >= 0 && it.Signal != broker.Failed && it.Signal != broker.Retry {
		return errDelayStatus
	}
	return ""
}

// place finds the offset an item is about, or says why it counts for nothing
// (R21 and the decided readings).
func (m *model) place(c *ackCall, i int, r *mRow, now int64) (off int, refused string) {
	it := &c.items[i]
	if text := delayRefusal(it); text != "" {
		return -1, text
	}
	txn, window := string(it.TxnID), now-m.ackWindow(c.p.q)
	since := window
	if c.own[i] {
		since = always
	}
	live := r.live(now)
	lo, hi := r.committed+1, c.p.end()-1
	if live {
		hi = r.batchEnd
	} else if it.Signal != broker.Completed {
		hi = -1
		if r.attempts > 0 {
			lo, hi = max(lo, r.spanStart), r.spanEnd
		}
	}
	if c.g.conflation {
		last := r.lastSpan()
		if off, found := c.p.lookup(txn, since, last, last); found && last > r.committed {
			return off, ""
		}
		if last > r.committed && (live || it.Signal != broker.Completed) {
			hi = -1
		}
	}
	if live && lo < r.spanStart && r.spanStart <= hi { // what is between was removed before the claim
		if off, found := c.p.lookup(txn, since, r.spanStart, hi); found {
			return off, ""
		}
		since, hi = window, r.spanStart-1
	}
	if off, found := c.p.lookup(txn, since, lo, hi); found {
		return off, ""
	}
	if off, found := c.p.lookup(txn, window, 0, r.committed); found {
		return off, ""
	}
	return -1, errUnresolvable
}

// verdict is what the items on one offset ask for together (R22).
type verdict struct {
	signal broker.Signal
	text   string
	delay  int64
}

// settle applies R20-R32 to a call.
func (m *model) settle(c *ackCall, now int64) settled {
	r := c.g.cursor(c.p)
	offs, results := make([]int, len(c.items)), make([]broker.AckResult, len(c.items))
	verdicts := map[int]*verdict{}
	ownLease := false
	for i := range c.items {
		ownLease = ownLease || c.own[i]
		offs[i], results[i].Error = m.place(c, i, r, now)
		switch {
		case results[i].Error != "":
		case offs[i] > r.committed:
			note(verdicts, offs[i], &c.items[i])
			results[i].Success = true
		case c.items[i].Signal == broker.Completed:
			results[i].Success, results[i].Noop = true, true
		default:
			results[i].Error = errPassed
		}
	}
	if len(verdicts) == 0 {
		return settled{results: results}
	}
	w := walk{p: c.p, r: r, o: &c.p.q.opts, verdicts: verdicts, fallback: c.fallback}
	w.run()
	next := w.next(ownLease, now)
	for i := range results {
		results[i].LeaseReleased = next != nil && !r.lease.IsZero() && next.lease.IsZero()
		if !results[i].Success || results[i].Noop {
			continue
		}
		if offs[i] == w.rejected {
			results[i].Success, results[i].Error = false, errRejected
		}
		filed, terminal := w.terminal[offs[i]]
		results[i].DLQ, results[i].Dropped = terminal && filed, terminal && !filed
		if w.whole && r.conflated {
			results[i].Conflated = int64(r.batchEnd-r.committed) - 1
		}
	}
	return settled{row: next, filings: w.filings, results: results}
}

// note adds an item to the verdict on its offset: dlq > failed > retry >
// completed.
func note(all map[int]*verdict, off int, it *broker.AckItem) {
	v := all[off]
	if v == nil {
		v = &verdict{delay: -1}
		all[off] = v
	}
	if it.Signal > v.signal {
		v.signal = it.Signal
		v.text = orText(it.Error, v.text)
	} else {
		v.text = orText(v.text, it.Error)
	}
	if it.Signal == broker.Failed || it.Signal == broker.Retry {
		v.delay = max(v.delay, it.DelayMS)
	}
}
