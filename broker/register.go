package broker

import (
	"math"
	"strings"
	"time"

	"queend"
)

// maxNameBytes bounds queue + the longer of partition and group (docs/rules.md, S1).
const maxNameBytes = 411

// always is a seed before every message.
const always = math.MinInt64

// reserveQueue takes the next queue number for an event of the bundle.
func (b *Broker) reserveQueue(t *bundle) queend.QueueID {
	t.queues++
	return b.state.lastQueue + queend.QueueID(t.queues)
}

// reservePartition takes the next partition number for an event of the bundle.
func (b *Broker) reservePartition(t *bundle) queend.PartitionID {
	t.partitions++
	return b.state.lastPartition + queend.PartitionID(t.partitions)
}

// reserveGroup takes the next group number for an event of the bundle.
func (b *Broker) reserveGroup(t *bundle) queend.GroupID {
	t.groups++
	return b.state.lastGroup + queend.GroupID(t.groups)
}

// checkNames refuses names over their limit; QueueMode does not count.
func checkNames(queue, partition, group string) error {
	longer := len(partition)
	if group != QueueMode {
		longer = max(longer, len(group))
	}
	if len(queue)+longer > maxNameBytes {
		return refuse(CodeNameTooLong, "name too long: queue plus the longer of partition and consumerGroup may have 411 bytes")
	}
	return nil
}

// addQueue adds the events of a queue that a push, pop or configure creates,
// with the groups that discovery labels register on it.
func (b *Broker) addQueue(t *bundle, tenant queend.ID, name string) *queueSet {
	ev := &queueSet{
		id: b.reserveQueue(t), uuid: b.newID(t.stamp), tenant: tenant, name: name, created: t.stamp,
		implicit: true, opts: implicitOptions(),
	}
	ev.namespace, ev.task = splitName(name)
	return ev
}

// splitName derives namespace and task of a queue nobody configured: the text
// before the first dot, and that between the first and the second.
func splitName(name string) (namespace, task string) {
	namespace, rest, _ := strings.Cut(name, ".")
	task, _, _ = strings.Cut(rest, ".")
	return namespace, task
}

// addLabelGroups registers the groups of every label that covers a queue and
// is not registered on it yet.
func (b *Broker) addLabelGroups(t *bundle, ev *queueSet) {
	probe := &queue{queueKey: queueKey{ev.tenant, ev.name}, namespace: ev.namespace, task: ev.task}
	existing := b.state.queues[ev.id]
	added := map[string]bool{}
	for _, l := range b.state.labels {
		if !l.covers(probe) || added[l.group] || (existing != nil && existing.groups[l.group] != nil) {
			continue
		}
		added[l.group] = true
		t.add(b.groupOf(t, ev.id, l))
	}
}

// groupOf is the registration a label makes on a queue. Queues that exist
// when the label is registered and those that come later are seeded by the
// same instant.
func (b *Broker) groupOf(t *bundle, q queend.QueueID, l *label) *groupSet {
	return &groupSet{
		id: b.reserveGroup(t), queue: q, name: l.group, created: t.stamp, mode: l.mode,
		conflation: l.conflation, seed: l.seed, start: l.seed, seedMax: b.state.lastPartition, popped: true,
	}
}

// subscription is where a new group begins: messages stamped at or after
// seed. mode is the word listings show.
type subscription struct {
	mode string
	seed int64
}

// subscribe reads the two parameters of a pop (docs/rules.md, S4). stamp is that of
// the registration's record: later pushes carry higher stamps.
func (b *Broker) subscribe(group, mode, from string, stamp int64) subscription {
	if group == QueueMode {
		return subscription{"all", always}
	}
	if from = strings.TrimSpace(from); from != "" {
		if strings.EqualFold(from, "now") {
			return subscription{"new", stamp + 1}
		}
		if at, ok := ParseTime(from); ok {
			return subscription{"timestamp", at}
		}
	}
	if mode = strings.ToLower(strings.TrimSpace(mode)); mode == "" {
		mode = strings.ToLower(b.cfg.DefaultMode)
	}
	switch mode {
	case "new", "new-only", "new_only", "newonly":
		return subscription{"new", stamp + 1}
	}
	return subscription{"all", always}
}

// ParseTime reads an ISO-8601 instant with a zone, or a date, as microseconds
// since 1970.
func ParseTime(s string) (int64, bool) {
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04Z07:00",
		"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMicro(), true
		}
	}
	return 0, false
}

// register finds or makes the queue and the group of a pop on one queue, on
// every route alike (R40, R43). It commits what it makes.
func (b *Broker) register(r *PopRequest) *group {
	q := b.state.queue(r.Tenant, r.Queue)
	if q != nil {
		if g := q.groups[r.Group]; g != nil && g.popped {
			return g
		}
	}
	t := b.begin()
	if q == nil {
		ev := b.addQueue(t, r.Tenant, r.Queue)
		t.add(ev)
		b.addLabelGroups(t, ev)
		b.commit(t)
		q = b.state.queue(r.Tenant, r.Queue)
		t = b.begin()
	}
	g := q.groups[r.Group]
	if g == nil {
		sub := b.subscribe(r.Group, r.Mode, r.From, t.stamp)
		t.add(&groupSet{
			id: b.reserveGroup(t), queue: q.id, name: r.Group, created: t.stamp, mode: sub.mode,
			conflation: r.Conflation, seed: sub.seed, start: sub.seed, seedMax: b.state.lastPartition, popped: true,
		})
	} else if !g.popped {
		t.add(g.event(func(ev *groupSet) { ev.popped = true }))
	}
	b.commit(t)
	return q.groups[r.Group]
}

// event is the registration of a group as it stands, with a change.
func (g *group) event(change func(*groupSet)) *groupSet {
	ev := &groupSet{
		id: g.id, queue: g.q.id, name: g.name, created: g.created, mode: g.mode, conflation: g.conflation,
		seed: g.seed, start: g.start, seedMax: g.seedMax, popped: g.popped,
	}
	change(ev)
	return ev
}

// registerLabel finds or makes the label of a discovery pop, and with it the
// group on every queue the label covers (R46). It commits what it makes.
func (b *Broker) registerLabel(r *PopRequest) *label {
	key := labelKey{tenant: r.Tenant, namespace: r.Namespace, task: r.Task, group: r.Group}
	if l := b.state.labels[key]; l != nil {
		if l.d.stale {
			b.revive(l)
		}
		return l
	}
	t := b.begin()
	sub := b.subscribe(r.Group, r.Mode, r.From, t.stamp)
	ev := &labelSet{labelKey: key, mode: sub.mode, conflation: r.Conflation, seed: sub.seed}
	t.add(ev)
	probe := &label{labelKey: key, mode: ev.mode, conflation: ev.conflation, seed: ev.seed}
	for _, q := range b.state.queues {
		if !key.covers(q) {
			continue
		}
		if g := q.groups[r.Group]; g == nil {
			t.add(b.groupOf(t, q.id, probe))
		} else if !g.popped {
			t.add(g.event(func(ev *groupSet) { ev.popped = true }))
		}
	}
	b.commit(t)
	return b.state.labels[key]
}

// revive registers a label's group anew on covered queues where its group was
// deleted since.
func (b *Broker) revive(l *label) {
	l.d.stale = false
	t := b.begin()
	for _, q := range b.state.queues {
		if !l.covers(q) {
			continue
		}
		if g := q.groups[l.group]; g == nil {
			t.add(b.groupOf(t, q.id, l))
		} else if !g.popped {
			t.add(g.event(func(ev *groupSet) { ev.popped = true }))
		}
	}
	b.commit(t)
}

// NewID mints a UUIDv7 that names nothing in the state.
func (b *Broker) NewID() (id queend.ID) {
	b.locked(func() { id = b.newID(b.now()) })
	return id
}
