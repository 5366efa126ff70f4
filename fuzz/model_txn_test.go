package fuzz

import (
	"slices"

	"queend"
	"queend/broker"
)

// txnPart is one operation of a transaction, resolved: a push or an ack.
type txnPart struct {
	push  *pushItem
	ack   *broker.AckItem
	part  *mPart // of the ack, nil: unknown
	group string
}

// mOutcome is what must become of a transaction.
type mOutcome struct {
	reason     string // "" when committed
	unresolved bool   // the error is that of an unknown id
	pushed     []mPushed
	dlq        []bool // by operation
}

// txnCall is the acks of a transaction on one lane.
type txnCall struct {
	ackCall
	at []int
}

// transaction carries out everything or nothing (R110-R114).
func (m *model) transaction(parts []txnPart, required []string, producer *string) mOutcome {
	now := m.stamp()
	out := mOutcome{dlq: make([]bool, len(parts))}
	if len(parts) == 0 {
		out.reason = "bad_request"
		return out
	}
	results := make([]broker.AckResult, len(parts))
	calls := m.fenceAll(parts, required, results, now)
	plans := make([]settled, len(calls))
	for i, c := range calls {
		plans[i] = m.settle(&c.ackCall, now)
		for k, at := range c.at {
			results[at] = plans[i].results[k]
		}
	}
	for i := range parts {
		if parts[i].ack != nil && results[i].Error != "" {
			out.reason, out.unresolved = "rejected_ack", results[i].Error == errUnresolvable
			return out
		}
		out.dlq[i] = results[i].DLQ
	}
	var items []pushItem
	for i := range parts {
		if parts[i].push != nil {
			items = append(items, *parts[i].push)
		}
	}
	if m.anyDuplicate(items, now) {
		out.reason = "duplicate"
		return out
	}
	for i, c := range calls {
		m.apply(&c.ackCall, plans[i], now)
	}
	out.pushed = m.push(items, producer)
	return out
}

// anyDuplicate reports whether an id is in its window before the call (R111).
func (m *model) anyDuplicate(items []pushItem, now int64) bool {
	return slices.ContainsFunc(items, func(it pushItem) bool {
		if it.Txn == "" {
			return false
		}
		dup, _ := m.inWindow(it, now)
		return dup != nil
	})
}

// fenceAll gathers the acks by lane and notes those refused at once.
func (m *model) fenceAll(parts []txnPart, required []string, results []broker.AckResult, now int64) (calls []*txnCall) {
	fallback := ""
	for i := range parts {
		if parts[i].ack != nil {
			fallback = orText(fallback, parts[i].ack.Error)
		}
	}
	for i := range parts {
		it := parts[i].ack
		if it == nil {
			continue
		}
		p := parts[i].part
		if p == nil {
			results[i].Error = "unknown partitionId"
			continue
		}
		g := p.q.groups[parts[i].group]
		if g == nil || !g.hasCursor(p) {
			results[i].Error = errNoConsumer
			continue
		}
		own, refused := m.fence(lane{g, p}, it.Lease, required, now)
		if refused != "" {
			results[i].Error = refused
			continue
		}
		at := slices.IndexFunc(calls, func(c *txnCall) bool { return c.lane == lane{g, p} })
		if at < 0 {
			at = len(calls)
			calls = append(calls, &txnCall{ackCall: ackCall{lane: lane{g, p}, fallback: fallback}})
		}
		c := calls[at]
		c.items, c.own, c.at = append(c.items, *it), append(c.own, own), append(c.at, i)
	}
	return calls
}

// fence checks the lease of an ack in a transaction (R113).
func (m *model) fence(l lane, lease string, required []string, now int64) (own bool, refused string) {
	r := l.g.cursor(l.p)
	holds := func(text string) bool {
		id, err := queend.ParseID(text)
		return err == nil && r.live(now) && r.lease == id
	}
	switch {
	case lease != "" && holds(lease):
		return true, ""
	case lease != "":
		return false, errBadLease
	case len(required) > 0 && slices.ContainsFunc(required, holds):
		return true, ""
	case len(required) > 0:
		return false, errBadLease
	case l.p.q.opts.RequireLease:
		return false, errLeaseRequired
	}
	return false, ""
}
