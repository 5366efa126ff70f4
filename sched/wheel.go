// Package sched says what is due at time t. It holds keys and instants, knows
// no clock and no type of the broker, and cancels nothing: an entry is a hint
// that the caller checks against its own state when it comes due.
package sched

import "math/bits"

// Key names what is due. It holds no pointers, so millions of keys cost the
// garbage collector nothing. What the fields mean is the caller's business.
type Key struct {
	Kind uint8
	A, B uint64
}

const (
	tickBits  = 10 // a tick is 2^10 µs, about one millisecond
	slotBits  = 6  // a level has 64 slots, one bit each in a word
	slotCount = 1 << slotBits
	levels    = 8 // 8 levels of 6 bits and the tick's 10 cover all of maxDue

	kindBits = 8
	maxDue   = 1<<(63-kindBits) - 1 // µs, far past the year 3000
)

// Wheel is a hierarchical timing wheel. A slot of level l is 64^l ticks wide;
// an entry sits at the level of the highest 6-bit digit in which its tick
// differs from the wheel's, and moves down as the wheel reaches its slot.
//
// Invariants, between calls: slots hold only ticks after at; soon holds what is
// due after last in ticks up to at; overdue holds what was due at or before last
// when it was added. A
// set bit in occupied[l] says that the slot has entries, and lies after at's
// own digit on that level, so the lowest bit of the lowest level that has one
// is the earliest slot.
//
// A Wheel is not safe for concurrent use.
type Wheel struct {
	last     int64  // µs, the latest instant that Due was asked about
	at       uint64 // the tick up to which slots have been emptied
	count    int
	overdue  list
	soon     soonest
	occupied [levels]uint64
	slots    [levels][slotCount]list
	spare    pool
}

// New returns an empty wheel that stands at start, in µs of the caller's clock.
func New(start int64) *Wheel {
	last := clampDue(start)
	return &Wheel{last: last, at: uint64(last) >> tickBits}
}

// Add notes that k is due at the instant due, in µs; it is cut to the range
// 0 to 2^55-1. An instant that is not after the latest call of Due comes due
// with the next call, also when added by fire itself.
func (w *Wheel) Add(due int64, k Key) {
	due = clampDue(due)
	w.count++
	e := entry{when: uint64(due)<<kindBits | uint64(k.Kind), a: k.A, b: k.B}
	if due <= w.last {
		w.overdue.add(e, &w.spare)
		return
	}
	w.place(e)
}

// Due takes out every entry with an instant at or before now, in µs, and calls
// fire with it: first what was late when it was added, then the rest, older
// ticks first. Within a tick, which is about a millisecond, the order is not
// defined. A now before that of an earlier call counts as that one. fire may
// call Add, and nothing else of this wheel.
func (w *Wheel) Due(now int64, fire func(due int64, k Key)) {
	now = max(clampDue(now), w.last)
	w.last = now
	late := w.overdue
	w.overdue = list{}
	w.fireAll(late, fire)
	for {
		for w.soon.len() > 0 && w.soon.first().due() <= now {
			w.fireOne(w.soon.pop(), fire)
		}
		level, slot, start := w.earliest()
		if level == levels || start > uint64(now)>>tickBits {
			break
		}
		w.enter(level, slot, start, fire)
	}
	// No slot starts before now's tick, so no entry changes its level by this.
	w.at = max(w.at, uint64(now)>>tickBits)
}

// Next returns the earliest instant, in µs, at which Due could have something
// to fire; ok is false when the wheel is empty. It may be early, by the width
// of a slot, for an entry that is far away: Due then only moves entries down.
// It is never late.
func (w *Wheel) Next() (due int64, ok bool) {
	switch {
	case w.count == 0:
		return 0, false
	case w.overdue.head != nil:
		return w.last, true
	case w.soon.len() > 0:
		return w.soon.first().due(), true
	}
	_, _, start := w.earliest()
	return int64(start << tickBits), true
}

// Len returns the number of entries.
func (w *Wheel) Len() int { return w.count }

// earliest finds the occupied slot with the earliest first tick. level is
// levels when there is none.
func (w *Wheel) earliest() (level, slot int, start uint64) {
	for level = range levels {
		if w.occupied[level] == 0 {
			continue
		}
		slot = bits.TrailingZeros64(w.occupied[level])
		shift := level * slotBits
		above := w.at >> (shift + slotBits) << (shift + slotBits)
		return level, slot, above | uint64(slot)<<shift
	}
	return levels, 0, 0
}

// enter moves the wheel to the first tick of a slot and empties the slot. A
// slot of one tick that lies wholly before now is fired from where it is.
func (w *Wheel) enter(level, slot int, start uint64, fire func(int64, Key)) {
	l := w.slots[level][slot]
	w.slots[level][slot] = list{}
	w.occupied[level] &^= 1 << slot
	w.at = start
	if level == 0 && start < uint64(w.last)>>tickBits {
		w.fireAll(l, fire)
		return
	}
	for c := l.head; c != nil; {
		for _, e := range c.entries[:c.used] {
			w.place(e)
		}
		next := c.next
		w.spare.put(c)
		c = next
	}
}

// place puts an entry into the slot of its tick, or into soon when the wheel
// has reached that tick already.
func (w *Wheel) place(e entry) {
	tick := uint64(e.due()) >> tickBits
	if tick <= w.at {
		w.soon.push(e)
		return
	}
	level := (bits.Len64(tick^w.at) - 1) / slotBits
	slot := tick >> (level * slotBits) & (slotCount - 1)
	w.occupied[level] |= 1 << slot
	w.slots[level][slot].add(e, &w.spare)
}

func (w *Wheel) fireAll(l list, fire func(int64, Key)) {
	for c := l.head; c != nil; {
		for _, e := range c.entries[:c.used] {
			w.fireOne(e, fire)
		}
		next := c.next
		w.spare.put(c)
		c = next
	}
}

func (w *Wheel) fireOne(e entry, fire func(int64, Key)) {
	w.count--
	fire(e.due(), Key{Kind: uint8(e.when), A: e.a, B: e.b})
}

func clampDue(due int64) int64 { return min(max(due, 0), maxDue) }
