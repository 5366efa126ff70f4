package fuzz

import (
	"fmt"

	"queend"
	"queend/broker"
)

// configureOp sets options.
type configureOp struct {
	Queue string
	Merge bool
	Set   []broker.Setting
}

func (o configureOp) run(h *harness) error {
	if h.bringsBack(o) {
		return nil
	}
	got, err := h.b.Configure(h.ctx, broker.Configure{
		Tenant: broker.DefaultTenant, Queue: o.Queue, Merge: o.Merge, Settings: o.Set,
	})
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	q := h.m.configure(o.Queue, o.Merge, o.Set)
	if got.Namespace != q.ns || got.Task != q.task {
		return fmt.Errorf("configure answers %q %q, want %q %q", got.Namespace, got.Task, q.ns, q.task)
	}
	for _, p := range h.parked {
		if p.call.Queue == o.Queue && !p.slept {
			p.unsure = true
		}
	}
	return nil
}

// bringsBack reports whether ids that may be forgotten would count again: the
// rules leave open whether they do.
func (h *harness) bringsBack(o configureOp) bool {
	q := h.m.queues[o.Queue]
	if q == nil {
		return false
	}
	trial := *q
	if !o.Merge {
		trial.opts = broker.DefaultOptions()
	}
	for _, s := range o.Set {
		setOption(&trial.opts, s)
	}
	was, will := h.m.ackWindow(q), h.m.ackWindow(&trial)
	for _, p := range q.order {
		for _, msg := range p.msgs {
			if will > was && msg.time < h.m.clock()-was+second {
				return true
			}
		}
	}
	return false
}

// deleteQueueOp removes a queue.
type deleteQueueOp struct{ Queue string }

func (o deleteQueueOp) run(h *harness) error {
	existed, err := h.b.DeleteQueue(h.ctx, broker.DefaultTenant, o.Queue)
	if err != nil {
		return fmt.Errorf("delete queue: %w", err)
	}
	if want := h.m.deleteQueue(o.Queue); existed != want {
		return fmt.Errorf("delete queue: existed %v, want %v", existed, want)
	}
	return nil
}

// deleteGroupOp drops the cursors of a group on a queue, or on all.
type deleteGroupOp struct {
	Group    string
	Queue    *string
	Metadata bool
}

func (o deleteGroupOp) run(h *harness) error {
	if !o.Metadata {
		for _, p := range h.parked {
			if p.call.Group == o.Group {
				return nil // when it registers again cannot be seen
			}
		}
	}
	byLabel, byQueue := false, false
	for _, p := range h.parked {
		byLabel = byLabel || p.call.Group == o.Group && p.call.Discovery
		byQueue = byQueue || p.call.Group == o.Group && !p.call.Discovery
	}
	if byLabel && byQueue {
		return nil // the first to register again says where the group begins
	}
	if h.m.isUnsure(o.Group) {
		return nil // how many cursors there are is open
	}
	n, err := h.b.DeleteGroup(h.ctx, broker.DefaultTenant, o.Group, o.Queue, o.Metadata)
	if err != nil {
		return fmt.Errorf("delete group: %w", err)
	}
	if want := h.m.deleteGroup(o.Group, o.Queue, o.Metadata); n != want {
		return fmt.Errorf("delete group: %d cursors, want %d", n, want)
	}
	return nil
}

// subscribeOp moves the stored start of a group.
type subscribeOp struct {
	Group string
	At    int64
}

func (o subscribeOp) run(h *harness) error {
	if h.m.isUnsure(o.Group) {
		return nil // which partitions it has met is open
	}
	n, err := h.b.SetSubscription(h.ctx, broker.DefaultTenant, o.Group, o.At)
	if err != nil {
		return fmt.Errorf("subscription: %w", err)
	}
	if want := h.m.setSubscription(o.Group, o.At); n != want {
		return fmt.Errorf("subscription: %d rows, want %d", n, want)
	}
	return nil
}

// seekOp moves a group on a partition, or on all with Part nil.
type seekOp struct {
	Queue, Group string
	Part         *string
	ToEnd        bool
	At           int64
}

func (o seekOp) run(h *harness) error {
	ctx, to := h.ctx, broker.SeekTarget{ToEnd: o.ToEnd, At: o.At}
	var n int
	var err error
	if o.Part == nil {
		n, err = h.b.SeekQueue(ctx, broker.DefaultTenant, o.Group, o.Queue, to)
	} else {
		var found bool
		if found, err = h.b.SeekPartition(ctx, broker.DefaultTenant, o.Group, o.Queue, *o.Part, to); found {
			n = 1
		}
	}
	if err != nil {
		return fmt.Errorf("seek: %w", err)
	}
	if want := h.m.seek(o.Queue, orText(o.Group, broker.QueueMode), o.Part, o.ToEnd, o.At); n != want {
		return fmt.Errorf("seek: %d partitions, want %d", n, want)
	}
	return nil
}

// replayOp moves dead letter N of those there are: by its address, else by
// its id, then to Queue and Part when they are set.
type replayOp struct {
	N           int
	Address     bool
	Queue, Part *string
	Producer    *string
}

func (o replayOp) run(h *harness) error {
	if len(h.m.letters) == 0 {
		_, err := h.b.ReplayByID(h.ctx, broker.DefaultTenant, queend.ID{1}, broker.ReplayTarget{}, nil)
		if refusal(err) != broker.CodeNotFound {
			return fmt.Errorf("replay of nothing: %v", err)
		}
		return nil
	}
	l := h.m.letters[o.N%len(h.m.letters)]
	var got broker.Replayed
	var err error
	queue, part, txn := l.q.name, l.part.name, "dlq:"+l.id.String()
	if o.Address {
		for _, other := range h.m.letters { // the newest of the address goes
			if other.part == l.part && other.msg.txn == l.msg.txn {
				l = other
			}
		}
		txn = ""
		got, err = h.b.ReplayByAddress(h.ctx, broker.DefaultTenant, l.part.uuid, []byte(l.msg.txn), o.Producer)
	} else {
		if o.Queue != nil {
			queue = *o.Queue
		}
		if o.Part != nil {
			part = *o.Part
		}
		got, err = h.b.ReplayByID(h.ctx, broker.DefaultTenant, l.id, broker.ReplayTarget{Queue: o.Queue, Partition: o.Part}, o.Producer)
	}
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return h.replayed(l, &got, queue, part, txn, o.Producer)
}

func (h *harness) replayed(l *mLetter, got *broker.Replayed, queue, part, txn string, producer *string) error {
	if got.LetterID != l.id || got.Group != l.group || string(got.OriginalTxn) != l.msg.txn {
		return fmt.Errorf("replay answers letter %s of %q, %q, want %s of %q, %q", got.LetterID, got.Group, got.OriginalTxn, l.id, l.group, l.msg.txn)
	}
	msg := h.m.replay(l, queue, part, txn, producer)
	if msg == nil {
		if !got.Duplicate || !got.Push.ID.IsZero() {
			return fmt.Errorf("replay: %+v, want a duplicate", got.Push)
		}
		return nil
	}
	want := mPushed{status: broker.PushQueued, msg: msg}
	if got.Duplicate {
		return fmt.Errorf("replay: duplicate %+v, want it queued", got.Push)
	}
	return want.matches(&got.Push, queue)
}

// lettersOp replays or deletes the dead letters of a query.
type lettersOp struct {
	Queue       *string
	Group, Part string
	Text        string
	Limit       int
	Replay      bool
}

func (o lettersOp) run(h *harness) error {
	ctx := h.ctx
	query := broker.DeadLetterQuery{
		Tenant: broker.DefaultTenant, Queue: o.Queue, Group: o.Group, Partition: o.Part, ErrorContains: o.Text, Limit: o.Limit,
	}
	chosen := h.m.chosen(o.Queue, o.Group, o.Part, o.Text)
	if !o.Replay {
		n, err := h.b.DeleteDeadLetters(ctx, query)
		if err != nil || n != len(chosen) {
			return fmt.Errorf("delete dead letters: %d, %v, want %d", n, err, len(chosen))
		}
		h.m.dropLetters(chosen)
		return nil
	}
	got, err := h.b.ReplayDeadLetters(ctx, query, false, nil)
	if err != nil {
		return fmt.Errorf("replay dead letters: %w", err)
	}
	want := broker.ReplaySummary{Matched: len(chosen), Remaining: len(chosen)}
	limit := o.Limit
	if limit <= 0 {
		limit = 1000
	}
	for _, l := range chosen[:min(limit, len(chosen))] {
		msg := h.m.replay(l, l.q.name, l.part.name, "dlq:"+l.id.String(), nil)
		if msg == nil {
			want.Duplicates++
			continue
		}
		want.Replayed++
		want.Remaining--
		if err := h.learnID(l.part, msg); err != nil {
			return err
		}
	}
	if got != want {
		return fmt.Errorf("replay dead letters: %+v, want %+v", got, want)
	}
	return nil
}

// learnID reads the id that the broker gave a message.
func (h *harness) learnID(p *mPart, msg *mMsg) error {
	out, err := h.b.Fetch(h.ctx, broker.FetchRequest{
		Tenant: broker.DefaultTenant, Entries: []broker.FetchEntry{{Queue: p.q.name, Partition: p.name, Offset: offset(msg.off), MaxBytes: 1}},
	})
	if err != nil || len(out[0].Records) == 0 {
		return fmt.Errorf("fetch offset %d: %v", msg.off, err)
	}
	msg.settleID(out[0].Records[0].ID)
	return nil
}

// deleteLetterOp removes one dead letter, or those of its address.
type deleteLetterOp struct {
	N       int
	Address bool
}

func (o deleteLetterOp) run(h *harness) error {
	if len(h.m.letters) == 0 {
		return nil
	}
	l := h.m.letters[o.N%len(h.m.letters)]
	gone := []*mLetter{l}
	if !o.Address {
		found, err := h.b.DeleteDeadLetter(h.ctx, broker.DefaultTenant, l.id)
		if err != nil || !found {
			return fmt.Errorf("delete dead letter: %v, %v", found, err)
		}
		h.m.dropLetters(gone)
		return nil
	}
	gone = gone[:0]
	for _, other := range h.m.letters {
		if other.part == l.part && other.msg.txn == l.msg.txn {
			gone = append(gone, other)
		}
	}
	n, err := h.b.DeleteAddress(h.ctx, broker.DefaultTenant, l.part.uuid, []byte(l.msg.txn))
	if err != nil || n != len(gone) {
		return fmt.Errorf("delete address: %d, %v, want %d", n, err, len(gone))
	}
	h.m.dropLetters(gone)
	return nil
}

// logOp reads everything by offset.
type logOp struct{}

func (o logOp) run(h *harness) error { return h.verifyLog() }
