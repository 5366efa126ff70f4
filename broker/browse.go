package broker

import (
	"container/heap"
	"math"
	"slices"

	"queend"
)

// browseSteps is how many messages one hold of the lock looks at.
const browseSteps = 2000

// browser walks messages of many partitions from the newest to the oldest by
// their stamps: a merge of the partitions, each read backwards. It begins at
// a time without looking at anything newer, and reads from the disk only the
// stamps it needs to know.
type browser struct {
	b      *Broker
	q      *MessagesQuery
	from   int64 // stamps of the page: from <= stamp < to, microseconds
	to     int64
	dead   map[queend.PartitionID][]queend.Offset // with a dead letter; rising
	heads  headHeap
	skip   int
	picked []picked // the page, without payloads
}

// picked is a message of the page.
type picked struct {
	p    *partition
	off  queend.Offset
	time int64
}

// head is the newest message of a partition that is not passed yet.
type head struct {
	p    *partition
	off  queend.Offset
	time int64 // its stamp; a bound from above unless exact
	// With exact false, off is only known if placed is true: else the head is
	// the newest message stamped before time.
	exact, placed bool
}

// headHeap is a heap of heads, the newest first. A head whose stamp is only
// bounded stands where it would with the highest possible stamp, so nothing
// that precedes it is missed.
type headHeap []head

func (h headHeap) Len() int { return len(h) }
func (h headHeap) Less(i, j int) bool {
	if h[i].time != h[j].time {
		return h[i].time > h[j].time
	}
	return h[i].p.id > h[j].p.id
}
func (h headHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *headHeap) Push(x any)   { *h = append(*h, x.(head)) }
func (h *headHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// gather collects the heads of all partitions the query names.
func (w *browser) gather(queues []*queue) error {
	for _, q := range queues {
		err := w.b.survey(q, func(_ *finder, p *partition) bool {
			if w.q.Partition != "" && p.name != w.q.Partition || p.empty() || p.lastTime < w.from {
				return true
			}
			switch {
			case p.lastTime < w.to:
				w.heads = append(w.heads, head{p: p, off: p.end - 1, time: p.lastTime, exact: true, placed: true})
			case p.created < w.to:
				w.heads = append(w.heads, head{p: p, time: w.to - 1})
			}
			return true
		})
		if err != nil {
			return err
		}
		w.b.locked(func() {
			for _, l := range q.letters {
				w.dead[l.part] = append(w.dead[l.part], l.offset)
			}
		})
	}
	for _, offsets := range w.dead {
		slices.Sort(offsets)
	}
	heap.Init(&w.heads)
	return nil
}

// run fills the page.
func (w *browser) run(limit int) error {
	f := w.b.newFinder()
	defer f.release()
	for {
		ready, done := true, false
		w.b.locked(func() {
			for range browseSteps {
				if done = len(w.heads) == 0 || len(w.picked) >= limit || w.heads[0].time < w.from; done {
					return
				}
				if ready = w.step(f); !ready {
					return
				}
			}
		})
		if done {
			return nil
		}
		if !ready {
			if err := f.load(); err != nil {
				return err
			}
		}
	}
}

// step looks at the newest head: it learns its stamp, or passes it.
func (w *browser) step(f *finder) (ready bool) {
	h := &w.heads[0]
	p := h.p
	switch {
	case p.ord < 0 || p.empty() || h.placed && h.off < p.start:
		heap.Pop(&w.heads)
		return true
	case !h.placed:
		first, ready := f.firstAt(p, h.time+1)
		if !ready {
			return false
		}
		h.off, h.placed = first-1, true
		return true
	case w.q.Status != "" && w.misses(h):
		return true
	case !h.exact:
		at, ready := w.b.stampOf(f, p, h.off)
		if !ready {
			return false // and the bound stands
		}
		h.time, h.exact = at, true
		heap.Fix(&w.heads, 0)
		return true
	}
	w.pass(h)
	heap.Fix(&w.heads, 0)
	return true
}

// misses passes a head whose status is not the one asked for, with all below
// it that share it. Their stamps need not be known: the head's bounds them.
func (w *browser) misses(h *head) bool {
	v := w.b.statusOf(h.p)
	v.dead = w.dead[h.p.id]
	if v.status(h.off) == w.q.Status {
		return false
	}
	h.off, h.exact = v.below(h.off), false
	return true
}

// pass takes the head into the page, or counts it as skipped, and goes on to
// the message below it.
func (w *browser) pass(h *head) {
	if w.skip > 0 {
		w.skip--
	} else {
		w.picked = append(w.picked, picked{h.p, h.off, h.time})
	}
	h.off, h.exact = h.off-1, false
}

// MessageStatus is how far a message is (docs/rules.md, S6).
type MessageStatus string

// The statuses of a message.
const (
	StatusPending    MessageStatus = "pending"
	StatusProcessing MessageStatus = "processing"
	StatusCompleted  MessageStatus = "completed"
	StatusDeadLetter MessageStatus = "dead_letter"
)

// statusView tells the status of the messages of one partition at one
// instant.
type statusView struct {
	p      *partition
	plain  queend.Offset // cursor of the plain queue, NoOffset when nobody reads it
	leased []heldLease
	dead   []queend.Offset // rising
}

// heldLease is what a live lease holds.
type heldLease struct {
	stretch
	until int64 // microseconds
	g     *group
}

// statusOf reads the partition's cursors, not its dead letters. Implied cursors of the plain queue are
// before everything, and nothing is leased without a row.
func (b *Broker) statusOf(p *partition) statusView {
	v := statusView{p: p, plain: queend.NoOffset}
	now := b.now()
	for r := range p.rows.all() {
		g := b.state.groups[r.group]
		if g == nil || g.q != p.q || !g.popped {
			continue
		}
		if g.name == QueueMode {
			v.plain = r.committed
		}
		if r.live(now) {
			held := stretch{max(r.committed+1, p.start), min(r.lane.batchEnd, p.end-1)}
			v.leased = append(v.leased, heldLease{held, r.lane.leaseUntil, g})
		}
	}
	return v
}

// status is the status of the message at off: a dead letter whoever filed it,
// completed once the plain queue's cursor has passed it, processing under a
// lease of any group.
func (v *statusView) status(off queend.Offset) MessageStatus {
	switch {
	case v.isDead(off):
		return StatusDeadLetter
	case off <= v.plain:
		return StatusCompleted
	case v.lease(off) != nil:
		return StatusProcessing
	}
	return StatusPending
}

func (v *statusView) isDead(off queend.Offset) bool {
	_, found := slices.BinarySearch(v.dead, off)
	return found
}

// lease returns the live lease that holds off, that of the plain queue
// before others; nil when none does.
func (v *statusView) lease(off queend.Offset) (found *heldLease) {
	for i := range v.leased {
		l := &v.leased[i]
		if l.from <= off && off <= l.to && (found == nil || l.g.name == QueueMode) {
			found = l
		}
	}
	return found
}

// below is the highest offset below off whose status can differ from that of
// off, so that a long run of one status is passed in one step.
func (v *statusView) below(off queend.Offset) queend.Offset {
	if v.isDead(off) {
		return off - 1
	}
	next := queend.Offset(math.MinInt64)
	edge := func(at queend.Offset) {
		if at < off {
			next = max(next, at)
		}
	}
	edge(v.plain)
	if i, _ := slices.BinarySearch(v.dead, off); i > 0 {
		edge(v.dead[i-1])
	}
	for i := range v.leased {
		edge(v.leased[i].to)
		edge(v.leased[i].from - 1)
	}
	return next
}
