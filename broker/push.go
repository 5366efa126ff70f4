package broker

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/cespare/xxhash/v2"

	"queend"
	"queend/segment"
)

// maxTxnBytes bounds a transaction id (section 1).
const maxTxnBytes = 65535

// recordBytes is the size beyond which the rest of a push goes into a record
// of its own; one partition's messages stay together (section 4.1).
const recordBytes = 16 << 20

// Why an item is refused for good.
const (
	errTooLarge = "too large: the items for one partition exceed QUEEN_ENTRY_MAX_BYTES"
	errNoKey    = "encryption required: no key is configured"
	errSeal     = "encryption failed"
)

// Push stores items, each (queue, partition) group whole or not at all, and
// answers in request order once they are durable. producer is the subject of
// the caller's token, nil without one.
//
// Errors are a *Refusal, which stored nothing, or a failure of the log.
func (b *Broker) Push(ctx context.Context, tenant queend.ID, producer *string, items []PushItem) ([]PushResult, error) {
	size := int64(0)
	for i := range items {
		it := &items[i]
		if it.Partition == "" {
			it.Partition = DefaultPartition
		}
		if err := checkNames(it.Queue, it.Partition, ""); err != nil {
			return nil, err
		}
		if len(it.TxnID) > maxTxnBytes {
			return nil, refuse(CodeBadRequest, "transactionId is longer than 65535 bytes")
		}
		size += int64(len(it.Payload) + len(it.TxnID) + len(it.Headers) + 64)
	}
	release, err := b.admit(ctx, size)
	if err != nil {
		return nil, err
	}
	defer release()
	return b.pushAdmitted(ctx, tenant, producer, items)
}

func (b *Broker) pushAdmitted(ctx context.Context, tenant queend.ID, producer *string, items []PushItem) ([]PushResult, error) {
	results, spool, err := b.storePush(ctx, tenant, producer, items, nil)
	if spool {
		return b.spoolPush(ctx, tenant, producer, items)
	}
	return results, err
}

// storePush stores items, or says that maintenance wants them spooled. Items
// from the spool are stored in any case, all or none, and with them, in the
// same record, how far the spool is drained; they must fit into one record.
func (b *Broker) storePush(ctx context.Context, tenant queend.ID, producer *string, items []PushItem, drained *spoolDrained) (results []PushResult, spool bool, err error) {
	f := b.newFinder()
	defer f.release()
	results = make([]PushResult, len(items))
	var lsn queend.LSN
	for {
		var ready bool
		b.locked(func() {
			if spool = b.state.maintenance && drained == nil; spool {
				return
			}
			t := b.begin()
			p := b.newPusher(t, f, tenant, producer)
			ready = true
			for i := range items {
				out, ok := p.add(&items[i])
				ready = ready && ok
				results[i] = out.PushResult
			}
			if !ready {
				return
			}
			if drained != nil && slices.ContainsFunc(results, PushResult.failed) {
				return
			}
			t.count.PushRequests++
			lsn = p.commit(drained)
		})
		if spool {
			return nil, true, nil
		}
		if ready {
			break
		}
		if err := f.load(); err != nil {
			return nil, false, err
		}
	}
	if err := b.await(ctx, lsn); err != nil {
		return nil, false, err
	}
	b.meters.pushed(results)
	return results, false, nil
}

// pusher plans messages into a bundle. Nothing changes before commit or
// finish: a plan that turns out to need the disk is thrown away.
type pusher struct {
	b           *Broker
	t           *bundle
	f           *finder
	tenant      queend.ID
	producer    []byte
	hasProducer bool
	queues      map[string]*plannedQueue
	targets     []*target
	last        *target // of the item before: most requests name one partition
	scratch     encoder
}

// plannedQueue is a queue that items go to; set is its creation, if it is new.
type plannedQueue struct {
	id    queend.QueueID
	live  *queue
	set   *queueSet
	added bool // set is in a bundle
	opts  *Options
	parts map[string]*target
}

// target is a partition that items go to.
type target struct {
	q     *plannedQueue
	name  string
	id    queend.PartitionID
	live  *partition    // nil: new
	next  queend.Offset // of the next item
	raws  [][]byte
	bytes int
	seen  map[uint64][]seenItem // ids in this request, by hash (R81)
}

// seenItem is an item that came earlier in the request.
type seenItem struct {
	txn []byte
	id  queend.ID
	off queend.Offset
}

// pushOutcome is a result and whether it repeats an id of the same request.
type pushOutcome struct {
	PushResult
	repeat bool
}

func (b *Broker) newPusher(t *bundle, f *finder, tenant queend.ID, producer *string) *pusher {
	p := &pusher{b: b, t: t, f: f, tenant: tenant, queues: map[string]*plannedQueue{}}
	if producer != nil {
		p.producer, p.hasProducer = []byte(*producer), true
	}
	return p
}

// add plans one item; ready is false when the verdict on its id needs the
// disk. The verdict comes before an offset is taken (R80).
func (p *pusher) add(it *PushItem) (out pushOutcome, ready bool) {
	tg := p.target(it)
	out.Queue = it.Queue
	out.Offset = queend.NoOffset
	id := it.id
	if id.IsZero() {
		id = p.b.newID(p.t.stamp)
	}
	txn := it.TxnID
	if txn == nil {
		txn = id.Append(nil)
	} else {
		if m, known := tg.repeated(txn); known {
			out.PushResult = PushResult{Status: PushDuplicate, ID: m.id, TxnID: txn, Queue: it.Queue, Offset: m.off}
			out.repeat = true
			return out, true
		}
		var dup bool
		if dup, ready = p.inWindow(tg, txn, &out); !ready || dup {
			return out, ready
		}
	}
	m := segment.Message{
		ID: id, TxnID: txn, TraceID: it.TraceID, Producer: p.producer, HasProducer: p.hasProducer,
		Headers: it.Headers, Payload: it.Payload,
	}
	out.TxnID = txn
	if reason := p.encrypt(tg, it, &m); reason != "" {
		out.Status, out.Error = PushFailed, reason
		return out, true
	}
	if int64(tg.bytes+len(m.Payload)+len(txn)) > p.b.cfg.EntryMaxBytes {
		out.Status, out.Error = PushFailed, errTooLarge
		return out, true
	}
	out.Status, out.ID, out.Offset = PushQueued, id, tg.next
	tg.append(&p.scratch, &m)
	return out, true
}

// encrypt replaces the payload by its stored form on a flagged queue (R100);
// the reason says why it may not be stored at all.
func (p *pusher) encrypt(tg *target, it *PushItem, m *segment.Message) (reason string) {
	if !tg.q.opts.EncryptionEnabled || it.sealed {
		return ""
	}
	if p.b.cfg.EncryptionKey == nil {
		if p.b.cfg.EncryptionRequired {
			return errNoKey
		}
		return ""
	}
	stored, err := p.b.seal(m.Payload)
	if err != nil {
		return errSeal
	}
	m.Payload, m.Encrypted = stored, true
	return ""
}

// append takes the next offset for the message.
func (tg *target) append(scratch *encoder, m *segment.Message) {
	scratch.buf = scratch.buf[:0]
	appendMessage(scratch, m)
	raw := bytes.Clone(scratch.buf)
	tg.raws = append(tg.raws, raw)
	tg.bytes += len(raw)
	h := xxhash.Sum64(m.TxnID)
	if tg.seen == nil {
		tg.seen = map[uint64][]seenItem{}
	}
	tg.seen[h] = append(tg.seen[h], seenItem{m.TxnID, m.ID, tg.next})
	tg.next++
}

// repeated finds an id among the items that came earlier in the request.
func (tg *target) repeated(txn []byte) (seenItem, bool) {
	if tg.seen == nil {
		return seenItem{}, false
	}
	for _, s := range tg.seen[xxhash.Sum64(txn)] {
		if bytes.Equal(s.txn, txn) {
			return s, true
		}
	}
	return seenItem{}, false
}

// inWindow looks an id up in the dedup window of its partition (R80-R83).
func (p *pusher) inWindow(tg *target, txn []byte, out *pushOutcome) (dup, ready bool) {
	window := tg.q.opts.DedupWindowSeconds * Second
	if tg.live == nil || window <= 0 {
		return false, true
	}
	m, ready := p.f.lookup(tg.live, txn, p.t.stamp-window, 0, tg.live.end-1)
	if !ready || !m.found {
		return false, ready
	}
	out.PushResult = PushResult{Status: PushDuplicate, ID: m.id, TxnID: txn, Queue: out.Queue, Offset: m.off}
	if m.off < tg.live.start {
		out.ID = queend.ID{}
	}
	return true, true
}

// target finds the partition of an item, planning what does not exist.
func (p *pusher) target(it *PushItem) *target {
	name := cmp.Or(it.Partition, DefaultPartition)
	if tg := p.last; tg != nil && tg.name == name && tg.q.name() == it.Queue {
		return tg
	}
	q := p.queues[it.Queue]
	if q == nil {
		q = p.plan(it.Queue)
		p.queues[it.Queue] = q
	}
	tg := q.parts[name]
	if tg == nil {
		tg = &target{q: q, name: name}
		if q.live != nil {
			tg.live = q.live.parts[name]
		}
		if tg.live != nil {
			tg.id, tg.next = tg.live.id, tg.live.end
		} else {
			tg.id = p.b.reservePartition(p.t)
		}
		q.parts[name] = tg
		p.targets = append(p.targets, tg)
	}
	p.last = tg
	return tg
}

func (p *pusher) plan(name string) *plannedQueue {
	q := &plannedQueue{parts: map[string]*target{}, live: p.b.state.queue(p.tenant, name)}
	if q.live != nil {
		q.id, q.opts = q.live.id, &q.live.opts
		return q
	}
	q.set = p.b.addQueue(p.t, p.tenant, name)
	q.id, q.opts = q.set.id, &q.set.opts
	return q
}

func (q *plannedQueue) name() string {
	if q.live != nil {
		return q.live.name
	}
	return q.set.name
}

// finish adds the events of everything planned to the bundle. What got no
// message is not created.
func (p *pusher) finish() {
	for _, tg := range p.targets {
		p.emit(tg)
	}
}

func (p *pusher) emit(tg *target) {
	if len(tg.raws) == 0 {
		return
	}
	if tg.q.set != nil && !tg.q.added {
		p.t.add(tg.q.set)
		p.b.addLabelGroups(p.t, tg.q.set)
		tg.q.added = true
	}
	if tg.live == nil {
		p.t.add(&partitionNew{
			id: tg.id, queue: tg.q.id, uuid: p.b.newID(p.t.stamp), name: tg.name, created: p.t.stamp,
		})
	}
	p.t.add(&pushed{partition: tg.id, first: tg.next - queend.Offset(len(tg.raws)), raws: tg.raws})
	p.t.count.PushMessages += uint64(len(tg.raws))
}

// commit is finish for a push, which is atomic per partition only: a very
// large one is spread over several records.
func (p *pusher) commit(drained *spoolDrained) queend.LSN {
	for _, tg := range p.targets {
		if p.t.size()+tg.bytes > recordBytes && !p.t.empty() {
			p.b.commit(p.t)
			reserved := *p.t
			p.t = p.b.begin()
			p.t.queues, p.t.partitions, p.t.groups = reserved.queues, reserved.partitions, reserved.groups
		}
		p.emit(tg)
	}
	if drained != nil {
		p.t.add(drained)
	}
	return p.b.commit(p.t)
}
