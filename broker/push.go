package broker

import (
	"context"
	"slices"

	"queend"
)

// maxTxnBytes bounds a transaction id (docs/rules.md, S1).
const maxTxnBytes = 65535

// recordBytes is the size beyond which the rest of a push goes into a record
// of its own; one partition's messages stay together (docs/rules.md, S4).
const recordBytes = 16 << 20

// Why an item is refused for good.
const (
	errTooLarge = "too large: the items for one partition exceed QUEEN_ENTRY_MAX_BYTES"
	errNoKey    = "encryption required: no key is configured"
	errSeal     = "encryption failed"
)

// Push stores items, each (queue, partition) group whole or not at all, and
// answers in request order once they are durable. producer is the subject of
// the caller's token, nil without one.
//
// Errors are a *Refusal, which stored nothing, or a failure of the log.
func (b *Broker) Push(ctx context.Context, tenant queend.ID, producer *string, items []PushItem) ([]PushResult, error) {
	size := int64(0)
	for i := range items {
		it := &items[i]
		if it.Partition == "" {
			it.Partition = DefaultPartition
		}
		if err := checkNames(it.Queue, it.Partition, ""); err != nil {
			return nil, err
		}
		if len(it.TxnID) > maxTxnBytes {
			return nil, refuse(CodeBadRequest, "transactionId is longer than 65535 bytes")
		}
		size += int64(len(it.Payload) + len(it.TxnID) + len(it.Headers) + 64)
	}
	release, err := b.admit(ctx, size)
	if err != nil {
		return nil, err
	}
	defer release()
	return b.pushAdmitted(ctx, tenant, producer, items)
}

func (b *Broker) pushAdmitted(ctx context.Context, tenant queend.ID, producer *string, items []PushItem) ([]PushResult, error) {
	if len(items) > partItems {
		return b.pushParts(ctx, tenant, producer, items)
	}
	results, spool, err := b.storePush(ctx, tenant, producer, items, nil)
	if spool {
		return b.spoolPush(ctx, tenant, producer, items)
	}
	return results, err
}

// storePush stores items, or says that maintenance wants them spooled. Items
// from the spool are stored in any case, all or none, and with them, in the
// same record, how far the spool is drained; they must fit into one record.
func (b *Broker) storePush(ctx context.Context, tenant queend.ID, producer *string, items []PushItem, drained *spoolDrained) (results []PushResult, spool bool, err error) {
	results, lsn, spool, err := b.planPush(tenant, producer, items, drained, true)
	if spool || err != nil {
		return nil, spool, err
	}
	if err := b.await(ctx, lsn); err != nil {
		return nil, false, err
	}
	b.meters.pushed(results)
	return results, false, nil
}

// planPush does the work of storePush but for waiting until lsn is durable.
// first is set for the first part of a request, by which it is counted.
func (b *Broker) planPush(tenant queend.ID, producer *string, items []PushItem, drained *spoolDrained, first bool) (results []PushResult, lsn queend.LSN, spool bool, err error) {
	f := b.newFinder()
	defer f.release()
	results = make([]PushResult, len(items))
	for {
		var ready bool
		b.locked(func() {
			if spool = b.state.maintenance && drained == nil; spool {
				return
			}
			t := b.begin()
			p := b.newPusher(t, f, tenant, producer)
			p.size = len(items)
			ready = true
			for i := range items {
				out, ok := p.add(&items[i])
				ready = ready && ok
				results[i] = out.PushResult
			}
			if !ready {
				return
			}
			p.refuseOver(items, results)
			if drained != nil && slices.ContainsFunc(results, PushResult.failed) {
				return
			}
			if first {
				t.count.PushRequests++
			}
			lsn = p.commit(drained)
		})
		if spool || ready {
			return results, lsn, spool, nil
		}
		if err := f.load(); err != nil {
			return nil, 0, false, err
		}
	}
}
