package broker

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"queend"
	"queend/segment"
)

// The history of traffic is messages of a queue of the broker's own, one at
// most per HistoryFlushMS, of what was counted since the one before. What is
// counted and not written yet is lost in a crash. The last minutes are also in
// memory, exact; what is older is read from here.
var (
	historyQueue     = "\x00history" + strings.Repeat("\x00", maxNameBytes)
	historyPartition = "history"
)

// historyBytes bounds one message: of very many busy queues the busiest are
// kept.
const historyBytes = 8 << 10

// historyStep is how many messages are read at a time.
const historyStep = 1024

// history is what of the traffic is not written yet; under the broker's lock.
type history struct {
	busy []*queue // those with something unsaved
	from int64    // minutes from here on are complete in memory, microseconds
}

// note counts traffic of a queue. Replay counts nothing: the history has it.
func (b *Broker) note(q *queue, now int64, t *Traffic) {
	if !b.live || q.isHidden() {
		return
	}
	d := &q.d.traffic
	minute := now - now%Minute
	bucketAt(&d.minutes, minute, minutesKept).Add(t)
	if b.cfg.HistoryDays <= 0 {
		return
	}
	if len(d.unsaved) == 0 {
		b.history.busy = append(b.history.busy, q)
	}
	bucketAt(&d.unsaved, minute, minutesKept).Add(t)
}

// A message of the history has as payload
//
//	| version u8 = 1 | points: count, each: queue number | minute since 1970 | fields | values |
//
// fields has a bit for every value that is not zero, in the order of
// Traffic.fields. Versions are on disk: add, never change.
const historyVersion = 1

// queuePoint is the traffic of a queue in one minute.
type queuePoint struct {
	queue queend.QueueID
	TrafficPoint
}

// fields lists what is counted. They are on disk: add at the end.
func (t *Traffic) fields() []*int64 {
	return []*int64{
		&t.PushRequests, &t.PushMessages, &t.PopMessages, &t.PopEmpty, &t.AutoAcked, &t.AckRequests, &t.AckSuccess,
		&t.AckFailed, &t.Transactions, &t.Conflated, &t.PartitionsCreated, &t.PartitionsDeleted, &t.RetentionMessages,
		&t.CompletedMessages, &t.EvictedMessages, &t.LagCount, &t.LagTotal, &t.LagMax,
	}
}

func (p *queuePoint) encode(e *encoder) {
	e.uint(uint64(p.queue))
	e.uint(uint64(p.At / Minute))
	mask := uint64(0)
	fields := p.fields()
	for i, v := range fields {
		if *v != 0 {
			mask |= 1 << i
		}
	}
	e.uint(mask)
	for _, v := range fields {
		if *v != 0 {
			e.int(*v)
		}
	}
}

// decode reads a point; fields that a later program added are passed over.
func (p *queuePoint) decode(d *decoder) {
	p.queue = queend.QueueID(d.uint())
	p.At = int64(d.uint()) * Minute
	fields := p.fields()
	for mask := d.uint(); mask != 0 && d.err == nil; mask &= mask - 1 {
		v := d.int()
		if i := bits.TrailingZeros64(mask); i < len(fields) {
			*fields[i] = v
		}
	}
}

// encodeHistory encodes the points that fit, those of the busiest queues.
func encodeHistory(points []queuePoint) []byte {
	volume := map[queend.QueueID]int64{}
	for i := range points {
		t := &points[i].Traffic
		volume[points[i].queue] += t.PushMessages + t.PopMessages + t.AckRequests + t.PopEmpty
	}
	slices.SortFunc(points, func(x, y queuePoint) int {
		return cmp.Or(cmp.Compare(volume[y.queue], volume[x.queue]), cmp.Compare(x.queue, y.queue), cmp.Compare(x.At, y.At))
	})
	var body encoder
	n := 0
	for i := range points {
		before := len(body.buf)
		if points[i].encode(&body); len(body.buf) > historyBytes {
			body.buf = body.buf[:before]
			break
		}
		n++
	}
	var e encoder
	e.byte(historyVersion)
	e.uint(uint64(n))
	return append(e.buf, body.buf...)
}

func decodeHistory(raw []byte) (points []queuePoint, err error) {
	d := decoder{buf: raw}
	if v := d.byte(); d.err == nil && v != historyVersion {
		d.fail("unknown version of the history")
	}
	for range d.count(3) {
		var p queuePoint
		p.decode(&d)
		points = append(points, p)
	}
	return points, d.err
}

// saveHistory writes what was counted in minutes that are over, at the end
// also the running one's. While the disk is full it waits.
func (b *Broker) saveHistory(end bool) {
	if b.storage.disk.full.Load() {
		return
	}
	var points []queuePoint
	b.locked(func() {
		until := b.now() + 1
		if !end && b.cfg.HistoryFlushMS*Millisecond >= Minute {
			until -= until % Minute
		}
		points = b.takeUnsaved(until)
	})
	if len(points) == 0 {
		return
	}
	item := PushItem{Queue: historyQueue, Partition: historyPartition, Payload: encodeHistory(points)}
	b.locked(func() {
		b.ensureOwn(DefaultTenant, historyQueue, b.historySeconds())
		t := b.begin()
		p := b.newPusher(t, nil, DefaultTenant, nil)
		// Without a dedup window and a flag to encrypt, this cannot be refused.
		p.add(&item)
		p.finish()
		t.count = totals{}
		b.commit(t)
	})
}

func (b *Broker) historySeconds() int64 { return b.cfg.HistoryDays * int64(Day/Second) }

// takeUnsaved takes out what was counted before a time and is not written.
func (b *Broker) takeUnsaved(until int64) (points []queuePoint) {
	b.history.busy = slices.DeleteFunc(b.history.busy, func(q *queue) bool {
		d := &q.d.traffic
		n := 0
		for n < len(d.unsaved) && d.unsaved[n].At < until {
			if b.state.queues[q.id] == q {
				points = append(points, queuePoint{q.id, d.unsaved[n]})
			}
			n++
		}
		if d.unsaved = d.unsaved[n:]; len(d.unsaved) > 0 {
			return false
		}
		d.unsaved = nil
		return true
	})
	return points
}

// initHistory puts the last minutes back into memory. It is the last step of a
// start. A history that cannot be read does not keep the broker from starting.
func (b *Broker) initHistory() {
	var now int64
	b.locked(func() {
		if now = b.now(); b.state.queue(DefaultTenant, historyQueue) != nil && b.cfg.HistoryDays > 0 {
			b.ensureOwn(DefaultTenant, historyQueue, b.historySeconds())
		}
	})
	from := now - now%Minute - minutesKept*Minute
	err := b.readHistory(from, func(points []queuePoint) {
		b.locked(func() {
			for i := range points {
				p := &points[i]
				if q := b.state.queues[p.queue]; q != nil && p.At >= from {
					bucketAt(&q.d.traffic.minutes, p.At, minutesKept).Add(&p.Traffic)
				}
			}
		})
	})
	if err != nil {
		b.cfg.Log.Error("the history of figures cannot be read", "error", err)
		from = now
	}
	b.history.from = from
}

// inMemory is from when on memory has every minute, microseconds. The caller
// holds the lock.
func (b *Broker) inMemory() int64 {
	if b.cfg.HistoryDays <= 0 {
		return always
	}
	now := b.now()
	return max(b.history.from, now-now%Minute-minutesKept*Minute)
}

// readHistory shows take the points that were written at or after a time, in
// the order of their writing. It is called without the lock.
func (b *Broker) readHistory(from int64, take func(points []queuePoint)) error {
	next, err := b.historySince(from)
	for err == nil {
		var v *view
		b.locked(func() {
			if p := b.historyOf(); p != nil && next < p.end {
				v = b.viewSpan(p, next, historyStep)
			}
		})
		if v == nil {
			return nil
		}
		var msgs []segment.Message
		msgs, err = v.read(b.cfg.PopMaxBytes)
		v.release()
		if err != nil || len(msgs) == 0 {
			break
		}
		next = msgs[len(msgs)-1].Offset + 1
		for i := range msgs {
			if msgs[i].Gone {
				continue
			}
			points, derr := decodeHistory(msgs[i].Payload)
			if derr != nil {
				return fmt.Errorf("history at offset %d: %w", msgs[i].Offset, derr)
			}
			take(points)
		}
	}
	return err
}

// historySince is the offset of the first message written at or after a time.
func (b *Broker) historySince(from int64) (off queend.Offset, err error) {
	f := b.newFinder()
	defer f.release()
	for {
		ready := true
		b.locked(func() {
			if p := b.historyOf(); p != nil {
				off, ready = f.firstAt(p, from)
			}
		})
		if ready {
			return off, nil
		}
		if err := f.load(); err != nil {
			return 0, err
		}
	}
}

// historyOf returns where the history is, nil before the first.
func (b *Broker) historyOf() *partition {
	if q := b.state.queue(DefaultTenant, historyQueue); q != nil {
		return b.state.partition(q, historyPartition)
	}
	return nil
}

// TrafficQuery chooses traffic of a tenant's queues.
type TrafficQuery struct {
	Tenant          queend.ID
	Queue           *string // nil: every queue
	Namespace, Task string  // "": any
	From, To        int64   // buckets that begin in [From, To), microseconds
	Step            int64   // width of a bucket, microseconds, a multiple of a minute; 0: a minute
}

func (c *TrafficQuery) chooses(q *queue) bool {
	return q.tenant == c.Tenant && !q.isHidden() && (c.Queue == nil || q.name == *c.Queue) &&
		(c.Namespace == "" || q.namespace == c.Namespace) && (c.Task == "" || q.task == c.Task)
}

// QueueSeries is the traffic of one queue in rising buckets, without those in
// which nothing happened.
type QueueSeries struct {
	QueueStats
	Points []TrafficPoint
	id     queend.QueueID
}

// Traffic returns the traffic of queues by name: the last two hours from
// memory, what is older from the history, as long as that is kept.
func (b *Broker) Traffic(ctx context.Context, query TrafficQuery) ([]QueueSeries, error) {
	query.Step = max(query.Step-query.Step%Minute, Minute)
	var all []QueueSeries
	var recent [][]TrafficPoint
	var cut int64
	b.locked(func() {
		now := b.now()
		cut = b.inMemory()
		for _, q := range b.state.queues {
			if query.chooses(q) {
				all = append(all, QueueSeries{QueueStats: q.stats(now), id: q.id})
				recent = append(recent, since(q.d.traffic.minutes, max(query.From, cut)))
			}
		}
	})
	if query.From < cut {
		if err := b.addHistory(all, query, cut); err != nil {
			return nil, err
		}
	}
	for i := range all {
		all[i].add(recent[i], &query)
	}
	slices.SortFunc(all, func(x, y QueueSeries) int { return cmp.Compare(x.Name, y.Name) })
	return all, b.settled(ctx)
}

// addHistory adds the traffic before cut.
func (b *Broker) addHistory(all []QueueSeries, query TrafficQuery, cut int64) error {
	at := map[queend.QueueID]*QueueSeries{}
	for i := range all {
		at[all[i].id] = &all[i]
	}
	query.To = min(query.To, cut)
	return b.readHistory(query.From, func(points []queuePoint) {
		for i := range points {
			if s := at[points[i].queue]; s != nil {
				s.add([]TrafficPoint{points[i].TrafficPoint}, &query)
			}
		}
	})
}

// add adds rising points to the buckets of the query.
func (s *QueueSeries) add(points []TrafficPoint, query *TrafficQuery) {
	for i := range points {
		if p := &points[i]; p.At >= query.From && p.At < query.To {
			bucketAt(&s.Points, p.At-p.At%query.Step, len(s.Points)+1).Add(&p.Traffic)
		}
	}
}
