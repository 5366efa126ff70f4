package fuzz

import "queend/broker"

// walk takes the cursor through one ack call, offset by offset (R22-R31).
type walk struct {
	p        *mPart
	r        *mRow
	o        *broker.Options
	verdicts map[int]*verdict
	fallback string

	cursor   int
	terminal map[int]bool // offset of a filed (true) or dropped message
	filings  []filing
	back     *verdict // what comes back
	rejected int      // could not be filed (R31), -1: none
	whole    bool     // reached the end of the batch without a signal
}

func (w *walk) run() {
	w.cursor, w.rejected, w.terminal = w.r.committed, -1, map[int]bool{}
	highest, top := -1, -1 // completed, mentioned
	for off, v := range w.verdicts {
		top = max(top, off)
		if v.signal == broker.Completed {
			highest = max(highest, off)
		}
	}
	for off := w.r.committed + 1; off <= top; off++ {
		v := w.verdicts[off]
		if v == nil || v.signal == broker.Completed {
			continue
		}
		passed := max(w.cursor, min(highest, off-1)) // everything up to it is completed
		switch {
		case len(w.terminal) > 0 && passed < off-1:
			w.cursor = passed // silent ones above a filed one are not implied
			return
		case !w.ends(v):
			w.cursor, w.back = passed, v
			return
		case w.files(v) && off < w.p.start:
			w.cursor, w.rejected = passed, off
			return
		}
		w.cursor = off
		w.terminal[off] = w.files(v)
		if w.files(v) {
			w.filings = append(w.filings, filing{off, orText(orText(v.text, w.fallback), "Retries exhausted"), w.r.retry, max(w.r.attempts, 1)})
		}
	}
	w.cursor = max(w.cursor, highest)
}

// ends reports whether the signal is terminal (R26, R29).
func (w *walk) ends(v *verdict) bool {
	return v.signal == broker.DLQ || v.signal == broker.Failed && w.r.retry >= w.o.RetryLimit
}

func (w *walk) files(v *verdict) bool {
	return v.signal == broker.DLQ || w.o.DeadLetterQueue || w.o.DLQAfterMaxRetries
}

// next is the row after the walk, nil when nothing changed.
func (w *walk) next(own bool, now int64) *mRow {
	r := w.r.clone()
	end := r.lastSpan()
	r.committed = w.cursor
	switch {
	case w.rejected >= 0:
		if w.cursor == w.r.committed {
			return nil
		}
		if len(w.terminal) > 0 {
			r.retry = 0
			r.forgetSpan()
		}
	case len(w.terminal) > 0 || w.back != nil:
		w.interrupt(r, now)
		if w.cursor < end && w.o.MaxDeliveries > 0 && !w.r.conflated {
			r.isolate = max(r.isolate, end)
		}
	case w.cursor >= end:
		w.whole = true
		if own {
			r.settled, r.settledTo = r.lease, end
			r.settledFrom = min(w.r.committed, w.r.spanStart-1)
			if w.r.conflated || w.r.attempts == 0 {
				r.settledFrom = w.r.committed
			}
		}
		r.endLease()
		r.retry, r.notBefore = 0, 0
		r.forgetSpan()
	case !own:
		r.notBefore = 0
	}
	return r
}

// interrupt releases the lease after a signal (R25, R26, A2).
func (w *walk) interrupt(r *mRow, now int64) {
	r.endLease()
	r.notBefore = 0
	if len(w.terminal) > 0 {
		r.retry = 0
		r.forgetSpan()
	} else if w.back.signal == broker.Failed {
		r.retry++
	}
	if w.back == nil {
		return
	}
	delay := int64(0)
	if w.back.signal == broker.Failed && w.back.delay < 0 {
		delay = spacing(w.o, r.retry)
	}
	for off, v := range w.verdicts {
		if off > w.cursor {
			delay = max(delay, v.delay)
		}
	}
	if delay > 0 {
		r.notBefore = now + delay*millisecond
	}
}

// spacing is the delay of the n-th charge in a row, in milliseconds (A2).
func spacing(o *broker.Options, n int64) int64 {
	d := o.RedeliveryDelayMS
	for ; n > 1 && d > 0 && d < o.RedeliveryDelayMaxMS; n-- {
		d = min(2*d, o.RedeliveryDelayMaxMS)
	}
	return d
}
