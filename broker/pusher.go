package broker

import (
	"bytes"
	"cmp"

	"queend"
	"queend/segment"
)

// pusher plans messages into a bundle. Nothing changes before commit or
// finish: a plan that turns out to need the disk is thrown away. The items
// are read again then, so they must stay as they are.
type pusher struct {
	b           *Broker
	t           *bundle
	f           *finder
	tenant      queend.ID
	producer    []byte
	hasProducer bool
	queues      map[string]*plannedQueue // made with the second queue
	queue1      *plannedQueue
	targets     []*target
	over        bool                  // of one target at least
	last        *target               // of the item before: most requests name one partition
	byName      map[targetKey]*target // of all, once they are too many to look through
	size        int                   // items of the request, about
}

// fewTargets is how many are looked through one by one.
const fewTargets = 8

// plannedQueue is a queue that items go to; set is its creation, if it is new.
type plannedQueue struct {
	name  string
	id    queend.QueueID
	live  *queue
	set   *queueSet
	added bool // set is in a bundle
	opts  *Options
}

type targetKey struct {
	q    *plannedQueue
	name string
}

// target is a partition that items go to.
type target struct {
	targetKey
	id    queend.PartitionID
	live  *partition    // nil: new
	first queend.Offset // of the first item
	items []plannedItem
	bytes int
	seen  map[uint64]int32 // place in items, by hash of the id, once there are many
	over  bool             // its items are too large together: none is stored
}

// plannedItem is an item that will be stored, at first plus its place.
type plannedItem struct {
	*PushItem
	txn     []byte
	hash    uint64 // of txn, as segment.Hash has it
	id      queend.ID
	payload []byte // as stored
	sealed  bool
}

// pushOutcome is a result and whether it repeats an id of the same request.
type pushOutcome struct {
	PushResult
	repeat bool
}

func (b *Broker) newPusher(t *bundle, f *finder, tenant queend.ID, producer *string) *pusher {
	p := &pusher{b: b, t: t, f: f, tenant: tenant}
	if producer != nil {
		p.producer, p.hasProducer = []byte(*producer), true
	}
	return p
}

// add plans one item; ready is false when the verdict on its id needs the
// disk. The verdict comes before an offset is taken (R80).
func (p *pusher) add(it *PushItem) (out pushOutcome, ready bool) {
	tg := p.target(it)
	out.Queue, out.Offset = it.Queue, queend.NoOffset
	item := plannedItem{PushItem: it, txn: it.TxnID, id: it.id, payload: it.Payload, sealed: it.sealed}
	if item.id.IsZero() {
		item.id = p.b.newID(p.t.stamp)
	}
	if item.txn == nil {
		item.txn = item.id.Append(nil)
		item.hash = segment.Hash(item.txn)
	} else {
		item.hash = segment.Hash(item.txn)
		if i, known := tg.repeated(&item); known {
			out.PushResult = PushResult{
				Status: PushDuplicate, ID: tg.items[i].id, TxnID: item.txn, Queue: it.Queue, Offset: tg.first + queend.Offset(i),
			}
			out.repeat = true
			return out, true
		}
		var dup bool
		if dup, ready = p.inWindow(tg, &item, &out); !ready || dup {
			return out, ready
		}
	}
	out.TxnID = item.txn
	if reason := p.b.encrypt(tg.q.opts, &item); reason != "" {
		out.Status, out.Error = PushFailed, reason
		return out, true
	}
	size := len(item.payload) + len(item.txn) + len(it.Headers) + len(p.producer) + messageOverhead
	if int64(tg.bytes+size) > p.b.cfg.EntryMaxBytes {
		tg.over, p.over = true, true
	}
	if tg.over {
		out.Status, out.Error = PushFailed, errTooLarge
		return out, true
	}
	out.Status, out.ID, out.Offset = PushQueued, item.id, tg.first+queend.Offset(len(tg.items))
	tg.append(item, size)
	return out, true
}

// refuseOver fails every item that would have been stored in a partition whose
// items are too large together, also those that were planned before that was
// known: each partition's part of a push is whole or nothing.
func (p *pusher) refuseOver(items []PushItem, results []PushResult) {
	if !p.over {
		return
	}
	for i := range items {
		tg, res := p.target(&items[i]), &results[i]
		repeats := res.Status == PushDuplicate && res.Offset >= tg.first
		if tg.over && (res.Status == PushQueued || repeats) {
			*res = PushResult{
				Status: PushFailed, TxnID: res.TxnID, Queue: res.Queue, Offset: queend.NoOffset, Error: errTooLarge,
			}
		}
	}
	for _, tg := range p.targets {
		if tg.over {
			tg.items, tg.bytes = nil, 0
		}
	}
}

// messageOverhead bounds what the encoding of a message adds to its parts.
const messageOverhead = 64

// encrypt replaces the payload by its stored form on a flagged queue (R100);
// the reason says why it may not be stored at all.
func (b *Broker) encrypt(opts *Options, item *plannedItem) (reason string) {
	if !opts.EncryptionEnabled || item.sealed {
		return ""
	}
	if b.cfg.EncryptionKey == nil {
		if b.cfg.EncryptionRequired {
			return errNoKey
		}
		return ""
	}
	stored, err := b.seal(item.payload)
	if err != nil {
		return errSeal
	}
	item.payload, item.sealed = stored, true
	return ""
}

// fewItems is how many are looked through for a repeated id.
const fewItems = 8

// append takes the next offset for the item.
func (tg *target) append(item plannedItem, size int) {
	tg.items = append(tg.items, item)
	tg.bytes += size
	switch n := len(tg.items); {
	case tg.seen != nil:
		if _, taken := tg.seen[item.hash]; !taken {
			tg.seen[item.hash] = int32(n - 1)
		}
	case n > fewItems:
		tg.seen = make(map[uint64]int32, cap(tg.items))
		for i := range tg.items {
			if _, taken := tg.seen[tg.items[i].hash]; !taken {
				tg.seen[tg.items[i].hash] = int32(i)
			}
		}
	}
}

// repeated finds an id among the items that came earlier in the request. Ids
// that share a hash with another one are looked for from there on.
func (tg *target) repeated(item *plannedItem) (int, bool) {
	from := 0
	if tg.seen != nil {
		i, known := tg.seen[item.hash]
		if !known {
			return 0, false
		}
		from = int(i)
	}
	for i := from; i < len(tg.items); i++ {
		if tg.items[i].hash == item.hash && bytes.Equal(tg.items[i].txn, item.txn) {
			return i, true
		}
	}
	return 0, false
}

// inWindow looks an id up in the dedup window of its partition (R80-R83).
func (p *pusher) inWindow(tg *target, item *plannedItem, out *pushOutcome) (dup, ready bool) {
	window := tg.q.opts.DedupWindowSeconds * Second
	if tg.live == nil || window <= 0 {
		return false, true
	}
	m, ready := p.f.lookupNew(tg.live, item.txn, item.hash, p.t.stamp-window, 0, tg.live.end-1)
	if !ready || !m.found {
		return false, ready
	}
	out.PushResult = PushResult{Status: PushDuplicate, ID: m.id, TxnID: item.txn, Queue: out.Queue, Offset: m.off}
	if m.off < tg.live.start {
		out.ID = queend.ID{}
	}
	return true, true
}

// target finds the partition of an item, planning what does not exist.
func (p *pusher) target(it *PushItem) *target {
	name := cmp.Or(it.Partition, DefaultPartition)
	if tg := p.last; tg != nil && tg.name == name && tg.q.name == it.Queue {
		return tg
	}
	key := targetKey{p.queue(it.Queue), name}
	p.last = p.known(key)
	if p.last == nil {
		p.last = p.plan(key)
	}
	return p.last
}

func (p *pusher) known(key targetKey) *target {
	if p.byName != nil {
		return p.byName[key]
	}
	for _, tg := range p.targets {
		if tg.targetKey == key {
			return tg
		}
	}
	return nil
}

func (p *pusher) plan(key targetKey) *target {
	tg := &target{targetKey: key}
	if len(p.targets) == 0 {
		tg.items = make([]plannedItem, 0, p.size) // most requests name one partition
	}
	if key.q.live != nil {
		tg.live = p.b.state.partition(key.q.live, key.name)
	}
	if tg.live != nil {
		tg.id, tg.first = tg.live.id, tg.live.end
	} else {
		tg.id = p.b.reservePartition(p.t)
	}
	p.targets = append(p.targets, tg)
	if p.byName == nil && len(p.targets) > fewTargets {
		p.byName = map[targetKey]*target{}
		for _, known := range p.targets {
			p.byName[known.targetKey] = known
		}
	} else if p.byName != nil {
		p.byName[key] = tg
	}
	return tg
}

// queue finds the queue of an item, planning what does not exist. Most
// requests name one.
func (p *pusher) queue(name string) *plannedQueue {
	if p.queue1 != nil && p.queue1.name == name {
		return p.queue1
	}
	if q := p.queues[name]; q != nil {
		return q
	}
	q := &plannedQueue{name: name, live: p.b.state.queue(p.tenant, name)}
	if q.live != nil {
		q.id, q.opts = q.live.id, &q.live.opts
	} else {
		q.set = p.b.addQueue(p.t, p.tenant, name)
		q.id, q.opts = q.set.id, &q.set.opts
	}
	switch {
	case p.queue1 == nil:
		p.queue1 = q
	case p.queues == nil:
		p.queues = map[string]*plannedQueue{name: q}
	default:
		p.queues[name] = q
	}
	return q
}

// finish adds the events of everything planned to the bundle. What got no
// message is not created.
func (p *pusher) finish() {
	p.grow()
	for _, tg := range p.targets {
		p.emit(tg)
	}
}

// grow makes room in the record, so that it is laid out once.
func (p *pusher) grow() {
	size := 64
	for _, tg := range p.targets {
		size += tg.bytes + messageOverhead
	}
	p.t.e.grow(min(size, recordBytes))
}

func (p *pusher) emit(tg *target) {
	if len(tg.items) == 0 {
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
	e := &p.t.e
	appendPushed(e, tg.id, tg.first, len(tg.items))
	for i := range tg.items {
		it := &tg.items[i]
		appendMessage(e, &segment.Message{
			ID: it.id, TxnID: it.txn, TraceID: it.TraceID, Producer: p.producer, HasProducer: p.hasProducer,
			Headers: it.Headers, Encrypted: it.sealed, Payload: it.payload,
		})
	}
	p.t.count.PushMessages += uint64(len(tg.items))
}

// commit is finish for a push, which is atomic per partition only: a very
// large one is spread over several records.
func (p *pusher) commit(drained *spoolDrained) queend.LSN {
	p.grow()
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
