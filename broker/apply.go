package broker

import (
	"slices"

	"queend"
	"queend/dedup"
	"queend/index"
	"queend/segment"
)

// Apply changes memory and nothing else. It cannot fail: plan has checked,
// and an event about something deleted meanwhile does nothing. Boot runs the
// same functions on the records of the log.

func (v *queueSet) apply(b *Broker, _ int64) {
	s := &b.state
	q := s.queues[v.id]
	if q == nil {
		q = &queue{
			id: v.id, queueKey: queueKey{v.tenant, v.name},
			groups: map[string]*group{}, letters: map[queend.ID]*deadLetter{},
		}
		s.queues[v.id] = q
		s.names[q.queueKey] = q
		s.lastQueue = max(s.lastQueue, v.id)
	} else {
		b.label(q, false)
	}
	b.touchQueue(q)
	q.uuid, q.created, q.namespace, q.task = v.uuid, v.created, v.namespace, v.task
	q.implicit, q.opts = v.implicit, v.opts
	b.label(q, true)
	b.optionsChanged(q)
}

func (v *queueGone) apply(b *Broker, _ int64) {
	s := &b.state
	q := s.queues[v.id]
	if q == nil {
		return
	}
	b.touchQueue(q)
	b.label(q, false)
	for _, g := range q.groups {
		b.dropGroup(g)
	}
	for p := range s.partitionsOf(q) {
		b.dropPartition(p)
	}
	q.order = nil
	if q.dlq != nil {
		b.dropPartition(q.dlq)
	}
	for id, l := range q.letters {
		b.touchLetter(l)
		delete(s.dead, id)
	}
	delete(s.queues, q.id)
	if s.names[q.queueKey] == q {
		delete(s.names, q.queueKey)
	}
}

func (v *partitionNew) apply(b *Broker, _ int64) {
	s := &b.state
	q := s.queues[v.queue]
	s.lastPartition = max(s.lastPartition, v.id)
	if q == nil || s.partitions.get(v.id) != nil {
		return
	}
	p := b.insertPartition(partition{q: q, name: v.name}, facts{
		id: v.id, uuid: v.uuid, created: v.created, lastUse: v.created,
	}, v.internal)
	b.touchPartition(p)
	b.notePartition(p, Traffic{PartitionsCreated: 1})
}

// insertPartition makes a partition findable and returns where it is.
func (b *Broker) insertPartition(made partition, f facts, internal bool) *partition {
	s, q := &b.state, made.q
	p := s.partitions.put(made, f)
	if internal {
		p.ord = -1
		q.dlq = p
		return p
	}
	p.ord = int32(len(q.order))
	q.order = append(q.order, p.id)
	q.parts.add(s.hashName(p.name), p.id)
	s.publicIDs.add(s.hashID(p.uuid), p.id)
	return p
}

func (v *partitionGone) apply(b *Broker, _ int64) {
	if p := b.state.partitions.get(v.id); p != nil {
		b.dropPartition(p)
	}
}

// dropPartition forgets a partition; its files are freed by the storage loop.
func (b *Broker) dropPartition(p *partition) {
	s := &b.state
	b.touchPartition(p)
	b.tracker.changed.gone = append(b.tracker.changed.gone, p)
	b.notePartition(p, Traffic{PartitionsDeleted: 1})
	b.forgetLeases(p)
	for _, m := range p.inMemory() {
		s.tailBytes -= int64(len(m.raw))
	}
	b.unplaceRuns(p.runs())
	p.tail, p.many, p.rows = nil, nil, rows{} // its neighbours may keep it in memory
	s.partitions.delete(p.id)
	if p.ord < 0 {
		return
	}
	s.publicIDs.remove(s.hashID(p.uuid), p.id)
	p.q.parts.remove(s.hashName(p.name), p.id)
	p.q.order[p.ord] = 0
	p.ord = -1
}

// unplaceRuns takes runs off the counts of their files.
func (b *Broker) unplaceRuns(runs index.Runs) {
	for i := range runs {
		b.storage.ids.forget(&runs[i])
		if f := b.state.files[runs[i].File]; f != nil {
			b.touchFile(f)
			f.runs--
			f.dead += int64(runs[i].Bytes)
		}
	}
}

func (v *groupSet) apply(b *Broker, _ int64) {
	s := &b.state
	q := s.queues[v.queue]
	s.lastGroup = max(s.lastGroup, v.id)
	if q == nil {
		return
	}
	g := s.groups[v.id]
	isNew := g == nil
	if isNew {
		g = &group{id: v.id, q: q, name: v.name}
		s.groups[v.id] = g
		q.groups[v.name] = g
	}
	b.touchGroup(g)
	g.created, g.mode, g.conflation = v.created, v.mode, v.conflation
	g.seed, g.seedMax, g.start, g.popped = v.seed, v.seedMax, v.start, v.popped
	if isNew {
		b.groupAppeared(g)
	} else {
		b.considerGroup(g)
	}
}

func (v *groupGone) apply(b *Broker, _ int64) {
	if g := b.state.groups[v.id]; g != nil {
		b.dropGroup(g)
	}
}

// dropGroup forgets a group. Rows that name it stay in their partitions and
// count for nothing: numbers are never reused.
func (b *Broker) dropGroup(g *group) {
	b.touchGroup(g)
	b.groupVanished(g)
	delete(b.state.groups, g.id)
	if g.q.groups[g.name] == g {
		delete(g.q.groups, g.name)
	}
}

func (v *labelSet) apply(b *Broker, _ int64) {
	s := &b.state
	l := s.labels[v.labelKey]
	if v.gone {
		if l != nil {
			b.touchLabel(l)
			delete(s.labels, v.labelKey)
			b.labelVanished(l)
		}
		return
	}
	if l == nil {
		l = &label{labelKey: v.labelKey}
		l.d.stale = !b.live // its groups may have been deleted since
		s.labels[v.labelKey] = l
		b.labelAppeared(l)
	}
	b.touchLabel(l)
	l.mode, l.conflation, l.seed = v.mode, v.conflation, v.seed
}

func (v *pushed) apply(b *Broker, stamp int64) {
	s := &b.state
	p := s.partitions.get(v.partition)
	if p == nil || v.first != p.end {
		return
	}
	b.touchPartition(p)
	b.seedRows(p, stamp)
	if p.tail == nil {
		p.tail = &tail{from: p.end}
	}
	for i, raw := range v.raws {
		off := v.first + queend.Offset(i)
		p.tail.messages = append(p.tail.messages, tailMessage{raw: raw, time: stamp})
		p.end = off + 1
		_, txn := p.txnAt(off)
		s.fresh.Add(dedup.Hash(p.id, segment.Hash(txn)), off)
		if place, ok := segment.Place(txn); ok {
			p.tail.top = max(p.tail.top, place)
		}
		s.tailBytes += int64(len(raw))
	}
	p.lastTime = stamp
	b.pushArrived(p, len(v.raws))
}

// seedRows gives a row to every group that wants what is pushed at stamp but
// nothing before: its implied cursor is the end of the partition now, and
// later only the disk could tell where that was.
func (b *Broker) seedRows(p *partition, stamp int64) {
	for _, g := range p.q.groups {
		seed := g.seedFor(p)
		if p.ord < 0 || p.end == 0 || p.lastTime >= seed || stamp < seed || p.rows.find(g.id) != nil {
			continue
		}
		p.rows.put(&row{group: g.id, committed: p.end - 1})
	}
}

// seedFor is the time from which the group wants messages of a partition it
// has no row on.
func (g *group) seedFor(p *partition) int64 {
	if p.id <= g.seedMax {
		return g.seed
	}
	return g.start
}

func (v *rowSet) apply(b *Broker, stamp int64) {
	p := b.state.partitions.get(v.partition)
	g := b.state.groups[v.row.group]
	if p == nil || g == nil {
		return
	}
	b.touchPartition(p)
	if old := p.rows.find(g.id); old != nil && old.lane != nil {
		b.leaseDropped(p, g, old)
	}
	r := v.row
	p.rows.put(&r)
	p.lastUse = stamp
	if r.lane != nil && !r.lane.lease.IsZero() {
		b.leaseHeld(p, g, &r)
	}
	b.rowChanged(p, g)
}

func (v *logStart) apply(b *Broker, _ int64) {
	p := b.state.partitions.get(v.partition)
	if p == nil || v.start <= p.start {
		return
	}
	b.touchPartition(p)
	from := p.start
	p.start = min(v.start, p.end)
	b.payloadDied(p, from)
	b.noteRemoved(p, from)
	b.startMoved(p)
}

func (v *deadLettered) apply(b *Broker, stamp int64) {
	s := &b.state
	q := s.queues[v.queue]
	if q == nil {
		return
	}
	l := &deadLetter{
		id: v.id, q: q, group: v.group, part: v.partition, offset: v.offset, at: v.at, failedAt: stamp,
	}
	b.touchLetter(l)
	b.insertLetter(l)
}

// insertLetter makes a dead letter findable.
func (b *Broker) insertLetter(l *deadLetter) {
	b.state.dead[l.id] = l
	l.q.letters[l.id] = l
	if p := b.state.partitions.get(l.part); p != nil {
		p.letters++
	}
}

func (v *deadLetterGone) apply(b *Broker, _ int64) {
	s := &b.state
	l := s.dead[v.id]
	if l == nil {
		return
	}
	b.touchLetter(l)
	delete(s.dead, l.id)
	delete(l.q.letters, l.id)
	if p := s.partitions.get(l.part); p != nil {
		p.letters--
	}
}

func (v *fileNew) apply(b *Broker, _ int64) {
	s := &b.state
	s.lastFile = max(s.lastFile, v.id)
	f := s.files[v.id]
	if f == nil {
		f = &file{id: v.id}
		s.files[v.id] = f
	}
	b.touchFile(f)
	f.bytes = v.bytes
	for _, id := range v.gone {
		b.retireFile(id)
	}
}

// retireFile takes a file off the live ones; the storage loop unlinks it once
// that is durable and nobody reads it.
func (b *Broker) retireFile(id queend.FileID) {
	f := b.state.files[id]
	if f == nil {
		return
	}
	b.touchFile(f)
	delete(b.state.files, id)
	b.fileRetired(id)
}

func (v *fileRuns) apply(b *Broker, _ int64) {
	s := &b.state
	f := s.files[v.id]
	if f == nil {
		f = &file{id: v.id}
		s.files[v.id] = f
		s.lastFile = max(s.lastFile, v.id)
	}
	b.touchFile(f)
	for i := range v.runs {
		p := s.partitions.get(v.runs[i].partition)
		if p == nil {
			f.dead += int64(v.runs[i].run.Bytes)
			continue
		}
		b.touchPartition(p)
		if len(v.replaces) == 0 {
			b.placeFlushed(p, f, v.runs[i].run)
		} else {
			b.placeMerged(p, f, v.runs[i].run, v.replaces)
		}
	}
}

// placeFlushed adds a run that takes over the lowest part of the tail.
func (b *Broker) placeFlushed(p *partition, f *file, run index.Run) {
	if run.Last < p.flushed {
		return
	}
	b.shortenTail(p, run.Last+1)
	p.flushed = run.Last + 1
	p.end = max(p.end, p.flushed)
	p.place(p.runs().Insert(run))
	f.runs++
	b.countDead(p, &run)
}

// shortenTail lets go of the messages before an offset. One beyond the end
// leaves a tail that does not reach it, for boot to see.
func (b *Broker) shortenTail(p *partition, to queend.Offset) {
	if p.tail == nil && to <= p.end {
		return
	}
	from, messages := p.tailFrom(), p.inMemory()
	n := min(int(max(to-from, 0)), len(messages))
	for i := range n {
		b.state.tailBytes -= int64(len(messages[i].raw))
	}
	if n == len(messages) && to <= p.end {
		p.tail = nil
		return
	}
	// The rest is copied, so that the array does not hold what left.
	rest := tail{from: from + queend.Offset(n), messages: slices.Clone(messages[n:])}
	if p.tail != nil {
		rest.top = p.tail.top
	}
	p.tail = &rest
}

// placeMerged puts a run in the place of those it was made from: the runs in
// the files it replaces, up to its last offset. When all of them were dropped
// meanwhile there is no place for it.
func (b *Broker) placeMerged(p *partition, f *file, run index.Run, replaces []queend.FileID) {
	old := 0
	for i := range p.runs() {
		if p.runs()[i].First <= run.Last && slices.Contains(replaces, p.runs()[i].File) {
			b.unplaceRuns(p.runs()[i : i+1])
			old++
		}
	}
	if old == 0 {
		f.dead += int64(run.Bytes)
		return
	}
	p.place(p.runs().Replace(replaces, run))
	f.runs++
	b.countDead(p, &run)
}

func (v *idsGone) apply(b *Broker, _ int64) {
	p := b.state.partitions.get(v.partition)
	if p == nil {
		return
	}
	n := p.runs().At(min(v.below, p.start))
	if n == 0 {
		return
	}
	b.touchPartition(p)
	b.unplaceRuns(p.runs()[:n])
	p.place(slices.Clone(p.runs()[n:]))
}

func (v *fileGone) apply(b *Broker, _ int64) { b.retireFile(v.id) }

func (v *flagsSet) apply(b *Broker, _ int64) {
	b.state.maintenance, b.state.popMaintenance = v.maintenance, v.popMaintenance
	b.flagsChanged()
}

func (v *counted) apply(b *Broker, _ int64) {
	mine, add := b.state.totals.fields(), v.totals.fields()
	for i := range mine {
		*mine[i] += *add[i]
	}
}
