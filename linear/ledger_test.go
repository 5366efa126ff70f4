package linear

import (
	"fmt"
	"sync"

	"queend/broker"
)

// lineKey is a partition, and a group on it.
type lineKey struct{ queue, part, group string }

// hold is a batch that somebody may hold.
type hold struct {
	res    *broker.PopResult
	got    int64 // when the pop was answered
	until  int64 // its lease cannot be over before
	ending bool  // something was begun that may end it
}

// line is what is known of one group on one partition.
type line struct {
	holds     []*hold
	delivered map[string]int64  // id: offset
	done      map[string]string // id: how it was settled, of what must never come again
}

// ledger is what all clients of a stress run know.
type ledger struct {
	mu     sync.Mutex
	ids    int
	pushed map[string]lineKey
	places map[lineKey]map[int64]string // offset: id
	lines  map[lineKey]*line
	upset  map[lineKey]*upset // by queue and group
}

// upset is what ends leases of a group on a queue from outside.
type upset struct {
	running int
	ended   int64 // when the last one was over
}

func newLedger() *ledger {
	return &ledger{pushed: map[string]lineKey{}, places: map[lineKey]map[int64]string{}, lines: map[lineKey]*line{}, upset: map[lineKey]*upset{}}
}

func (l *ledger) newID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids++
	return fmt.Sprint("m", l.ids)
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids
}

// stored notes a message that an exact queue must deliver; at -1 its offset
// is not known.
func (l *ledger) stored(id string, at lineKey, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pushed[id] = at
	if offset >= 0 {
		l.place(at, offset, id)
	}
}

// place notes which message has an offset.
func (l *ledger) place(at lineKey, offset int64, id string) (was string, fits bool) {
	if l.places[at] == nil {
		l.places[at] = map[int64]string{}
	}
	was, known := l.places[at][offset]
	if !known {
		l.places[at][offset] = id
	}
	return was, !known || was == id
}

func (l *ledger) line(k lineKey) *line {
	if l.lines[k] == nil {
		l.lines[k] = &line{delivered: map[string]int64{}, done: map[string]string{}}
	}
	return l.lines[k]
}

// byLine cuts the messages of a pop by partition.
func byLine(res *broker.PopResult) map[lineKey][]*broker.Delivered {
	all := map[lineKey][]*broker.Delivered{}
	for i := range res.Messages {
		m := &res.Messages[i]
		k := lineKey{m.Queue, m.Partition, res.Group}
		all[k] = append(all[k], m)
	}
	return all
}

// delivered checks and notes what a pop got that was asked at one time and
// answered at another.
func (l *ledger) delivered(res *broker.PopResult, req *broker.PopRequest, asked, answered int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, messages := range byLine(res) {
		n := l.line(k)
		for _, h := range n.holds {
			// It was held before the pop began and is held still.
			if !h.ending && h.got < asked && answered < h.until {
				return fmt.Errorf("%v: %s is delivered under %s while %s is live", k, messages[0].TxnID, res.LeaseID, h.res.LeaseID)
			}
		}
		var live []*hold
		for _, h := range n.holds {
			if answered < h.until && !h.ending {
				live = append(live, h)
			}
		}
		n.holds = live
		if !req.AutoAck {
			u := l.upsetOf(k.queue, k.group)
			n.holds = append(n.holds, &hold{
				res: res, got: answered, until: asked + req.LeaseSeconds*broker.Second, ending: u.running > 0 || u.ended >= asked,
			})
		}
		for i, m := range messages {
			if i > 0 && m.Offset <= messages[i-1].Offset {
				return fmt.Errorf("%v: offset %d after %d", k, m.Offset, messages[i-1].Offset)
			}
			if !isExact(k.queue) {
				continue
			}
			id := string(m.TxnID)
			if how := n.done[id]; how != "" {
				return fmt.Errorf("%v: %s at %d comes again after it was %s", k, id, m.Offset, how)
			}
			if was, fits := l.place(lineKey{k.queue, k.part, ""}, int64(m.Offset), id); !fits {
				return fmt.Errorf("%v: offset %d is %s and was %s", k, m.Offset, id, was)
			}
			n.delivered[id] = int64(m.Offset)
			if req.AutoAck {
				n.done[id] = "consumed by its delivery"
			}
		}
	}
	return nil
}

// ending notes that a batch may be held no longer.
func (l *ledger) ending(res *broker.PopResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range byLine(res) {
		for _, h := range l.line(k).holds {
			h.ending = h.ending || h.res == res
		}
	}
}

func (l *ledger) upsetOf(queue, group string) *upset {
	k := lineKey{queue, "", group}
	if l.upset[k] == nil {
		l.upset[k] = &upset{}
	}
	return l.upset[k]
}

// upsetting carries out what may end every lease of some groups on a queue.
func (l *ledger) upsetting(queue string, groups []string, now func() int64, do func() error) error {
	l.mu.Lock()
	for _, group := range groups {
		l.upsetOf(queue, group).running++
		for k, n := range l.lines {
			if k.queue != queue || k.group != group {
				continue
			}
			for _, h := range n.holds {
				h.ending = true
			}
		}
	}
	l.mu.Unlock()
	err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, group := range groups {
		u := l.upsetOf(queue, group)
		u.running--
		u.ended = now()
	}
	return err
}

// settled notes what must never come again: what was completed below the
// lowest signal of an accepted call (R23, R28).
func (l *ledger) settled(res *broker.PopResult, items []broker.AckItem, said []broker.AckResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stopped := map[lineKey]bool{}
	for i := range items {
		m := &res.Messages[i]
		k := lineKey{m.Queue, m.Partition, res.Group}
		if items[i].Signal != broker.Completed {
			stopped[k] = true
		}
		if said[i].Success && !stopped[k] {
			l.line(k).done[string(m.TxnID)] = "completed"
		}
	}
}

// missing lists messages that a group never got.
func (l *ledger) missing() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, at := range l.pushed {
		for _, group := range stressGroups {
			if _, ok := l.line(lineKey{at.queue, at.part, group}).delivered[id]; !ok {
				all = append(all, fmt.Sprintf("%s of %s/%s for %s", id, at.queue, at.part, group))
			}
		}
	}
	return all
}
