package broker

import (
	"queend"
	"queend/dedup"
)

// recentIDs keeps the hashes of ids in memory beyond the flush that moved their
// messages to segments. A push most often brings an id nobody has seen, into a
// partition with many runs that are all within the duplicate window: the table
// says at once that none of them has it, where the runs would have to be asked
// one by one.
//
// The table (state.fresh) is filled in generations. One is sealed at the
// beginning of each flush and may go once the flush is done, oldest first.
type recentIDs struct {
	sealed []sealedIDs // some of whose messages may be in tails only
	kept   []sealedIDs // whose messages are all in runs
	// floor is a stamp: the id of every message stamped above it is in the
	// table, and of every message in a tail.
	floor  int64
	budget int // bytes of the table beyond which what is kept goes
}

// sealedIDs is a generation that takes no more ids.
type sealedIDs struct {
	number uint64
	last   int64 // stamp of the last record before it was sealed
}

// seal closes the current generation and returns how many are sealed.
func (r *recentIDs) seal(s *state) int {
	r.sealed = append(r.sealed, sealedIDs{s.fresh.Seal(), s.lastStamp})
	return len(r.sealed)
}

// flushed says that the messages of the n oldest sealed generations are in runs.
// Ids stamped below since matter to nobody.
func (r *recentIDs) flushed(s *state, n int, since int64) {
	r.kept = append(r.kept, r.sealed[:n]...)
	r.sealed = append([]sealedIDs(nil), r.sealed[n:]...)
	for len(r.kept) > 0 && (s.fresh.Bytes() > r.budget || r.kept[0].last < since) {
		s.fresh.Drop(r.kept[0].number)
		r.floor = max(r.floor, r.kept[0].last)
		r.kept = r.kept[1:]
	}
}

// covers reports whether the table has every id of run i of a partition and of
// the runs behind it: stamps rise from run to run.
func (r *recentIDs) covers(p *partition, i int) bool {
	if i == 0 {
		return p.created > r.floor
	}
	return p.runs[i-1].LastTime > r.floor
}

// hashIn is where the table has an id with this hash (segment.Hash).
func hashIn(p *partition, hash uint64) uint64 { return dedup.Hash(p.id, hash) }

// longestWindow is how far back ids matter in any queue, in microseconds.
func (b *Broker) longestWindow() int64 {
	longest := int64(0)
	for _, q := range b.state.queues {
		longest = max(longest, q.opts.ackWindow(b.cfg.TxnWindowSeconds*Second))
	}
	return longest
}

// inFresh searches the table. What it gives are candidates: the message at an
// offset may have another id, or be known no more.
func (f *finder) inFresh(p *partition, w wanted, lo, hi queend.Offset) (m match, ready bool) {
	ready = true
	f.b.state.fresh.Lookup(hashIn(p, w.hash), func(off queend.Offset) bool {
		if off < lo || off > hi || m.found && off > m.off {
			return true
		}
		id, same, ok := f.compare(p, w, off)
		if ready = ready && ok; same {
			m = match{true, off, id}
		}
		return true
	})
	return m, ready
}
