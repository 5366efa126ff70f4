package fuzz

import (
	"slices"

	"queend/broker"
)

// subscription is what a pop says about where its group begins.
type subscription struct {
	Mode string // subscriptionMode as sent
	From string // subscriptionFrom as sent
	At   int64  // what From means, when it is a time
}

// seed is where a new group begins: messages stamped at or after it.
func (s subscription) seed(group string, now int64) int64 {
	switch {
	case group == broker.QueueMode:
		return always
	case s.From == "now":
		return now + 1
	case s.From != "" && s.At != 0:
		return s.At
	case s.Mode == "" || s.Mode == "new" || s.Mode == " NEW-only ":
		return now + 1
	}
	return always
}

// register makes the queue and the group of a pop (R40, R43).
func (m *model) register(queue, group string, s subscription, conflation bool) *mGroup {
	q := m.queue(queue)
	g := q.groups[group]
	switch {
	case g == nil:
		seed := s.seed(group, m.stamp())
		g = &mGroup{name: group, q: q, conflation: conflation, seed: seed, start: seed, seedMax: m.parts, popped: true}
		q.groups[group] = g
	case !g.popped:
		g.popped = true
	}
	return g
}

// registerLabel registers a group on every queue of a discovery pop (R46).
func (m *model) registerLabel(k mLabelKey, s subscription, conflation bool) *mLabel {
	l := m.labels[k]
	if l == nil {
		l = &mLabel{mLabelKey: k, conflation: conflation, seed: s.seed(k.group, m.stamp()), stale: true}
		m.labels[k] = l
	}
	unused := slices.ContainsFunc(m.covered(k), func(g *mGroup) bool { return !g.popped })
	if l.stale || unused {
		l.stale = false
		for _, name := range m.names() {
			if q := m.queues[name]; k.covers(q) {
				m.labelGroup(l, q)
			}
		}
	}
	return l
}

func (k mLabelKey) covers(q *mQueue) bool {
	return (k.ns == "" || k.ns == q.ns) && (k.task == "" || k.task == q.task)
}

func (m *model) labelGroup(l *mLabel, q *mQueue) {
	if g := q.groups[l.group]; g != nil {
		g.popped = true
		return
	}
	q.groups[l.group] = &mGroup{
		name: l.group, q: q, conflation: l.conflation, seed: l.seed, start: l.seed, seedMax: m.parts, popped: true,
	}
}

// labelGroups registers the groups of labels on a queue that is new or got
// another label.
func (m *model) labelGroups(q *mQueue) {
	for _, l := range m.labels {
		if l.covers(q) && q.groups[l.group] == nil {
			m.labelGroup(l, q)
		}
	}
}

// covered lists the groups a label stands for.
func (m *model) covered(k mLabelKey) (all []*mGroup) {
	for _, name := range m.names() {
		q := m.queues[name]
		if g := q.groups[k.group]; g != nil && k.covers(q) {
			all = append(all, g)
		}
	}
	return all
}

// configure sets options; settings are checked ones.
func (m *model) configure(queue string, merge bool, set []broker.Setting) *mQueue {
	m.stamp()
	q := m.queues[queue]
	isNew := q == nil
	if isNew {
		q = &mQueue{name: queue, parts: map[string]*mPart{}, groups: map[string]*mGroup{}}
		m.queues[queue] = q
		merge = false
	}
	ns, task := q.ns, q.task
	spaced := q.opts.RedeliveryDelayMS > 0
	if !merge {
		q.opts, q.ns, q.task = broker.DefaultOptions(), "", ""
	}
	for _, s := range set {
		switch s.Name {
		case "namespace":
			q.ns = s.Text
		case "task":
			q.task = s.Text
		default:
			setOption(&q.opts, s)
		}
	}
	if spaced && q.opts.RedeliveryDelayMS == 0 {
		m.endDelays(q)
	}
	if isNew || q.ns != ns || q.task != task {
		m.labelGroups(q)
	}
	return q
}

// endDelays offers every lane of a queue again (A2).
func (m *model) endDelays(q *mQueue) {
	for _, p := range q.order {
		for g, r := range p.rows {
			if r.notBefore != 0 {
				r = r.clone()
				r.notBefore = 0
				g.set(p, r, m.clock())
			}
		}
	}
}

// deleteQueue removes a queue with all it has.
func (m *model) deleteQueue(name string) bool {
	q := m.queues[name]
	if q == nil {
		return false
	}
	for _, l := range m.labels {
		if q.groups[l.group] != nil && l.covers(q) {
			l.stale = true
		}
	}
	delete(m.queues, name)
	m.letters = slices.DeleteFunc(m.letters, func(l *mLetter) bool { return l.q == q })
	return true
}

// deleteGroup drops cursors, and registrations with metadata (R45); queue ""
// means everywhere. It returns the number of cursors.
func (m *model) deleteGroup(group string, queue *string, metadata bool) int {
	n := 0
	m.stamp()
	for _, name := range m.names() {
		q := m.queues[name]
		g := q.groups[group]
		if g == nil || queue != nil && *queue != name {
			continue
		}
		for _, l := range m.labels {
			if l.group == group && l.covers(q) {
				l.stale = true
			}
		}
		delete(q.groups, group)
		kept := *g
		kept.popped = false
		for _, p := range q.order {
			if g.hasCursor(p) {
				n++
			}
			delete(p.rows, g)
		}
		if !metadata {
			q.groups[group] = &kept
		}
	}
	for k := range m.labels {
		if k.group == group && metadata && queue == nil {
			delete(m.labels, k)
		}
	}
	return n
}

// setSubscription changes where a group begins on partitions it has not met.
func (m *model) setSubscription(group string, at int64) int {
	n := 0
	m.stamp()
	for _, q := range m.queues {
		if g := q.groups[group]; g != nil {
			n++
			g.start = at
			if !g.popped {
				g.seed = at
			}
		}
	}
	for _, l := range m.labels {
		if l.group == group {
			n++
			l.seed = at
		}
	}
	return n
}

// seek moves a group (R44); part nil means every partition.
func (m *model) seek(queue, group string, part *string, toEnd bool, at int64) int {
	q := m.queues[queue]
	if q == nil {
		return 0
	}
	now := m.stamp()
	var parts []*mPart
	for _, p := range q.order {
		if part == nil || p.name == *part {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return 0
	}
	g := q.groups[group]
	if g == nil {
		seed := at
		if toEnd {
			seed = now + 1
		}
		if group == broker.QueueMode {
			seed = always
		}
		g = &mGroup{name: group, q: q, seed: seed, start: seed, seedMax: m.parts}
		q.groups[group] = g
	}
	g.popped = true
	for _, p := range parts {
		r := &mRow{committed: p.end() - 1}
		if !toEnd {
			r.committed = p.firstAt(at) - 1
		}
		if old := p.rows[g]; old != nil {
			r.lastDelivery = old.lastDelivery
		}
		if old := p.rows[g]; old == nil || *old != *r { // else nothing happened (R94)
			g.set(p, r, now)
		}
		delete(g.unsure, p)
	}
	return len(parts)
}

// retain removes what is past its retention (R90-R92).
func (m *model) retain() {
	for _, q := range m.queues {
		for _, p := range q.order {
			p.start = m.newStart(q, p)
		}
	}
}

func (m *model) newStart(q *mQueue, p *mPart) int {
	o := &q.opts
	older := func(off int, seconds int64) bool {
		return seconds > 0 && p.msgs[off].time < m.clock()-seconds*second
	}
	slowest := -1
	if groups := m.poppedGroups(q); len(groups) > 0 {
		slowest = p.end() - 1
		for _, g := range groups {
			slowest = min(slowest, g.cursor(p).committed)
		}
	}
	start := p.start
	for start < p.end() {
		gone := older(start, o.MaxWaitTimeSeconds)
		if o.RetentionEnabled {
			gone = gone || older(start, o.RetentionSeconds) || older(start, o.CompletedRetentionSeconds) && start <= slowest
		}
		if !gone {
			break
		}
		start++
	}
	return start
}

func (m *model) poppedGroups(q *mQueue) (all []*mGroup) {
	for _, g := range q.groups {
		if g.popped {
			all = append(all, g)
		}
	}
	return all
}

// mayGo reports whether cleanup may remove the partition (R94).
func (m *model) mayGo(p *mPart) bool {
	if m.rules.CleanupDays == 0 || p.start < p.end() || m.hasLetters(p) {
		return false
	}
	for _, r := range p.rows {
		if r.live(m.clock()) {
			return false
		}
	}
	return max(p.created, p.lastTime(), p.lastUse)+m.rules.CleanupDays*broker.Day < m.clock()+second
}

func (m *model) hasLetters(p *mPart) bool {
	return slices.ContainsFunc(m.letters, func(l *mLetter) bool { return l.part == p })
}

// dropPart removes a partition.
func (m *model) dropPart(p *mPart) {
	delete(p.q.parts, p.name)
	p.q.order = slices.DeleteFunc(p.q.order, func(x *mPart) bool { return x == p })
}
