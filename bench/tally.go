package main

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
)

// tally checks that every message of every lane comes once. It is used by many
// consumers at once.
type tally struct {
	ordered bool // the system promises the order of a lane
	next    []atomic.Uint32
	total   atomic.Int64

	mu   sync.Mutex
	seen [][]uint64 // by lane, a bit per message; only without order
}

func newTally(lanes int, ordered bool) *tally {
	t := &tally{ordered: ordered}
	if ordered {
		t.next = make([]atomic.Uint32, lanes)
	} else {
		t.seen = make([][]uint64, lanes)
	}
	return t
}

// take notes one message. With order, a lane is read by one consumer at a time,
// which has taken what it was given before it lets another one have the next.
func (t *tally) take(s slot) error {
	if !t.ordered {
		return t.mark(s)
	}
	if int(s.lane) >= len(t.next) {
		return fmt.Errorf("lane %d does not exist", s.lane)
	}
	switch next := t.next[s.lane].Load(); {
	case s.seq < next:
		return fmt.Errorf("duplicate or order violation: message %d of lane %d comes after %d", s.seq, s.lane, next-1)
	case s.seq > next:
		return fmt.Errorf("gap: message %d of lane %d comes where %d belongs", s.seq, s.lane, next)
	}
	t.next[s.lane].Store(s.seq + 1)
	t.total.Add(1)
	return nil
}

// mark is take without order.
func (t *tally) mark(s slot) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if int(s.lane) >= len(t.seen) {
		return fmt.Errorf("lane %d does not exist", s.lane)
	}
	row := t.seen[s.lane]
	for len(row) <= int(s.seq/64) {
		row = append(row, 0)
	}
	t.seen[s.lane] = row
	if row[s.seq/64]&(1<<(s.seq%64)) != 0 {
		return fmt.Errorf("duplicate: message %d of lane %d", s.seq, s.lane)
	}
	row[s.seq/64] |= 1 << (s.seq % 64)
	t.total.Add(1)
	return nil
}

// complete checks that all that was acknowledged has come, and nothing else:
// sent is the number of messages of each lane.
func (t *tally) complete(sent []uint32) error {
	total := int64(0)
	for lane, want := range sent {
		if got := t.count(lane); got != want {
			return fmt.Errorf("lane %d: %d messages were acknowledged, %d came without a gap", lane, want, got)
		}
		total += int64(want)
	}
	if got := t.total.Load(); got != total {
		return fmt.Errorf("%d messages were acknowledged, %d came", total, got)
	}
	return nil
}

// count is how many messages of a lane came before the first gap.
func (t *tally) count(lane int) uint32 {
	if t.ordered {
		return t.next[lane].Load()
	}
	n := uint32(0)
	for _, word := range t.seen[lane] {
		run := bits.TrailingZeros64(^word)
		n += uint32(run)
		if run < 64 {
			break
		}
	}
	return n
}
