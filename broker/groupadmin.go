package broker

import (
	"context"

	"queend"
)

// DeleteGroup drops the cursors of a group on one queue, or on all of the
// tenant's with name nil, and returns how many there were (R45). Its leases
// end with them. With deleteMetadata the registrations go too, and with name
// nil the discovery labels; otherwise the next pop begins by the kept
// registration.
func (b *Broker) DeleteGroup(ctx context.Context, tenant queend.ID, group string, name *string, deleteMetadata bool) (deletedPartitions int, err error) {
	if group == "" {
		group = QueueMode
	}
	var lsn queend.LSN
	b.locked(func() {
		t := b.begin()
		for _, g := range b.groupsNamed(tenant, group, name) {
			deletedPartitions += b.cursors(g)
			b.planDeleteGroup(t, g, deleteMetadata)
		}
		if deleteMetadata && name == nil {
			for key := range b.state.labels {
				if key.tenant == tenant && key.group == group {
					t.add(&labelSet{labelKey: key, gone: true})
				}
			}
		}
		lsn = b.commit(t)
	})
	return deletedPartitions, b.await(ctx, lsn)
}

// planDeleteGroup drops a group's number, and with it every row that names
// it. A registration that is kept goes on under a new number, and holds
// nothing back until somebody pops.
func (b *Broker) planDeleteGroup(t *bundle, g *group, deleteMetadata bool) {
	t.add(&groupGone{id: g.id})
	if deleteMetadata {
		return
	}
	t.add(g.event(func(ev *groupSet) {
		ev.id = b.reserveGroup(t)
		ev.popped = false
	}))
}

// groupsNamed returns a group's registrations, on one queue or on all.
func (b *Broker) groupsNamed(tenant queend.ID, group string, name *string) (found []*group) {
	if name != nil {
		if q := b.state.queue(tenant, *name); q != nil && q.groups[group] != nil {
			found = append(found, q.groups[group])
		}
		return found
	}
	for _, q := range b.state.queues {
		if g := q.groups[group]; g != nil && q.tenant == tenant {
			found = append(found, g)
		}
	}
	return found
}

// cursors counts the partitions on which the group stands somewhere.
func (b *Broker) cursors(g *group) int {
	n := 0
	for p := range b.state.partitionsOf(g.q) {
		if g.hasCursor(p) {
			n++
		}
	}
	return n
}

// SetSubscription changes the stored start of a group on every queue it is
// registered on, and of its discovery labels, to at, in microseconds. It
// moves no cursor: partitions the group has not met yet begin there. It
// returns how many registrations it changed; 0 means that the group never
// registered (docs/rules.md, S7).
func (b *Broker) SetSubscription(ctx context.Context, tenant queend.ID, group string, at int64) (rows int, err error) {
	if group == "" {
		group = QueueMode
	}
	var lsn queend.LSN
	b.locked(func() {
		t := b.begin()
		for _, g := range b.groupsNamed(tenant, group, nil) {
			rows++
			t.add(g.event(func(ev *groupSet) {
				ev.start = at
				if !ev.popped {
					ev.seed = at // it has no cursor that this could move
				}
			}))
		}
		for _, l := range b.state.labels {
			if l.tenant == tenant && l.group == group {
				rows++
				t.add(&labelSet{labelKey: l.labelKey, mode: l.mode, conflation: l.conflation, seed: at})
			}
		}
		lsn = b.commit(t)
	})
	return rows, b.await(ctx, lsn)
}
