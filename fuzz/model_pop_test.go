package fuzz

import (
	"fmt"
	"slices"

	"queend"
	"queend/broker"
)

// popCall is what a pop asks for, resolved.
type popCall struct {
	Discovery    bool
	NS, Task     string
	Queue        string
	Pinned       bool
	Part         string
	Group        string
	Batch        int
	Partitions   int
	AutoAck      bool
	LeaseSeconds int64
	Sub          subscription
	Conflation   bool
	Autopilot    bool
	Wait         bool
	TimeoutMS    int64
}

// lane is a group on a partition.
type lane struct {
	g *mGroup
	p *mPart
}

// offer is what a lane can give now: heads are first taken out of the way
// because they had all their deliveries (A3), then offs are deliverable.
type offer struct {
	lane
	heads []int
	offs  []int
}

// prepare registers the group of a pop and returns the lanes it may claim.
func (m *model) prepare(c *popCall) []lane {
	var groups []*mGroup
	if c.Discovery {
		m.registerLabel(mLabelKey{c.NS, c.Task, c.Group}, c.Sub, c.Conflation)
		groups = m.covered(mLabelKey{c.NS, c.Task, c.Group})
	} else {
		groups = append(groups, m.register(c.Queue, c.Group, c.Sub, c.Conflation))
	}
	var lanes []lane
	for _, g := range groups {
		for _, p := range g.q.order {
			if !c.Pinned || p.name == c.Part {
				lanes = append(lanes, lane{g, p})
			}
		}
	}
	return lanes
}

// offers lists what the lanes have.
func (m *model) offers(lanes []lane) (all []offer) {
	for _, l := range lanes {
		if o := m.offer(l); len(o.offs)+len(o.heads) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// offer says what a lane can give (R2, R3, R50, R51, R71, A2, A3).
func (m *model) offer(l lane) offer {
	o := offer{lane: l}
	r := l.g.cursor(l.p).clone()
	if r.live(m.clock()) {
		return o
	}
	for m.ready(l, r) {
		next := max(r.committed+1, l.p.start)
		visible := m.visible(l.p, next)
		if l.g.conflation {
			visible = visible[max(len(visible)-1, 0):]
		}
		if len(visible) == 0 {
			break
		}
		if limit := l.p.q.opts.MaxDeliveries; limit > 0 && r.headOff == visible[0] && r.headCount >= limit {
			o.heads = append(o.heads, visible[0])
			r = m.withoutHead(r, visible[0])
			continue
		}
		if l.p.q.opts.MaxDeliveries > 0 && (r.redelivers(next) || 0 < r.isolate && next <= r.isolate) {
			visible = visible[:1]
		}
		o.offs = visible
		break
	}
	return o
}

// ready reports whether delays and windows let a lane go.
func (m *model) ready(l lane, r *mRow) bool {
	next := max(r.committed+1, l.p.start)
	if next >= l.p.end() || r.notBefore > m.clock() {
		return false
	}
	window := l.p.q.opts.WindowBuffer * second
	if window <= 0 || r.redelivers(next) {
		return true
	}
	if m.rules.Quiet {
		return l.p.lastTime()+window <= m.clock()
	}
	if int64(l.p.end()-next) >= m.rules.WindowBatch {
		return true
	}
	return max(l.p.msgs[next].time, r.lastDelivery)+window <= m.clock()
}

// visible lists the messages from next on that are old enough.
func (m *model) visible(p *mPart, next int) (offs []int) {
	for off := next; off < p.end() && p.msgs[off].time <= m.clock()-p.q.opts.DelayedProcessing*second; off++ {
		offs = append(offs, off)
	}
	return offs
}

func (r *mRow) redelivers(next int) bool { return r.attempts > 0 && next <= r.spanEnd }

// withoutHead is the row after a message at its delivery limit went.
func (m *model) withoutHead(r *mRow, off int) *mRow {
	next := r.clone()
	next.committed = off
	next.endLease()
	next.retry, next.notBefore = 0, 0
	next.forgetSpan()
	if next.isolate <= off {
		next.isolate = 0
	}
	next.headOff, next.headCount = 0, 0
	return next
}

// fileHead takes a head out of the way.
func (m *model) fileHead(l lane, off int) {
	r := l.g.cursor(l.p)
	if l.p.q.opts.DeadLetterQueue || l.p.q.opts.DLQAfterMaxRetries {
		m.file(l, off, "delivery limit reached", r.retry, r.headCount)
	}
	l.g.set(l.p, m.withoutHead(r, off), m.stamp())
}

// seal puts the cursors of lanes without messages at their ends (R9). A pop
// that got something need not have looked at all of them: sure is false.
func (m *model) seal(lanes []lane, sure bool) {
	for _, l := range lanes {
		r := l.g.cursor(l.p).clone()
		switch {
		case r.live(m.clock()) || l.p.start < l.p.end() || r.committed >= l.p.end()-1:
		case sure:
			r.committed = l.p.end() - 1
			l.g.set(l.p, r, m.clock())
			delete(l.g.unsure, l.p)
		default:
			if l.g.unsure == nil {
				l.g.unsure = map[*mPart]bool{}
			}
			l.g.unsure[l.p] = true
		}
	}
}

// isUnsure reports whether some cursor of the group is not known.
func (m *model) isUnsure(group string) bool {
	for _, q := range m.queues {
		if g := q.groups[group]; g != nil && len(g.unsure) > 0 {
			return true
		}
	}
	return false
}

// limits are the batch and the partitions of a call.
func (c *popCall) limits(conflation bool) (batch, partitions int) {
	batch, partitions = 200, 1
	if c.Batch != 0 {
		batch = max(c.Batch, 1)
	}
	if c.Partitions != 0 {
		partitions = min(max(c.Partitions, 1), 64)
	} else if conflation {
		partitions = min(batch, 64)
	}
	if c.Pinned {
		partitions = 1
	}
	return batch, partitions
}

// claim is a lane's part of an answer.
type claim struct {
	offer
	msgs []broker.Delivered
}

// split matches the messages of an answer to the lanes they come from.
func split(offers []offer, msgs []broker.Delivered) ([]claim, error) {
	var claims []claim
	for i := range msgs {
		d := &msgs[i]
		n := len(claims)
		if n > 0 && claims[n-1].p.name == d.Partition && claims[n-1].p.q.name == d.Queue {
			claims[n-1].msgs = append(claims[n-1].msgs, *d)
			continue
		}
		at := slices.IndexFunc(offers, func(o offer) bool { return o.p.name == d.Partition && o.p.q.name == d.Queue })
		if at < 0 {
			return nil, fmt.Errorf("%s/%s offset %d: this lane has nothing to deliver", d.Queue, d.Partition, d.Offset)
		}
		if slices.ContainsFunc(claims, func(c claim) bool { return c.p == offers[at].p }) {
			return nil, fmt.Errorf("%s/%s is in two pieces", d.Queue, d.Partition)
		}
		claims = append(claims, claim{offers[at], []broker.Delivered{*d}})
	}
	return claims, nil
}

// checkAnswer reports whether an answer of these claims is legal.
func (m *model) checkAnswer(lanes []lane, offers []offer, claims []claim, batch, partitions int) error {
	total, bytes, partial := 0, int64(0), 0
	for _, c := range claims {
		if len(c.msgs) > len(c.offs) {
			return fmt.Errorf("%s/%s: %d messages, only %v can be delivered", c.p.q.name, c.p.name, len(c.msgs), c.offs)
		}
		for i := range c.msgs {
			if int(c.msgs[i].Offset) != c.offs[i] {
				return fmt.Errorf("%s/%s: offset %d, want %d of %v", c.p.q.name, c.p.name, c.msgs[i].Offset, c.offs[i], c.offs)
			}
			bytes += int64(len(c.msgs[i].Payload))
		}
		total += len(c.msgs)
		if len(c.msgs) < len(c.offs) {
			partial++
		}
	}
	full := total >= batch || m.rules.PopMaxBytes > 0 && (bytes >= m.rules.PopMaxBytes-200 || total > 0 && m.readsMuch(lanes))
	switch {
	case total > batch:
		return fmt.Errorf("%d messages, batch %d", total, batch)
	case len(claims) > partitions:
		return fmt.Errorf("%d partitions, at most %d asked for", len(claims), partitions)
	case partial > 0 && !full:
		return fmt.Errorf("a partition gave less than it has, and the batch of %d is not full with %d", batch, total)
	case partial > 1 && m.rules.PopMaxBytes == 0:
		return fmt.Errorf("%d partitions gave less than they have", partial)
	case full || len(claims) == partitions:
		return nil
	}
	for _, o := range offers {
		if len(o.heads) > 0 && total > 0 {
			return nil // a lane whose head went counts as one of the partitions
		}
	}
	for _, o := range offers {
		taken := slices.ContainsFunc(claims, func(c claim) bool { return c.lane == o.lane })
		if !taken && len(o.offs) > 0 && !(total > 0 && m.looksFull(lanes, o.lane, batch, partitions)) {
			return fmt.Errorf("%s/%s has offsets %v and was left out", o.p.q.name, o.p.name, o.offs)
		}
	}
	return nil
}

// readsMuch reports whether the retained messages of the lanes are more than a
// pop reads at once: what is hidden counts as well, for it is read to be seen.
func (m *model) readsMuch(lanes []lane) bool {
	bytes := 0
	for _, l := range lanes {
		for _, msg := range l.p.msgs[l.p.start:] {
			bytes += len(msg.payload)
		}
	}
	return int64(bytes) >= m.rules.PopMaxBytes-200
}

// looksFull reports whether the lanes but one seem to fill a batch, or to be as
// many as asked for, as long as nobody has read what is on disk: then one may
// be left out for once.
func (m *model) looksFull(lanes []lane, but lane, batch, partitions int) bool {
	n, giving := 0, 0
	for _, l := range lanes {
		r := l.p.rows[l.g]
		pending := l.p.end() - l.p.start
		if r != nil {
			pending = l.p.pending(r.committed)
		}
		if l != but && !r.live(m.clock()) && pending > 0 {
			n += pending
			giving++
		}
	}
	return n >= batch || giving >= partitions
}

// claimed is a lane and its row before a claim, for a give back.
type claimed struct {
	lane
	before *mRow
	had    bool
}

// take applies a claim (R2, R5, R7, R10) and checks what the messages say.
func (m *model) take(c *popCall, cl claim, lease queend.ID, now int64) (claimed, error) {
	for _, head := range cl.heads {
		m.fileHead(cl.lane, head)
	}
	old := cl.g.cursor(cl.p)
	r := old.clone()
	from, last := cl.offs[0], cl.offs[len(cl.msgs)-1]
	r.lastDelivery = now
	attempt := int64(1)
	if c.AutoAck {
		r.committed = last
		keep := r.retry
		r.endLease()
		r.forgetSpan()
		r.retry, r.notBefore, r.isolate, r.headOff, r.headCount = keep, 0, 0, 0, 0
	} else {
		m.countDelivery(cl.p, r, from, last)
		r.lease, r.until, r.batchEnd = lease, now+leaseLength(c, cl.p.q)*second, last
		r.conflated, r.notBefore = cl.g.conflation, 0
		attempt = r.attempts
	}
	cl.g.set(cl.p, r, now)
	for i := range cl.msgs {
		if err := cl.p.msgs[cl.offs[i]].matches(&cl.msgs[i], attempt); err != nil {
			return claimed{}, fmt.Errorf("%s/%s offset %d: %w", cl.p.q.name, cl.p.name, cl.offs[i], err)
		}
	}
	return claimed{cl.lane, old, true}, nil
}

// countDelivery counts an attempt of the span and of its head (R10, A3).
func (m *model) countDelivery(p *mPart, r *mRow, from, last int) {
	again := r.attempts > 0 && from >= r.spanStart && from <= r.spanEnd
	if p.q.opts.MaxDeliveries > 0 {
		if again {
			r.isolate = max(r.isolate, r.spanEnd)
		}
		if r.isolate < from {
			r.isolate = 0
		}
		if r.headOff != from {
			r.headOff, r.headCount = from, 0
		}
		r.headCount++
	}
	if !again || m.rules.Canary {
		r.attempts = 0
	}
	r.attempts++
	r.spanStart, r.spanEnd = from, last
}

// leaseLength is in seconds (R5).
func leaseLength(c *popCall, q *mQueue) int64 {
	switch {
	case c.LeaseSeconds > 0:
		return c.LeaseSeconds
	case c.Discovery || q.opts.LeaseTime == 0:
		return implicitTime
	}
	return q.opts.LeaseTime
}

// matches compares a delivered message with the stored one.
func (msg *mMsg) matches(d *broker.Delivered, attempt int64) error {
	switch {
	case string(d.TxnID) != msg.txn:
		return fmt.Errorf("transaction id %q, want %q", d.TxnID, msg.txn)
	case d.ID != msg.id:
		return fmt.Errorf("id %s, want %s", d.ID, msg.id)
	case string(d.Payload) != msg.payload:
		return fmt.Errorf("payload %s, want %s", d.Payload, msg.payload)
	case string(d.Headers) != msg.headers:
		return fmt.Errorf("headers %s, want %s", d.Headers, msg.headers)
	case d.HasProducer != (msg.producer != nil) || msg.producer != nil && string(d.Producer) != *msg.producer:
		return fmt.Errorf("producer %q, want %v", d.Producer, msg.producer)
	case d.TraceID != msg.trace:
		return fmt.Errorf("trace id %s, want %s", d.TraceID, msg.trace)
	case d.Time < msg.time-millisecond || d.Time > msg.time+millisecond:
		return fmt.Errorf("stamped %d, want %d", d.Time, msg.time)
	case int64(d.Attempt) != attempt:
		return fmt.Errorf("delivery attempt %d, want %d", d.Attempt, attempt)
	}
	return nil
}

// giveBack undoes claims (R11).
func (m *model) giveBack(all []claimed, lease queend.ID) {
	now := m.stamp()
	for _, c := range all {
		r := c.p.rows[c.g]
		if c.p.q.parts[c.p.name] != c.p || m.queues[c.p.q.name] != c.p.q || c.p.q.groups[c.g.name] != c.g || r == nil || r.lease != lease {
			continue
		}
		back := c.before.clone()
		back.committed, back.retry = r.committed, r.retry
		back.settled, back.settledFrom, back.settledTo = r.settled, r.settledFrom, r.settledTo
		c.g.set(c.p, back, now)
	}
}
