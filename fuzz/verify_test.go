package fuzz

import (
	"fmt"
	"slices"

	"queend/broker"
)

// verify compares everything that can be read without changing anything.
func (h *harness) verify() error {
	rows, err := h.b.Queues(h.ctx, broker.DefaultTenant)
	if err != nil {
		return err
	}
	var names []string
	for i := range rows {
		names = append(names, rows[i].Name)
	}
	if !slices.Equal(names, h.m.names()) {
		return fmt.Errorf("queues %q, want %q", names, h.m.names())
	}
	for _, name := range names {
		if err := h.verifyQueue(h.m.queues[name]); err != nil {
			return fmt.Errorf("queue %q: %w", name, err)
		}
	}
	return h.verifyLetters()
}

func (h *harness) verifyQueue(q *mQueue) error {
	d, err := h.b.QueueDetail(h.ctx, broker.DefaultTenant, q.name)
	if err != nil {
		return err
	}
	if d.Values != q.opts || d.Namespace != q.ns || d.Task != q.task {
		return fmt.Errorf("options %+v %q %q, want %+v %q %q", d.Values, d.Namespace, d.Task, q.opts, q.ns, q.task)
	}
	if len(d.Partitions) != len(q.order) {
		return fmt.Errorf("%d partitions, want %d", len(d.Partitions), len(q.order))
	}
	for i, p := range q.order {
		row := &d.Partitions[i]
		if p.uuid.IsZero() {
			p.uuid = row.ID
		}
		if row.Name != p.name || row.ID != p.uuid {
			return fmt.Errorf("partition %d is %q %s, want %q %s", i, row.Name, row.ID, p.name, p.uuid)
		}
		if got, want := row.Counts, h.m.counts(p); got != want {
			return fmt.Errorf("partition %q: counts %+v, want %+v", p.name, got, want)
		}
	}
	for _, g := range q.groups {
		if err := h.verifyDepth(g); err != nil {
			return fmt.Errorf("group %q: %w", g.name, err)
		}
	}
	return nil
}

// counts measures a partition from its slowest group (docs/rules.md, S5).
func (m *model) counts(p *mPart) (c broker.MessageCounts) {
	groups := m.poppedGroups(p.q)
	lowest := p.end() - 1
	if len(groups) == 0 {
		lowest = p.start - 1
	}
	leased := map[int]bool{}
	for _, g := range groups {
		r := g.cursor(p)
		lowest = min(lowest, r.committed)
		for off := max(r.committed+1, p.start); r.live(m.clock()) && off <= r.batchEnd; off++ {
			leased[off] = true
		}
	}
	c.Total = int64(p.end() - p.start)
	c.Pending = int64(p.pending(lowest))
	c.Completed = c.Total - c.Pending
	c.Processing = int64(len(leased))
	for _, l := range m.letters {
		if l.part == p {
			c.DeadLetter++
		}
	}
	return c
}

func (h *harness) depth(g *mGroup) (map[string]broker.DepthRow, *broker.Depth, error) {
	d, err := h.b.Depth(h.ctx, broker.DefaultTenant, g.q.name, &g.name)
	if err != nil {
		return nil, nil, err
	}
	rows := map[string]broker.DepthRow{}
	for _, r := range d.Partitions {
		rows[r.Partition] = r
	}
	return rows, d, nil
}

func (h *harness) verifyDepth(g *mGroup) error {
	rows, d, err := h.depth(g)
	if err != nil {
		return err
	}
	if d.Conflation != g.conflation && len(rows) > 0 {
		return fmt.Errorf("conflation %v, want %v", d.Conflation, g.conflation)
	}
	for _, p := range g.q.order {
		r := g.cursor(p)
		want := broker.DepthRow{Partition: p.name, Pending: int64(p.pending(r.committed))}
		if r.live(h.m.clock()) {
			want.Processing = int64(max(r.batchEnd-max(r.committed+1, p.start)+1, 0))
		}
		want.Ready = want.Pending - want.Processing
		if rows[p.name] != want {
			return fmt.Errorf("depth %+v, want %+v", rows[p.name], want)
		}
	}
	return nil
}

// verifyLetters compares all dead letters, the newest first.
func (h *harness) verifyLetters() error {
	var got []broker.DeadLetter
	for {
		page, err := h.b.DeadLetters(h.ctx, broker.DeadLetterQuery{
			Tenant: broker.DefaultTenant, Limit: 1000, Offset: len(got),
		})
		if err != nil {
			return err
		}
		got = append(got, page.Letters...)
		if len(got) >= page.Total || len(page.Letters) == 0 {
			break
		}
	}
	if len(got) != len(h.m.letters) {
		return fmt.Errorf("%d dead letters, want %d", len(got), len(h.m.letters))
	}
	h.m.reorder(got)
	for i, l := range h.m.letters {
		if err := l.matches(&got[len(got)-1-i]); err != nil {
			return fmt.Errorf("dead letter %d: %w", i, err)
		}
	}
	return nil
}

// reorder puts dead letters that one command filed at one instant into the
// order of the broker, which chose it.
func (m *model) reorder(got []broker.DeadLetter) {
	for i := range m.letters {
		for j := i; j < len(m.letters) && m.letters[j].command == m.letters[i].command; j++ {
			l, d := m.letters[j], &got[len(got)-1-i]
			if l.matches(d) != nil {
				continue
			}
			m.letters[i], m.letters[j] = m.letters[j], m.letters[i]
			break
		}
	}
}

// verifyLog reads every retained message by offset.
func (h *harness) verifyLog() error {
	for _, name := range h.m.names() {
		for _, p := range h.m.queues[name].order {
			for off := p.start; off < p.end(); {
				out, err := h.b.Fetch(h.ctx, broker.FetchRequest{
					Tenant: broker.DefaultTenant, Entries: []broker.FetchEntry{{Queue: name, Partition: p.name, Offset: offset(off), MaxBytes: 1 << 20}},
				})
				if err != nil {
					return err
				}
				if out[0].Error != "" || len(out[0].Records) == 0 || int(out[0].HighWatermark) != p.end() || int(out[0].LogStart) != p.start {
					return fmt.Errorf("fetch %s/%s from %d: error %q, %d records, [%d, %d), want [%d, %d)", name, p.name, off,
						out[0].Error, len(out[0].Records), out[0].LogStart, out[0].HighWatermark, p.start, p.end())
				}
				for i := range out[0].Records {
					d := broker.Delivered{Message: out[0].Records[i]}
					if err := p.msgs[off].matches(&d, 0); err != nil || int(d.Offset) != off {
						return fmt.Errorf("fetch %s/%s offset %d (%d): %w", name, p.name, off, d.Offset, err)
					}
					off++
				}
			}
		}
	}
	return nil
}
