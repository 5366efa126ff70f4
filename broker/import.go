package broker

import (
	"context"
	"fmt"

	"queend"
	"queend/segment"
)

// Import is what of a queue another broker had and a push cannot bring: where
// its groups are, and its dead letters. The queue is there, and its messages
// have been pushed.
type Import struct {
	Tenant  queend.ID
	Queue   string
	Groups  []ImportGroup
	Letters []ImportLetter // oldest failure first
}

// ImportGroup is a group with its cursors.
type ImportGroup struct {
	Name       string
	Mode       string // as listings show it
	Start      int64  // microseconds; partitions without a cursor are read from then, negative: from their beginning
	Conflation bool
	Cursors    []ImportCursor
}

// ImportCursor is where a group goes on in a partition.
type ImportCursor struct {
	Partition string
	Next      queend.Offset // first message that is not done
}

// ImportLetter is a dead letter.
type ImportLetter struct {
	ID        queend.ID // as it was: whoever imports it again finds it known
	Partition string
	Group     string
	Offset    queend.Offset // of the message in its partition here, queend.NoOffset when it is not there
	TxnID     []byte
	Producer  *string
	Headers   []byte // a JSON object, checked; nil: none
	Payload   []byte // JSON, verbatim
	Error     string
	Retries   int64
	Attempts  int64
	Enqueued  int64 // microseconds
}

// Imported counts what an import made. Known is what was there already and
// stayed as it is: cursors of groups that are at work, and dead letters.
type Imported struct {
	Groups, Cursors, Letters, Known int
}

// Import makes groups, cursors and dead letters, all or nothing. Partitions
// that are missing are made, a group that exists keeps its registration, and
// a cursor that exists stays. Dead letters are filed now, that is their
// failure's time.
//
// A *Refusal changes nothing: CodeNotFound without the queue,
// CodeMaintenance, those of a push.
func (b *Broker) Import(ctx context.Context, in Import) (Imported, error) {
	size, err := in.check()
	if err != nil {
		return Imported{}, err
	}
	release, err := b.admit(ctx, size)
	if err != nil {
		return Imported{}, err
	}
	defer release()
	var lsn queend.LSN
	var out Imported
	b.locked(func() {
		q := b.state.queue(in.Tenant, in.Queue)
		switch {
		case b.state.maintenance:
			err = errReplayMaintenance
		case q == nil || q.isHidden():
			err = refuse(CodeNotFound, "Queue not found")
		default:
			p := importing{b: b, t: b.begin(), q: q, made: map[string]*partition{}, letters: map[queend.ID]bool{}}
			if out, err = p.plan(&in); err == nil {
				lsn = b.commit(p.t)
			}
		}
	})
	if err != nil {
		return Imported{}, err
	}
	return out, b.await(ctx, lsn)
}

// check refuses names and ids that are too long, and returns the bytes that
// the import takes of the write budget.
func (in *Import) check() (size int64, err error) {
	for i := range in.Groups {
		g := &in.Groups[i]
		if g.Name == "" {
			g.Name = QueueMode
		}
		if err := checkNames(in.Queue, "", g.Name); err != nil {
			return 0, err
		}
		for k := range g.Cursors {
			if err := checkNames(in.Queue, g.Cursors[k].Partition, g.Name); err != nil {
				return 0, err
			}
		}
		size += int64(64 * (1 + len(g.Cursors)))
	}
	for i := range in.Letters {
		l := &in.Letters[i]
		if l.Group == "" {
			l.Group = QueueMode
		}
		if err := checkNames(in.Queue, l.Partition, l.Group); err != nil {
			return 0, err
		}
		if len(l.TxnID) > maxTxnBytes {
			return 0, refuse(CodeBadRequest, "transactionId is longer than 65535 bytes")
		}
		size += int64(len(l.Payload) + len(l.Headers) + len(l.TxnID) + len(l.Error) + 128)
	}
	return size, nil
}

// importing plans an import into a bundle.
type importing struct {
	b       *Broker
	t       *bundle
	q       *queue
	made    map[string]*partition // by the bundle
	letters map[queend.ID]bool    // filed by the bundle
	out     Imported
}

func (p *importing) plan(in *Import) (Imported, error) {
	for i := range in.Groups {
		if err := p.group(&in.Groups[i]); err != nil {
			return p.out, err
		}
	}
	for i := range in.Letters {
		if err := p.letter(&in.Letters[i]); err != nil {
			return p.out, err
		}
	}
	return p.out, nil
}

// partition finds a partition, or plans it.
func (p *importing) partition(name string) *partition {
	if name == "" {
		name = DefaultPartition
	}
	if found := p.b.state.partition(p.q, name); found != nil {
		return found
	}
	if planned := p.made[name]; planned != nil {
		return planned
	}
	planned := &partition{q: p.q, name: name, facts: &facts{id: p.b.reservePartition(p.t)}}
	p.made[name] = planned
	p.t.add(&partitionNew{id: planned.id, queue: p.q.id, uuid: p.b.newID(p.t.stamp), name: name, created: p.t.stamp})
	return planned
}

func (p *importing) group(in *ImportGroup) error {
	id := queend.GroupID(0)
	switch known := p.q.groups[in.Name]; {
	case known == nil:
		id = p.register(in)
	case !known.popped:
		id = known.id
		p.t.add(known.event(func(ev *groupSet) { ev.popped = true }))
	default:
		id = known.id
	}
	for _, c := range in.Cursors {
		at := p.partition(c.Partition)
		if c.Next < 0 || c.Next > at.end {
			return refuse(CodeBadRequest, fmt.Sprintf("partition %q has no place %d for a cursor, it ends at %d", at.name, c.Next, at.end))
		}
		if at.rows.find(id) != nil {
			p.out.Known++
			continue
		}
		r := row{group: id, committed: c.Next - 1}
		if c.Next > at.start {
			r.lastDelivery = p.t.stamp // it has consumed something, and is not listed as dead
		}
		p.t.add(&rowSet{partition: at.id, row: r})
		p.out.Cursors++
	}
	return nil
}

// register plans a group that the queue does not have.
func (p *importing) register(in *ImportGroup) queend.GroupID {
	sub := subscription{in.Mode, in.Start}
	switch {
	case in.Name == QueueMode || in.Start < 0:
		sub = subscription{"all", always}
	case in.Mode != "new" && in.Mode != "all":
		sub.mode = "timestamp"
	}
	ev := &groupSet{
		id: p.b.reserveGroup(p.t), queue: p.q.id, name: in.Name, created: p.t.stamp, mode: sub.mode,
		conflation: in.Conflation && in.Name != QueueMode, seed: sub.seed, start: sub.seed, seedMax: p.b.state.lastPartition, popped: true,
	}
	p.t.add(ev)
	p.out.Groups++
	return ev.id
}

func (p *importing) letter(in *ImportLetter) error {
	if in.ID.IsZero() {
		in.ID = p.b.newID(p.t.stamp)
	}
	if p.letters[in.ID] || p.b.state.dead[in.ID] != nil {
		p.out.Known++
		return nil
	}
	item := plannedItem{payload: in.Payload}
	if reason := p.b.encrypt(&p.q.opts, &item); reason != "" {
		return refuse(CodeBadRequest, reason)
	}
	m := segment.Message{ID: in.ID, TxnID: in.TxnID, Headers: in.Headers, Encrypted: item.sealed}
	if in.Producer != nil {
		m.Producer, m.HasProducer = []byte(*in.Producer), true
	}
	p.b.addLetter(p.t, p.partition(in.Partition), in.Group, in.Offset, &m, &letterBody{
		retries: in.Retries, attempts: in.Attempts, enqueued: in.Enqueued, text: in.Error, payload: item.payload,
	})
	p.letters[in.ID] = true
	p.out.Letters++
	return nil
}
