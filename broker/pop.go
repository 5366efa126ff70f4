package broker

import (
	"context"
	"sort"

	"queend"
	"queend/sched"
)

// maxPopPartitions bounds how many partitions one pop may claim (docs/rules.md, S4).
const maxPopPartitions = 64

// defaultPopBatch is the batch of a pop that names none.
const defaultPopBatch = 200

// maxPopBatch caps the batch of a pop. What an answer holds besides payloads is
// bounded only by the number of its messages, and so is what acks them.
const maxPopBatch = 100_000

// maxPopTimeoutMS caps a long poll.
const maxPopTimeoutMS = 60000

// popper is one pop on its way: look, read what is on disk, claim, or park
// and look again.
type popper struct {
	b     *Broker
	ctx   context.Context
	r     *PopRequest
	f     *finder
	heads *fetcher // messages at their delivery limit (A3)

	hangup  <-chan struct{} // closed when the client hangs up; nil before it is watched
	unwatch func()

	w       *waiter
	due     int64 // microseconds: answer empty then
	look    int64 // the first look, for minPopWaitTime
	slept   bool  // was parked on an empty queue: served at once (R52)
	filled  bool  // waited, or waits, for its batch to fill
	fillEnd int64 // at the latest until then, microseconds
	group   *group
	pin     *partition
	label   *label
	limits  popLimits
	picked  []*candidate
	reading bool  // candidates wait for the disk
	rounds  int   // readings that only some candidates needed
	failed  error // found nothing, and a lane cannot be read
	acted   bool  // lanes were sealed or heads filed: look again
	lsn     queend.LSN
	result  PopResult
}

// popLimits is what one look may take.
type popLimits struct {
	batch      int
	partitions int
}

// step is what a look at the state led to.
type step uint8

const (
	_        step = iota
	stepDone      // the result stands
	stepRead      // candidates or lookups need the disk
	stepPark      // nothing to be had: wait
)

// Pop claims messages for a group, waiting for them when asked. An empty
// result has no messages and says why. Errors are a *Refusal or a failure of
// the log. The claim is durable when Pop returns.
func (b *Broker) Pop(ctx context.Context, req PopRequest) (*PopResult, error) {
	if req.Group == "" {
		req.Group = QueueMode
	}
	if req.Pinned && req.Partition == "" {
		req.Partition = DefaultPartition
	}
	if err := checkPop(&req); err != nil {
		return nil, err
	}
	p := &popper{b: b, ctx: ctx, r: &req, f: b.newFinder(), heads: b.newFetcher(), unwatch: func() {}}
	defer p.f.release()
	if err := p.run(); err != nil {
		return nil, err
	}
	p.remember()
	if err := b.await(ctx, p.lsn); err != nil {
		b.GiveBack(context.WithoutCancel(ctx), &p.result)
		return nil, err
	}
	p.decrypt()
	b.meters.popped(p)
	return &p.result, nil
}

// checkPop refuses what no state can make right.
func checkPop(r *PopRequest) error {
	if r.Discovery && r.Namespace == "" && r.Task == "" {
		return refuse(CodeBadRequest, "namespace or task is required")
	}
	if r.Conflation && r.Group == QueueMode {
		return refuse(CodeBadRequest, "conflation requires a consumerGroup")
	}
	if r.Conflation && r.AutoAck {
		return refuse(CodeBadRequest, "conflation cannot be combined with autoAck (commitOnDelivery)")
	}
	if r.Discovery {
		return checkNames("", "", r.Group)
	}
	return checkNames(r.Queue, r.Partition, r.Group)
}

// run loops until the pop has its result. Whatever way it ends, candidates
// go back and a wake that was not used goes on.
func (p *popper) run() error {
	defer p.b.locked(p.finish)
	defer func() { p.unwatch() }()
	p.b.locked(p.start)
	for {
		var s step
		p.b.locked(func() { s = p.attempt() })
		switch s {
		case stepDone:
			return p.failed
		case stepRead:
			if err := p.read(); err != nil {
				return err
			}
		case stepPark:
			p.watch()
			select {
			case <-p.w.wake:
			case <-p.hangup:
				return nil
			case <-p.ctx.Done():
				return nil
			}
		}
	}
}

// watch begins to look out for a client that hangs up.
func (p *popper) watch() {
	if p.r.Watch != nil && p.hangup == nil {
		p.hangup, p.unwatch = p.r.Watch()
	}
}

// start sets the pop's deadline and waiter.
func (p *popper) start() {
	now := p.b.now()
	p.look = now
	p.result.Group = p.r.Group
	p.due = now
	if !p.r.Wait {
		return
	}
	timeout := p.r.TimeoutMS
	if timeout <= 0 {
		timeout = p.b.cfg.DefaultTimeoutMS
	}
	timeout = min(timeout, maxPopTimeoutMS)
	if timeout > 2*p.b.cfg.ReplyMarginMS {
		timeout -= p.b.cfg.ReplyMarginMS
	}
	p.due = now + timeout*Millisecond
	p.w = p.b.newWaiter(p.due)
}

// finish gives candidates back and leaves the waiting line.
func (p *popper) finish() {
	p.drop()
	if p.filled {
		p.b.meters.fillMicros.Add(uint64(min(p.b.now(), p.fillEnd) - p.look))
	}
	if p.w != nil {
		p.b.leave(p.w)
	}
}

// attempt takes one look: it claims what it can, or says what is needed.
func (p *popper) attempt() step {
	b := p.b
	b.catchUp()
	p.lsn = b.log.Last()
	if b.state.popMaintenance {
		p.result.Empty = EmptyPaused
		p.result.Conflation = p.r.Conflation
		return stepDone
	}
	p.resolve()
	p.lsn = b.log.Last()
	if p.gone() {
		p.result.Empty = EmptyNothing
		return stepDone
	}
	if !p.reading {
		p.limits = p.plan()
		if p.fillWaits() {
			return p.park()
		}
	}
	switch p.take() {
	case findReady:
		return stepDone
	case findDisk:
		return stepRead
	}
	if p.r.Wait && !p.w.expired && !b.delivery.stopping && b.now() < p.due {
		p.slept = true
		return p.park()
	}
	if p.failed = p.broken(); p.failed != nil {
		return stepDone
	}
	p.noteEmpty()
	p.result.Empty = EmptyNothing
	if p.r.Wait {
		p.result.Empty = EmptyTimeout
	}
	return stepDone
}

// take collects and claims until it has messages, needs the disk, or has
// found the rings empty in this very hold of the lock.
func (p *popper) take() finding {
	for {
		fresh := !p.reading
		if fresh {
			p.collect()
		}
		p.reading = false
		if !fresh {
			p.deepen()
		}
		if !p.needsDisk() {
			if p.claim() {
				return findReady
			}
		}
		if p.needsDisk() {
			p.reading = true
			return findDisk
		}
		p.drop()
		if fresh && !p.acted {
			return findNothing
		}
		p.acted = false
	}
}

// gone reports whether nobody is there to take an answer (R11).
func (p *popper) gone() bool {
	select {
	case <-p.hangup:
		return true
	case <-p.ctx.Done():
		return true
	default:
	}
	return p.slept && p.r.StillThere != nil && !p.r.StillThere()
}

// resolve finds the group, the partition or the label the pop is about. They
// may have been deleted while it was parked.
func (p *popper) resolve() {
	b := p.b
	if p.r.Discovery {
		if p.label == nil || b.state.labels[p.label.labelKey] != p.label {
			p.label = b.registerLabel(p.r)
		} else if p.label.d.stale {
			b.revive(p.label)
		}
		return
	}
	if p.group == nil || b.state.groups[p.group.id] != p.group {
		p.group = b.register(p.r)
	}
	p.pin = nil
	if p.r.Pinned {
		p.pin = b.state.partition(p.group.q, p.r.Partition)
	}
	p.result.Conflation = p.group.conflation
	p.result.Conflict = p.r.Conflation && !p.group.conflation
}

// park puts the pop into its waiting line; looking and parking happen under
// one hold of the lock, so no wake is lost.
func (p *popper) park() step {
	p.b.passOn(p.w)
	p.b.armWaiter(p.w)
	switch {
	case p.w.parked != nil:
	case p.label != nil:
		p.label.d.waiters.add(p.w)
	case p.r.Pinned:
		p.group.pinned(p.r.Partition).add(p.w)
	default:
		p.group.d.waiters.add(p.w)
	}
	return stepPark
}

// plan resolves the knobs of the call (S4, R71, R78).
func (p *popper) plan() popLimits {
	l := popLimits{batch: defaultPopBatch, partitions: 1}
	if p.r.Batch != 0 {
		l.batch = min(max(p.r.Batch, 1), maxPopBatch)
	}
	if p.r.Partitions != 0 {
		l.partitions = min(max(p.r.Partitions, 1), maxPopPartitions)
	} else if p.group != nil && p.group.conflation {
		l.partitions = min(l.batch, maxPopPartitions)
	}
	if p.r.Pinned {
		l.partitions = 1
		return l
	}
	if p.r.Autopilot && p.group != nil && !p.group.conflation && p.b.cfg.Autopilot == "on" {
		p.autopilot(&l)
	}
	return l
}

// fillWaits reports whether the pop should wait for its batch to fill (R52).
// A pop that was woken from an empty queue is served at once.
func (p *popper) fillWaits() bool {
	if !p.r.Wait || p.group == nil || p.limits.batch <= 1 || p.slept || p.w.expired {
		return false
	}
	m := p.group.q.opts.MinPopWaitTime * Millisecond
	now := p.b.now()
	if m <= 0 || now >= p.look+m || now >= p.due {
		return false
	}
	estimate := p.estimate()
	if estimate == 0 || estimate >= int64(p.limits.batch) {
		return false
	}
	if !p.filled {
		p.filled, p.fillEnd = true, min(p.look+m, p.due)
		p.b.meters.fillWaits.Add(1)
		p.b.at(p.fillEnd, sched.Key{Kind: wheelFill, A: p.w.arrival})
	}
	return true
}

// visibleEnd is the offset after the last message stamped at or before a
// time, as far as memory knows: what is only on disk counts as old.
func (p *partition) visibleEnd(at int64) queend.Offset {
	if p.lastTime <= at {
		return p.end
	}
	messages := p.inMemory()
	return p.tailFrom() + queend.Offset(sort.Search(len(messages), func(i int) bool { return messages[i].time > at }))
}

// estimate counts messages that look ready to this pop.
func (p *popper) estimate() int64 {
	var n int64
	count := func(part *partition) {
		committed, known := queend.NoOffset, false
		if r := part.rows.find(p.group.id); r != nil {
			committed = r.committed
		} else if committed, known = p.b.impliedSeen(p.group, part); !known {
			return
		}
		end := part.visibleEnd(p.b.now() - part.q.opts.DelayedProcessing*Second)
		n += int64(max(end-max(committed+1, part.start), 0))
	}
	if p.r.Pinned {
		if p.pin != nil {
			if state, _ := p.b.lookAt(p.pin, p.group, p.b.now()); state == laneReady {
				count(p.pin)
			}
		}
		return n
	}
	seen := 0
	p.group.d.ring.each(func(part *partition) bool {
		if state, _ := p.b.lookAt(part, p.group, p.b.now()); state == laneReady {
			count(part)
			seen++
		}
		return seen < p.limits.partitions && n < int64(p.limits.batch)
	})
	return n
}
