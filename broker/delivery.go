package broker

import (
	"slices"
	"time"

	"queend"
	"queend/sched"
)

// The kinds of entries on the timing wheel.
const (
	_              uint8 = iota
	wheelLane            // A partition, B group: look whether it is ready now
	wheelWaiter          // A arrival: the time of a parked pop is over
	wheelRetention       // A partition: messages may be past their retention
	wheelCleanup         // A partition: may have been idle for long enough (R94)
	wheelFill            // A arrival: a pop has waited long enough for its batch to fill (R52)
)

// delivery is everything derived from the state that decides who gets what
// next. Boot rebuilds it; nothing in it is trusted over the state.
type delivery struct {
	leases   map[queend.ID][]laneRef
	waiters  map[uint64]*waiter
	arrivals uint64
	alarmAt  int64 // the wheel's driver sleeps no longer than until then
	stopping bool
	fetches  fetchLines
}

// laneRef is one row of a lease.
type laneRef struct {
	p *partition
	g *group
}

// queueDelivery is what is derived per queue.
type queueDelivery struct{ traffic queueTraffic }

// groupDelivery is what is derived per group.
type groupDelivery struct {
	ring    ring
	armed   map[queend.PartitionID]int64 // the wheel looks at the partition then or earlier
	sights  map[queend.PartitionID]sight // what pops read about lanes that wait
	waiters waitList                     // pops of the whole queue
	pinned  map[string]*waitList
	labels  []*label
	speed   ackSpeed
	broken  map[queend.PartitionID]error // lanes that cannot be read for damage
}

// labelDelivery is what is derived per discovery label.
type labelDelivery struct {
	waiters waitList
	groups  []*group // all it covers
	next    int      // where the next pop begins to look
	stale   bool     // one of its groups was deleted: the next pop registers it anew
}

func newDelivery() delivery {
	return delivery{leases: map[queend.ID][]laneRef{}, waiters: map[uint64]*waiter{}}
}

// rebuild derives everything from the state. The caller has the broker to
// itself; it happens once, at the end of boot.
func (b *Broker) rebuild() {
	b.delivery = newDelivery()
	for _, g := range b.state.groups {
		b.linkLabels(g)
	}
	for p := range b.state.partitions.all() {
		if p.end > p.flushed {
			b.tailGrew(p)
		}
		for r := range p.rows.all() {
			if g := b.state.groups[r.group]; g != nil && r.lane != nil && !r.lane.lease.IsZero() {
				b.leaseHeld(p, g, r)
			}
		}
		b.considerAll(p)
		b.watchRetention(p)
	}
}

// linkLabels finds the labels that cover a group.
func (b *Broker) linkLabels(g *group) {
	g.d.labels = nil
	for _, l := range b.state.labels {
		if l.group == g.name && l.covers(g.q) {
			g.d.labels = append(g.d.labels, l)
			l.d.groups = append(l.d.groups, g)
			if !g.popped {
				l.d.stale = true // its next pop puts the kept registration to use
			}
		}
	}
}

func unlinkLabels(g *group) {
	for _, l := range g.d.labels {
		l.d.groups = slices.DeleteFunc(l.d.groups, func(x *group) bool { return x == g })
	}
	g.d.labels = nil
}

// covers reports whether the queue carries the label (R46): what the label
// leaves out matches anything.
func (k *labelKey) covers(q *queue) bool {
	return k.tenant == q.tenant && (k.namespace == "" || k.namespace == q.namespace) &&
		(k.task == "" || k.task == q.task)
}

// label links (on) or unlinks a queue's groups and its labels, around a
// change of namespace or task.
func (b *Broker) label(q *queue, on bool) {
	if !b.live {
		return
	}
	for _, g := range q.groups {
		if !on {
			unlinkLabels(g)
			continue
		}
		b.linkLabels(g)
		b.rewake(g)
	}
}

// rewake wakes for everything in the ring, after pops came to cover it.
func (b *Broker) rewake(g *group) {
	g.d.ring.each(func(p *partition) bool {
		b.wakeFor(g, p)
		return true
	})
}

func (b *Broker) labelAppeared(l *label) {
	if !b.live {
		return
	}
	for _, g := range b.state.groups {
		if l.group == g.name && l.covers(g.q) {
			g.d.labels = append(g.d.labels, l)
			l.d.groups = append(l.d.groups, g)
		}
	}
}

func (b *Broker) groupAppeared(g *group) {
	if !b.live {
		return
	}
	b.linkLabels(g)
	for p := range b.state.partitionsOf(g.q) {
		b.consider(p, g)
	}
}

// labelVanished lets the parked pops of a label look again.
func (b *Broker) labelVanished(l *label) {
	if b.live {
		b.rouseAll(&l.d.waiters)
	}
}

// groupVanished lets the parked pops of a group look again: they register
// afresh. Its leases end.
func (b *Broker) groupVanished(g *group) {
	if !b.live {
		return
	}
	for _, l := range g.d.labels {
		l.d.stale = true
		b.rouseAll(&l.d.waiters)
	}
	unlinkLabels(g)
	for p := range b.state.partitionsOf(g.q) {
		if r := p.rows.find(g.id); r != nil && r.lane != nil {
			b.leaseDropped(p, g, r)
		}
	}
	b.rouseAll(&g.d.waiters)
	for _, list := range g.d.pinned {
		b.rouseAll(list)
	}
}

func (b *Broker) rouseAll(l *waitList) {
	for _, w := range l.waiters {
		w.parked = nil
		w.rouse()
	}
	l.waiters = nil
	l.left()
}

// forgetLeases ends the leases on a partition that goes.
func (b *Broker) forgetLeases(p *partition) {
	for r := range p.rows.all() {
		if g := b.state.groups[r.group]; g != nil && r.lane != nil {
			b.leaseDropped(p, g, r)
		}
	}
}

func (b *Broker) leaseHeld(p *partition, g *group, r *row) {
	if !b.live {
		return
	}
	b.delivery.leases[r.lane.lease] = append(b.delivery.leases[r.lane.lease], laneRef{p, g})
}

func (b *Broker) leaseDropped(p *partition, g *group, r *row) {
	if !b.live || r.lane.lease.IsZero() {
		return
	}
	lease := r.lane.lease
	rest := slices.DeleteFunc(b.delivery.leases[lease], func(x laneRef) bool { return x.p == p && x.g == g })
	if len(rest) == 0 {
		delete(b.delivery.leases, lease)
	} else {
		b.delivery.leases[lease] = rest
	}
}

// leaseLanes returns the rows that hold a lease, dead or alive. The slice is
// the index's own.
func (b *Broker) leaseLanes(lease queend.ID) []laneRef { return b.delivery.leases[lease] }

// pushArrived lets n new messages be found, counted and waited for.
func (b *Broker) pushArrived(p *partition, n int) {
	if !b.live {
		return
	}
	b.notePush(p, n)
	b.tailGrew(p)
	b.watchRetention(p)
	b.considerAll(p)
	b.delivery.fetches.arrived(p)
}

func (b *Broker) rowChanged(p *partition, g *group) {
	if b.live {
		b.consider(p, g)
	}
}

func (b *Broker) startMoved(p *partition) {
	if b.live {
		b.considerAll(p)
	}
}

// optionsChanged lets everything that waits for a time look again: the time
// may have come nearer. What is in a ring is checked when it is taken.
func (b *Broker) optionsChanged(q *queue) {
	if !b.live {
		return
	}
	for _, g := range q.groups {
		waiting := g.d.armed
		g.d.armed = nil
		for id := range waiting {
			if p := b.state.partitions.get(id); p != nil {
				b.consider(p, g)
			}
		}
		b.rewake(g)
	}
	for p := range b.state.partitionsOf(q) {
		b.watchRetention(p)
	}
}

// at puts an entry on the wheel and sees to it that its driver wakes in time.
func (b *Broker) at(due int64, k sched.Key) {
	b.wheel.Add(due, k)
	if due < b.delivery.alarmAt {
		b.delivery.alarmAt = due
		select {
		case b.alarm <- struct{}{}:
		default:
		}
	}
}

// arm has the wheel look at a lane at the latest at due.
func (b *Broker) arm(p *partition, g *group, due int64) {
	if at, ok := g.d.armed[p.id]; ok && at <= due {
		return
	}
	if g.d.armed == nil {
		g.d.armed = map[queend.PartitionID]int64{}
	}
	g.d.armed[p.id] = due
	b.at(due, sched.Key{Kind: wheelLane, A: uint64(p.id), B: uint64(g.id)})
}

// Tick carries out what is due and returns the instant, in microseconds, at
// which there can be more.
func (b *Broker) Tick() (next int64) {
	b.locked(func() { next = b.fireDue() })
	return next
}

// fireDue is Tick under the lock.
func (b *Broker) fireDue() (next int64) {
	now := b.now()
	b.wheel.Due(now, func(due int64, k sched.Key) { b.fire(now, due, k) })
	next, ok := b.wheel.Next()
	if !ok {
		next = now + Hour
	}
	b.delivery.alarmAt = next
	return next
}

// catchUp carries out what is due if the wheel's driver has not come to it
// yet: after a stop of the process a pop may be there before it.
func (b *Broker) catchUp() {
	if b.now() >= b.delivery.alarmAt {
		b.fireDue()
	}
}

// fire looks at what an entry of the wheel is about. Entries are hints.
func (b *Broker) fire(now, due int64, k sched.Key) {
	switch k.Kind {
	case wheelWaiter:
		if w := b.delivery.waiters[k.A]; w != nil {
			w.expired = true
			w.rouse()
		}
	case wheelFill:
		if w := b.delivery.waiters[k.A]; w != nil {
			w.rouse()
		}
	case wheelLane:
		p, g := b.state.partitions.get(queend.PartitionID(k.A)), b.state.groups[queend.GroupID(k.B)]
		if p == nil || g == nil {
			return
		}
		if at, ok := g.d.armed[p.id]; ok && at <= now {
			delete(g.d.armed, p.id)
		}
		b.consider(p, g)
	default:
		b.retentionDue(k)
	}
}

// timerLoop drives the wheel with real timers until the broker closes.
func (b *Broker) timerLoop() {
	defer b.done.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-b.quit:
			return
		case <-b.alarm:
		case <-timer.C:
		}
		wait := b.Tick()
		b.locked(func() { wait -= b.now() })
		// What is due in thousands of years does not fit into a Duration.
		wait = min(max(wait, 0), Day)
		timer.Reset(time.Duration(wait) * time.Microsecond)
	}
}
