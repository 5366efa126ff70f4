package segment

import (
	"bytes"
	"math"
	"slices"

	"queend"
)

// IDs are the ids of consecutive messages of one run: of all, or of the blocks
// that overlap a range. They are immutable, and many in memory at a time: those
// of a run of one message should be small.
type IDs struct {
	first queend.Offset
	rows  []idRow
	// bytes are those of the transaction ids that are not the text of their id.
	bytes []byte
}

// idRow is one message.
type idRow struct {
	time int64
	id   queend.ID
	end  uint32 // of its transaction id in bytes, where that of the one before ends; a packed one has 16 there
	kind byte   // flags of the transaction id
}

// IDs returns the id columns of a run.
func (r *Reader) IDs(e Entry) (*IDs, error) { return r.IDsRange(e, e.First, e.Last) }

// IDsRange returns the id columns of the blocks of a run that hold offsets
// between from and to, both included.
func (r *Reader) IDsRange(e Entry, from, to queend.Offset) (*IDs, error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	h, err := r.head(e, 0, s)
	if err != nil {
		return nil, err
	}
	ids := &IDs{first: e.First}
	for st := range h.overlapping(from, to) {
		c, err := r.columns(&h, st, s)
		if err != nil {
			return nil, err
		}
		if len(ids.rows) == 0 {
			ids.first = st.first
		}
		if !ids.add(c) {
			return nil, r.damaged(damagedBlock(e.Partition, st.pos, "run has over 4 GiB of transaction ids"))
		}
	}
	return ids, nil
}

// add appends the messages of an id block.
func (d *IDs) add(c *columns) bool {
	d.rows = slices.Grow(d.rows, len(c.ids))
	for i, f := range c.flags {
		f &= flagPacked | flagVerbatim
		switch f {
		case flagPacked:
			at := 16 * c.packedAt[i]
			d.bytes = append(d.bytes, c.packed[at:at+16]...)
		case flagVerbatim:
			d.bytes = append(d.bytes, c.txnBytes[c.txns[i]:c.txns[i+1]]...)
		}
		d.rows = append(d.rows, idRow{c.times[i], c.ids[i], uint32(len(d.bytes)), f})
	}
	return uint64(len(d.bytes)) <= math.MaxUint32
}

// Len returns the number of messages; the others' index i is 0 <= i < Len.
func (d *IDs) Len() int { return len(d.rows) }

// Offset returns the offset of message i.
func (d *IDs) Offset(i int) queend.Offset { return d.first + queend.Offset(i) }

// Time returns the time of message i in microseconds.
func (d *IDs) Time(i int) int64 { return d.rows[i].time }

// ID returns the id of message i.
func (d *IDs) ID(i int) queend.ID { return d.rows[i].id }

// TxnID returns the transaction id of message i. The caller must not change it.
func (d *IDs) TxnID(i int) []byte {
	if d.rows[i].kind == flagVerbatim {
		return d.stored(i)
	}
	return d.AppendTxnID(nil, i)
}

// AppendTxnID appends the transaction id of message i to dst: TxnID without an
// allocation.
func (d *IDs) AppendTxnID(dst []byte, i int) []byte {
	switch d.rows[i].kind {
	case flagVerbatim:
		return append(dst, d.stored(i)...)
	case flagPacked:
		return queend.ID(d.stored(i)).Append(dst)
	}
	return d.rows[i].id.Append(dst)
}

// stored returns the bytes of a transaction id that has some of its own.
func (d *IDs) stored(i int) []byte {
	var from uint32
	if i > 0 {
		from = d.rows[i-1].end
	}
	to := d.rows[i].end
	return d.bytes[from:to:to]
}

// Find returns the first message from i on and before end whose transaction id
// is txn, end when there is none.
func (d *IDs) Find(txn []byte, i, end int) int {
	id, isUUID := packUUID(txn)
	for ; i < end; i++ {
		switch r := &d.rows[i]; r.kind {
		case flagVerbatim:
			if bytes.Equal(d.stored(i), txn) {
				return i
			}
		case flagPacked:
			if isUUID && queend.ID(d.stored(i)) == id {
				return i
			}
		default:
			if isUUID && r.id == id {
				return i
			}
		}
	}
	return end
}

// Size returns the bytes of memory that they take, for caches.
func (d *IDs) Size() int {
	return 80 + 32*cap(d.rows) + cap(d.bytes)
}
