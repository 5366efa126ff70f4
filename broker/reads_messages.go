package broker

import (
	"context"
	"maps"
	"slices"

	"queend"
	"queend/segment"
)

// MessagesQuery chooses messages of a tenant (docs/rules.md, S6). What is left zero
// chooses all.
type MessagesQuery struct {
	Tenant          queend.ID
	Queue           *string // nil: every queue; "" is a name
	Partition       string
	Namespace, Task string
	Status          MessageStatus
	From            int64 // stamp, microseconds, included; 0: an hour before To
	To              int64 // the whole minute it is in belongs to it; 0: now
	Limit           int   // 0 or less: none
	Offset          int   // messages passed over
}

// Message is a retained message with its whereabouts.
type Message struct {
	segment.Message        // payload decrypted where that was possible
	TxnHash         uint64 // of the transaction id
	Queue           string
	Partition       string
	PartitionUUID   queend.ID
	Namespace, Task string
	Status          MessageStatus
	QueueStatus     MessageStatus // as the plain queue sees it; "" when nobody reads it
	ConsumedBy      int           // named groups past the message
	TotalGroups     int           // named groups that read the queue
	LeaseExpires    *int64        // microseconds; nil without a live lease on it
	Segment         queend.FileID // 0: in memory only
	FrameIndex      int64         // within its run, or above the first in memory
	WasEncrypted    bool          // it was decrypted for this read
}

// MessageMode says who reads the queues of an answer.
type MessageMode struct {
	HasQueueMode bool
	Groups       int    // named groups, by distinct names
	Type         string // queue, bus, hybrid or none
}

// MessagesPage is a page of messages, the newest first.
type MessagesPage struct {
	Messages []Message
	Mode     MessageMode
}

// Messages lists retained messages, the newest first. The cost depends on the
// page, not on how much newer or older data there is. A page ends early,
// after at least one message, at Config.PopMaxBytes of payload.
func (b *Broker) Messages(ctx context.Context, q MessagesQuery) (*MessagesPage, error) {
	queues := b.queuesOf(q.Tenant, func(x *queue) bool {
		return (q.Queue == nil || x.name == *q.Queue) && (q.Namespace == "" || x.namespace == q.Namespace) &&
			(q.Task == "" || x.task == q.Task)
	})
	w := &browser{b: b, q: &q, skip: max(q.Offset, 0), dead: map[queend.PartitionID][]queend.Offset{}}
	page := &MessagesPage{Messages: []Message{}}
	b.locked(func() {
		w.from, w.to = q.bounds(b.now())
		page.Mode = modeOf(queues)
	})
	if q.Limit <= 0 {
		return page, b.settled(ctx)
	}
	if err := w.gather(queues); err != nil {
		return nil, err
	}
	if err := w.run(q.Limit); err != nil {
		return nil, err
	}
	if err := w.read(page); err != nil {
		return nil, err
	}
	return page, b.settled(ctx)
}

// bounds are the stamps the query asks for, the upper one excluded.
func (q *MessagesQuery) bounds(now int64) (from, to int64) {
	to = q.To
	if to == 0 {
		to = now
	}
	from = q.From
	if from == 0 {
		from = to - Hour
	}
	return from, (to/Minute + 1) * Minute
}

// modeOf says who reads the queues.
func modeOf(queues []*queue) MessageMode {
	var m MessageMode
	names := map[string]bool{}
	for _, q := range queues {
		for _, g := range q.groups {
			switch {
			case !g.popped:
			case g.name == QueueMode:
				m.HasQueueMode = true
			default:
				names[g.name] = true
			}
		}
	}
	m.Groups = len(names)
	switch {
	case m.HasQueueMode && m.Groups > 0:
		m.Type = "hybrid"
	case m.HasQueueMode:
		m.Type = "queue"
	case m.Groups > 0:
		m.Type = "bus"
	default:
		m.Type = "none"
	}
	return m
}

// readChunk is how many messages of a page are read together.
const readChunk = 64

// read brings the payloads of the page. Messages removed meanwhile are left
// out.
func (w *browser) read(page *MessagesPage) error {
	b, messages := w.b, w.b.newFetcher()
	f := b.newFinder()
	defer f.release()
	bytes := int64(0)
	for rest := w.picked; len(rest) > 0; {
		n := min(len(rest), readChunk)
		var got []Message
		for ready := false; !ready; {
			b.locked(func() { got, ready = w.details(f, messages, rest[:n]) })
			if ready {
				break
			}
			if err := messages.load(); err != nil {
				return err
			}
			if err := f.load(); err != nil {
				return err
			}
		}
		for i := range got {
			got[i].Payload, got[i].WasEncrypted = b.open(got[i].Payload)
			bytes += int64(len(got[i].Payload))
			if bytes > b.cfg.PopMaxBytes && len(page.Messages) > 0 {
				return nil
			}
			page.Messages = append(page.Messages, got[i])
		}
		messages.forget()
		rest = rest[n:]
	}
	return nil
}

// details are those of the messages that are still there.
func (w *browser) details(f *finder, messages *fetcher, some []picked) (got []Message, ready bool) {
	ready = true
	for i := range some {
		p := some[i].p
		if p.ord < 0 {
			continue
		}
		m, found, ok := messages.get(p, some[i].off)
		if ok && found {
			v := w.b.statusOf(p)
			v.dead = w.dead[p.id]
			var full Message
			if full, ok = w.b.describe(f, p, &v, m); ok {
				got = append(got, full)
			}
		}
		ready = ready && ok
	}
	return got, ready
}

// describe adds to a message where it is and how far. The caller holds the
// lock.
func (b *Broker) describe(f *finder, p *partition, v *statusView, m segment.Message) (full Message, ready bool) {
	full = Message{
		Message: m, TxnHash: segment.Hash(m.TxnID), Queue: p.q.name, Partition: p.name, PartitionUUID: p.uuid,
		Namespace: p.q.namespace, Task: p.q.task, Status: v.status(m.Offset),
	}
	ready = true
	for _, g := range p.q.groups {
		if !g.popped {
			continue
		}
		s, ok := b.standing(f, g, p, b.now())
		ready = ready && ok
		switch {
		case g.name == QueueMode:
			full.QueueStatus = plainStatus(&s, m.Offset)
		default:
			full.TotalGroups++
			if m.Offset <= s.committed {
				full.ConsumedBy++
			}
		}
	}
	if l := v.lease(m.Offset); l != nil {
		full.LeaseExpires = &l.until
	}
	full.Segment, full.FrameIndex = p.placeOf(m.Offset)
	return full, ready
}

// plainStatus is the status of a message as the plain queue sees it.
func plainStatus(s *standing, off queend.Offset) MessageStatus {
	switch {
	case off <= s.committed:
		return StatusCompleted
	case s.held.from <= off && off <= s.held.to:
		return StatusProcessing
	}
	return StatusPending
}

// placeOf says in which file a message is and at which place of its run.
func (p *partition) placeOf(off queend.Offset) (queend.FileID, int64) {
	if i := p.runs().At(off); i < len(p.runs()) {
		return p.runs()[i].File, int64(off - p.runs()[i].First)
	}
	return 0, int64(off - p.flushed)
}

// GroupStanding is how far one group is with one message.
type GroupStanding struct {
	Group        string
	Consumed     bool
	LeaseExpires *int64 // microseconds; nil when no live lease holds the message
}

// MessageDetail is one message with everything known about it.
type MessageDetail struct {
	Message
	Dead    bool   // it has a dead letter
	Error   string // of its newest dead letter, "" without one
	Retries int64  // of its newest dead letter, 0 without one
	Groups  []GroupStanding
	Mode    MessageMode
	Options Options
}

// MessageByAddress finds a retained message by the public id of its partition
// and its transaction id; of several the first. Without it, also when
// retention has removed it, the error is a *Refusal CodeNotFound.
func (b *Broker) MessageByAddress(ctx context.Context, tenant queend.ID, partitionID string, txn []byte) (*MessageDetail, error) {
	id, err := queend.ParseID(partitionID)
	if err != nil {
		return nil, refuse(CodeNotFound, "Message not found")
	}
	f, messages := b.newFinder(), b.newFetcher()
	defer f.release()
	var d *MessageDetail
	for ready := false; !ready; {
		b.locked(func() { d, ready = b.lookUp(f, messages, tenant, id, txn) })
		if ready {
			break
		}
		if err := messages.load(); err != nil {
			return nil, err
		}
		if err := f.load(); err != nil {
			return nil, err
		}
	}
	if err := b.settled(ctx); err != nil {
		return nil, err
	}
	if d == nil {
		return nil, refuse(CodeNotFound, "Message not found")
	}
	d.Payload, d.WasEncrypted = b.open(d.Payload)
	return d, nil
}

// lookUp finds and describes a message; nil when there is none.
func (b *Broker) lookUp(f *finder, messages *fetcher, tenant, id queend.ID, txn []byte) (d *MessageDetail, ready bool) {
	p := b.state.byUUID(id)
	if p == nil || p.q.tenant != tenant || p.empty() {
		return nil, true
	}
	at, ready := f.lookup(p, txn, always, p.start, p.end-1)
	if !ready || !at.found {
		return nil, ready
	}
	m, found, ready := messages.get(p, at.off)
	if !ready || !found {
		return nil, ready
	}
	d = &MessageDetail{Mode: modeOf([]*queue{p.q}), Options: p.q.opts}
	if ready = b.deadLetterOf(f, messages, p, txn, at.off, d); !ready {
		return nil, false
	}
	v := b.statusOf(p)
	if d.Dead {
		v.dead = []queend.Offset{at.off}
	}
	if d.Message, ready = b.describe(f, p, &v, m); !ready {
		return nil, false
	}
	ready = b.groupsOf(f, p, at.off, d)
	return d, ready
}

// deadLetterOf adds what the newest dead letter of the message says.
func (b *Broker) deadLetterOf(f *finder, messages *fetcher, p *partition, txn []byte, off queend.Offset, d *MessageDetail) (ready bool) {
	letters, ready := b.lettersAt(f, p, txn)
	if !ready {
		return false
	}
	for _, l := range slices.Backward(letters) {
		if l.offset != off {
			continue
		}
		letter, _, found, ready := b.letter(messages, l)
		if ready && found {
			d.Dead, d.Error, d.Retries = true, letter.Error, letter.RetryCount
		}
		return ready
	}
	return true
}

// groupsOf adds how far every group is with the message.
func (b *Broker) groupsOf(f *finder, p *partition, off queend.Offset, d *MessageDetail) (ready bool) {
	now := b.now()
	for _, name := range slices.Sorted(maps.Keys(p.q.groups)) {
		g := p.q.groups[name]
		if !g.popped {
			continue
		}
		s, ready := b.standing(f, g, p, now)
		if !ready {
			return false
		}
		one := GroupStanding{Group: name, Consumed: off <= s.committed}
		if s.held.from <= off && off <= s.held.to {
			until := s.row.lane.leaseUntil
			one.LeaseExpires = &until
		}
		d.Groups = append(d.Groups, one)
	}
	return true
}
