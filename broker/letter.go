package broker

import (
	"queend"
	"queend/segment"
)

// internalPartition is the name of the partition that holds a queue's dead
// letters. No client can see it.
const internalPartition = "\x00dlq"

// A dead letter is a message of the queue's internal partition: message id =
// dead letter id, transaction id, trace id, producer, headers and the
// encryption flag as the original's, and as payload what else has to be kept:
//
//	| version u8 = 1 | message id 16 | retries | attempts | enqueued, microseconds
//	| error: length, bytes | payload as stored: the rest |
//
// Where the original was and whose dead letter it is stands in the event
// deadLettered. Versions are on disk: add, never change.
type letterBody struct {
	id       queend.ID // of the original message
	retries  int64
	attempts int64
	enqueued int64
	text     string
	payload  []byte
}

const letterVersion = 1

func (l *letterBody) encode() []byte {
	e := encoder{buf: make([]byte, 0, 64+len(l.text)+len(l.payload))}
	e.byte(letterVersion)
	e.id(l.id)
	e.int(l.retries)
	e.int(l.attempts)
	e.int(l.enqueued)
	e.string(l.text)
	return append(e.buf, l.payload...)
}

// decode reads a body; its payload aliases raw.
func (l *letterBody) decode(raw []byte) error {
	d := decoder{buf: raw}
	if v := d.byte(); d.err == nil && v != letterVersion {
		d.fail("unknown version of a dead letter")
	}
	l.id = d.id()
	l.retries = d.int()
	l.attempts = d.int()
	l.enqueued = d.int()
	l.text = d.string()
	l.payload = d.buf
	return d.err
}

// letterFiling is a message about to become a dead letter, and the message.
type letterFiling struct {
	filing
	m segment.Message
}

// letterBox is where the dead letters of a queue go within one bundle: its
// internal partition may be made by the same bundle, and several letters of
// the bundle follow one another.
type letterBox struct {
	partition queend.PartitionID
	next      queend.Offset
}

// letterBox returns the box of a queue and plans the internal partition when
// there is none.
func (b *Broker) letterBox(t *bundle, q *queue) *letterBox {
	if box := t.boxes[q.id]; box != nil {
		return box
	}
	box := &letterBox{}
	if q.dlq != nil {
		box.partition, box.next = q.dlq.id, q.dlq.end
	} else {
		box.partition = b.reservePartition(t)
		t.add(&partitionNew{
			id: box.partition, queue: q.id, uuid: b.newID(t.stamp), name: internalPartition,
			created: t.stamp, internal: true,
		})
	}
	if t.boxes == nil {
		t.boxes = map[queend.QueueID]*letterBox{}
	}
	t.boxes[q.id] = box
	return box
}

// fileLetter adds the events that make a message of p a dead letter of the
// group (R30): its copy and its row. The row of the group is the caller's, in
// the same bundle.
func (b *Broker) fileLetter(t *bundle, g *group, p *partition, f *letterFiling) {
	m := f.m
	m.ID = b.newID(t.stamp)
	b.addLetter(t, p, g.name, f.m.Offset, &m, &letterBody{
		id: f.m.ID, retries: f.retries, attempts: f.attempts, enqueued: f.m.Time, text: f.text, payload: f.m.Payload,
	})
	t.count.DeadLetters++
}

// addLetter adds the events of a dead letter of p. m is its message but for
// the payload, which is the body.
func (b *Broker) addLetter(t *bundle, p *partition, group string, original queend.Offset, m *segment.Message, body *letterBody) {
	box := b.letterBox(t, p.q)
	m.Payload = body.encode()
	var e encoder
	appendMessage(&e, m)
	t.add(&pushed{partition: box.partition, first: box.next, raws: [][]byte{e.buf}})
	t.add(&deadLettered{id: m.ID, queue: p.q.id, group: group, partition: p.id, offset: original, at: box.next})
	box.next++
}

// deliveryLimit is the error of a dead letter that nobody acked (A3).
const deliveryLimit = "delivery limit reached"

// fileHead takes the message a claim would begin with, at head above the
// cursor of r, out of the way because it was delivered as often as the queue
// allows (A3): filed, or dropped with the dead letter queue off. It
// adds the events to the bundle; ready is false when the message must be
// loaded first. r has no live lease; it is not changed.
func (b *Broker) fileHead(t *bundle, messages *fetcher, p *partition, g *group, r *row, head queend.Offset) (ready bool) {
	next := r.clone()
	next.committed = head
	next.lane.release()
	next.lane.retry, next.lane.notBefore = 0, 0
	next.lane.resetAttempts()
	if p.q.opts.filesDeadLetters() {
		m, found, ready := messages.get(p, head)
		if !ready {
			return false
		}
		if found {
			b.fileLetter(t, g, p, &letterFiling{
				filing: filing{at: head, text: deliveryLimit, retries: r.lane.retry, attempts: r.lane.headAttempts}, m: m,
			})
		}
	}
	next.tidy()
	t.add(&rowSet{partition: p.id, row: *next})
	return true
}
