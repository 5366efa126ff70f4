package segment

import (
	"fmt"
)

// Verify reads the whole file and checks that every byte of it is what was
// written: checksums, that blocks decode, that runs and descriptors leave no
// gap, and that descriptors and filters agree with the ids.
func (r *Reader) Verify() error {
	s := scratches.Get().(*scratch)
	defer s.release()
	pos := uint64(headerSize)
	err := r.heads(func(h *head) error {
		if h.start != pos {
			return r.damaged(damagedDescriptor(h.entry.Pos, fmt.Sprintf("run starts at byte %d, not %d", h.start, pos)))
		}
		pos = h.end
		return r.verifyRun(h, s)
	})
	if err == nil && pos != r.footer {
		err = r.damaged(fmt.Errorf("bytes %d to %d belong to no run: %w", pos, r.footer, ErrDamaged))
	}
	return err
}

// verifyRun checks the blocks of a run and what its descriptor says of them.
func (r *Reader) verifyRun(h *head, s *scratch) error {
	e := h.entry
	f, err := r.Filter(e)
	if err != nil {
		return err
	}
	var txn []byte
	var early, late = h.firstTime, h.entry.LastTime
	for st := range h.overlapping(e.First, e.Last) {
		c, err := r.columns(h, st, s)
		if err != nil {
			return err
		}
		for i := range st.n {
			txn = c.appendTxn(txn[:0], i)
			if !f.MayHold(txn, Hash(txn)) {
				return r.damaged(damagedDescriptor(e.Pos, "filter does not know an id of the run"))
			}
			if c.times[i] < early || c.times[i] > late {
				return r.damaged(damagedDescriptor(e.Pos, "a time of the run is outside its bounds"))
			}
		}
		if err := r.verifyPayload(h, st, s); err != nil {
			return err
		}
	}
	return nil
}

// verifyPayload decodes the payload blocks of a stripe, whose columns are in s.
func (r *Reader) verifyPayload(h *head, st stripe, s *scratch) error {
	if st.last() < h.entry.PayloadFrom {
		return nil
	}
	for n, b := range s.columns.blocks {
		pos := st.payloadPos() + b.skip
		if err := r.block(h, st, n+1, pos, b.extent, s); err != nil {
			return err
		}
		s.raw = resize(s.raw, b.raw)
		if _, err := decodeBlock(s.raw[:0], s.stored[crcSize:], b.extent); err != nil {
			return r.damaged(damagedBlock(h.entry.Partition, pos, err.Error()))
		}
	}
	return nil
}
