package segment

import (
	"bytes"
	"encoding/binary"

	"queend"
)

// Match is a message found by its transaction id.
type Match struct {
	Offset queend.Offset
	Time   int64 // microseconds
	ID     queend.ID
}

// Find returns the messages of a run whose transaction id is txnID, by rising
// offset. hash is Hash(txnID). It is exact and meant for ids that the run's
// Filter lets through: it reads the filters of the stripes, and of the id blocks
// those that may hold the id, about one in a hundred.
func (r *Reader) Find(e Entry, txnID []byte, hash uint64) ([]Match, error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	h, err := r.head(e, 0, s)
	if err != nil {
		return nil, err
	}
	fields, err := r.stripeFilters(&h, s)
	if err != nil {
		return nil, err
	}
	var out []Match
	id, isUUID := packUUID(txnID)
	for st := range h.overlapping(h.entry.First, h.entry.Last) {
		if len(fields) > 0 {
			field := fields[:filterSize(uint64(st.n))]
			fields = fields[len(field):]
			if !mayHold(field, hash) {
				continue
			}
		}
		c, err := r.columns(&h, st, s)
		if err != nil {
			return nil, err
		}
		for i, f := range c.flags {
			var same bool
			switch f & (flagPacked | flagVerbatim) {
			case flagVerbatim:
				same = bytes.Equal(c.txnBytes[c.txns[i]:c.txns[i+1]], txnID)
			case flagPacked:
				same = isUUID && bytes.Equal(c.packed[16*c.packedAt[i]:16*c.packedAt[i]+16], id[:])
			default:
				same = isUUID && c.ids[i] == id
			}
			if same {
				out = append(out, Match{st.first + queend.Offset(i), c.times[i], c.ids[i]})
			}
		}
	}
	return out, nil
}

// stripeFilters reads the filters of a run's stripes into s, one after the other.
// A run of one stripe has none.
func (r *Reader) stripeFilters(h *head, s *scratch) ([]byte, error) {
	if h.narrow == 0 {
		return nil, nil
	}
	e := h.entry
	pos := e.Pos + uint64(e.Size) + crcSize + filterSize(e.count())
	if pos > r.end || h.narrow > r.end-pos {
		return nil, r.damaged(damagedDescriptor(e.Pos, "filters of the stripes are out of range"))
	}
	s.filter = resize(s.filter, h.narrow)
	if err := r.readAt(s.filter, pos); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(s.filter) != checksum(s.filter[crcSize:]) {
		return nil, r.damaged(damagedDescriptor(e.Pos, "checksum of the stripes' filters does not match"))
	}
	return s.filter[crcSize:], nil
}

// appendStripeFilters appends what stripeFilters reads. The hashes are of all
// messages of the run.
func appendStripeFilters(dst []byte, h *head, hashes []uint64) []byte {
	if h.count < 2 {
		return dst
	}
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for st := range h.overlapping(h.entry.First, h.entry.Last) {
		dst = appendFilter(dst, hashes[:st.n])
		hashes = hashes[st.n:]
	}
	binary.LittleEndian.PutUint32(dst[at:], checksum(dst[at+crcSize:]))
	return dst
}
