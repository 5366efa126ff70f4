package broker

import (
	"context"
	"errors"
	"strings"

	"queend"
)

// The reasons for which a transaction is rolled back (docs/rules.md, S4).
const (
	reasonDuplicate   = "duplicate"
	reasonRejectedAck = "rejected_ack"
	reasonBadRequest  = "bad_request"
	reasonTooLarge    = "too_large"
	reasonNameTooLong = "name_too_long"
)

// txnUnknown is the error of a transaction that acks what it cannot find.
const txnUnknown = "QTXN ack references unknown transactionId; transaction rolled back"

// Transaction carries out pushes and acks in one record, all or nothing, over
// any number of queues, partitions, groups and leases (R110). Acks see the
// state before the pushes; those on one (partition, group) settle together,
// as one ack call. requiredLeases are what an ack without a lease of its own
// is fenced by (R113), none when empty. producer is the subject of the
// caller's token.
//
// A rollback is an outcome, not an error. Errors are a *Refusal, which did
// nothing (or CodeTimeout, where that is not known), or a failure of the log.
func (b *Broker) Transaction(ctx context.Context, tenant queend.ID, producer *string, ops []TxnOp, requiredLeases []string) (TxnOutcome, error) {
	x := &transaction{producer: producer, ops: ops, required: map[queend.ID]bool{}}
	for _, lease := range requiredLeases {
		id, _ := queend.ParseID(lease) // what is no id is nobody's lease
		x.required[id] = true
	}
	fallback, size := x.measure()
	if x.pushes > 0 {
		release, err := b.admit(ctx, size)
		if err != nil {
			return TxnOutcome{}, err
		}
		defer release()
	}
	x.acker = b.newAcker(tenant, fallback)
	defer x.f.release()
	if err := x.run(); err != nil {
		return TxnOutcome{}, err
	}
	return x.out, b.await(ctx, x.lsn)
}

// transaction is one transaction on its way.
type transaction struct {
	*acker
	producer *string
	ops      []TxnOp
	required map[queend.ID]bool // zero id: something that is no lease
	pushes   int

	out TxnOutcome
	lsn queend.LSN
}

// measure counts the pushes and their bytes, and finds the first error text.
func (x *transaction) measure() (fallback string, size int64) {
	for i := range x.ops {
		if it := x.ops[i].Push; it != nil {
			x.pushes++
			size += int64(len(it.Payload) + len(it.TxnID) + len(it.Headers) + 64)
		} else if fallback == "" {
			fallback = x.ops[i].Ack.Error
		}
	}
	return fallback, size
}

func (x *transaction) run() error {
	for {
		var done bool
		var err error
		x.b.locked(func() { done, err = x.plan() })
		if done || err != nil {
			return err
		}
		if err := x.load(); err != nil {
			return err
		}
	}
}

// plan decides and commits, or asks for the disk. Guards are acks, then
// pushes; the first refusal names the reason (R114).
func (x *transaction) plan() (done bool, err error) {
	x.lsn = x.b.log.Last()
	if x.pushes > 0 && x.b.state.maintenance {
		return false, refuse(CodeMaintenance, "push maintenance is on: transactions with a push are refused")
	}
	x.begin()
	x.out = TxnOutcome{ID: x.b.newID(x.t.stamp), Results: make([]TxnResult, len(x.ops))}
	reason, text := x.checkShape()
	if reason == "" {
		reason, text = x.planAcks()
	}
	if !x.ready {
		return false, nil
	}
	p := x.b.newPusher(x.t, x.f, x.tenant, x.producer)
	if reason == "" {
		reason, text = x.planPushes(p)
	}
	if !x.ready {
		return false, nil
	}
	if reason != "" {
		x.out.Reason, x.out.Error, x.out.Results = reason, text, nil
		return true, nil
	}
	x.finish()
	p.finish()
	x.t.count.Transactions++
	x.t.count.AckMessages += uint64(len(x.ops) - x.pushes)
	x.out.Success = true
	x.lsn = x.b.commit(x.t)
	x.noteTraffic(p)
	return true, nil
}

// checkShape refuses what no state can make right.
func (x *transaction) checkShape() (reason, text string) {
	if len(x.ops) == 0 {
		return reasonBadRequest, "QTXN transaction has no operations"
	}
	for i := range x.ops {
		it := x.ops[i].Push
		if it == nil {
			continue
		}
		var refusal *Refusal
		if err := checkNames(it.Queue, it.Partition, ""); errors.As(err, &refusal) {
			return reasonNameTooLong, refusal.Text
		}
		if len(it.TxnID) > maxTxnBytes {
			return reasonBadRequest, "transactionId is longer than 65535 bytes"
		}
	}
	return "", ""
}

// txnCall is the acks of a transaction on one (partition, group).
type txnCall struct {
	lane    *ackLane
	own     bool
	entries []ackEntry
	at      []int // indexes of the operations
}

// planAcks plans every ack. The refusal of the first operation that was
// refused rolls everything back (R112).
func (x *transaction) planAcks() (reason, text string) {
	results := make([]AckResult, len(x.ops))
	for _, c := range x.group(results) {
		for i, r := range x.settle(c.lane, c.own, c.entries) {
			results[c.at[i]] = r
		}
	}
	if !x.ready {
		return "", ""
	}
	for i := range x.ops {
		if x.ops[i].Push != nil {
			continue
		}
		if text := results[i].Error; text == errUnresolvable {
			return reasonRejectedAck, txnUnknown
		} else if text != "" {
			return reasonRejectedAck, "QTXN " + text + "; transaction rolled back"
		}
		x.out.Results[i] = TxnResult{Success: true, TxnID: x.ops[i].Ack.TxnID, DLQ: results[i].DLQ}
	}
	return "", ""
}

// group gathers the acks by lane, in order of first appearance, and notes the
// refusals that need no look at a message.
func (x *transaction) group(results []AckResult) []*txnCall {
	var calls []*txnCall
	found := map[*ackLane]*txnCall{}
	for i := range x.ops {
		it := x.ops[i].Ack
		if it == nil {
			continue
		}
		group := x.ops[i].Group
		if group == "" {
			group = QueueMode
		}
		p, problem := x.partition(it.Partition)
		if p == nil {
			results[i].Error = problem
			continue
		}
		lane, known := x.lane(p, group)
		if !known {
			results[i].Error = errNoConsumer
			continue
		}
		e := ackEntry{item: it, refused: itemRefusal(it)}
		if results[i].Error, e.own = x.fence(lane, it.Lease); results[i].Error != "" {
			continue
		}
		c := found[lane]
		if c == nil {
			c = &txnCall{lane: lane}
			found[lane] = c
			calls = append(calls, c)
		}
		c.own = c.own || e.own
		c.entries, c.at = append(c.entries, e), append(c.at, i)
	}
	return calls
}

// fence checks the lease of an ack (R113): its own, else one of the required
// ones, which must be the live one; else none. own says that it holds it.
func (x *transaction) fence(l *ackLane, lease string) (refusal string, own bool) {
	live := l.row.live(x.t.stamp)
	switch {
	case lease != "":
		if id, err := queend.ParseID(lease); err == nil && live && l.row.lane.lease == id {
			return "", true
		}
		return errBadLease, false
	case len(x.required) > 0:
		if live && x.required[l.row.lane.lease] {
			return "", true
		}
		return errBadLease, false
	case l.p.q.opts.RequireLease:
		return errLeaseRequired, false
	}
	return "", false
}

// planPushes plans every push. An id that is in its window already rolls
// everything back; one repeated inside the transaction does not (R111).
func (x *transaction) planPushes(p *pusher) (reason, text string) {
	for i := range x.ops {
		it := x.ops[i].Push
		if it == nil {
			continue
		}
		out, ready := p.add(it)
		if !ready {
			x.ready = false
			continue
		}
		switch {
		case out.Status == PushFailed && strings.HasPrefix(out.Error, "too large"):
			return reasonTooLarge, out.Error
		case out.Status == PushFailed:
			return reasonBadRequest, out.Error
		case out.Status == PushDuplicate && !out.repeat:
			return reasonDuplicate, "QDUP transactionId " + string(out.TxnID) + " is already in its partition's window; transaction rolled back"
		}
		x.out.Results[i] = TxnResult{
			Push: true, Success: true, TxnID: out.TxnID, MessageID: out.ID, Queue: it.Queue, Duplicate: out.repeat,
		}
	}
	return "", ""
}
