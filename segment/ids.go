package segment

import (
	"bytes"
	"math"
	"sort"

	"queend"
)

// IDs are the id columns of consecutive messages of one run: of all, or of the
// blocks that overlap a range. It is immutable.
type IDs struct {
	first queend.Offset
	times []int64
	ids   []queend.ID
	kinds []byte // flags of the transaction ids
	// others are the messages whose transaction id is not the text of their id,
	// rising, with the end of their bytes in bytes; a packed one has 16 there.
	others []other
	bytes  []byte
}

type other struct {
	i   uint32
	end uint32
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
		if len(ids.ids) == 0 {
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
	base := len(d.ids)
	d.times = append(d.times, c.times...)
	d.ids = append(d.ids, c.ids...)
	for i, f := range c.flags {
		switch f &= flagPacked | flagVerbatim; f {
		case flagPacked:
			at := 16 * c.packedAt[i]
			d.bytes = append(d.bytes, c.packed[at:at+16]...)
		case flagVerbatim:
			d.bytes = append(d.bytes, c.txnBytes[c.txns[i]:c.txns[i+1]]...)
		default:
			d.kinds = append(d.kinds, 0)
			continue
		}
		d.kinds = append(d.kinds, f)
		d.others = append(d.others, other{uint32(base + i), uint32(len(d.bytes))})
	}
	return uint64(len(d.bytes)) <= math.MaxUint32 && uint64(len(d.ids)) <= math.MaxUint32
}

// Len returns the number of messages; the others' index i is 0 <= i < Len.
func (d *IDs) Len() int { return len(d.ids) }

// Offset returns the offset of message i.
func (d *IDs) Offset(i int) queend.Offset { return d.first + queend.Offset(i) }

// Time returns the time of message i in microseconds.
func (d *IDs) Time(i int) int64 { return d.times[i] }

// ID returns the id of message i.
func (d *IDs) ID(i int) queend.ID { return d.ids[i] }

// TxnID returns the transaction id of message i. The caller must not change it.
func (d *IDs) TxnID(i int) []byte {
	if d.kinds[i] == flagVerbatim {
		return d.stored(i)
	}
	return d.AppendTxnID(nil, i)
}

// AppendTxnID appends the transaction id of message i to dst: TxnID without an
// allocation.
func (d *IDs) AppendTxnID(dst []byte, i int) []byte {
	switch d.kinds[i] {
	case flagVerbatim:
		return append(dst, d.stored(i)...)
	case flagPacked:
		return queend.ID(d.stored(i)).Append(dst)
	}
	return d.ids[i].Append(dst)
}

// stored returns the bytes of a transaction id that has some of its own.
func (d *IDs) stored(i int) []byte {
	return d.bytesOf(d.otherAt(i))
}

// otherAt returns the place in others of message i or the first one after it.
func (d *IDs) otherAt(i int) int {
	return sort.Search(len(d.others), func(n int) bool { return d.others[n].i >= uint32(i) })
}

// bytesOf returns what others[n] has in bytes.
func (d *IDs) bytesOf(n int) []byte {
	var from uint32
	if n > 0 {
		from = d.others[n-1].end
	}
	to := d.others[n].end
	return d.bytes[from:to:to]
}

// Find returns the first message from i on and before end whose transaction id
// is txn, end when there is none.
func (d *IDs) Find(txn []byte, i, end int) int {
	id, isUUID := packUUID(txn)
	n := d.otherAt(i)
	if isUUID {
		for ; i < end && (d.ids[i] != id || d.kinds[i] != 0); i++ {
		}
		end = i
	}
	for ; n < len(d.others) && int(d.others[n].i) < end; n++ {
		at := int(d.others[n].i)
		text := d.bytesOf(n)
		if d.kinds[at] == flagPacked && isUUID && queend.ID(text) == id ||
			d.kinds[at] == flagVerbatim && bytes.Equal(text, txn) {
			return at
		}
	}
	return end
}

// Size returns the bytes of memory that the columns hold, for caches.
func (d *IDs) Size() int {
	return 160 + 8*cap(d.times) + 16*cap(d.ids) + cap(d.kinds) + 8*cap(d.others) + cap(d.bytes)
}
