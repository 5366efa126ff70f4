package broker

import (
	"context"

	"queend"
)

// deleteChunk is how many rows one record removes, so that a purge of many
// does not hold the lock for long.
const deleteChunk = 4096

// DeleteDeadLetter removes one dead letter and reports whether it was there.
func (b *Broker) DeleteDeadLetter(ctx context.Context, tenant, id queend.ID) (bool, error) {
	var lsn queend.LSN
	found := false
	b.locked(func() {
		t := b.begin()
		if l := b.state.dead[id]; l != nil && l.q.tenant == tenant {
			found = true
			t.add(&deadLetterGone{id: id})
		}
		lsn = b.commit(t)
	})
	return found, b.await(ctx, lsn)
}

// DeleteAddress removes the dead letters of an address, those of all groups,
// and returns how many there were (docs/rules.md, S6).
func (b *Broker) DeleteAddress(ctx context.Context, tenant, partitionUUID queend.ID, txn []byte) (int, error) {
	f := b.newFinder()
	defer f.release()
	var lsn queend.LSN
	n := 0
	for ready := false; !ready; {
		b.locked(func() {
			t := b.begin()
			var all []*deadLetter
			ready = true
			if p := b.state.byUUID(partitionUUID); p != nil && p.q.tenant == tenant {
				all, ready = b.lettersAt(f, p, txn)
			}
			if !ready {
				return
			}
			for _, l := range all {
				t.add(&deadLetterGone{id: l.id})
			}
			n = len(all)
			lsn = b.commit(t)
		})
		if ready {
			break
		}
		if err := f.load(); err != nil {
			return 0, err
		}
	}
	return n, b.await(ctx, lsn)
}

// DeleteDeadLetters removes the dead letters a query chooses, whatever its
// Limit and Offset, and returns how many those were (A4).
func (b *Broker) DeleteDeadLetters(ctx context.Context, query DeadLetterQuery) (int, error) {
	chosen, lsn := b.chooseLetters(&query)
	if query.ErrorContains != "" {
		var err error
		if chosen, err = b.keepByError(chosen, query.ErrorContains); err != nil {
			return 0, err
		}
	}
	n := 0
	for len(chosen) > 0 {
		some := chosen[:min(len(chosen), deleteChunk)]
		chosen = chosen[len(some):]
		b.locked(func() {
			t := b.begin()
			for _, l := range some {
				if b.state.dead[l.id] == l {
					n++
					t.add(&deadLetterGone{id: l.id})
				}
			}
			lsn = b.commit(t)
		})
	}
	return n, b.await(ctx, lsn)
}
