package main

import (
	"fmt"
	"sort"
	"sync"
)

// history is what the clients of one run have sent and what they were told. It
// checks every answer against all that was told before, over all restarts of
// the broker.
//
// One producer writes a partition and repeats a push until it is answered, so
// the n-th message it sends belongs at offset n: there is one right state of
// every partition, and what is unknown is only how far it has come.
type history struct {
	mu     sync.Mutex
	clock  int64 // orders what was sent and what was answered
	lanes  map[address]*lane
	counts counts
}

// counts are for the report.
type counts struct {
	pushed, repeated, delivered, completed, filed, lost int
}

// lane is one partition with all its groups.
type lane struct {
	address
	sent   []*message // in the order the producer sent them: by offset
	pid    string     // partition id, once known
	groups map[string]*progress
}

// message is one message of a lane.
type message struct {
	record
	marked   bool   // every group fails it until it is dead-lettered
	id       string // message id, once known
	answered bool   // its push was answered
}

// progress is how far one group has come in one lane.
// Invariant: what the group may get next lies between the last of floors and
// reach.
type progress struct {
	floors []floor       // rising: what is certainly behind the group
	reach  int64         // no ack that was sent can have moved it further
	fails  map[int64]int // acks sent that failed the message at this offset
}

// floor says that from a moment on nothing below an offset may come again.
type floor struct {
	since  int64 // by the clock
	offset int64
}

// settled is how many messages are certainly behind the group.
func (p *progress) settled() int64 {
	if n := len(p.floors); n > 0 {
		return p.floors[n-1].offset
	}
	return 0
}

func newHistory() *history { return &history{lanes: map[address]*lane{}} }

// now returns a moment; a later call returns a later one.
func (h *history) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	return h.clock
}

// lane returns the lane of at. The caller holds the lock.
func (h *history) lane(at address) *lane {
	l := h.lanes[at]
	if l == nil {
		l = &lane{address: at, groups: map[string]*progress{}}
		h.lanes[at] = l
	}
	return l
}

func (l *lane) group(name string) *progress {
	p := l.groups[name]
	if p == nil {
		p = &progress{fails: map[int64]int{}}
		l.groups[name] = p
	}
	return p
}

// sending notes messages that are about to be pushed for the first time.
func (h *history) sending(records []record, marked func(record) bool) []*message {
	h.mu.Lock()
	defer h.mu.Unlock()
	messages := make([]*message, len(records))
	for i, r := range records {
		l := h.lane(r.address)
		messages[i] = &message{record: r, marked: marked(r)}
		l.sent = append(l.sent, messages[i])
	}
	return messages
}

// pushAnswered checks the answers of a push. first says that nothing of it can
// have reached the broker before.
func (h *history) pushAnswered(messages []*message, answers []pushed, first bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, m := range messages {
		a := answers[i]
		what := fmt.Sprintf("push of %s to %s", m.record.id, m.address)
		switch {
		case m.answered && a.Status != "duplicate":
			return fmt.Errorf("%s: stored again as %s at offset %d, though it was answered before as %s", what, a.MessageID, *a.Offset, m.id)
		case first && a.Status != "queued":
			return fmt.Errorf("%s: %s, though it was never sent before", what, a.Status)
		}
		if err := h.place(h.lane(m.address), *a.Offset, m.record.id, a.MessageID); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if m.answered {
			h.counts.repeated++
		} else {
			h.counts.pushed++
		}
		m.answered = true
	}
	return nil
}

// place checks that a message was shown where it belongs, under the one id it
// has. The caller holds the lock.
func (h *history) place(l *lane, offset int64, txn, id string) error {
	if offset < 0 || offset >= int64(len(l.sent)) {
		return fmt.Errorf("%s is shown at offset %d of %s, where only %d messages were sent", txn, offset, l.address, len(l.sent))
	}
	m := l.sent[offset]
	switch {
	case m.record.id != txn:
		return fmt.Errorf("%s is shown at offset %d of %s, where %s belongs", txn, offset, l.address, m.record.id)
	case m.id != "" && m.id != id:
		return fmt.Errorf("%s at offset %d of %s is shown as message %s; it was message %s before", txn, offset, l.address, id, m.id)
	}
	m.id = id
	return nil
}

// deliveredRun checks the messages of one partition that a pop sent at the
// moment asked has brought.
func (h *history) deliveredRun(group string, asked int64, run []delivered) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lanes[address{run[0].Queue, run[0].Partition}]
	what := fmt.Sprintf("group %s got %s/%s from offset %d on", group, run[0].Queue, run[0].Partition, run[0].Offset)
	if l == nil {
		return fmt.Errorf("%s: nothing was sent there", what)
	}
	if l.pid == "" {
		l.pid = run[0].PartitionID
	}
	for i, m := range run {
		switch {
		case m.PartitionID != l.pid:
			return fmt.Errorf("%s: partition id %s; it was %s before", what, m.PartitionID, l.pid)
		case m.Offset != run[0].Offset+int64(i):
			return fmt.Errorf("%s: offset %d comes as number %d", what, m.Offset, i)
		}
		if err := h.place(l, m.Offset, m.TransactionID, m.ID); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err := samePayload(m.TransactionID, m.Data, l.sent[m.Offset].payload); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	h.counts.delivered += len(run)
	return h.startsAt(l.group(group), asked, run[0].Offset, what)
}

// startsAt checks that a delivery brings back nothing that was settled before
// the pop was sent, and passes over nothing that nobody acked.
func (h *history) startsAt(p *progress, asked, offset int64, what string) error {
	i := sort.Search(len(p.floors), func(i int) bool { return p.floors[i].since >= asked })
	if i > 0 && offset < p.floors[i-1].offset {
		return fmt.Errorf("%s: everything below %d was settled before", what, p.floors[i-1].offset)
	}
	if offset > p.reach {
		return fmt.Errorf("%s: %d was never acked, nor anything above it", what, p.reach)
	}
	// The broker has shown where the group stands; it cannot go back.
	h.raise(p, offset)
	return nil
}

// raise notes that from now on nothing below offset may come again.
func (h *history) raise(p *progress, offset int64) {
	h.clock++
	if p.settled() < offset {
		p.floors = append(p.floors, floor{h.clock, offset})
	}
}

// acking chooses what to say about a run and notes that it is about to be said:
// completed up to the first marked message, which fails.
func (h *history) acking(group string, run []delivered) []ackItem {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lanes[address{run[0].Queue, run[0].Partition}]
	p := l.group(group)
	var items []ackItem
	for _, m := range run {
		item := ackItem{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, Status: "completed"}
		marked := l.sent[m.Offset].marked
		if marked {
			item.Status, item.Error = "failed", failure(m.TransactionID)
			p.fails[m.Offset]++
		}
		items = append(items, item)
		p.reach = max(p.reach, m.Offset+1)
		if marked {
			break
		}
	}
	return items
}

// ackAnswered checks the answers to the items that acking chose for run, and
// learns from those that were carried out.
func (h *history) ackAnswered(group string, run []delivered, answers []acked) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lanes[address{run[0].Queue, run[0].Partition}]
	p := l.group(group)
	for i, a := range answers {
		offset, marked := run[i].Offset, l.sent[run[i].Offset].marked
		switch {
		case a.DLQ && !marked:
			return fmt.Errorf("group %s, %s offset %d: dead-lettered without having failed: %v", group, l.address, offset, a)
		case a.DLQ && p.fails[offset] <= crashRetryLimit:
			return fmt.Errorf("group %s, %s offset %d: dead-lettered after %d failures: %v", group, l.address, offset, p.fails[offset], a)
		case a.Dropped:
			return fmt.Errorf("group %s, %s offset %d: dropped: %v", group, l.address, offset, a)
		case a.Success && marked && a.DLQ:
			h.counts.filed++
			h.raise(p, offset+1)
		case a.Success && !marked:
			h.counts.completed++
			h.raise(p, offset+1)
		}
	}
	return nil
}

// lost counts an answer that never came.
func (h *history) lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.lost++
}

// behind names a lane whose end a group has not acked yet, "" if none. The
// answer to an ack may be lost, so whether it was carried out is asked elsewhere.
func (h *history) behind(groups []string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, l := range h.lanes {
		for _, group := range groups {
			if p := l.group(group); p.reach < int64(len(l.sent)) {
				return fmt.Sprintf("group %s has acked %d of the %d messages of %s", group, p.reach, len(l.sent), at)
			}
		}
	}
	return ""
}
