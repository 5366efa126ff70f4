package segment

import "fmt"

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

// VerifyRun is Verify for one run, also when others or the footer are damaged.
func (r *Reader) VerifyRun(e Entry) error {
	s := scratches.Get().(*scratch)
	defer s.release()
	h, err := r.head(e, 0, s)
	if err != nil {
		return err
	}
	return r.verifyRun(&h, s)
}

// verifyRun checks the blocks of a run and what its descriptor says of them.
func (r *Reader) verifyRun(h *head, s *scratch) error {
	e := h.entry
	f, err := r.Filter(e)
	if err != nil {
		return err
	}
	fields, err := r.stripeFilters(h, s)
	if err != nil {
		return err
	}
	for st := range h.overlapping(e.First, e.Last) {
		c, err := r.columns(h, st, s)
		if err != nil {
			return err
		}
		field := fields[:min(len(fields), int(filterSize(uint64(st.n))))]
		fields = fields[len(field):]
		if why := verifyIDs(c, f, field); why != "" {
			return r.damaged(damagedDescriptor(e.Pos, why))
		}
		if err := r.verifyPayload(h, st, s); err != nil {
			return err
		}
	}
	return nil
}

// verifyIDs checks the messages of a stripe against the filter of the run and of
// the stripe, which is empty if there is none. It returns "" or what is wrong.
func verifyIDs(c *columns, f *Filter, field []byte) string {
	var txn []byte
	for i := range c.n {
		txn = c.appendTxn(txn[:0], i)
		hash := Hash(txn)
		if !f.MayHold(txn, hash) || len(field) > 0 && !mayHold(field, hash) {
			return "filter does not know an id of the run"
		}
		if c.times[i] < f.FirstTime || c.times[i] > f.LastTime {
			return "a time of the run is outside its bounds"
		}
	}
	return ""
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
		if err := s.decodeRaw(b, pos); err != nil {
			return r.damaged(damagedBlock(h.entry.Partition, pos, err.Error()))
		}
	}
	return nil
}
