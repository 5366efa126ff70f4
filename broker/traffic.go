package broker

import (
	"slices"

	"queend"
	"queend/segment"
)

// Traffic counts what happened on a queue in some stretch of time.
type Traffic struct {
	PushRequests       int64 // log records with pushes to the queue: one per request, more for a very large one
	PushMessages       int64
	PopMessages        int64
	PopEmpty           int64
	AutoAcked          int64 // of the popped messages, consumed by their delivery (R7)
	AckRequests        int64 // per partition that a call names
	AckSuccess         int64
	AckFailed          int64 // refused items, and failed and dlq that were carried out
	Transactions       int64
	Conflated          int64 // positions that conflated acks skipped (R72)
	PartitionsCreated  int64
	PartitionsDeleted  int64
	RetentionMessages  int64 // removed by R90
	CompletedMessages  int64 // removed by R91
	EvictedMessages    int64 // removed by R92
	LagCount, LagTotal int64 // ages of messages when delivered, microseconds
	LagMax             int64
}

// Add adds another stretch to t. It is called for every record, so it takes
// the fields one by one.
func (t *Traffic) Add(o *Traffic) {
	t.PushRequests += o.PushRequests
	t.PushMessages += o.PushMessages
	t.PopMessages += o.PopMessages
	t.PopEmpty += o.PopEmpty
	t.AutoAcked += o.AutoAcked
	t.AckRequests += o.AckRequests
	t.AckSuccess += o.AckSuccess
	t.AckFailed += o.AckFailed
	t.Transactions += o.Transactions
	t.Conflated += o.Conflated
	t.PartitionsCreated += o.PartitionsCreated
	t.PartitionsDeleted += o.PartitionsDeleted
	t.RetentionMessages += o.RetentionMessages
	t.CompletedMessages += o.CompletedMessages
	t.EvictedMessages += o.EvictedMessages
	t.LagCount += o.LagCount
	t.LagTotal += o.LagTotal
	t.LagMax = max(t.LagMax, o.LagMax)
}

// delivered counts messages that a pop takes at now.
func (t *Traffic) delivered(now int64, msgs []segment.Message, autoAck bool) {
	t.PopMessages += int64(len(msgs))
	if autoAck {
		t.AutoAcked += int64(len(msgs))
	}
	for i := range msgs {
		lag := max(now-msgs[i].Time, 0)
		t.LagCount++
		t.LagTotal += lag
		t.LagMax = max(t.LagMax, lag)
	}
}

// acked counts the items of an ack call on one partition.
func (t *Traffic) acked(items []settleItem, results []AckResult) {
	t.AckRequests++
	skipped := int64(0)
	for i := range results {
		if !results[i].Success || items[i].signal == Failed || items[i].signal == DLQ {
			t.AckFailed++
		} else {
			t.AckSuccess++
		}
		skipped = max(skipped, results[i].Conflated)
	}
	t.Conflated += skipped
}

// TrafficPoint is the traffic of one bucket.
type TrafficPoint struct {
	At int64 // begin of the bucket, microseconds
	Traffic
}

// minutesKept is how many minutes in which something happened a queue
// remembers at least; longer ones ago are in the history.
const minutesKept = 120

// queueTraffic is what a queue remembers of its traffic.
type queueTraffic struct {
	minutes   []TrafficPoint // rising
	unsaved   []TrafficPoint // rising; not in the history yet
	pushStamp int64          // of the last record counted as a push request
}

// bucketAt returns the newest bucket, which is made if it begins later than
// the one there is. The clock does not go back.
func bucketAt(points *[]TrafficPoint, at int64, keep int) *Traffic {
	all := *points
	if n := len(all); n == 0 || all[n-1].At < at {
		if n >= 2*keep {
			all = slices.Clone(all[n-keep+1:])
		}
		all = append(all, TrafficPoint{At: at})
		*points = all
	}
	return &all[len(all)-1].Traffic
}

// since returns the buckets that begin at or after from. The slice is the
// caller's.
func since(points []TrafficPoint, from int64) []TrafficPoint {
	i, _ := slices.BinarySearchFunc(points, from, func(p TrafficPoint, from int64) int {
		if p.At < from {
			return -1
		}
		return 1
	})
	return slices.Clone(points[i:])
}

// notePush counts n messages that a record brought.
func (b *Broker) notePush(p *partition, n int) {
	if p.ord < 0 {
		return
	}
	t := Traffic{PushMessages: int64(n)}
	q := &p.q.d.traffic
	if q.pushStamp != p.lastTime {
		q.pushStamp = p.lastTime
		t.PushRequests = 1
	}
	b.note(p.q, p.lastTime, &t)
}

// notePartition counts a partition that comes or goes.
func (b *Broker) notePartition(p *partition, t Traffic) {
	if b.live && p.ord >= 0 {
		b.note(p.q, b.now(), &t)
	}
}

// noteRemoved counts messages that retention has removed, for the rule with
// the shortest limit of those the queue has.
func (b *Broker) noteRemoved(p *partition, from queend.Offset) {
	if !b.live || p.ord < 0 {
		return
	}
	n := int64(p.start - from)
	o := &p.q.opts
	l := o.retention()
	switch {
	case l.completed > 0 && (l.any == 0 || l.completed < l.any):
		b.note(p.q, b.now(), &Traffic{CompletedMessages: n})
	case l.any == o.MaxWaitTimeSeconds*Second:
		b.note(p.q, b.now(), &Traffic{EvictedMessages: n})
	default:
		b.note(p.q, b.now(), &Traffic{RetentionMessages: n})
	}
}

// noteEmpty counts a pop that goes away with nothing.
func (p *popper) noteEmpty() {
	if p.group != nil {
		p.b.note(p.group.q, p.b.now(), &Traffic{PopEmpty: 1})
	}
}

// noteTraffic counts a committed transaction on every queue it is about.
func (x *transaction) noteTraffic(p *pusher) {
	queues := map[*queue]bool{}
	for _, l := range x.order {
		queues[l.p.q] = true
	}
	for _, tg := range p.targets {
		if q := x.b.state.queues[tg.q.id]; q != nil {
			queues[q] = true
		}
	}
	for q := range queues {
		x.b.note(q, x.t.stamp, &Traffic{Transactions: 1})
	}
}

// rateSpan is what rates are averaged over.
const rateSpan = 5 * Minute

// rates are the messages per second pushed to and consumed from a queue over
// the last five minutes.
func (b *Broker) rates(q *queue) (ingested, processed float64) {
	span := rateSpan // and the rest of the minute it begins in
	b.locked(func() {
		from := b.now() - rateSpan
		span += from % Minute
		for _, p := range since(q.d.traffic.minutes, from-from%Minute) {
			ingested += float64(p.PushMessages)
			processed += float64(p.AckSuccess + p.AutoAcked)
		}
	})
	return ingested / seconds(span), processed / seconds(span)
}
