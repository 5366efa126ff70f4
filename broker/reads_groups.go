package broker

import (
	"cmp"
	"context"
	"slices"

	"queend"
)

// GroupState sums up how a group is doing on a queue (docs/rules.md, S7).
type GroupState string

// The states of a group.
const (
	GroupStable  GroupState = "Stable"
	GroupLagging GroupState = "Lagging" // the oldest unconsumed message is older than laggingAfter
	GroupDead    GroupState = "Dead"    // never consumed anything
)

const laggingAfter = 300 * Second

// GroupRow is one group on one queue (docs/rules.md, S7).
type GroupRow struct {
	Group, Queue      string
	Cursors           int // partitions it has met
	PartitionsWithLag int
	TotalLag          int64 // messages
	MaxTimeLag        int64 // age of its oldest unconsumed message, microseconds; 0 without any
	State             GroupState
	Mode              string // of the subscription
	Since             int64  // partitions met from now on are read from then, microseconds; negative: from their beginning
	Created           int64  // registration, microseconds
	Conflation        bool
	Consumers         int // parked pops of the group on this queue
}

// ConsumerGroups lists every group that has popped, by name and queue.
func (b *Broker) ConsumerGroups(ctx context.Context, tenant queend.ID) ([]GroupRow, error) {
	rows := []GroupRow{}
	for _, q := range b.queuesOf(tenant, nil) {
		for _, g := range b.groupsOn(q, nil) {
			row, err := b.groupRow(g)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(x, y GroupRow) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Queue, y.Queue))
	})
	return rows, b.settled(ctx)
}

// groupsOn returns the groups on a queue that have popped, by name; with a
// name only that one.
func (b *Broker) groupsOn(q *queue, name *string) []*group {
	var all []*group
	b.locked(func() {
		for _, g := range q.groups {
			if g.popped && (name == nil || g.name == *name) {
				all = append(all, g)
			}
		}
	})
	slices.SortFunc(all, func(x, y *group) int { return cmp.Compare(x.name, y.name) })
	return all
}

// groupRow adds a group up over the partitions of its queue.
func (b *Broker) groupRow(g *group) (GroupRow, error) {
	row := GroupRow{Group: g.name, Queue: g.q.name, State: GroupDead}
	oldest := oldestSearch{g: g}
	err := b.survey(g.q, func(f *finder, p *partition) bool {
		s, ready := b.standing(f, g, p, b.now())
		if !ready {
			return false
		}
		if g.hasCursor(p) {
			row.Cursors++
		}
		row.TotalLag += s.pending
		if s.pending > 0 {
			row.PartitionsWithLag++
			oldest.add(p, s.next(p))
		}
		if s.row != nil && s.row.lastDelivery > 0 {
			row.State = GroupStable
		}
		return true
	})
	if err != nil {
		return row, err
	}
	at, found, err := oldest.run(b)
	b.locked(func() {
		row.Mode, row.Since, row.Created, row.Conflation = g.mode, g.start, g.created, g.conflation
		row.Consumers = g.parked()
		if found {
			row.MaxTimeLag = max(b.now()-at, 0)
		}
	})
	if row.MaxTimeLag > laggingAfter {
		row.State = GroupLagging
	}
	return row, err
}

// parked counts the pops that wait for messages of the group's queue.
func (g *group) parked() int {
	n := len(g.d.waiters.waiters)
	for _, list := range g.d.pinned {
		n += len(list.waiters)
	}
	return n
}

// oldestSearch finds the stamp of the oldest unconsumed message of a group
// over many partitions, reading the disk only where the answer can lie: the
// run of a message and the run before it bound its stamp from both sides.
type oldestSearch struct {
	g     *group
	best  int64 // lowest stamp that is known to be reached
	found bool
	rest  []bounded // partitions whose exact stamp is on disk
}

// bounded is a partition whose stamp is not below least.
type bounded struct {
	p     *partition
	least int64
}

// reach notes that there is an unconsumed message stamped at or before at.
func (o *oldestSearch) reach(at int64) {
	if !o.found || at < o.best {
		o.best, o.found = at, true
	}
}

// add notes the first unconsumed message of a partition. The caller holds the
// lock.
func (o *oldestSearch) add(p *partition, off queend.Offset) {
	if off >= p.flushed || off == p.end-1 {
		o.reach(p.roughStamp(off))
		return
	}
	o.reach(p.roughStamp(off))
	o.rest = append(o.rest, bounded{p, p.leastStamp(off)})
}

// leastStamp is a bound from below on the stamp of a message in a segment.
func (p *partition) leastStamp(off queend.Offset) int64 {
	i := p.runs().At(off)
	if i > 0 && i <= len(p.runs()) {
		return p.runs()[i-1].LastTime
	}
	return p.created
}

// searchStep is how many partitions are looked up on disk at a time.
const searchStep = 64

// run returns the oldest stamp, microseconds; found is false without any
// unconsumed message. Partitions are read in the order of their bounds until
// none that is left can be older.
func (o *oldestSearch) run(b *Broker) (at int64, found bool, err error) {
	slices.SortFunc(o.rest, func(x, y bounded) int { return cmp.Compare(x.least, y.least) })
	for len(o.rest) > 0 && o.rest[0].least < o.best {
		n := min(len(o.rest), searchStep)
		some := make([]*partition, n)
		for i := range some {
			some[i] = o.rest[i].p
		}
		o.rest = o.rest[n:]
		err = b.plan(func(f *finder, again []*partition) []*partition {
			if again == nil {
				again = some
			}
			return slices.DeleteFunc(again, func(p *partition) bool { return p.ord < 0 || o.look(b, f, p) })
		})
		if err != nil {
			return 0, false, err
		}
	}
	return o.best, o.found, nil
}

func (o *oldestSearch) look(b *Broker, f *finder, p *partition) (ready bool) {
	s, ready := b.standing(f, o.g, p, b.now())
	if !ready || s.pending == 0 {
		return ready
	}
	at, ready := b.stampOf(f, p, s.next(p))
	if ready {
		o.reach(at)
	}
	return ready
}

// LagRow is one group on one partition.
type LagRow struct {
	Group, Queue, Partition string
	PartitionID             queend.ID
	Worker                  queend.ID // live lease; zero: none
	Consumed                int64     // messages ever pushed that are at or below the cursor; 0 before the first delivery
	Lag                     int64     // messages
	TimeLag                 *int64    // age of the oldest unconsumed message, microseconds; nil when caught up
	OldestUnconsumed        *int64    // its stamp, microseconds
}

// Lagging lists the groups and partitions whose oldest unconsumed message is
// at least minAge microseconds old, the oldest first.
func (b *Broker) Lagging(ctx context.Context, tenant queend.ID, minAge int64) ([]LagRow, error) {
	rows := []LagRow{}
	for _, q := range b.queuesOf(tenant, nil) {
		for _, g := range b.groupsOn(q, nil) {
			err := b.lagRows(g, minAge, func(r LagRow) {
				if r.TimeLag != nil && *r.TimeLag >= minAge {
					rows = append(rows, r)
				}
			})
			if err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(rows, func(x, y LagRow) int {
		return cmp.Or(cmp.Compare(*x.OldestUnconsumed, *y.OldestUnconsumed),
			cmp.Compare(x.Queue, y.Queue), cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Group, y.Group))
	})
	return rows, b.settled(ctx)
}

// lagRows shows visit the group on every partition. Partitions that are
// certain to be younger than minAge are left out, if it is above zero.
func (b *Broker) lagRows(g *group, minAge int64, visit func(LagRow)) error {
	return b.survey(g.q, func(f *finder, p *partition) bool {
		now := b.now()
		s, ready := b.standing(f, g, p, now)
		if !ready {
			return false
		}
		if minAge > 0 && (s.pending == 0 || now-p.earliest(s.next(p)) < minAge) {
			return true
		}
		r := LagRow{Group: g.name, Queue: g.q.name, Partition: p.name, PartitionID: p.uuid, Lag: s.pending}
		if s.row.live(now) {
			r.Worker = s.row.lane.lease
		}
		if s.row != nil && s.row.lastDelivery > 0 {
			r.Consumed = int64(s.committed + 1)
		}
		if s.pending > 0 {
			at, ready := b.stampOf(f, p, s.next(p))
			if !ready {
				return false
			}
			age := max(now-at, 0)
			r.TimeLag, r.OldestUnconsumed = &age, &at
		}
		visit(r)
		return true
	})
}

// earliest bounds the stamp of a retained message from below, from memory.
func (p *partition) earliest(off queend.Offset) int64 {
	if off >= p.flushed {
		at, _ := p.timeInTail(off)
		return at
	}
	return p.leastStamp(off)
}

// QueueLag is a group on one queue, by partition.
type QueueLag struct {
	Queue      string
	Conflation bool
	Partitions []LagRow // in the order of their creation
}

// GroupDetail describes a group on every queue it has popped, by queue; none
// for an unknown group.
func (b *Broker) GroupDetail(ctx context.Context, tenant queend.ID, name string) ([]QueueLag, error) {
	out := []QueueLag{}
	for _, q := range b.queuesOf(tenant, func(q *queue) bool { return q.groups[name] != nil }) {
		for _, g := range b.groupsOn(q, &name) {
			lag := QueueLag{Queue: q.name, Partitions: []LagRow{}}
			err := b.lagRows(g, 0, func(r LagRow) { lag.Partitions = append(lag.Partitions, r) })
			if err != nil {
				return nil, err
			}
			b.locked(func() { lag.Conflation = g.conflation })
			out = append(out, lag)
		}
	}
	return out, b.settled(ctx)
}
