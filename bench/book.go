package main

import (
	"fmt"
	"sync"
)

// book is what one group must get, and what it got, in the scenario real.
type book struct {
	group string
	turn  int // which records it fails

	mu       sync.Mutex
	due      map[string]*entry // by transaction id
	order    map[address]int64 // the offset that must be settled next
	failures map[string]int    // of records that are not yet dead-lettered
	left     int               // entries that are not settled
}

// entry is one message that a group must get.
type entry struct {
	record
	fails    bool // it is failed until it is dead-lettered
	replayOf string
	settled  int // how often; once is right
}

func newBook(group string, turn int, records []record) *book {
	b := &book{group: group, turn: turn, due: map[string]*entry{}, order: map[address]int64{}, failures: map[string]int{}, left: len(records)}
	for i, r := range records {
		b.due[r.id] = &entry{record: r, fails: failsFor(turn, i)}
	}
	return b
}

// failsFor tells which records a group fails: no two groups fail the same one.
func failsFor(turn, i int) bool { return i%failEvery == 7+turn*failEvery/2 }

// finished reports whether the group has nothing left to get.
func (b *book) finished() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left == 0
}

// settled is how many messages the group has settled.
func (b *book) settled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.due) - b.left
}

// verdict is what a worker answers about a run of messages.
type verdict struct {
	items []ackItem
	dead  []bool // by item: this ack must dead-letter
}

// judge checks the messages of one partition, in order, up to the first that
// fails: the ones after it come again. It counts them as settled before the ack
// is sent, since the next worker may have the next ones before its answer.
func (b *book) judge(run []delivered) (verdict, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var v verdict
	for _, m := range run {
		e, err := b.identify(m)
		if err != nil {
			return v, err
		}
		item := ackItem{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, Status: "completed"}
		if !e.fails {
			b.settle(e)
			v.items, v.dead = append(v.items, item), append(v.dead, false)
			continue
		}
		b.failures[e.id]++
		item.Status, item.Error = "failed", failure(e.id)
		dead := b.failures[e.id] > retryLimit
		if dead {
			b.settle(e)
		}
		v.items, v.dead = append(v.items, item), append(v.dead, dead)
		break
	}
	return v, nil
}

// failure is the error text a worker sends with a failed record.
func failure(id string) string { return "cannot book " + id }

// settle counts e and moves on in its partition.
func (b *book) settle(e *entry) {
	e.settled++
	b.left--
	b.order[e.address]++
}

// identify finds out which entry a message is, and checks it.
func (b *book) identify(m delivered) (*entry, error) {
	e := b.due[m.TransactionID]
	what := fmt.Sprintf("group %s got %s at %s/%s offset %d:", b.group, m.TransactionID, m.Queue, m.Partition, m.Offset)
	switch {
	case e == nil:
		return nil, fmt.Errorf("%s nobody pushed that", what)
	case m.Queue != e.queue || m.Partition != e.partition:
		return nil, fmt.Errorf("%s it was pushed to %s", what, e.address)
	case e.settled > 0:
		return nil, fmt.Errorf("%s it was settled before", what)
	case m.Offset != b.order[e.address]:
		return nil, fmt.Errorf("%s out of order, offset %d is next", what, b.order[e.address])
	}
	return e, samePayload(what, m.Data, e.payload)
}

// expectReplay makes the replay of a dead letter due to the group.
func (b *book) expectReplay(txn string, letter deadLetter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.due[letter.TransactionID]
	e := &entry{record: of.record, replayOf: letter.TransactionID}
	e.id = txn
	b.due[txn] = e
	b.left++
}

// checkLetters checks that the dead letters of the group are those it failed.
func (b *book) checkLetters(letters []deadLetter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[string]bool{}
	for _, l := range letters {
		e := b.due[l.TransactionID]
		what := fmt.Sprintf("dead letter %s of group %s, %s at %s/%s:", l.ID, b.group, l.TransactionID, l.Queue, l.Partition)
		switch {
		case e == nil || !e.fails:
			return fmt.Errorf("%s the group never failed it", what)
		case seen[e.id]:
			return fmt.Errorf("%s it is there twice", what)
		case l.Queue != e.queue || l.Partition != e.partition:
			return fmt.Errorf("%s it was pushed to %s", what, e.address)
		case l.RetryCount != retryLimit || l.Error != failure(e.id):
			return fmt.Errorf("%s retryCount %d, errorMessage %q", what, l.RetryCount, l.Error)
		}
		if err := samePayload(what, l.Data, e.payload); err != nil {
			return err
		}
		seen[e.id] = true
	}
	for _, e := range b.due {
		if e.fails && !seen[e.id] {
			return fmt.Errorf("group %s: %s was failed and is no dead letter", b.group, e.id)
		}
	}
	return nil
}

// checkAll checks that each entry was settled once, and that each record the
// group failed has one replay.
func (b *book) checkAll() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	replays := map[string]int{}
	for id, e := range b.due {
		if e.settled != 1 {
			return fmt.Errorf("group %s: %s was settled %d times", b.group, id, e.settled)
		}
		if e.replayOf != "" {
			replays[e.replayOf]++
		}
	}
	for id, e := range b.due {
		if e.fails && replays[id] != 1 {
			return fmt.Errorf("group %s: %s has %d replays", b.group, id, replays[id])
		}
	}
	return nil
}
