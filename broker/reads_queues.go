package broker

import (
	"context"

	"queend"
)

// QueueRow is a queue in a listing (docs/rules.md, S5).
type QueueRow struct {
	ID              queend.ID
	Name            string
	Namespace, Task string
	Created         int64 // microseconds
	Priority        int64
	Partitions      int
	RetainedBytes   int64
	Segments        int // runs in segment files
	Counts          MessageCounts
}

// Queues lists the queues of a tenant by name.
func (b *Broker) Queues(ctx context.Context, tenant queend.ID) ([]QueueRow, error) {
	rows := []QueueRow{}
	for _, q := range b.queuesOf(tenant, nil) {
		row, err := b.queueRow(q, nil)
		if err != nil {
			return nil, err
		}
		if b.lives(q) {
			rows = append(rows, row)
		}
	}
	return rows, b.settled(ctx)
}

// queueRow adds a queue up. each, if not nil, is shown every partition too,
// under the lock; it returns false when the finder must load.
func (b *Broker) queueRow(q *queue, each func(f *finder, p *partition, v *glance) bool) (QueueRow, error) {
	var row QueueRow
	b.locked(func() {
		row = QueueRow{
			ID: q.uuid, Name: q.name, Created: q.created, Namespace: q.namespace, Task: q.task, Priority: q.opts.Priority,
		}
	})
	err := b.survey(q, func(f *finder, p *partition) bool {
		v, ready := b.glance(f, p, b.now())
		if ready && each != nil {
			ready = each(f, p, &v)
		}
		if !ready {
			return false
		}
		bytes, runs := p.bytes()
		row.Partitions++
		row.RetainedBytes += bytes
		row.Segments += runs
		row.Counts.add(v.MessageCounts)
		return true
	})
	return row, err
}

// PartitionRow is a partition of a queue in its detail.
type PartitionRow struct {
	ID      queend.ID
	Name    string
	Created int64 // microseconds
	Counts  MessageCounts
	// Stamps of the first and the last retained message, microseconds; nil
	// when nothing is retained.
	Oldest, Newest *int64
	LastActivity   *int64 // newest message ever or last use by a group, microseconds
	Consumed       int64  // messages ever pushed that are at or below the lowest cursor
}

// QueueDetail is one queue with its options and partitions.
type QueueDetail struct {
	QueueRow
	Options    []OptionValue
	Values     Options
	Partitions []PartitionRow // in the order of their creation
}

// QueueDetail describes a queue, a *Refusal CodeNotFound when there is none.
func (b *Broker) QueueDetail(ctx context.Context, tenant queend.ID, name string) (*QueueDetail, error) {
	q, err := b.queueNamed(tenant, name)
	if err != nil {
		return nil, err
	}
	d := &QueueDetail{Partitions: []PartitionRow{}}
	d.QueueRow, err = b.queueRow(q, func(f *finder, p *partition, v *glance) bool {
		row, ready := b.partitionRow(f, p, v)
		if ready {
			d.Partitions = append(d.Partitions, row)
		}
		return ready
	})
	if err != nil {
		return nil, err
	}
	b.locked(func() { d.Values, d.Options = q.opts, q.event().values(nil) })
	return d, b.settled(ctx)
}

func (b *Broker) partitionRow(f *finder, p *partition, v *glance) (row PartitionRow, ready bool) {
	row = PartitionRow{ID: p.uuid, Name: p.name, Created: p.created, Counts: v.MessageCounts}
	row.Consumed = int64(v.lowest + 1)
	if at := max(p.lastTime, p.lastUse); at > 0 {
		row.LastActivity = &at
	}
	if p.empty() {
		return row, true
	}
	newest := p.lastTime
	oldest, ready := b.stampOf(f, p, p.start)
	row.Oldest, row.Newest = &oldest, &newest
	return row, ready
}

// stampOf is the stamp of a retained message, microseconds.
func (b *Broker) stampOf(f *finder, p *partition, off queend.Offset) (at int64, ready bool) {
	switch {
	case off == p.end-1:
		return p.lastTime, true
	case off >= p.flushed:
		return p.timeInTail(off)
	}
	return f.timeAt(p, off)
}

// DepthRow is the depth of one partition.
type DepthRow struct {
	Partition  string
	Pending    int64
	Processing int64 // of the pending, under a live lease
	Ready      int64 // pending less processing
}

// Depth is how much a queue owes a group (docs/rules.md, S5).
type Depth struct {
	DepthRow          // sums; Partition is empty
	Queue             string
	Group             *string // as asked
	PartitionsPending int
	PartitionsReady   int
	Conflation        bool
	EffectivePending  int64 // deliveries owed: one per partition to a conflating group
	EffectiveReady    int64
	Partitions        []DepthRow // in the order of their creation
}

// Depth measures a queue for a group, or from the lowest cursor among its
// groups when group is nil. A group that is not registered owes all that is
// retained. Without the queue it is a *Refusal CodeNotFound.
func (b *Broker) Depth(ctx context.Context, tenant queend.ID, name string, group *string) (*Depth, error) {
	q, err := b.queueNamed(tenant, name)
	if err != nil {
		return nil, err
	}
	d := &Depth{Queue: name, Group: group, Partitions: []DepthRow{}}
	err = b.survey(q, func(f *finder, p *partition) bool {
		row, conflated, ready := b.depthOf(f, p, group)
		if !ready {
			return false
		}
		d.Conflation = conflated
		d.add(row)
		return true
	})
	if err != nil {
		return nil, err
	}
	d.EffectivePending, d.EffectiveReady = d.Pending, d.Ready
	if d.Conflation {
		d.EffectivePending, d.EffectiveReady = int64(d.PartitionsPending), int64(d.PartitionsReady)
	}
	return d, b.settled(ctx)
}

func (d *Depth) add(row DepthRow) {
	d.Pending += row.Pending
	d.Processing += row.Processing
	d.Ready += row.Ready
	if row.Pending > 0 {
		d.PartitionsPending++
	}
	if row.Ready > 0 {
		d.PartitionsReady++
	}
	d.Partitions = append(d.Partitions, row)
}

func (b *Broker) depthOf(f *finder, p *partition, group *string) (row DepthRow, conflated, ready bool) {
	now := b.now()
	row.Partition = p.name
	switch {
	case group == nil:
		v, ready := b.glance(f, p, now)
		row.Pending, row.Processing = v.Pending, v.Processing
		row.Ready = row.Pending - row.Processing
		return row, false, ready
	case p.q.groups[*group] == nil:
		row.Pending, row.Ready = p.retained(), p.retained()
		return row, false, true
	}
	g := p.q.groups[*group]
	s, ready := b.standing(f, g, p, now)
	row.Pending, row.Processing = s.pending, s.held.size()
	row.Ready = row.Pending - row.Processing
	// A conflated lease settles its whole partition's delivery.
	return row, g.conflation, ready
}
