package broker

import (
	"slices"

	"queend"
	"queend/index"
	"queend/sched"
)

// Retention moves the start of partitions up (R90-R92), lets them forget ids
// that are too old to matter (R85) and removes partitions that nobody uses
// (R94). A partition is looked at when an entry of the wheel says that
// something may be due, or when what held it back has moved; never just
// because a cycle came by.

// retention is what the next round looks at; under the broker's lock.
type retention struct {
	due     []*partition
	idle    []*partition    // may have been idle for long enough
	groups  map[*queue]bool // a group came or went: blocked ones may be free
	letters map[*queue]bool // dead letters changed
}

func (r *retention) init() {
	r.groups, r.letters = map[*queue]bool{}, map[*queue]bool{}
}

// retainStep is how many partitions one hold of the lock, and one record,
// deals with.
const retainStep = 256

// never is a stamp that no clock reaches.
const never = int64(1)<<62 - 1

// noteTouch is called before a partition changes.
func (b *Broker) noteTouch(p *partition) {
	if p.blocked && b.live {
		b.listDue(p)
	}
}

func (b *Broker) noteGroup(g *group) {
	if b.live {
		b.storage.retention.groups[g.q] = true
	}
}

func (b *Broker) noteLetter(l *deadLetter) {
	if b.live {
		b.storage.retention.letters[l.q] = true
	}
}

func (b *Broker) listDue(p *partition) {
	if !p.listed {
		p.listed = true
		b.storage.retention.due = append(b.storage.retention.due, p)
	}
}

// watchRetention sees to it that the wheel looks at a partition in time. It
// is called when messages came and when options changed.
func (b *Broker) watchRetention(p *partition) {
	if p.ord < 0 {
		b.storage.retention.letters[p.q] = true
		return
	}
	if !p.watched && !b.cfg.CleanupOff {
		p.watched = true
		b.at(b.idleUntil(p), sched.Key{Kind: wheelCleanup, A: uint64(p.id)})
	}
	due := b.retainDue(p)
	if due == never || p.lookAt != 0 && p.lookAt <= due {
		return
	}
	p.lookAt = due
	b.at(due, sched.Key{Kind: wheelRetention, A: uint64(p.id)})
}

// retentionDue takes an entry of the wheel.
func (b *Broker) retentionDue(k sched.Key) {
	p := b.state.partitions.get(queend.PartitionID(k.A))
	switch {
	case p == nil:
	case k.Kind == wheelRetention:
		if p.lookAt <= b.now() {
			p.lookAt = 0
		}
		b.listDue(p)
	case k.Kind == wheelCleanup:
		b.storage.retention.idle = append(b.storage.retention.idle, p)
	}
}

// retainDue is the earliest instant at which retention may have something to
// do with a partition; never when nothing is in sight.
func (b *Broker) retainDue(p *partition) int64 {
	due := never
	if !p.empty() {
		if at, known := p.timeInTail(p.start); known {
			p.oldest = at
		}
		p.oldest = max(p.oldest, p.created)
		limits := p.q.opts.retention()
		for _, limit := range []int64{limits.any, limits.completed} {
			if limit > 0 && !(limit == limits.completed && p.blocked) {
				due = min(due, p.oldest+limit+1)
			}
		}
	}
	if len(p.runs()) > 0 && p.runs()[0].Last < p.start {
		gone := p.runs()[0].LastTime + b.idWindow(p) + 1
		if kept, until := p.leasedIDs(b.now()); p.runs()[0].Last >= kept {
			gone = max(gone, until)
		}
		due = min(due, gone)
	}
	return due
}

// leasedIDs is the lowest offset under a live lease, p.end without one, and
// when the first of those leases ends: ids under one's own lease resolve
// however old they are (docs/rules.md, S20).
func (p *partition) leasedIDs(now int64) (low queend.Offset, until int64) {
	low, until = p.end, never
	for r := range p.rows.all() {
		if r.live(now) {
			low, until = min(low, max(r.committed+1, r.lane.attemptStart)), min(until, r.lane.leaseUntil)
		}
	}
	return low, until
}

// idWindow is how long an id of the partition outlives its message.
func (b *Broker) idWindow(p *partition) int64 {
	if p.ord < 0 {
		return 0
	}
	return p.q.opts.ackWindow(b.cfg.TxnWindowSeconds * Second)
}

// limits are ages in microseconds beyond which messages go; 0: never.
type limits struct {
	any       int64 // consumed or not (R90, R92)
	completed int64 // when every group has consumed it (R91)
}

func (o *Options) retention() (l limits) {
	if o.MaxWaitTimeSeconds > 0 {
		l.any = o.MaxWaitTimeSeconds * Second
	}
	if !o.RetentionEnabled {
		return l
	}
	if o.RetentionSeconds > 0 && (l.any == 0 || o.RetentionSeconds*Second < l.any) {
		l.any = o.RetentionSeconds * Second
	}
	if o.CompletedRetentionSeconds > 0 {
		l.completed = o.CompletedRetentionSeconds * Second
	}
	return l
}

// retain does one round: everything that is due now, in bounded steps.
func (b *Broker) retain() {
	b.storage.retaining.Lock()
	defer b.storage.retaining.Unlock()
	b.Tick()
	var due, idle []*partition
	var queues []*queue
	b.locked(func() {
		r := &b.storage.retention
		for q := range r.groups {
			queues = append(queues, q)
		}
		clear(r.groups)
	})
	for _, q := range queues {
		b.listBlocked(q)
	}
	b.locked(func() {
		r := &b.storage.retention
		for q := range r.letters {
			if q.dlq != nil {
				b.listDue(q.dlq)
			}
		}
		clear(r.letters)
		due, idle = r.due, r.idle
		r.due, r.idle = nil, nil
	})
	for step := range slices.Chunk(due, retainStep) {
		b.retainStep(step)
	}
	for step := range slices.Chunk(idle, retainStep) {
		b.cleanUp(step)
	}
}

// listBlocked lists the partitions of a queue that a group held back.
func (b *Broker) listBlocked(q *queue) {
	for i, more := 0, true; more; {
		b.locked(func() {
			for range retainStep {
				if more = i < len(q.order); !more {
					return
				}
				if p := b.state.partitions.get(q.order[i]); p != nil && p.blocked {
					b.listDue(p)
				}
				i++
			}
		})
	}
}

// retainStep looks at some partitions and logs what is due in one record.
func (b *Broker) retainStep(step []*partition) {
	f := b.newFinder()
	defer f.release()
	now := int64(0) // of the first round: the others ask about the same instants
	for done := false; !done; {
		b.locked(func() {
			t := b.begin()
			if now == 0 {
				now = t.stamp
			}
			done = true
			for _, p := range step {
				if b.state.partitions.get(p.id) == p {
					done = b.planRetention(t, now, f, p) && done
				}
			}
			if !done {
				return
			}
			b.commit(t)
			for _, p := range step {
				p.listed = false
				if b.state.partitions.get(p.id) == p {
					b.watchRetention(p)
				}
			}
		})
		if done {
			return
		}
		if err := f.load(); err != nil {
			b.cfg.Log.Error("retention: a partition cannot be looked at", "error", err)
			b.locked(func() { b.storage.retention.due = append(b.storage.retention.due, step...) })
			return
		}
	}
}

// planRetention adds to a record what is due for a partition at now. It reports
// false when that needs the disk.
func (b *Broker) planRetention(t *bundle, now int64, f *finder, p *partition) (ready bool) {
	start, ready := b.newStart(now, f, p)
	if !ready {
		return false
	}
	if start < p.end && p.ord >= 0 {
		if p.oldest, ready = f.timeAt(p, start); !ready {
			return false
		}
	}
	if start > p.start {
		t.add(&logStart{partition: p.id, start: start})
	}
	cutoff := now - b.idWindow(p)
	n := 0
	kept, _ := p.leasedIDs(now)
	for n < len(p.runs()) && p.runs()[n].Last < min(start, kept) && p.runs()[n].LastTime < cutoff {
		n++
	}
	if n > 0 {
		t.add(&idsGone{partition: p.id, below: p.runs()[n-1].Last + 1})
	}
	return true
}

// newStart is where a partition should start at now.
func (b *Broker) newStart(now int64, f *finder, p *partition) (start queend.Offset, ready bool) {
	if p.ord < 0 {
		return p.lowestLetter(), true
	}
	start = p.start
	if p.empty() {
		p.blocked = false
		return start, true
	}
	l := p.q.opts.retention()
	if l.any > 0 {
		if start, ready = f.firstAt(p, now-l.any); !ready {
			return 0, false
		}
	}
	if l.completed == 0 {
		p.blocked = false
		return start, true
	}
	old, ready := f.firstAt(p, now-l.completed)
	if !ready {
		return 0, false
	}
	consumed, ready := b.consumedByAll(f, p)
	if !ready {
		return 0, false
	}
	p.blocked = consumed < old
	return max(start, min(old, consumed)), true
}

// consumedByAll is the offset below which every group that ever popped is
// done; 0 when there is no such group.
func (b *Broker) consumedByAll(f *finder, p *partition) (low queend.Offset, ready bool) {
	low = p.end
	popped := false
	ready = true
	for _, g := range p.q.groups {
		if !g.popped {
			continue
		}
		popped = true
		if r := p.rows.find(g.id); r != nil {
			low = min(low, r.committed+1)
			continue
		}
		committed, ok := b.implied(g, p, f)
		if !ok {
			ready = false
			continue
		}
		low = min(low, committed+1)
	}
	if !popped {
		return 0, ready
	}
	return low, ready
}

// lowestLetter is where an internal partition starts: at its lowest dead
// letter that is still there.
func (p *partition) lowestLetter() queend.Offset {
	low := p.end
	for _, l := range p.q.letters {
		low = min(low, l.at)
	}
	return max(low, p.start)
}

// payloadDied counts the bytes that a start which moved up from an offset
// leaves without use.
func (b *Broker) payloadDied(p *partition, from queend.Offset) {
	for i := p.runs().At(from); i < len(p.runs()) && p.runs()[i].Last < p.start; i++ {
		b.countDead(p, &p.runs()[i])
	}
}

// countDead counts the payload of a run as dead if all of it is removed. Ids
// stay; about idBytes of each is kept.
func (b *Broker) countDead(p *partition, r *index.Run) {
	const idBytes = 24
	if f := b.state.files[r.File]; f != nil && r.Last < p.start && r.PayloadFrom <= r.Last {
		f.dead += max(int64(r.Bytes)-idBytes*int64(r.Last-r.First+1), 0)
	}
}

// idleUntil is when a partition may go for lack of use (R94), if it stays as
// it is.
func (b *Broker) idleUntil(p *partition) int64 {
	return max(p.created, p.lastTime, p.lastUse) + max(b.cfg.CleanupDays, 1)*Day
}

// cleanUp removes partitions that are empty and were idle for long enough.
func (b *Broker) cleanUp(step []*partition) {
	b.locked(func() {
		t := b.begin()
		for _, p := range step {
			if b.state.partitions.get(p.id) != p {
				continue
			}
			due := b.idleUntil(p)
			if due < t.stamp && p.unused(t.stamp) {
				t.add(&partitionGone{p.id})
				continue
			}
			b.at(max(due, t.stamp+Day), sched.Key{Kind: wheelCleanup, A: uint64(p.id)})
		}
		b.commit(t)
	})
}

// unused reports whether nothing on the partition is worth keeping.
func (p *partition) unused(now int64) bool {
	if !p.empty() || p.letters > 0 {
		return false
	}
	for r := range p.rows.all() {
		if r.live(now) {
			return false
		}
	}
	return true
}
