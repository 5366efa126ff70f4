package linear

import "slices"

// The reasons of refused items, as the model and the client name them.
const (
	saidLease        = "lease"
	saidPassed       = "passed"
	saidUnresolvable = "unresolvable"
)

// settled is what the items on one lane come to, if its lease is live or not.
type settled struct {
	lane    lane
	said    []ackSaid
	letters []int32
	// vague says that leaseReleased may be either: an expired lease was still
	// there to be removed, which nobody is promised to be told.
	vague bool
}

// ack carries out the calls on each (partition, lease) of o, in order of first
// appearance.
func (m *cellModel) ack(s state, o *op) []state {
	type call struct {
		part  int
		lease int32
	}
	type fork struct {
		s    state
		said []ackSaid
		// vague marks items whose leaseReleased is not compared.
		vague []bool
	}
	forks := []fork{{s, make([]ackSaid, len(o.items)), make([]bool, len(o.items))}}
	var done []call
	for _, first := range o.items {
		c := call{first.part, first.lease}
		if slices.Contains(done, c) {
			continue
		}
		done = append(done, c)
		var at []int
		var items []ackOne
		for i, it := range o.items {
			if (call{it.part, it.lease}) == c {
				at, items = append(at, i), append(items, it)
			}
		}
		var next []fork
		for _, f := range forks {
			for _, r := range m.ackLease(f.s.lanes[c.part][o.group], f.s.log[c.part], o, c.lease, items) {
				n := fork{f.s, slices.Clone(f.said), slices.Clone(f.vague)}
				n.s.take(c.part, o.group, r)
				for i, said := range r.said {
					n.said[at[i]], n.vague[at[i]] = said, r.vague
				}
				next = append(next, n)
			}
		}
		forks = next
	}
	var out []state
	for _, f := range forks {
		if o.lost || sameSaid(o.said, f.said, f.vague) {
			out = append(out, f.s)
		}
	}
	return out
}

func sameSaid(got, want []ackSaid, vague []bool) bool {
	for i := range got {
		w := want[i]
		if vague[i] {
			w.released = got[i].released
		}
		if got[i] != w {
			return false
		}
	}
	return true
}

// take puts the outcome for one lane into the state.
func (s *state) take(part, group int, r settled) {
	s.lanes[part][group] = r.lane
	for _, off := range r.letters {
		s.letters += letterKey(part, group, off)
	}
}

// ackLease settles items that name one lease or none (R20, R32, R34), for each
// thing the lease may be.
func (m *cellModel) ackLease(l lane, log string, o *op, lease int32, items []ackOne) []settled {
	var out []settled
	if lease == 0 {
		if l.mayLive(o) {
			out = append(out, m.settle(l.seenLive(o), log, items, true, false))
		}
		if l.mayDead(o) {
			out = append(out, m.settle(l.seenDead(o), log, items, false, false))
		}
		return out
	}
	if l.lease == lease && l.mayLive(o) {
		out = append(out, m.settle(l.seenLive(o), log, items, true, true))
	}
	if l.lease != lease || l.mayDead(o) {
		if l.lease == lease {
			l = l.seenDead(o)
		}
		out = append(out, l.again(log, lease, items))
	}
	return out
}

// again answers under a lease that is not live: as the first time for a batch
// that was settled whole, else with a refusal.
func (l lane) again(log string, lease int32, items []ackOne) settled {
	r := settled{lane: l, said: make([]ackSaid, len(items))}
	released := false
	for i, it := range items {
		r.said[i].text = saidLease
		at := find(log, it.msg)
		if l.settled == lease && it.signal == completed && at > l.settledFrom && at <= l.settledTo {
			r.said[i] = ackSaid{ok: true}
			released = released || at == l.settledTo
		}
	}
	for i := range r.said {
		r.said[i].released = released
	}
	return r
}

// place is where an item's message is (R21 and S20), -1 when it cannot
// be resolved.
func (l *lane) place(log string, it ackOne, live bool) int32 {
	at := find(log, it.msg)
	lo, hi := l.committed+1, int32(len(log)/2)-1
	switch {
	case live:
		hi = l.batchEnd
	case it.signal == completed:
	case l.attempts > 0:
		lo, hi = max(lo, l.start), l.end
	default:
		hi = -1
	}
	if at <= l.committed || at >= lo && at <= hi {
		return at
	}
	return -1
}

// settle applies R21-R32 to the items of one call on a lane.
func (m *cellModel) settle(l lane, log string, items []ackOne, live, own bool) settled {
	r := settled{lane: l, said: make([]ackSaid, len(items)), vague: !live && l.lease != 0}
	asked := map[int32]signal{}
	top := int32(-1)
	offs := make([]int32, len(items))
	for i, it := range items {
		at := l.place(log, it, live)
		offs[i] = at
		switch {
		case at < 0:
			r.said[i].text = saidUnresolvable
		case at > l.committed:
			r.said[i].ok = true
			asked[at] = max(asked[at], it.signal)
			top = max(top, at)
		case it.signal == completed:
			r.said[i].ok, r.said[i].noop = true, true
		default:
			r.said[i].text = saidPassed
		}
	}
	if len(asked) == 0 {
		r.vague = false
		return r
	}
	w := walk{cursor: l.committed, spent: l.retry >= m.retryLimit}
	w.through(asked, top)
	released := w.settle(&r.lane, l, live, own)
	for i := range items {
		r.said[i].released = released
		if r.said[i].ok && !r.said[i].noop && slices.Contains(w.ended, offs[i]) {
			files := m.dlqOn || asked[offs[i]] == dlq
			r.said[i].dlq, r.said[i].dropped = files, !files
		}
	}
	for _, off := range w.ended {
		if m.dlqOn || asked[off] == dlq {
			r.letters = append(r.letters, off)
		}
	}
	return r
}

// walk takes the cursor through a call, offset by offset (R22, R23, R26).
type walk struct {
	cursor int32
	spent  bool    // no budget is left for a failed
	ended  []int32 // filed or dropped
	back   signal  // what comes back, 0: nothing
}

func (w *walk) through(asked map[int32]signal, top int32) {
	highest := int32(-1)
	for off, s := range asked {
		if s == completed {
			highest = max(highest, off)
		}
	}
	for off := w.cursor + 1; off <= top; off++ {
		s := asked[off]
		if s == 0 || s == completed {
			continue
		}
		below := max(w.cursor, min(highest, off-1))
		if len(w.ended) > 0 && below < off-1 {
			w.cursor = below // something in between was not mentioned
			return
		}
		if s == retry || s == failed && !w.spent {
			w.cursor, w.back = below, s
			return
		}
		w.cursor = off
		w.ended = append(w.ended, off)
	}
	w.cursor = max(w.cursor, highest)
}

// settle changes the lane as the walk says and reports whether a lease ended
// (R24-R26).
func (w *walk) settle(next *lane, l lane, live, own bool) (released bool) {
	end := int32(-1)
	switch {
	case live:
		end = l.batchEnd
	case l.attempts > 0:
		end = l.end
	}
	next.committed = w.cursor
	switch {
	case len(w.ended) > 0 || w.back != 0:
		next.lease, next.batchEnd, next.lo, next.hi = 0, 0, 0, 0
		if len(w.ended) > 0 {
			next.retry, next.start, next.end, next.attempts = 0, 0, 0, 0
		} else if w.back == failed {
			next.retry++
		}
	case w.cursor >= end:
		*next = lane{committed: w.cursor, settled: l.settled, settledFrom: l.settledFrom, settledTo: l.settledTo}
		if own {
			next.settled, next.settledFrom, next.settledTo = l.lease, l.committed, end
			if l.attempts > 0 {
				next.settledFrom = min(l.committed, l.start-1)
			}
		}
	default:
		return false
	}
	return live
}

// txn carries out a transaction whole or not at all (R110-R113).
func (m *cellModel) txn(s state, o *op) []state {
	type fork struct {
		s       state
		refused bool
		dlqs    map[int]bool
	}
	forks := []fork{{s: s, dlqs: map[int]bool{}}}
	for p := range parts {
		var items []ackOne
		var at []int
		for i, it := range o.items {
			if it.part == p {
				items, at = append(items, it), append(at, i)
			}
		}
		if len(items) == 0 {
			continue
		}
		var next []fork
		for _, f := range forks {
			for _, r := range m.txnLane(f.s.lanes[p][o.group], f.s.log[p], o, items) {
				n := fork{s: f.s, refused: f.refused || r == nil, dlqs: map[int]bool{}}
				for k := range f.dlqs {
					n.dlqs[k] = true
				}
				if r != nil {
					n.s.take(p, o.group, *r)
					for i, said := range r.said {
						n.refused = n.refused || !said.ok
						if said.dlq {
							n.dlqs[at[i]] = true
						}
					}
				}
				next = append(next, n)
			}
		}
		forks = next
	}
	var out []state
	for _, f := range forks {
		reason := ""
		if f.refused {
			reason = "rejected_ack"
		}
		for _, x := range o.pushes {
			if find(s.log[x.part], x.msg) >= 0 && reason == "" {
				reason = "duplicate"
			}
			if find(f.s.log[x.part], x.msg) < 0 {
				f.s.log[x.part] = number(f.s.log[x.part], x.msg)
			}
		}
		switch {
		case o.lost && reason == "":
			out = append(out, f.s)
		case o.lost || o.ok != (reason == "") || o.reason != reason:
		case reason != "":
			out = append(out, s)
		case sameDLQ(o.said, f.dlqs):
			out = append(out, f.s)
		}
	}
	return out
}

func sameDLQ(got []ackSaid, want map[int]bool) bool {
	for i := range got {
		if got[i].dlq != want[i] {
			return false
		}
	}
	return true
}

// txnLane settles the acks of a transaction on one lane, for each thing its
// lease may be; nil is a refusal. Items with a lease of their own, or under
// required ones, need that lease live.
func (m *cellModel) txnLane(l lane, log string, o *op, items []ackOne) []*settled {
	fenced := func(it ackOne) bool { return it.lease != 0 || len(o.required) > 0 }
	try := func(l lane, live bool) *settled {
		own := false
		for _, it := range items {
			if !fenced(it) {
				continue
			}
			holds := live && (it.lease == l.lease || it.lease == 0 && slices.Contains(o.required, l.lease))
			if !holds {
				return nil
			}
			own = true
		}
		r := m.settle(l, log, items, live, own)
		return &r
	}
	var out []*settled
	if l.mayLive(o) {
		out = append(out, try(l.seenLive(o), true))
	}
	if l.mayDead(o) {
		out = append(out, try(l.seenDead(o), false))
	}
	return out
}
