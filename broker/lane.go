package broker

import "queend"

// clone copies a row for a change, with a lane that may be written to. Rows
// that are in the state are never written to outside apply.
func (r *row) clone() *row {
	c := *r
	c.lane = &lane{}
	if r.lane != nil {
		*c.lane = *r.lane
	}
	return &c
}

// tidy ends a change: counters about messages at or below the cursor go, and
// so does a lane that holds nothing.
func (r *row) tidy() {
	l := r.lane
	if l == nil {
		return
	}
	if l.isolate <= r.committed {
		l.isolate = 0
	}
	if l.headOffset <= r.committed {
		l.headOffset, l.headAttempts = 0, 0
	}
	if *l == (lane{}) {
		r.lane = nil
	}
}

// release ends the lease; what was delivered and charged stays.
func (l *lane) release() {
	l.lease = queend.ID{}
	l.leaseUntil, l.claimed = 0, 0
	l.batchEnd, l.conflated = 0, false
}

// resetAttempts forgets the last delivered span.
func (l *lane) resetAttempts() { l.attemptStart, l.attemptEnd, l.attempts = 0, 0, 0 }

// spanEnd is the last offset of the leased batch, or of the last delivered
// one once its lease has ended. Without either there is nothing whose end
// could be missed: it is before every message.
func (l *lane) spanEnd() queend.Offset {
	switch {
	case l == nil:
		return queend.NoOffset
	case !l.lease.IsZero():
		return l.batchEnd
	case l.attempts > 0:
		return l.attemptEnd
	}
	return queend.NoOffset
}

func (l *lane) isConflated() bool { return l != nil && l.conflated }
