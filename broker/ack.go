package broker

import (
	"context"
	"errors"

	"queend"
)

// maxDelayMS bounds the delay of one ack item: a day (A2).
const maxDelayMS = 86400000

// Ack settles items of one group, "" meaning QueueMode, and answers in request
// order once that is durable. Items are taken in groups of (partition, lease)
// in order of first appearance; each group is atomic and independent of the
// others (docs/rules.md, S12). Items that are refused say so in their result.
//
// Errors are a *Refusal: the deadline passed and the write may have happened.
func (b *Broker) Ack(ctx context.Context, tenant queend.ID, group string, items []AckItem) ([]AckResult, error) {
	if group == "" {
		group = QueueMode
	}
	a := b.newAcker(tenant, ackError(items))
	defer a.f.release()
	var results []AckResult
	var lsn queend.LSN
	for done := false; !done; {
		b.locked(func() {
			a.begin()
			results = a.ack(group, items)
			if done = a.ready; done {
				a.count(items, results)
				lsn = a.commit()
			}
		})
		if done {
			break
		}
		if err := a.load(); err != nil {
			return nil, err
		}
	}
	if err := b.await(ctx, lsn); err != nil {
		return failFlush(results, err)
	}
	b.meters.acked(results)
	return results, nil
}

// failFlush turns a failure of the log into item errors (docs/rules.md, S4); a
// deadline stays an error of the call.
func failFlush(results []AckResult, err error) ([]AckResult, error) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return nil, err
	}
	for i := range results {
		results[i] = AckResult{Error: errFlush}
	}
	return results, nil
}

// ackError is the first error text of a call (R30).
func ackError(items []AckItem) string {
	for i := range items {
		if items[i].Error != "" {
			return items[i].Error
		}
	}
	return ""
}

// acked counts an ack that was answered.
func (m *meters) acked(results []AckResult) {
	m.ackRequests.Add(1)
	for i := range results {
		if results[i].Success {
			m.ackMessages.Add(1)
		}
	}
}

// ackCall is the items of one call that settle together.
type ackCall struct {
	p     *partition
	lease string
	at    []int // indexes of the items in the request
}

// ack plans a call. The results stand when a.ready is still true.
func (a *acker) ack(group string, items []AckItem) []AckResult {
	results := make([]AckResult, len(items))
	for _, c := range a.calls(items, results) {
		entries := make([]ackEntry, len(c.at))
		for i, at := range c.at {
			entries[i] = ackEntry{item: &items[at], refused: itemRefusal(&items[at])}
		}
		for i, r := range a.settleLease(c.p, group, c.lease, entries) {
			results[c.at[i]] = r
		}
	}
	return results
}

// calls groups the items by partition and lease, in order of first
// appearance. Items that name no partition of the tenant are answered.
func (a *acker) calls(items []AckItem, results []AckResult) []*ackCall {
	type key struct {
		p     *partition
		lease string
	}
	var calls []*ackCall
	found := map[key]*ackCall{}
	var last *ackCall // of the item before, nil if it was answered
	for i := range items {
		if last != nil && items[i].Partition == items[i-1].Partition && items[i].Lease == last.lease {
			last.at = append(last.at, i)
			continue
		}
		last = nil
		p, problem := a.partition(items[i].Partition)
		if p == nil {
			results[i].Error = problem
			continue
		}
		c := found[key{p, items[i].Lease}]
		if c == nil {
			c = &ackCall{p: p, lease: items[i].Lease}
			found[key{p, items[i].Lease}] = c
			calls = append(calls, c)
		}
		c.at = append(c.at, i)
		last = c
	}
	return calls
}

// itemRefusal says what no state can make right about an item, "" for none.
func itemRefusal(it *AckItem) string {
	switch {
	case it.DelayMS < 0:
		return ""
	case it.Signal != Failed && it.Signal != Retry:
		return errDelayStatus
	case it.DelayMS > maxDelayMS:
		return errDelayRange
	}
	return ""
}

// settleLease settles the items that named one lease, "" for none, on one
// partition (R20, R33, R34, A7).
func (a *acker) settleLease(p *partition, group, lease string, entries []ackEntry) []AckResult {
	l, found := a.lane(p, group)
	if !found {
		return refuseAll(len(entries), errNoConsumer)
	}
	if lease == "" {
		if p.q.opts.RequireLease {
			return refuseAll(len(entries), errLeaseRequired)
		}
		return a.settle(l, false, entries)
	}
	id, err := queend.ParseID(lease)
	switch {
	case err != nil || id.IsZero():
	case l.row.live(a.t.stamp) && l.row.lane.lease == id:
		for i := range entries {
			entries[i].own = true
		}
		return a.settle(l, true, entries)
	case l.row.settled == id:
		return a.repeat(l, entries)
	}
	return refuseAll(len(entries), errBadLease)
}

func refuseAll(n int, text string) []AckResult {
	results := make([]AckResult, n)
	for i := range results {
		results[i].Error = text
	}
	return results
}

// repeat answers a completed ack whose first commit released the lease as it
// was answered then (R34). It changes nothing.
func (a *acker) repeat(l *ackLane, entries []ackEntry) []AckResult {
	r := l.row
	results := make([]AckResult, len(entries))
	released := false
	for i, e := range entries {
		results[i].Error = errBadLease
		if e.refused != "" || e.item.Signal != Completed {
			continue
		}
		lo := r.settledFrom + 1
		if l.g.conflation {
			lo = r.settledTo
		}
		at, found := a.look(l, e.item.TxnID, a.since(l.p), lo, r.settledTo)
		if !found {
			continue
		}
		results[i] = AckResult{Success: true}
		if l.g.conflation {
			results[i].Conflated = int64(r.settledTo-r.settledFrom) - 1
		}
		released = released || at == r.settledTo
	}
	for i := range results {
		results[i].LeaseReleased = released
	}
	return results
}
