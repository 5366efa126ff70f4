package broker

import (
	"encoding/binary"
	"fmt"
	"slices"

	"queend"
	"queend/index"
)

// A checkpoint holds entries: images of records, and tombstones of records
// that an earlier checkpoint of the chain has.
//
//	entry: | length u32 | kind u8 | fields |
//
// Queues, groups, labels and files are written as the event that would make
// them, tombstones as the event that would remove the record. The rest has
// kinds of its own. Kinds are on disk: never reuse one.
const (
	kindPartitionImage byte = 128 + iota
	kindLetterImage
	kindMiscImage
)

// entry appends what fn writes, with its length in front.
func (e *encoder) entry(fn func(*encoder)) {
	at := len(e.buf)
	e.buf = append(e.buf, 0, 0, 0, 0)
	fn(e)
	binary.LittleEndian.PutUint32(e.buf[at:], uint32(len(e.buf)-at-4))
}

func (q *queue) image(e *encoder) {
	e.entry((&queueSet{
		id: q.id, uuid: q.uuid, tenant: q.tenant, name: q.name, created: q.created,
		namespace: q.namespace, task: q.task, implicit: q.implicit, opts: q.opts,
	}).encode)
}

func (g *group) image(e *encoder) {
	e.entry((&groupSet{
		id: g.id, queue: g.q.id, name: g.name, created: g.created, mode: g.mode,
		conflation: g.conflation, seed: g.seed, seedMax: g.seedMax, start: g.start, popped: g.popped,
	}).encode)
}

func (l *label) image(e *encoder) {
	e.entry((&labelSet{labelKey: l.labelKey, mode: l.mode, conflation: l.conflation, seed: l.seed}).encode)
}

func (f *file) image(e *encoder) {
	e.entry((&fileNew{id: f.id, bytes: f.bytes}).encode)
}

func (l *deadLetter) image(e *encoder) {
	e.entry(func(e *encoder) {
		e.byte(kindLetterImage)
		e.id(l.id)
		e.uint(uint64(l.q.id))
		e.string(l.group)
		e.uint(uint64(l.part))
		e.offset(l.offset)
		e.offset(l.at)
		e.int(l.failedAt)
	})
}

// partitionImage writes a partition with its rows and runs. The tail is not
// in it: a checkpoint is finished only when segments hold the tail. Rows of
// groups that are gone are left out.
func (b *Broker) partitionImage(e *encoder, p *partition) {
	e.entry(func(e *encoder) {
		e.byte(kindPartitionImage)
		e.uint(uint64(p.id))
		e.uint(uint64(p.q.id))
		e.id(p.uuid)
		e.string(p.name)
		e.bool(p.ord < 0)
		e.int(p.created)
		e.int(p.lastTime)
		e.int(p.lastUse)
		e.offset(p.start)
		e.offset(p.end)
		e.offset(p.flushed)
		e.uint(uint64(len(p.runs())))
		for i := range p.runs() {
			e.uint(uint64(p.runs()[i].File))
			encodeRun(e, &p.runs()[i])
		}
		for r := range p.rows.all() {
			if b.state.groups[r.group] != nil {
				r.encode(e)
			}
		}
	})
}

// miscImage writes what belongs to no record; every checkpoint has it.
func (s *state) miscImage(e *encoder) {
	e.entry(func(e *encoder) {
		e.byte(kindMiscImage)
		e.uint(uint64(s.lastQueue))
		e.uint(uint64(s.lastPartition))
		e.uint(uint64(s.lastGroup))
		e.uint(uint64(s.lastFile))
		e.int(s.lastStamp)
		e.bool(s.maintenance)
		e.bool(s.popMaintenance)
		s.totals.encode(e)
	})
	if s.spool != (spoolPlace{}) {
		e.entry((&spoolDrained{s.spool}).encode)
	}
}

// load puts the entry of a checkpoint into the state.
func (b *Broker) load(entry []byte) error {
	d := decoder{buf: entry}
	switch kind := d.byte(); kind {
	case kindPartitionImage:
		return b.loadPartition(&d)
	case kindLetterImage:
		b.loadLetter(&d)
	case kindMiscImage:
		b.state.loadMisc(&d)
	default:
		ev := newEvent(kind)
		if ev == nil {
			return fmt.Errorf("%w: unknown entry kind %d", errDamagedRecord, kind)
		}
		if ev.decode(&d); d.err == nil {
			ev.apply(b, 0)
		}
	}
	return d.err
}

func (b *Broker) loadPartition(d *decoder) error {
	id, q := d.partition(), b.state.queues[queend.QueueID(d.uint())]
	uuid, name := d.id(), d.string()
	internal := d.bool()
	f := facts{
		id: id, uuid: uuid, epoch: loadedEpoch, created: d.int(), lastTime: d.int(), lastUse: d.int(),
		start: d.offset(), end: d.offset(), flushed: d.offset(),
	}
	runs := decodeRuns(d)
	var all rows
	for d.err == nil && len(d.buf) > 0 {
		r := new(row)
		r.decode(d)
		all.put(r)
	}
	if d.err == nil && q == nil {
		d.fail(fmt.Sprintf("partition %d is of no queue", id))
	}
	p := b.state.partitions.get(id)
	if p != nil && (p.uuid != uuid || p.name != name || p.q != q) {
		d.fail(fmt.Sprintf("partition %d is called %q, and %q in the file before", id, name, p.name))
	}
	if d.err != nil {
		return d.err
	}
	if p == nil {
		p = b.insertPartition(partition{q: q, name: name}, f, internal)
	} else {
		f.ord = p.ord
		*p.facts = f
	}
	p.rows, p.tail = all, nil
	p.place(runs)
	return nil
}

// decodeRuns reads the runs of a partition.
func decodeRuns(d *decoder) index.Runs {
	runs := make(index.Runs, 0, d.count(8))
	for range cap(runs) {
		file := queend.FileID(d.uint())
		if d.err == nil && file == 0 {
			d.fail("a run is in no file")
		}
		runs = append(runs, decodeRun(d, file))
	}
	return runs
}

func (b *Broker) loadLetter(d *decoder) {
	l := &deadLetter{id: d.id(), q: b.state.queues[queend.QueueID(d.uint())], epoch: loadedEpoch}
	l.group = d.string()
	l.part = queend.PartitionID(d.uint())
	l.offset = d.offset()
	l.at = d.offset()
	l.failedAt = d.int()
	if d.err == nil && l.q == nil {
		d.fail("dead letter " + l.id.String() + " is of no queue")
	}
	if d.err == nil {
		b.insertLetter(l)
	}
}

func (s *state) loadMisc(d *decoder) {
	s.lastQueue = queend.QueueID(d.uint())
	s.lastPartition = queend.PartitionID(d.uint())
	s.lastGroup = queend.GroupID(d.uint())
	s.lastFile = queend.FileID(d.uint())
	s.lastStamp = d.int()
	s.maintenance = d.bool()
	s.popMaintenance = d.bool()
	s.totals = totals{}
	s.totals.decode(d)
}

// settle derives what images leave out: counts and the order of partitions.
func (s *state) settle() {
	for _, f := range s.files {
		f.runs, f.dead = 0, 0
	}
	for p := range s.partitions.all() {
		p.letters = 0
		for i := range p.runs() {
			if f := s.files[p.runs()[i].File]; f != nil {
				f.runs++
			}
		}
	}
	for _, l := range s.dead {
		if p := s.partitions.get(l.part); p != nil {
			p.letters++
		}
	}
	for _, q := range s.queues {
		q.order = slices.DeleteFunc(q.order, func(id queend.PartitionID) bool { return id == 0 })
		slices.Sort(q.order)
		for i, id := range q.order {
			s.partitions.get(id).ord = int32(i)
		}
	}
}
