package broker

import (
	"cmp"
	"slices"

	"queend"
)

// The texts of refused ack items (docs/rules.md, S4).
const (
	errNoConsumer    = "consumer not found"
	errBadLease      = "invalid or expired lease"
	errPassed        = "already committed: the cursor moved past this message before this ack"
	errUnresolvable  = "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"
	errRejected      = "dlq rejected"
	errFlush         = "ack flush failed; lease will expire and redeliver"
	errLeaseRequired = "lease required"
	errDelayStatus   = "delayMs applies to failed and retry"
	errDelayRange    = "delayMs must be between 0 and 86400000"
)

// retriesExhausted is the error of a dead letter for which the call named none.
const retriesExhausted = "Retries exhausted"

// settleItem is one ack item whose message has been looked up.
type settleItem struct {
	at      queend.Offset // where its message is; meaningless when refused
	signal  Signal
	text    string // error as sent, "" for none
	delayMS int64  // A2, -1: not sent
	refused string // why the item counts for nothing, "" when it counts
}

// settling is one ack call on one row. Settling is arithmetic: it reads
// nothing else, and the row it returns is a new one.
type settling struct {
	row      *row
	opts     *Options
	now      int64        // microseconds
	own      bool         // the call names the row's live lease
	items    []settleItem // in request order
	fallback string       // first error text of the whole call (R30)
	// gone holds offsets whose payload retention has removed (R31). The caller
	// finds out about the offsets in settlement.filed and settles again.
	gone map[queend.Offset]bool
}

// settlement is what a call comes to.
type settlement struct {
	row     *row // the new row; the one given when nothing changed
	filed   []filing
	results []AckResult // one per item
}

// filing is a message that becomes a dead letter.
type filing struct {
	at       queend.Offset
	text     string // errorMessage (R30)
	retries  int64  // the budget's counter at filing
	attempts int64  // deliveries of the span it was in
}

// verdict is what the items that name one offset ask for together (R22).
type verdict struct {
	at     queend.Offset
	signal Signal
	text   string // of the items with that signal, else of any other item there
	delay  int64  // longest delayMs of its failed and retry items, -1: none
}

// advance is how far the call takes the cursor and what it met (R23, R26).
type advance struct {
	cursor   queend.Offset
	highest  queend.Offset // highest completed offset, NoOffset when none
	terminal []*verdict    // filed or dropped, rising
	back     *verdict      // the signal that comes back, nil when none
	rejected *verdict      // could not be filed (R31), nil when none
}

// settle applies R22-R31 and R72 to the call.
func (s *settling) settle() settlement {
	verdicts := s.verdicts()
	w := s.advance(verdicts)
	next, released, whole := s.next(&w, verdicts)
	out := settlement{row: next, results: s.results(&w, released)}
	for _, v := range w.terminal {
		if s.files(v) {
			out.filed = append(out.filed, filing{at: v.at, text: s.errorText(v), retries: s.retry(), attempts: s.attempts()})
		}
	}
	if whole && s.row.lane != nil && s.row.lane.conflated {
		s.markConflated(out.results)
	}
	return out
}

// verdicts gathers the items above the cursor by offset, rising.
func (s *settling) verdicts() []verdict {
	all := make([]verdict, 0, len(s.items))
	for i := range s.items {
		it := &s.items[i]
		if it.refused != "" || it.at <= s.row.committed {
			continue
		}
		v := verdict{at: it.at, signal: it.signal, text: it.text, delay: -1}
		if it.signal == Failed || it.signal == Retry {
			v.delay = it.delayMS
		}
		all = append(all, v)
	}
	byOffset := func(a, b verdict) int { return cmp.Compare(a.at, b.at) }
	if !slices.IsSortedFunc(all, byOffset) {
		slices.SortStableFunc(all, byOffset)
	}
	merged := all[:0]
	for i := range all {
		if n := len(merged); n > 0 && merged[n-1].at == all[i].at {
			merged[n-1].join(&all[i])
		} else {
			merged = append(merged, all[i])
		}
	}
	return merged
}

// join adds what a later item asks for at the same offset.
func (v *verdict) join(other *verdict) {
	if other.signal > v.signal {
		v.signal = other.signal
		v.text = cmp.Or(other.text, v.text)
	} else {
		v.text = cmp.Or(v.text, other.text)
	}
	v.delay = max(v.delay, other.delay)
}

// advance moves the cursor. The lowest signal bounds it; a signal that is filed
// or dropped does not come back, so the walk goes on above it for as long as
// every offset is named or lies below a completed one.
func (s *settling) advance(verdicts []verdict) advance {
	w := advance{cursor: s.row.committed, highest: queend.NoOffset}
	for i := range verdicts {
		if verdicts[i].signal == Completed {
			w.highest = verdicts[i].at
		}
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.signal == Completed {
			continue
		}
		reach := max(w.cursor, min(w.highest, v.at-1))
		switch {
		case len(w.terminal) > 0 && reach < v.at-1:
			w.cursor = reach
			return w
		case !s.isTerminal(v):
			w.cursor, w.back = reach, v
			return w
		case s.files(v) && s.gone[v.at]:
			w.cursor, w.rejected = reach, v
			return w
		}
		w.cursor = v.at
		w.terminal = append(w.terminal, v)
	}
	w.cursor = max(w.cursor, w.highest)
	return w
}

// isTerminal reports whether the signal ends the message's life (R26). The
// budget counts as it stood when the call began.
func (s *settling) isTerminal(v *verdict) bool {
	return v.signal == DLQ || v.signal == Failed && s.retry() >= s.opts.RetryLimit
}

// files reports whether a terminal signal leaves a dead letter behind.
func (s *settling) files(v *verdict) bool {
	return v.signal == DLQ || s.opts.filesDeadLetters()
}

func (s *settling) retry() int64 {
	if s.row.lane == nil {
		return 0
	}
	return s.row.lane.retry
}

func (s *settling) attempts() int64 {
	if s.row.lane == nil {
		return 1
	}
	return max(s.row.lane.attempts, 1)
}

// errorText is the errorMessage of a dead letter (R30).
func (s *settling) errorText(v *verdict) string {
	return cmp.Or(v.text, s.fallback, retriesExhausted)
}

// next is the row after the walk. released says that its lease ended, whole
// that every message of the leased or last delivered batch was completed.
func (s *settling) next(w *advance, verdicts []verdict) (r *row, released, whole bool) {
	if len(verdicts) == 0 {
		return s.row, false, false
	}
	r = s.row.clone()
	l := r.lane
	end := l.spanEnd()
	held := !l.lease.IsZero()
	r.committed = w.cursor
	switch {
	case w.rejected != nil && w.cursor == s.row.committed:
		return s.row, false, false
	case w.rejected != nil:
		// The lease is left to expire (R31).
		if len(w.terminal) > 0 {
			l.retry = 0
			l.resetAttempts()
		}
	case len(w.terminal) > 0 || w.back != nil:
		s.interrupt(l, w, verdicts)
		if w.cursor < end && s.opts.MaxDeliveries > 0 && !s.row.lane.isConflated() {
			l.isolate = max(l.isolate, end)
		}
		released = held
	case w.cursor >= end:
		if s.own {
			r.settled, r.settledFrom, r.settledTo = l.lease, s.batchStart(), end
		}
		*l = lane{isolate: l.isolate, headOffset: l.headOffset, headAttempts: l.headAttempts}
		released, whole = held, true
	case !s.own:
		l.notBefore = 0 // a lease-less completed ends a delay (A2)
	}
	r.tidy()
	return r, released, whole
}

// interrupt releases the lane after a signal (R25, R26, A2).
func (s *settling) interrupt(l *lane, w *advance, verdicts []verdict) {
	l.release()
	l.notBefore = 0
	if len(w.terminal) > 0 {
		l.retry = 0
		l.resetAttempts()
	} else if w.back.signal == Failed {
		l.retry++
	}
	if w.back == nil {
		return
	}
	if delay := s.delay(w, verdicts, l.retry); delay > 0 {
		l.notBefore = s.now + delay*Millisecond
	}
}

// delay is how long the lane is not offered after the call, in milliseconds:
// the longest delay asked for by what comes back, and the queue's own after a
// failed that asked for none.
func (s *settling) delay(w *advance, verdicts []verdict, charges int64) int64 {
	delay := int64(0)
	if w.back.signal == Failed && w.back.delay < 0 {
		delay = s.opts.redeliveryDelay(charges)
	}
	for i := range verdicts {
		if verdicts[i].at > w.cursor {
			delay = max(delay, verdicts[i].delay)
		}
	}
	return delay
}

// redeliveryDelay is the delay after the charges-th failed in a row, in
// milliseconds (A2).
func (o *Options) redeliveryDelay(charges int64) int64 {
	d := o.RedeliveryDelayMS
	for ; charges > 1 && d > 0 && d < o.RedeliveryDelayMaxMS; charges-- {
		d = min(2*d, o.RedeliveryDelayMaxMS)
	}
	return d
}

// batchStart is the cursor below the batch of the row's lease: earlier acks
// may have taken the cursor into the batch.
func (s *settling) batchStart() queend.Offset {
	l := s.row.lane
	if l.conflated || l.attempts == 0 {
		return s.row.committed
	}
	return min(s.row.committed, l.attemptStart-1)
}

// results answers the items (R27, R28, S20).
func (s *settling) results(w *advance, released bool) []AckResult {
	var gone map[queend.Offset]bool // filed: true, dropped: false
	for _, v := range w.terminal {
		if gone == nil {
			gone = map[queend.Offset]bool{}
		}
		gone[v.at] = s.files(v)
	}
	out := make([]AckResult, len(s.items))
	for i := range s.items {
		it, r := &s.items[i], &out[i]
		r.LeaseReleased = released
		switch {
		case it.refused != "":
			r.Error = it.refused
		case it.at <= s.row.committed && it.signal == Completed:
			r.Success, r.Noop = true, true
		case it.at <= s.row.committed:
			r.Error = errPassed
		case w.rejected != nil && w.rejected.at == it.at:
			r.Error = errRejected
		default:
			filed, terminal := gone[it.at]
			r.Success = true
			r.DLQ, r.Dropped = terminal && filed, terminal && !filed
		}
	}
	return out
}

// markConflated tells the items of a clean ack how many positions the leased
// message stood for besides itself (R72).
func (s *settling) markConflated(results []AckResult) {
	skipped := int64(s.row.lane.batchEnd-s.row.committed) - 1
	for i := range results {
		if results[i].Success && !results[i].Noop {
			results[i].Conflated = skipped
		}
	}
}
