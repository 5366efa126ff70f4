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
			id: v.id, queueKey: queueKey{v.tenant, v.name}, parts: map[string]*partition{},
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
	for _, p := range q.order {
		if p != nil {
			b.dropPartition(p)
		}
	}
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
	if q == nil {
		return
	}
	p := &partition{id: v.id, uuid: v.uuid, q: q, ord: -1, name: v.name, created: v.created, lastUse: v.created}
	b.insertPartition(p, v.internal)
	b.touchPartition(p)
	b.notePartition(p, Traffic{PartitionsCreated: 1})
}

// insertPartition makes a partition findable.
func (b *Broker) insertPartition(p *partition, internal bool) {
	s, q := &b.state, p.q
	s.partitions[p.id] = p
	if internal {
		q.dlq = p
		return
	}
	p.ord = len(q.order)
	q.order = append(q.order, p)
	q.parts[p.name] = p
	s.publicIDs[p.uuid] = p
}

func (v *partitionGone) apply(b *Broker, _ int64) {
	if p := b.state.partitions[v.id]; p != nil {
		b.dropPartition(p)
	}
}

// dropPartition forgets a partition; its files are freed by the storage loop.
func (b *Broker) dropPartition(p *partition) {
	s := &b.state
	b.touchPartition(p)
	b.notePartition(p, Traffic{PartitionsDeleted: 1})
	b.forgetLeases(p)
	for i := range p.tail {
		s.tailBytes -= int64(len(p.tail[i].raw))
	}
	p.tail = nil
	b.unplaceRuns(p.runs)
	p.runs = nil
	delete(s.partitions, p.id)
	if p.ord < 0 {
		return
	}
	delete(s.publicIDs, p.uuid)
	if p.q.parts[p.name] == p {
		delete(p.q.parts, p.name)
	}
	p.q.order[p.ord] = nil
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
	p := s.partitions[v.partition]
	if p == nil || v.first != p.end {
		return
	}
	b.touchPartition(p)
	b.seedRows(p, stamp)
	for i, raw := range v.raws {
		off := v.first + queend.Offset(i)
		p.tail = append(p.tail, tailMessage{raw: raw, time: stamp})
		p.end = off + 1
		_, txn := p.txnAt(off)
		s.fresh.Add(dedup.Hash(p.id, segment.Hash(txn)), off)
		if place, ok := segment.Place(txn); ok {
			p.top = max(p.top, place)
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
		if p.ord < 0 || p.end == 0 || p.lastTime >= seed || stamp < seed || p.find(g.id) != nil {
			continue
		}
		p.put(&row{group: g.id, committed: p.end - 1})
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
	p := b.state.partitions[v.partition]
	g := b.state.groups[v.row.group]
	if p == nil || g == nil {
		return
	}
	b.touchPartition(p)
	if old := p.find(g.id); old != nil && old.lane != nil {
		b.leaseDropped(p, g, old)
	}
	r := v.row
	p.put(&r)
	p.lastUse = stamp
	if r.lane != nil && !r.lane.lease.IsZero() {
		b.leaseHeld(p, g, &r)
	}
	b.rowChanged(p, g)
}

func (v *logStart) apply(b *Broker, _ int64) {
	p := b.state.partitions[v.partition]
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
	if p := b.state.partitions[l.part]; p != nil {
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
	if p := s.partitions[l.part]; p != nil {
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
		p := s.partitions[v.runs[i].partition]
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
	n := min(int(max(run.Last+1-p.tailFrom, 0)), len(p.tail))
	for i := range n {
		b.state.tailBytes -= int64(len(p.tail[i].raw))
	}
	// The rest is copied, so that the array does not hold what left.
	p.tail = slices.Clone(p.tail[n:])
	p.tailFrom += queend.Offset(n)
	p.flushed = run.Last + 1
	p.end = max(p.end, p.flushed)
	p.runs = p.runs.Insert(run)
	f.runs++
	b.countDead(p, &run)
}

// placeMerged puts a run in the place of those it was made from: the runs in
// the files it replaces, up to its last offset. When all of them were dropped
// meanwhile there is no place for it.
func (b *Broker) placeMerged(p *partition, f *file, run index.Run, replaces []queend.FileID) {
	old := 0
	for i := range p.runs {
		if p.runs[i].First <= run.Last && slices.Contains(replaces, p.runs[i].File) {
			b.unplaceRuns(p.runs[i : i+1])
			old++
		}
	}
	if old == 0 {
		f.dead += int64(run.Bytes)
		return
	}
	p.runs = p.runs.Replace(replaces, run)
	f.runs++
	b.countDead(p, &run)
}

func (v *idsGone) apply(b *Broker, _ int64) {
	p := b.state.partitions[v.partition]
	if p == nil {
		return
	}
	n := p.runs.At(min(v.below, p.start))
	if n == 0 {
		return
	}
	b.touchPartition(p)
	b.unplaceRuns(p.runs[:n])
	p.runs = slices.Clone(p.runs[n:])
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
