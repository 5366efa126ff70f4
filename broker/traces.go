package broker

import (
	"context"
	"strings"

	"queend"
)

// Traces are messages of a queue that no client can name: its name is longer
// than names may be. There is one per tenant, with one partition; a trace's
// transaction id is the address it is about, so the traces of a message are
// found as any id is. They are logged, flushed, checkpointed and retained as
// other messages are, and nothing of them is state of its own.
var (
	tracesQueue     = "\x00traces" + strings.Repeat("\x00", maxNameBytes)
	tracesPartition = "traces"
)

// isHidden reports whether the queue is the broker's own.
func (q *queue) isHidden() bool { return q.name == tracesQueue || q.name == historyQueue }

// TraceEntry is a trace to be recorded (docs/rules.md, S8).
type TraceEntry struct {
	PartitionID string // as sent; it need not exist
	TxnID       string
	Data        []byte // JSON, verbatim
	Group       string // "": QueueMode
	EventType   string // "": info
	Names       []string
}

// Trace is a recorded trace.
type Trace struct {
	ID          queend.ID
	PartitionID string
	TxnID       string
	Queue       string // of the partition when the trace was recorded, "" when it did not exist
	Partition   string
	Data        []byte
	Group       string
	Worker      string // live lease of the group on the partition then, "" without one
	EventType   string
	Names       []string
	At          int64 // microseconds
}

// A trace as the payload of its message:
//
//	| version u8 = 1 | partition id | txn | queue | partition | group | worker | event type
//	| names: count, each | data: the rest |
//
// All but the data with their length in front. Versions are on disk: add,
// never change.
const traceVersion = 1

func (t *Trace) encode() []byte {
	var e encoder
	e.byte(traceVersion)
	for _, s := range t.texts() {
		e.string(*s)
	}
	e.uint(uint64(len(t.Names)))
	for _, name := range t.Names {
		e.string(name)
	}
	return append(e.buf, t.Data...)
}

func (t *Trace) decode(raw []byte) error {
	d := decoder{buf: raw}
	if v := d.byte(); d.err == nil && v != traceVersion {
		d.fail("unknown version of a trace")
	}
	for _, s := range t.texts() {
		*s = d.string()
	}
	for range d.count(1) {
		t.Names = append(t.Names, d.string())
	}
	t.Data = d.buf
	return d.err
}

func (t *Trace) texts() []*string {
	return []*string{&t.PartitionID, &t.TxnID, &t.Queue, &t.Partition, &t.Group, &t.Worker, &t.EventType}
}

// traceAddress is the transaction id of the traces of a message.
func traceAddress(partitionID, txn string) []byte {
	e := encoder{}
	e.string(partitionID)
	return append(e.buf, txn...)
}

// RecordTrace records a trace, also in push maintenance. Errors are a
// *Refusal or a failure of the log.
func (b *Broker) RecordTrace(ctx context.Context, tenant queend.ID, in TraceEntry) (queend.ID, error) {
	address := traceAddress(in.PartitionID, in.TxnID)
	if len(address) > maxTxnBytes {
		return queend.ID{}, refuse(CodeBadRequest, "partitionId and transactionId are too long")
	}
	tr := Trace{
		PartitionID: in.PartitionID, TxnID: in.TxnID, Data: in.Data, Group: in.Group, EventType: in.EventType,
		Names: in.Names,
	}
	orDefault(&tr.Group, QueueMode)
	orDefault(&tr.EventType, "info")
	release, err := b.admit(ctx, int64(len(in.Data)+len(address)+64))
	if err != nil {
		return queend.ID{}, err
	}
	defer release()
	var lsn queend.LSN
	b.locked(func() {
		b.locate(tenant, &tr)
		b.ensureOwn(tenant, tracesQueue, max(b.cfg.TraceRetentionSeconds, 0))
		t := b.begin()
		tr.ID = b.newID(t.stamp)
		p := b.newPusher(t, nil, tenant, nil)
		// Without a dedup window and a flag to encrypt, this cannot be refused.
		p.add(&PushItem{Queue: tracesQueue, Partition: tracesPartition, id: tr.ID, TxnID: address, Payload: tr.encode()})
		p.finish()
		t.count = totals{}
		lsn = b.commit(t)
	})
	return tr.ID, b.await(ctx, lsn)
}

// locate adds what is known of the partition and the group of a trace.
func (b *Broker) locate(tenant queend.ID, tr *Trace) {
	id, err := queend.ParseID(tr.PartitionID)
	if err != nil {
		return
	}
	p := b.state.byUUID(id)
	if p == nil || p.q.tenant != tenant {
		return
	}
	tr.Queue, tr.Partition = p.q.name, p.name
	if g := p.q.groups[tr.Group]; g != nil {
		if r := p.rows.find(g.id); r.live(b.now()) {
			tr.Worker = r.lane.lease.String()
		}
	}
}

// ensureOwn makes a queue of the broker's own, or brings its retention to so
// many seconds; 0 is for ever.
func (b *Broker) ensureOwn(tenant queend.ID, name string, keep int64) {
	q := b.state.queue(tenant, name)
	if q != nil && q.opts.MaxWaitTimeSeconds == keep {
		return
	}
	t := b.begin()
	var ev *queueSet
	if q != nil {
		ev = q.event()
	} else {
		ev = b.addQueue(t, tenant, name)
		ev.namespace, ev.task, ev.opts = "", "", DefaultOptions()
		ev.opts.DedupWindowSeconds = 0
	}
	ev.opts.MaxWaitTimeSeconds = keep
	t.add(ev)
	b.commit(t)
}

// initTraces brings the retention of recorded traces to the configuration,
// which may have changed since the last run.
func (b *Broker) initTraces() {
	b.locked(func() {
		var tenants []queend.ID
		for _, q := range b.state.queues {
			if q.name == tracesQueue {
				tenants = append(tenants, q.tenant)
			}
		}
		for _, tenant := range tenants {
			b.ensureOwn(tenant, tracesQueue, max(b.cfg.TraceRetentionSeconds, 0))
		}
	})
}

// tracesOf returns where the traces of a tenant are, nil before the first.
func (b *Broker) tracesOf(tenant queend.ID) *partition {
	if q := b.state.queue(tenant, tracesQueue); q != nil {
		return b.state.partition(q, tracesPartition)
	}
	return nil
}

// TracesOf returns the traces of a message, the oldest first.
func (b *Broker) TracesOf(ctx context.Context, tenant queend.ID, partitionID, txn string) ([]Trace, error) {
	address := traceAddress(partitionID, txn)
	f := b.newFinder()
	defer f.release()
	var p *partition
	var at []queend.Offset
	for {
		ready := true
		b.locked(func() {
			if p = b.tracesOf(tenant); p != nil {
				at, ready = offsetsOf(f, p, address, at)
			}
		})
		if ready {
			break
		}
		if err := f.load(); err != nil {
			return nil, err
		}
	}
	traces, err := b.readTraces(p, at)
	if err != nil {
		return nil, err
	}
	return traces, b.settled(ctx)
}

// offsetsOf finds every retained message with an id; known are those found
// before.
func offsetsOf(f *finder, p *partition, txn []byte, known []queend.Offset) (at []queend.Offset, ready bool) {
	lo := p.start
	if n := len(known); n > 0 {
		lo = max(lo, known[n-1]+1)
	}
	for at = known; lo < p.end; {
		m, ready := f.lookup(p, txn, 0, lo, p.end-1)
		if !ready {
			return at, false
		}
		if !m.found {
			break
		}
		at = append(at, m.off)
		lo = m.off + 1
	}
	return at, true
}

// readTraces reads the traces at some offsets, in that order; what retention
// has removed meanwhile is left out.
func (b *Broker) readTraces(p *partition, at []queend.Offset) ([]Trace, error) {
	out := []Trace{}
	messages := b.newFetcher()
	for len(at) > 0 {
		n := min(len(at), readChunk)
		var got []Trace
		for ready := false; !ready; {
			b.locked(func() { got, ready = gatherTraces(messages, p, at[:n]) })
			if ready {
				break
			}
			if err := messages.load(); err != nil {
				return nil, err
			}
		}
		out = append(out, got...)
		messages.forget()
		at = at[n:]
	}
	return out, nil
}

func gatherTraces(messages *fetcher, p *partition, at []queend.Offset) (got []Trace, ready bool) {
	ready = true
	for _, off := range at {
		m, found, ok := messages.get(p, off)
		ready = ready && ok
		if !found || !ok {
			continue
		}
		tr := Trace{ID: m.ID, At: m.Time}
		if err := tr.decode(m.Payload); err != nil {
			panic("broker: trace " + m.ID.String() + ": " + err.Error())
		}
		got = append(got, tr)
	}
	return got, ready
}
