package broker

import (
	"context"

	"queend"
)

// Extend renews every live row that holds a lease, by its text as the client
// sent it (R16): each then ends seconds from now, or later if it did already.
// seconds below 1 counts as 1. It returns how many rows are live and the
// earliest of their ends, in microseconds; 0 and 0 for a lease that is
// unknown, over or another tenant's. Errors are those of the write.
func (b *Broker) Extend(ctx context.Context, tenant queend.ID, lease string, seconds int64) (renewed int, earliest int64, err error) {
	seconds = min(max(seconds, 1), maxLeaseSeconds)
	var lsn queend.LSN
	b.locked(func() {
		t := b.begin()
		b.eachLive(t.stamp, tenant, lease, func(p *partition, r *row) {
			until := max(r.lane.leaseUntil, t.stamp+seconds*Second)
			if until != r.lane.leaseUntil {
				next := r.clone()
				next.lane.leaseUntil = until
				t.add(&rowSet{partition: p.id, row: *next})
			}
			if renewed == 0 || until < earliest {
				earliest = until
			}
			renewed++
		})
		lsn = b.commit(t)
	})
	return renewed, earliest, b.await(ctx, lsn)
}

// Release gives every live row of a lease back at once, as a retry does: no
// charge, redelivery from above the cursor (A6). It returns how many rows
// there were.
func (b *Broker) Release(ctx context.Context, tenant queend.ID, lease string) (released int, err error) {
	var lsn queend.LSN
	b.locked(func() {
		t := b.begin()
		b.eachLive(t.stamp, tenant, lease, func(p *partition, r *row) {
			next := r.clone()
			next.lane.release()
			next.tidy()
			t.add(&rowSet{partition: p.id, row: *next})
			released++
		})
		lsn = b.commit(t)
	})
	return released, b.await(ctx, lsn)
}

// eachLive calls do for the rows that hold the lease and are live at now.
func (b *Broker) eachLive(now int64, tenant queend.ID, lease string, do func(*partition, *row)) {
	id, err := queend.ParseID(lease)
	if err != nil || id.IsZero() {
		return
	}
	for _, ref := range b.leaseLanes(id) {
		if ref.p.q.tenant != tenant {
			continue
		}
		if r := ref.p.rows.find(ref.g.id); r.live(now) && r.lane.lease == id {
			do(ref.p, r)
		}
	}
}

// GiveBack undoes the claims of a pop whose answer could not be written
// (R11): its rows stand as before, attempts included, where the lease is
// still the claim's. It is for pops with a lease; what autoAck delivered is
// lost (R7). Nobody waits for the record, which is as durable as the next.
func (b *Broker) GiveBack(_ context.Context, res *PopResult) {
	if res.LeaseID.IsZero() {
		return
	}
	b.locked(func() {
		t := b.begin()
		for i := range res.giveBack {
			c := &res.giveBack[i]
			if b.state.partitions.get(c.p.id) != c.p || b.state.groups[c.g.id] != c.g {
				continue
			}
			r := c.p.rows.find(c.g.id)
			if r == nil || r.lane == nil || r.lane.lease != res.LeaseID {
				continue
			}
			t.add(&rowSet{partition: c.p.id, row: *unclaimed(r, c.before)})
		}
		b.commit(t)
	})
}

// unclaimed is the row before a claim, but for what acks have done since
// under its lease.
func unclaimed(r, before *row) *row {
	next := r.clone()
	next.lastDelivery, next.lane = 0, &lane{}
	if before != nil {
		next.lastDelivery = before.lastDelivery
		if before.lane != nil {
			*next.lane = *before.lane
		}
	}
	next.lane.retry = 0
	if r.lane != nil {
		next.lane.retry = r.lane.retry
	}
	next.tidy()
	return next
}
