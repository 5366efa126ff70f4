package segment

import (
	"slices"

	"queend"
)

// Messages returns the messages of a run from the offset from on: at most limit,
// and only while their payloads sum to at most maxBytes, but at least one. It
// returns none if the run has none from there on. It reads the run's descriptor
// and the blocks that those messages are in. The slices are the caller's; some
// share memory.
func (r *Reader) Messages(e Entry, from queend.Offset, limit, maxBytes int) ([]Message, error) {
	return r.AppendMessages(nil, e, from, limit, maxBytes)
}

// AppendMessages is Messages, with its result behind what is in out.
func (r *Reader) AppendMessages(out []Message, e Entry, from queend.Offset, limit, maxBytes int) ([]Message, error) {
	var at Bookmark
	defer at.Release()
	return r.ReadOn(&at, out, e, from, limit, maxBytes)
}

// ReadOn is AppendMessages for who reads a run piece by piece: at has what was
// decoded for the piece before and is not decoded again, and is left where this
// one ends. After an error it is empty.
func (r *Reader) ReadOn(at *Bookmark, out []Message, e Entry, from queend.Offset, limit, maxBytes int) ([]Message, error) {
	out, err := r.readOn(at, out, e, from, limit, maxBytes)
	if err != nil {
		at.Release()
	}
	return out, err
}

func (r *Reader) readOn(at *Bookmark, out []Message, e Entry, from queend.Offset, limit, maxBytes int) ([]Message, error) {
	before := len(out)
	if err := at.enter(r, e); err != nil {
		return nil, err
	}
	h := &at.head
	e = h.entry
	left := maxBytes
	for st := range h.overlapping(from, e.Last) {
		c, err := at.columns(r, st)
		if err != nil {
			return nil, err
		}
		lo := int(from - st.first)
		if from < st.first {
			lo = 0
		}
		hi := lo
		for ; hi < st.n && len(out)-before+hi-lo < limit; hi++ {
			if st.first+queend.Offset(hi) >= e.PayloadFrom {
				size := int(c.payloads[hi+1] - c.payloads[hi])
				if size > left && len(out)-before+hi > lo {
					break
				}
				left -= size
			}
		}
		if out, err = r.stripeMessages(h, st, lo, hi, e.PayloadFrom, out, at.s); err != nil {
			return nil, err
		}
		at.next = hi
		if hi < st.n || len(out)-before >= limit {
			break
		}
	}
	return out, nil
}

// stripeMessages appends the messages lo up to hi of a stripe, whose columns are
// in s, to out. Those below payloadFrom, which is not below the run's, are given
// without payload.
func (r *Reader) stripeMessages(h *head, st stripe, lo, hi int, payloadFrom queend.Offset, out []Message, s *scratch) ([]Message, error) {
	if lo >= hi {
		return out, nil
	}
	c := &s.columns
	kept := min(max(lo, int(max(0, payloadFrom-st.first))), hi)
	payload, err := r.payload(h, st, c.payloads[kept], c.payloads[hi], s)
	if err != nil {
		return nil, err
	}
	out = slices.Grow(out, hi-lo)
	arena := make([]byte, 0, c.metaSize(lo, hi))
	for i := lo; i < hi; i++ {
		var m Message
		m, arena = c.message(i, st.first, arena)
		if i < kept {
			m.Gone = true
		} else {
			at := c.payloads[kept]
			from, to := c.payloads[i]-at, c.payloads[i+1]-at
			m.Payload = payload[from:to:to]
		}
		out = append(out, m)
	}
	return out, nil
}

// payload returns the bytes from up to to of a stripe's payload stream, whose
// columns are in s. The slice is the caller's and grows only by blocks that
// have been checked.
func (r *Reader) payload(h *head, st stripe, from, to uint64, s *scratch) ([]byte, error) {
	out := []byte{}
	if from == to {
		return out, nil // also a stripe whose blocks are gone
	}
	blocks := s.columns.blocks
	n, _ := slices.BinarySearchFunc(blocks, from, func(b payloadBlock, from uint64) int {
		if b.at+b.raw <= from {
			return -1
		}
		return 1
	})
	for ; n < len(blocks) && blocks[n].at < to; n++ {
		b := blocks[n]
		pos := st.payloadPos() + b.skip
		if pos != s.rawAt {
			if err := r.block(h, st, n+1, pos, b.extent, s); err != nil {
				return nil, err
			}
		}
		if len(out) == 0 {
			out = make([]byte, 0, min(to-from, maxBlock))
		}
		var err error
		if out, err = s.decodePart(out, b, pos, from, to); err != nil {
			return nil, r.damaged(damagedBlock(h.entry.Partition, pos, err.Error()))
		}
	}
	return out, nil
}

// decodePart appends the part of block b, at byte pos, that lies between from
// and to of the payload stream. Its stored bytes are in s, or it is in s.raw.
func (s *scratch) decodePart(out []byte, b payloadBlock, pos, from, to uint64) ([]byte, error) {
	if pos != s.rawAt {
		if from <= b.at && b.at+b.raw <= to {
			return decodeBlock(slices.Grow(out, int(b.raw)), s.stored[crcSize:], b.extent)
		}
		if err := s.decodeRaw(b, pos); err != nil {
			return nil, err
		}
	}
	lo, hi := max(from, b.at)-b.at, min(to, b.at+b.raw)-b.at
	return append(out, s.raw[lo:hi]...), nil
}

// decodeRaw decodes block b, at byte pos, whose stored bytes are in s, into s.raw.
func (s *scratch) decodeRaw(b payloadBlock, pos uint64) error {
	s.rawAt = 0
	s.raw = resize(s.raw, b.raw)
	if _, err := decodeBlock(s.raw[:0], s.stored[crcSize:], b.extent); err != nil {
		return err
	}
	s.rawAt = pos
	return nil
}
