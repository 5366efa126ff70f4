package broker

import (
	"cmp"
	"context"
	"slices"

	"queend"
)

// LabelRow adds up the queues of one namespace or task.
type LabelRow struct {
	Name       string // namespace or task, "" for queues without
	Queues     int
	Partitions int
	Counts     MessageCounts
}

// Namespaces lists the namespaces of a tenant's queues, by name.
func (b *Broker) Namespaces(ctx context.Context, tenant queend.ID) ([]LabelRow, error) {
	return b.labelRows(ctx, tenant, func(r *QueueRow) string { return r.Namespace })
}

// Tasks lists the tasks of a tenant's queues, by name.
func (b *Broker) Tasks(ctx context.Context, tenant queend.ID) ([]LabelRow, error) {
	return b.labelRows(ctx, tenant, func(r *QueueRow) string { return r.Task })
}

func (b *Broker) labelRows(ctx context.Context, tenant queend.ID, of func(*QueueRow) string) ([]LabelRow, error) {
	queues, err := b.Queues(ctx, tenant)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	rows := []LabelRow{}
	for i := range queues {
		name := of(&queues[i])
		n, known := at[name]
		if !known {
			n = len(rows)
			at[name] = n
			rows = append(rows, LabelRow{Name: name})
		}
		rows[n].Queues++
		rows[n].Partitions += queues[i].Partitions
		rows[n].Counts.add(queues[i].Counts)
	}
	slices.SortFunc(rows, func(x, y LabelRow) int { return cmp.Compare(x.Name, y.Name) })
	return rows, nil
}

// Spread sums up a row of figures; all zero without any.
type Spread struct{ Avg, Median, Min, Max float64 }

// spreadOf sorts the figures.
func spreadOf(figures []float64) Spread {
	if len(figures) == 0 {
		return Spread{}
	}
	slices.Sort(figures)
	sum := 0.0
	for _, v := range figures {
		sum += v
	}
	n := len(figures)
	return Spread{Avg: sum / float64(n), Median: (figures[n/2] + figures[(n-1)/2]) / 2, Min: figures[0], Max: figures[n-1]}
}

// Overview sums up everything a tenant has (docs/rules.md, S5).
type Overview struct {
	Queues, Partitions, Namespaces, Tasks int
	Counts                                MessageCounts
	// Of the partitions with pending messages, from their lowest cursor.
	// TimeLag is in seconds; for a message in a segment it may be short by the
	// time that its run of messages spans, since an overview reads no disk.
	TimeLag, OffsetLag Spread
	// Messages per second over the last five minutes.
	Ingested, Processed float64
	At                  int64 // when it was taken, microseconds
}

// Overview takes the figures of all queues of a tenant.
func (b *Broker) Overview(ctx context.Context, tenant queend.ID) (*Overview, error) {
	o := &Overview{}
	var ages, lags []float64
	namespaces, tasks := map[string]bool{}, map[string]bool{}
	for _, q := range b.queuesOf(tenant, nil) {
		row, err := b.queueRow(q, func(_ *finder, p *partition, v *glance) bool {
			if v.Pending > 0 {
				lags = append(lags, float64(v.Pending))
				ages = append(ages, seconds(max(b.now()-p.roughStamp(max(v.lowest+1, p.start)), 0)))
			}
			return true
		})
		if err != nil {
			return nil, err
		}
		o.Queues++
		o.Partitions += row.Partitions
		o.Counts.add(row.Counts)
		namespaces[row.Namespace], tasks[row.Task] = true, true
		ingested, processed := b.rates(q)
		o.Ingested += ingested
		o.Processed += processed
	}
	delete(namespaces, "")
	delete(tasks, "")
	o.Namespaces, o.Tasks = len(namespaces), len(tasks)
	o.TimeLag, o.OffsetLag = spreadOf(ages), spreadOf(lags)
	b.locked(func() { o.At = b.now() })
	return o, b.settled(ctx)
}

// seconds turns microseconds into seconds.
func seconds(micros int64) float64 { return float64(micros) / float64(Second) }

// roughStamp is when a retained message was pushed, or somewhat later: a
// message in a segment counts as if it were the last of its run.
func (p *partition) roughStamp(off queend.Offset) int64 {
	if off >= p.flushed {
		at, _ := p.timeInTail(off)
		return at
	}
	if i := p.runs().At(off); i < len(p.runs()) {
		return p.runs()[i].LastTime
	}
	return p.lastTime
}

// BusyPartition is one of the partitions with the most pending messages.
type BusyPartition struct {
	Queue, Partition string
	ID               queend.ID
	Pending          int64
	Processing       int64
	Lag              *int64 // age of the oldest pending message, microseconds; nil when caught up
}

// Partitions lists the partitions with the most pending messages first, at
// most limit, of one queue or of all when name is nil. An unknown queue has
// none.
func (b *Broker) Partitions(ctx context.Context, tenant queend.ID, name *string, limit int) ([]BusyPartition, error) {
	top := busiest{limit: max(limit, 0)}
	for _, q := range b.queuesOf(tenant, func(q *queue) bool { return name == nil || q.name == *name }) {
		err := b.survey(q, func(f *finder, p *partition) bool {
			v, ready := b.glance(f, p, b.now())
			if ready {
				top.add(p, v.Pending)
			}
			return ready
		})
		if err != nil {
			return nil, err
		}
	}
	rows := []BusyPartition{}
	err := b.plan(func(f *finder, again []*partition) []*partition {
		if again == nil {
			again = top.partitions()
		}
		return slices.DeleteFunc(again, func(p *partition) bool {
			row, ready := b.busyPartition(f, p)
			if p.ord >= 0 && ready {
				rows = append(rows, row)
			}
			return p.ord < 0 || ready
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(x, y BusyPartition) int {
		return cmp.Or(cmp.Compare(y.Pending, x.Pending), cmp.Compare(x.Queue, y.Queue), cmp.Compare(x.Partition, y.Partition))
	})
	return rows, b.settled(ctx)
}

func (b *Broker) busyPartition(f *finder, p *partition) (BusyPartition, bool) {
	now := b.now()
	v, ready := b.glance(f, p, now)
	row := BusyPartition{
		Queue: p.q.name, Partition: p.name, ID: p.uuid, Pending: v.Pending, Processing: v.Processing,
	}
	if v.Pending > 0 && ready {
		var at int64
		at, ready = b.stampOf(f, p, max(v.lowest+1, p.start))
		lag := max(now-at, 0)
		row.Lag = &lag
	}
	return row, ready
}

// busiest keeps the partitions with the most pending messages.
type busiest struct {
	limit int
	all   []busy
}

type busy struct {
	p       *partition
	pending int64
}

func (t *busiest) add(p *partition, pending int64) {
	t.all = append(t.all, busy{p, pending})
	if len(t.all) >= 2*t.limit+surveyHold {
		t.cut()
	}
}

// cut sorts, and drops what is over the limit.
func (t *busiest) cut() {
	slices.SortFunc(t.all, func(x, y busy) int {
		return cmp.Or(cmp.Compare(y.pending, x.pending), cmp.Compare(x.p.id, y.p.id))
	})
	t.all = t.all[:min(len(t.all), t.limit)]
}

// partitions returns those kept, never nil.
func (t *busiest) partitions() []*partition {
	t.cut()
	out := make([]*partition, 0, len(t.all))
	for i := range t.all {
		out = append(out, t.all[i].p)
	}
	return out
}
