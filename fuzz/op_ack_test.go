package fuzz

import (
	"fmt"
	"strings"

	"queend"
	"queend/broker"
)

// ackItem names a message by its place; Off -1 is an id that never was.
// Delay is delayMs, 0: not sent.
type ackItem struct {
	Queue, Part string
	Off         int
	Lease       leaseRef
	Signal      broker.Signal
	Error       string
	Delay       int64
}

// ackOp settles messages.
type ackOp struct {
	Group string
	Items []ackItem
}

// resolve makes the item the broker is sent. ok is false when what must be
// answered depends on what the rules leave open.
func (h *harness) resolve(it ackItem, group string) (item broker.AckItem, p *mPart, ok bool) {
	item = broker.AckItem{
		TxnID: []byte("ghost"), Partition: bogusID, Lease: h.lease(it.Lease), Signal: it.Signal, Error: it.Error, DelayMS: -1,
	}
	if it.Delay > 0 {
		item.DelayMS = it.Delay
	}
	p = h.m.find(it.Queue, it.Part)
	if p == nil || p.uuid.IsZero() {
		return item, nil, true
	}
	item.Partition = p.uuid.String()
	if it.Off < 0 || it.Off >= p.end() {
		return item, p, true
	}
	item.TxnID = []byte(p.msgs[it.Off].txn)
	g := p.q.groups[group]
	if g != nil && g.unsure[p] {
		return item, p, false // where the cursor is
	}
	for off := 0; off < p.start && g != nil; off++ {
		if p.msgs[off].txn == string(item.TxnID) && p.rows[g] == nil {
			return item, p, false // whether it was at registration
		}
	}
	return item, p, true
}

func (o ackOp) run(h *harness) error {
	group := orText(o.Group, broker.QueueMode)
	type key struct {
		p     *mPart
		lease string
	}
	var order []key
	calls := map[key][]int{}
	items := make([]broker.AckItem, len(o.Items))
	fallback := ""
	for i := range o.Items {
		item, p, ok := h.resolve(o.Items[i], group)
		if !ok {
			return nil
		}
		items[i] = item
		fallback = orText(fallback, item.Error)
		k := key{p, item.Lease}
		if calls[k] == nil {
			order = append(order, k)
		}
		calls[k] = append(calls[k], i)
	}
	got, err := h.b.Ack(h.ctx, broker.DefaultTenant, group, items)
	if err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	want := make([]broker.AckResult, len(items))
	for _, k := range order {
		var some []broker.AckItem
		for _, i := range calls[k] {
			some = append(some, items[i])
		}
		results := refuseAll(some, "unknown partitionId")
		if k.p != nil {
			results = h.m.ackLease(k.p, group, k.lease, some, fallback)
		}
		for n, i := range calls[k] {
			want[i] = results[n]
		}
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("ack item %d (%s): answer %+v, want %+v", i, items[i].TxnID, got[i], want[i])
		}
	}
	return nil
}

// txnPartOp is a push or an ack of a transaction.
type txnPartOp struct {
	Push  *pushItem
	Ack   *ackItem
	Group string
}

// txnOp is a transaction.
type txnOp struct {
	Parts    []txnPartOp
	Required []leaseRef
	Producer *string
}

func (o txnOp) run(h *harness) error {
	parts, ops := make([]txnPart, len(o.Parts)), make([]broker.TxnOp, len(o.Parts))
	for i, part := range o.Parts {
		if part.Push != nil {
			parts[i].push = part.Push
			ops[i].Push = ptr(part.Push.request())
			continue
		}
		group := orText(part.Group, broker.QueueMode)
		item, p, ok := h.resolve(*part.Ack, group)
		if !ok {
			return nil
		}
		parts[i] = txnPart{ack: &item, part: p, group: group}
		ops[i] = broker.TxnOp{Ack: &item, Group: part.Group}
	}
	var required []string
	for _, ref := range o.Required {
		required = append(required, h.lease(ref))
	}
	got, err := h.b.Transaction(h.ctx, broker.DefaultTenant, o.Producer, ops, required)
	if err != nil {
		return fmt.Errorf("transaction: %w", err)
	}
	want := h.m.transaction(parts, required, o.Producer)
	if got.Success != (want.reason == "") || got.Reason != want.reason {
		return fmt.Errorf("transaction: success %v, reason %q (%s), want reason %q", got.Success, got.Reason, got.Error, want.reason)
	}
	if want.reason != "" {
		return want.checkError(&got)
	}
	return want.checkResults(ops, got.Results)
}

func (w *mOutcome) checkError(got *broker.TxnOutcome) error {
	unknown := "QTXN ack references unknown transactionId; transaction rolled back"
	bad := len(got.Results) > 0 || w.reason == "duplicate" && !strings.HasPrefix(got.Error, "QDUP") ||
		w.reason == "rejected_ack" && w.unresolved != (got.Error == unknown)
	if bad {
		return fmt.Errorf("transaction: rolled back for %q with error %q and %d results", got.Reason, got.Error, len(got.Results))
	}
	return nil
}

func (w *mOutcome) checkResults(ops []broker.TxnOp, got []broker.TxnResult) error {
	pushed := 0
	for i := range ops {
		r := &got[i]
		if ops[i].Push == nil {
			if !r.Success || r.DLQ != w.dlq[i] || r.Push {
				return fmt.Errorf("transaction: ack %d answered %+v, want dlq %v", i, *r, w.dlq[i])
			}
			continue
		}
		p := &w.pushed[pushed]
		pushed++
		if !p.repeat {
			p.msg.settleID(r.MessageID)
		}
		if !r.Success || !r.Push || r.Duplicate != p.repeat || r.MessageID != p.msg.id || string(r.TxnID) != p.msg.txn || r.MessageID == (queend.ID{}) {
			return fmt.Errorf("transaction: push %d answered %+v, want id %s of %q, repeat %v", i, *r, p.msg.id, p.msg.txn, p.repeat)
		}
	}
	return nil
}
