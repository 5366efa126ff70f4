package broker

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"queend"
	"queend/segment"
)

// DeadLetterQuery chooses dead letters of a tenant. What is left zero chooses
// all.
type DeadLetterQuery struct {
	Tenant        queend.ID
	Queue         *string // nil: every queue; "" is a name
	Group         string
	Partition     string // name
	ErrorContains string
	From, To      int64 // of the failure, microseconds, To excluded; 0: open
	Limit, Offset int   // a page; Limit 0 or less: none
}

// DeadLetter is one dead letter as a client sees it (S6, A5).
type DeadLetter struct {
	ID            queend.ID
	MessageID     queend.ID // the original's
	TxnID         []byte
	Queue         string
	Partition     string
	PartitionUUID queend.ID
	Offset        queend.Offset // the original's
	Group         string
	Error         string
	RetryCount    int64
	Attempts      int64
	FailedAt      int64 // microseconds
	EnqueuedAt    int64 // microseconds
	Producer      []byte
	HasProducer   bool
	TraceID       queend.ID
	Headers       []byte
	Payload       []byte // decrypted where that was possible
	Encrypted     bool   // it was decrypted for this read (R103)
}

// DeadLetterPage is a page of dead letters and how many the query chooses.
type DeadLetterPage struct {
	Letters []DeadLetter
	Total   int
}

// letterChunk is how many dead letters are read together.
const letterChunk = 16

// DeadLetters lists dead letters, the newest failure first. A page ends
// early, after at least one row, at Config.PopMaxBytes of payload.
func (b *Broker) DeadLetters(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	chosen, lsn := b.chooseLetters(&q)
	slices.Reverse(chosen)
	page := DeadLetterPage{Total: len(chosen)}
	bytes := int64(0)
	var err error
	if q.ErrorContains != "" {
		if chosen, err = b.keepByError(chosen, q.ErrorContains); err != nil {
			return page, err
		}
		page.Total = len(chosen)
	}
	chosen = chosen[min(max(q.Offset, 0), len(chosen)):]
	chosen = chosen[:min(max(q.Limit, 0), len(chosen))]
	err = b.readLetters(chosen, func(l DeadLetter) bool {
		bytes += int64(len(l.Payload))
		if bytes > b.cfg.PopMaxBytes && len(page.Letters) > 0 {
			return false
		}
		page.Letters = append(page.Letters, l)
		return true
	})
	if err != nil {
		return page, err
	}
	return page, b.await(ctx, lsn)
}

// chooseLetters returns the dead letters of a query, the oldest failure
// first, without its ErrorContains, Limit and Offset. lsn is the last record
// the answer may rest on. Sorting happens outside the lock: of a row only the
// epoch ever changes.
func (b *Broker) chooseLetters(query *DeadLetterQuery) (chosen []*deadLetter, lsn queend.LSN) {
	b.locked(func() {
		lsn = b.log.Last()
		if query.Queue != nil {
			if q := b.state.queue(query.Tenant, *query.Queue); q != nil {
				chosen = b.collectLetters(chosen, q, query)
			}
			return
		}
		for _, q := range b.state.queues {
			if q.tenant == query.Tenant {
				chosen = b.collectLetters(chosen, q, query)
			}
		}
	})
	slices.SortFunc(chosen, func(x, y *deadLetter) int {
		return cmp.Or(cmp.Compare(x.failedAt, y.failedAt), cmp.Compare(x.at, y.at), slices.Compare(x.id[:], y.id[:]))
	})
	return chosen, lsn
}

func (b *Broker) collectLetters(to []*deadLetter, q *queue, query *DeadLetterQuery) []*deadLetter {
	var only *partition
	if query.Partition != "" {
		if only = b.state.partition(q, query.Partition); only == nil {
			return to
		}
	}
	for _, l := range q.letters {
		if only != nil && l.part != only.id || query.Group != "" && l.group != query.Group ||
			l.failedAt < query.From || query.To != 0 && l.failedAt >= query.To {
			continue
		}
		to = append(to, l)
	}
	return to
}

// keepByError keeps the dead letters whose error contains the text.
func (b *Broker) keepByError(all []*deadLetter, text string) ([]*deadLetter, error) {
	matching := map[queend.ID]bool{}
	err := b.readLetters(all, func(l DeadLetter) bool {
		if strings.Contains(l.Error, text) {
			matching[l.ID] = true
		}
		return true
	})
	kept := all[:0]
	for _, l := range all {
		if matching[l.id] {
			kept = append(kept, l)
		}
	}
	return kept, err
}

// readLetters reads dead letters in order and hands them to visit until that
// returns false. Those removed meanwhile are left out. It holds some at a
// time in memory, and payloads are opened outside the lock.
func (b *Broker) readLetters(all []*deadLetter, visit func(DeadLetter) bool) error {
	messages := b.newFetcher()
	for len(all) > 0 {
		n := min(len(all), letterChunk)
		var got []DeadLetter
		for ready := false; !ready; {
			b.locked(func() { got, ready = b.gatherLetters(messages, all[:n]) })
			if ready {
				break
			}
			if err := messages.load(); err != nil {
				return err
			}
		}
		for i := range got {
			got[i].Payload, got[i].Encrypted = b.open(got[i].Payload)
			if !visit(got[i]) {
				return nil
			}
		}
		messages.forget()
		all = all[n:]
	}
	return nil
}

// gatherLetters returns the dead letters that are still there.
func (b *Broker) gatherLetters(messages *fetcher, some []*deadLetter) (got []DeadLetter, ready bool) {
	ready = true
	for _, l := range some {
		if b.state.dead[l.id] != l {
			continue
		}
		letter, _, found, ok := b.letter(messages, l)
		ready = ready && ok
		if found && ok {
			got = append(got, letter)
		}
	}
	return got, ready
}

// letter reads one dead letter as far as memory or the fetcher has it, with
// the payload as stored. found is false when its queue goes away.
func (b *Broker) letter(messages *fetcher, l *deadLetter) (d DeadLetter, m segment.Message, found, ready bool) {
	p := b.state.partitions.get(l.part)
	if l.q.dlq == nil || p == nil {
		return d, m, false, true
	}
	m, found, ready = messages.get(l.q.dlq, l.at)
	if !found || !ready {
		return d, m, false, ready
	}
	var body letterBody
	if err := body.decode(m.Payload); err != nil {
		panic("broker: dead letter " + l.id.String() + ": " + err.Error())
	}
	return DeadLetter{
		ID: l.id, MessageID: body.id, TxnID: m.TxnID, Queue: l.q.name, Partition: p.name, PartitionUUID: p.uuid,
		Offset: l.offset, Group: l.group, Error: body.text, RetryCount: body.retries, Attempts: body.attempts,
		FailedAt: l.failedAt, EnqueuedAt: body.enqueued, Producer: m.Producer, HasProducer: m.HasProducer,
		TraceID: m.TraceID, Headers: m.Headers, Payload: body.payload,
	}, m, true, true
}

// lettersAt finds the dead letters of an address, the oldest first: the
// internal partition keeps every message under its original transaction id.
func (b *Broker) lettersAt(f *finder, p *partition, txn []byte) (found []*deadLetter, ready bool) {
	box := p.q.dlq
	if box == nil || p.letters == 0 {
		return nil, true
	}
	for lo := box.start; lo < box.end; {
		m, ready := f.lookup(box, txn, 0, lo, box.end-1)
		if !ready {
			return nil, false
		}
		if !m.found {
			break
		}
		if l := b.state.dead[m.id]; l != nil && l.part == p.id {
			found = append(found, l)
		}
		lo = m.off + 1
	}
	return found, true
}
