package broker

import (
	"context"
	"errors"

	"queend"
	"queend/segment"
)

// ReplayTarget says where a dead letter goes. What is nil is where its
// message came from.
type ReplayTarget struct {
	Queue     *string
	Partition *string
}

// Replayed is what became of a dead letter that was pushed again.
type Replayed struct {
	Duplicate   bool // the destination's window holds the id already: nothing written
	Push        PushResult
	Partition   string // destination
	Group       string
	LetterID    queend.ID
	OriginalTxn []byte
}

// errLetterGone refuses a replay of what is no dead letter (any more).
var errLetterGone = refuse(CodeNotFound, "Message not found")

// errReplayMaintenance refuses replays while pushes go to the spool (R120).
var errReplayMaintenance = refuse(CodeMaintenance, "push maintenance is on")

// replay moves one dead letter: it is pushed and its row goes in one record,
// or nothing happens. The message starts a new life at the end of its
// partition, without a trace of its failures.
type replay struct {
	b        *Broker
	tenant   queend.ID
	producer *string
	to       ReplayTarget
	fresh    bool // under the new message's own id, else under dlq:<id>
	find     func(f *finder) (l *deadLetter, ready bool)

	f        *finder
	messages *fetcher
	chosen   *deadLetter // the one item was made from
	item     PushItem
	admitted func() // gives the write budget back
	out      Replayed
	lsn      queend.LSN
}

// ReplayByID moves the dead letter with this id, as transaction id
// "dlq:<id>", to its own place or to the target's. producer is the subject of
// the caller's token.
//
// A *Refusal leaves the row: CodeNotFound, CodeMaintenance, those of a push.
func (b *Broker) ReplayByID(ctx context.Context, tenant, id queend.ID, to ReplayTarget, producer *string) (Replayed, error) {
	r := b.replayOf(tenant, id, producer)
	r.to = to
	return r.answer(ctx)
}

// ReplayByAddress moves the newest dead letter of an address to the end of
// its own partition under a fresh transaction id, its new message id.
// Refusals are those of ReplayByID.
func (b *Broker) ReplayByAddress(ctx context.Context, tenant, partitionUUID queend.ID, txn []byte, producer *string) (Replayed, error) {
	r := &replay{b: b, tenant: tenant, producer: producer, fresh: true}
	r.find = func(f *finder) (*deadLetter, bool) {
		p := b.state.byUUID(partitionUUID)
		if p == nil || p.q.tenant != tenant {
			return nil, true
		}
		all, ready := b.lettersAt(f, p, txn)
		if len(all) == 0 {
			return nil, ready
		}
		return all[len(all)-1], ready
	}
	return r.answer(ctx)
}

func (b *Broker) replayOf(tenant, id queend.ID, producer *string) *replay {
	return &replay{b: b, tenant: tenant, producer: producer, find: func(*finder) (*deadLetter, bool) {
		l := b.state.dead[id]
		if l == nil || l.q.tenant != tenant {
			return nil, true
		}
		return l, true
	}}
}

// answer carries the replay out and waits until it is durable.
func (r *replay) answer(ctx context.Context) (Replayed, error) {
	if err := r.run(ctx); err != nil {
		return r.out, err
	}
	return r.out, r.b.await(ctx, r.lsn)
}

// run carries the replay out; what it wrote is durable with r.lsn.
func (r *replay) run(ctx context.Context) error {
	r.f, r.messages = r.b.newFinder(), r.b.newFetcher()
	defer r.f.release()
	defer func() {
		if r.admitted != nil {
			r.admitted()
		}
	}()
	for {
		var step replayStep
		var stored []byte
		var err error
		r.b.locked(func() { step, stored, err = r.plan() })
		switch {
		case err != nil:
			return err
		case step == replayDone:
			return nil
		case step == replayPrepare:
			err = r.prepare(ctx, stored)
		case step == replayRead:
			if err = r.f.load(); err == nil {
				err = r.messages.load()
			}
		}
		if err != nil {
			return err
		}
	}
}

// replayStep is what a look at a replay led to.
type replayStep uint8

const (
	_             replayStep = iota
	replayDone               // it is in the log, or is a duplicate
	replayRead               // something must be read from disk
	replayPrepare            // the payload is there and not opened yet
)

// plan looks at the dead letter and moves it once its payload is prepared.
// With replayPrepare it returns the payload as stored.
func (r *replay) plan() (replayStep, []byte, error) {
	b := r.b
	r.lsn = b.log.Last()
	if b.state.maintenance {
		return 0, nil, errReplayMaintenance
	}
	l, ready := r.find(r.f)
	if !ready {
		return replayRead, nil, nil
	}
	if l == nil {
		return 0, nil, errLetterGone
	}
	letter, m, found, ready := b.letter(r.messages, l)
	switch {
	case !ready:
		return replayRead, nil, nil
	case !found:
		return 0, nil, errLetterGone
	case r.chosen != l:
		r.describe(l, &letter, &m)
		return replayPrepare, letter.Payload, checkNames(r.item.Queue, r.item.Partition, "")
	}
	return r.move()
}

// describe makes the item that the dead letter is pushed as.
func (r *replay) describe(l *deadLetter, letter *DeadLetter, m *segment.Message) {
	r.chosen = l
	r.item = PushItem{Queue: letter.Queue, Partition: letter.Partition, TraceID: m.TraceID, Headers: m.Headers}
	if r.to.Queue != nil {
		r.item.Queue = *r.to.Queue
	}
	if r.to.Partition != nil {
		r.item.Partition = *r.to.Partition
	}
	if !r.fresh {
		r.item.TxnID = append([]byte("dlq:"), l.id.String()...)
	}
	r.out = Replayed{Partition: r.item.Partition, Group: l.group, LetterID: l.id, OriginalTxn: letter.TxnID}
}

// prepare opens the payload and reserves its bytes in the write budget,
// outside the lock. What does not open is stored again as it is (R103,
// S20).
func (r *replay) prepare(ctx context.Context, stored []byte) error {
	payload, opened := r.b.open(stored)
	r.item.Payload = payload
	r.item.sealed = !opened && isSealed(stored)
	if r.admitted != nil {
		r.admitted()
		r.admitted = nil
	}
	release, err := r.b.admit(ctx, int64(len(payload)+len(r.item.Headers)+len(r.item.TxnID)+64))
	r.admitted = release
	return err
}

// move pushes the item and removes the row, in one record.
func (r *replay) move() (replayStep, []byte, error) {
	t := r.b.begin()
	p := r.b.newPusher(t, r.f, r.tenant, r.producer)
	out, ready := p.add(&r.item)
	if !ready {
		return replayRead, nil, nil
	}
	r.out.Push = out.PushResult
	switch out.Status {
	case PushDuplicate:
		r.out.Duplicate = true
		r.out.Push.ID = queend.ID{}
		return replayDone, nil, nil
	case PushFailed:
		return 0, nil, refuse(CodeBadRequest, out.Error)
	}
	p.finish()
	t.add(&deadLetterGone{id: r.chosen.id})
	r.lsn = r.b.commit(t)
	return replayDone, nil, nil
}

// ReplaySummary is the outcome of a bulk replay (A4).
type ReplaySummary struct {
	Matched    int // dead letters the query chooses, whatever the limit
	Replayed   int
	Duplicates int
	Failed     int
	Remaining  int // matched ones that are still there
}

// defaultReplayLimit is how many dead letters a bulk replay moves when it
// names no limit.
const defaultReplayLimit = 1000

// ReplayDeadLetters moves the dead letters a query chooses, the oldest
// failure first, each as ReplayByID does and at most Limit of them (0: 1000).
// With dryRun it only counts. A write budget or a disk that is full ends it;
// that is an error only when nothing was moved.
func (b *Broker) ReplayDeadLetters(ctx context.Context, query DeadLetterQuery, dryRun bool, producer *string) (ReplaySummary, error) {
	chosen, lsn := b.chooseLetters(&query)
	if query.ErrorContains != "" {
		var err error
		if chosen, err = b.keepByError(chosen, query.ErrorContains); err != nil {
			return ReplaySummary{}, err
		}
	}
	sum := ReplaySummary{Matched: len(chosen), Remaining: len(chosen)}
	if query.Limit <= 0 {
		query.Limit = defaultReplayLimit
	}
	if dryRun {
		chosen = nil
	}
	for _, l := range chosen[:min(len(chosen), query.Limit)] {
		r := b.replayOf(query.Tenant, l.id, producer)
		err := r.run(ctx)
		if stop := sum.note(r, err); stop {
			if sum.Replayed == 0 {
				return sum, err
			}
			break
		}
		lsn = max(lsn, r.lsn)
	}
	return sum, b.await(ctx, lsn)
}

// note counts one replay; stop says that the others would fare no better.
func (s *ReplaySummary) note(r *replay, err error) (stop bool) {
	var refusal *Refusal
	switch {
	case err == nil && r.out.Duplicate:
		s.Duplicates++
	case err == nil:
		s.Replayed++
		s.Remaining--
	case err == errLetterGone:
		s.Remaining-- // somebody else was faster
	case errors.As(err, &refusal) && refusal.Code == CodeBadRequest:
		s.Failed++
	default:
		return true
	}
	return false
}
