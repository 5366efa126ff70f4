package broker

import (
	"context"
	"iter"

	"queend"
)

// SeekTarget is where a seek takes a group: to the end, or to just before the
// first message stamped at or after At, in microseconds (R44).
type SeekTarget struct {
	ToEnd bool
	At    int64
}

// SeekQueue moves a group on every partition of a queue and returns on how
// many: 0 when there is no such queue or it has none. Live leases end, budgets
// and attempts are reset, and parked pops look again. A group that never
// popped is registered, from there on.
func (b *Broker) SeekQueue(ctx context.Context, tenant queend.ID, group, name string, to SeekTarget) (int, error) {
	return b.seek(ctx, tenant, group, name, to, b.state.partitionsOf)
}

// SeekPartition is SeekQueue for one partition, by name; found is false when
// there is none.
func (b *Broker) SeekPartition(ctx context.Context, tenant queend.ID, group, name, part string, to SeekTarget) (found bool, err error) {
	n, err := b.seek(ctx, tenant, group, name, to, func(q *queue) iter.Seq[*partition] {
		return func(yield func(*partition) bool) {
			if p := b.state.partition(q, part); p != nil {
				yield(p)
			}
		}
	})
	return n > 0, err
}

// seek moves a group on the partitions that pick names.
func (b *Broker) seek(ctx context.Context, tenant queend.ID, group, name string, to SeekTarget, pick func(*queue) iter.Seq[*partition]) (int, error) {
	if group == "" {
		group = QueueMode
	}
	f := b.newFinder()
	defer f.release()
	var lsn queend.LSN
	n := 0
	for ready := false; !ready; {
		b.locked(func() {
			t := b.begin()
			n, ready = 0, true
			if q := b.state.queue(tenant, name); q != nil {
				n, ready = b.planSeek(t, f, q, group, to, pick(q))
			}
			if ready {
				lsn = b.commit(t)
			}
		})
		if ready {
			break
		}
		if err := f.load(); err != nil {
			return 0, err
		}
	}
	return n, b.await(ctx, lsn)
}

// planSeek plans the rows of a seek and returns how many partitions it is
// about.
func (b *Broker) planSeek(t *bundle, f *finder, q *queue, group string, to SeekTarget, parts iter.Seq[*partition]) (n int, ready bool) {
	var rows []*rowSet
	ready = true
	id, registration := b.seekGroup(t, q, group, to)
	for p := range parts {
		n++
		next := row{group: id, committed: p.end - 1}
		if !to.ToEnd {
			off, known := f.firstAt(p, to.At)
			ready = ready && known
			next.committed = max(off, p.start) - 1
		}
		old := p.rows.find(id)
		if old != nil {
			next.lastDelivery = old.lastDelivery
		}
		if old == nil || *old != next {
			rows = append(rows, &rowSet{partition: p.id, row: next})
		}
	}
	if !ready || n == 0 {
		return n, ready
	}
	if registration != nil {
		t.add(registration)
	}
	for _, r := range rows {
		t.add(r)
	}
	return n, true
}

// seekGroup returns the number of the group that seeks, and the event that
// registers it where it never popped or its cursors were deleted: a cursor
// that was set is in use (R45).
func (b *Broker) seekGroup(t *bundle, q *queue, name string, to SeekTarget) (queend.GroupID, *groupSet) {
	if g := q.groups[name]; g != nil {
		if g.popped {
			return g.id, nil
		}
		return g.id, g.event(func(ev *groupSet) { ev.popped = true })
	}
	sub := subscription{"timestamp", to.At}
	if to.ToEnd {
		sub = subscription{"new", t.stamp + 1}
	}
	if name == QueueMode {
		sub = subscription{"all", always}
	}
	ev := &groupSet{
		id: b.reserveGroup(t), queue: q.id, name: name, created: t.stamp, mode: sub.mode,
		seed: sub.seed, start: sub.seed, seedMax: b.state.lastPartition, popped: true,
	}
	return ev.id, ev
}
