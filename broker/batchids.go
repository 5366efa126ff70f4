package broker

import (
	"queend"
	"queend/segment"
)

// batchIDs are the transaction ids of the messages a lane was given last: what
// its acks will name. They spare the finder, which would read the disk for what
// has just been there. Which ids stand at which offsets never changes, so they
// are right for as long as they are kept, whatever becomes of the lease.
type batchIDs struct {
	from   queend.Offset // of the first id
	oldest int64         // its stamp; stamps rise with offsets
	text   []byte        // all ids, one after the other
	ends   []uint32      // in text
	// slots find an id by its hash: open addressing with linear probing, the
	// place of an id plus one; lower places were put first.
	slots []uint32
}

// laneKey names a lane, also one that is gone: numbers are not used twice.
type laneKey struct {
	partition queend.PartitionID
	group     queend.GroupID
}

// batchIDBytes bounds the ids kept of all batches that wait for their acks.
// Those that do not fit are looked up.
const batchIDBytes = 16 << 20

// batchIDsOf copies the ids of messages with consecutive offsets, one or more.
// Ids that take more than may be kept give nil.
func batchIDsOf(messages []Delivered) *batchIDs {
	size := 0
	for i := range messages {
		size += len(messages[i].TxnID)
	}
	if size > batchIDBytes {
		return nil
	}
	slots := 4
	for slots < 2*len(messages) {
		slots *= 2
	}
	both := make([]uint32, len(messages)+slots)
	b := &batchIDs{
		from: messages[0].Offset, oldest: messages[0].Time,
		text: make([]byte, 0, size), ends: both[:0:len(messages)], slots: both[len(messages):],
	}
	for i := range messages {
		txn := messages[i].TxnID
		b.text = append(b.text, txn...)
		b.ends = append(b.ends, uint32(len(b.text)))
		at := segment.Hash(txn) & uint64(slots-1)
		for b.slots[at] != 0 {
			at = (at + 1) & uint64(slots-1)
		}
		b.slots[at] = uint32(i) + 1
	}
	return b
}

// size is the bytes of memory they take, for the cache.
func (b *batchIDs) size() int { return 160 + cap(b.text) + 4*(cap(b.ends)+cap(b.slots)) }

// covers reports whether find knows all about the offsets from lo up to hi, of
// messages stamped at or after since.
func (b *batchIDs) covers(since int64, lo, hi queend.Offset) bool {
	return b != nil && since <= b.oldest && lo >= b.from && hi < b.from+queend.Offset(len(b.ends))
}

// find returns the lowest offset from lo up to hi that has an id. The range
// must be covered.
func (b *batchIDs) find(txn []byte, lo, hi queend.Offset) (queend.Offset, bool) {
	mask := uint64(len(b.slots) - 1)
	for at := segment.Hash(txn) & mask; b.slots[at] != 0; at = (at + 1) & mask {
		i := b.slots[at] - 1
		off := b.from + queend.Offset(i)
		if off >= lo && off <= hi && string(b.id(i)) == string(txn) {
			return off, true
		}
	}
	return queend.NoOffset, false
}

// id returns the id at a place.
func (b *batchIDs) id(i uint32) []byte {
	var from uint32
	if i > 0 {
		from = b.ends[i-1]
	}
	return b.text[from:b.ends[i]]
}

// remember keeps the ids that a pop gives out under a lease, for their acks.
func (p *popper) remember() {
	if p.result.LeaseID.IsZero() {
		return
	}
	rest := p.result.Messages
	for i := range p.result.giveBack {
		c := &p.result.giveBack[i]
		if ids := batchIDsOf(rest[:c.messages]); ids != nil {
			p.b.storage.batches.Put(laneKey{c.p.id, c.g.id}, ids, ids.size())
		}
		rest = rest[c.messages:]
	}
}
