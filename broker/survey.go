package broker

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"queend"
)

// surveyHold is how many partitions one hold of the lock looks at.
const surveyHold = 2000

// survey shows visit every partition of a queue, in the order of their
// creation. It gives the lock up between holds, so figures of different
// partitions may be of different instants; those of one partition are of one
// (F47). visit runs under the lock; it returns false, having kept nothing,
// when it needs what it asked the finder for, and is then called again.
// Partitions deleted meanwhile are left out.
func (b *Broker) survey(q *queue, visit func(f *finder, p *partition) (ready bool)) error {
	for from, end := 0, false; !end; from += surveyHold {
		err := b.plan(func(f *finder, again []*partition) []*partition {
			if again == nil {
				to := min(from+surveyHold, len(q.order))
				end = to == len(q.order)
				for _, id := range q.order[min(from, to):to] {
					if p := b.state.partitions.get(id); p != nil {
						again = append(again, p)
					}
				}
			}
			for len(again) > 0 && (again[0].ord < 0 || visit(f, again[0])) {
				again = again[1:]
			}
			return again
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// plan calls look under the lock until it leaves nothing over, and loads what
// it asked the finder for in between, outside the lock. look is given what it
// left over last time, nil the first time.
func (b *Broker) plan(look func(f *finder, again []*partition) []*partition) error {
	f := b.newFinder()
	defer f.release()
	var left []*partition
	for {
		b.locked(func() { left = look(f, left) })
		if len(left) == 0 {
			return nil
		}
		if err := f.load(); err != nil {
			return err
		}
	}
}

// settled waits until everything an answer read so far is durable.
func (b *Broker) settled(ctx context.Context) error { return b.await(ctx, b.log.Last()) }

// queuesOf returns the queues of a tenant that keep accepts, by name.
func (b *Broker) queuesOf(tenant queend.ID, keep func(*queue) bool) []*queue {
	var all []*queue
	b.locked(func() {
		for _, q := range b.state.queues {
			if q.tenant == tenant && !q.isHidden() && (keep == nil || keep(q)) {
				all = append(all, q)
			}
		}
	})
	// Names never change, so they may be read outside the lock.
	slices.SortFunc(all, func(x, y *queue) int { return strings.Compare(x.name, y.name) })
	return all
}

// queueNamed finds a queue.
func (b *Broker) queueNamed(tenant queend.ID, name string) (q *queue, err error) {
	b.locked(func() { q = b.state.queue(tenant, name) })
	if q == nil || q.isHidden() {
		return nil, refuse(CodeNotFound, "Queue not found")
	}
	return q, nil
}

// lives reports whether a queue still exists.
func (b *Broker) lives(q *queue) (yes bool) {
	b.locked(func() { yes = b.state.queues[q.id] == q })
	return yes
}

// MessageCounts are figures of a partition, a queue or more.
type MessageCounts struct {
	Total      int64 // retained
	Pending    int64 // of these, above the lowest cursor among the groups
	Processing int64 // of the pending, under live leases
	Completed  int64 // retained, and at or below the lowest cursor
	DeadLetter int64 // dead letters of these messages, whoever filed them
}

func (c *MessageCounts) add(o MessageCounts) {
	c.Total += o.Total
	c.Pending += o.Pending
	c.Processing += o.Processing
	c.Completed += o.Completed
	c.DeadLetter += o.DeadLetter
}

// standing is how far one group is on a partition, at one instant.
type standing struct {
	row       *row // nil: implied
	committed queend.Offset
	pending   int64   // retained messages above the cursor
	held      stretch // leased part of them; empty without a live lease
}

// next is the first message the group has not consumed, if pending > 0.
func (s *standing) next(p *partition) queend.Offset { return max(s.committed+1, p.start) }

// standing reads how far a group is. The caller holds the lock.
func (b *Broker) standing(f *finder, g *group, p *partition, now int64) (s standing, ready bool) {
	if s.row = p.rows.find(g.id); s.row != nil {
		s.committed = s.row.committed
	} else if s.committed, ready = b.implied(g, p, f); !ready {
		return s, false
	}
	s.pending = p.pending(s.committed)
	s.held = stretch{0, -1}
	if s.row.live(now) {
		s.held = stretch{s.next(p), min(s.row.lane.batchEnd, p.end-1)}
	}
	return s, true
}

// stretch is a run of offsets, both ends included; empty when to is below from.
type stretch struct{ from, to queend.Offset }

func (s stretch) size() int64 { return int64(max(s.to-s.from+1, 0)) }

// covered counts the offsets that are in at least one of the spans, which it
// sorts.
func covered(spans []stretch) (n int64) {
	slices.SortFunc(spans, func(x, y stretch) int { return cmp.Compare(x.from, y.from) })
	end := queend.NoOffset
	for _, s := range spans {
		s.from = max(s.from, end+1)
		n += s.size()
		end = max(end, s.to)
	}
	return n
}

// glance is what a partition shows at one instant, whoever looks: measured
// from its slowest group.
type glance struct {
	MessageCounts
	lowest queend.Offset // cursor of the slowest group; before everything without groups
}

// glance counts the messages of a partition. Registrations that nobody uses
// do not count (R45). The caller holds the lock.
func (b *Broker) glance(f *finder, p *partition, now int64) (v glance, ready bool) {
	v.lowest = p.end - 1
	groups := 0
	var room [4]stretch
	held := room[:0]
	ready = true
	for _, g := range p.q.groups {
		if !g.popped {
			continue
		}
		s, ok := b.standing(f, g, p, now)
		if !ok {
			ready = false
			continue
		}
		groups++
		v.lowest = min(v.lowest, s.committed)
		if s.held.size() > 0 {
			held = append(held, s.held)
		}
	}
	if groups == 0 {
		v.lowest = p.start - 1
	}
	v.Total = p.retained()
	v.Pending = p.pending(v.lowest)
	v.Processing = covered(held)
	v.Completed = v.Total - v.Pending
	v.DeadLetter = int64(p.letters)
	return v, ready
}

// bytes is what the retained messages take up, in segments as stored and in
// memory; a segment run counts whole while any of it is retained. runs counts
// those.
func (p *partition) bytes() (n int64, runs int) {
	for i := p.runs().At(p.start); i < len(p.runs()); i++ {
		n += int64(p.runs()[i].Bytes)
		runs++
	}
	for _, m := range p.inMemory() {
		n += int64(len(m.raw))
	}
	return n, runs
}
