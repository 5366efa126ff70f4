package segment

import (
	"errors"
	"fmt"

	"queend"
)

// Copy appends the messages of run e of r from the offset idsFrom on to the
// current run, with the payload of those from payloadFrom on, as far as r still
// has it. The run must go on where the current one is, and payloadFrom be at
// least the PayloadFrom of every run that still follows: once a message has
// its payload, all after it must. Stripes that are well
// filled and wholly wanted are copied as they are, after their checksums have
// been checked; the others are taken apart and added anew.
func (w *Writer) Copy(r *Reader, e Entry, idsFrom, payloadFrom queend.Offset) error {
	if w.err == nil && !w.open {
		w.fail(errors.New("segment writer: Copy outside a run"))
	}
	if w.err == nil && e.Partition != w.run.entry.Partition {
		w.fail(fmt.Errorf("segment writer: Copy of partition %d into a run of %d", e.Partition, w.run.entry.Partition))
	}
	if w.err != nil {
		return w.err
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	h, err := r.head(e, 0, s)
	if err != nil {
		w.fail(err)
		return err
	}
	e = h.entry
	idsFrom, payloadFrom = max(idsFrom, e.First), max(payloadFrom, e.PayloadFrom)
	for st := range h.overlapping(idsFrom, e.Last) {
		if err := w.copyStripe(r, &h, st, idsFrom, payloadFrom, s); err != nil {
			w.fail(err)
			break
		}
	}
	return w.err
}

// copyStripe copies a stripe by the one way or the other.
func (w *Writer) copyStripe(r *Reader, h *head, st stripe, idsFrom, payloadFrom queend.Offset, s *scratch) error {
	c, err := r.columns(h, st, s)
	if err != nil {
		return err
	}
	gone := st.last() < payloadFrom
	whole := st.first >= idsFrom && (gone || st.first >= payloadFrom)
	full := 2*st.ids.raw >= uint64(w.builder.blockBytes) || !gone && 2*c.payloads[st.n] >= maxStripePayload
	if whole && full {
		return w.copyWhole(r, h, st, gone, s)
	}
	lo := int(max(0, idsFrom-st.first))
	msgs, err := r.stripeMessages(h, st, lo, st.n, payloadFrom, nil, s)
	if err != nil {
		return err
	}
	for i := range msgs {
		if err := w.Add(&msgs[i]); err != nil {
			return err
		}
	}
	return nil
}

// copyWhole copies a stripe as it is, whose columns are in s, or only its id
// block if its payload is gone.
func (w *Writer) copyWhole(r *Reader, h *head, st stripe, gone bool, s *scratch) error {
	w.cut()
	c := &s.columns
	for i := range st.n {
		o := st.first + queend.Offset(i)
		m := Message{Offset: o, Gone: gone}
		if err := w.run.check(&m); err != nil {
			return err
		}
		w.run.scratch = c.appendTxn(w.run.scratch[:0], i)
		w.run.note(o, c.times[i], w.run.scratch, gone)
	}
	// s.stored still has the id block.
	w.write(s.stored)
	var payload uint64
	if !gone {
		payload = st.payload
		for n, b := range c.blocks {
			if err := r.block(h, st, n+1, st.payloadPos()+b.skip, b.extent, s); err != nil {
				return err
			}
			w.write(s.stored)
		}
	}
	w.run.stripes = appendStripe(w.run.stripes, st.n, st.ids, int(payload))
	w.run.count++
	return w.err
}
