package broker

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"queend"
)

// partitionTable holds all partitions by number, side by side in pages, and in
// a page those fields that have pointers: the garbage collector reads a million
// partitions from one end to the other instead of looking for each, and passes
// over the rest.
//
// A partition stays where it was put until nobody refers to its page any
// more. One that was deleted is in no answer of the table, but whoever has a
// pointer still sees it as it was: numbers, and with them slots, are never
// used again.
//
// Invariant: every page has a partition that lives.
type partitionTable struct {
	pages map[uint64]*partitionPage // by number / pageSlots
	count int
	names nameStore
}

// pageSlots is as many as there are bits in a word. With what the allocator
// adds a page fills its 16 KiB well (a test looks).
const pageSlots = 64

type partitionPage struct {
	slots [pageSlots]partition
	live  uint64 // a bit for every slot whose partition lives
	facts [pageSlots]facts
}

// get returns a partition, nil when there is none of that number.
func (t *partitionTable) get(id queend.PartitionID) *partition {
	page, slot := t.pages[uint64(id)/pageSlots], uint64(id)%pageSlots
	if page == nil || page.live&(1<<slot) == 0 {
		return nil
	}
	return &page.slots[slot]
}

// put takes in a partition under its number, which must be new, and returns
// where it is from now on.
func (t *partitionTable) put(p partition, f facts) *partition {
	if t.pages == nil {
		t.pages = map[uint64]*partitionPage{}
	}
	at, slot := uint64(f.id)/pageSlots, uint64(f.id)%pageSlots
	page := t.pages[at]
	if page == nil {
		page = new(partitionPage)
		t.pages[at] = page
	}
	page.facts[slot] = f
	p.name, p.facts = t.names.keep(p.name), &page.facts[slot]
	page.live |= 1 << slot
	t.count++
	page.slots[slot] = p
	return &page.slots[slot]
}

// delete forgets a partition; nothing happens when there is none.
func (t *partitionTable) delete(id queend.PartitionID) {
	if t.get(id) == nil {
		return
	}
	at := uint64(id) / pageSlots
	page := t.pages[at]
	page.live &^= 1 << (uint64(id) % pageSlots)
	t.count--
	if page.live == 0 {
		delete(t.pages, at)
	}
}

// len counts the partitions.
func (t *partitionTable) len() int { return t.count }

// all yields the partitions by rising number. The table may change meanwhile:
// what is there all along is met once, what goes before its turn is not met,
// and what comes may be.
func (t *partitionTable) all() iter.Seq[*partition] {
	return func(yield func(*partition) bool) {
		for _, at := range slices.Sorted(maps.Keys(t.pages)) {
			page := t.pages[at]
			if page == nil {
				continue
			}
			for slot := range page.slots {
				if page.live&(1<<slot) != 0 && !yield(&page.slots[slot]) {
					return
				}
			}
		}
	}
}

// nameStore keeps short strings in shared pieces of memory. A piece goes when
// none of its strings is in use any more.
type nameStore struct{ piece strings.Builder }

// namePiece is the size of a piece, in bytes.
const namePiece = 1 << 10

// keep returns a copy of s.
func (n *nameStore) keep(s string) string {
	if len(s) > n.piece.Cap()-n.piece.Len() {
		if len(s) > namePiece/8 {
			return strings.Clone(s)
		}
		n.piece.Reset()
		n.piece.Grow(namePiece)
	}
	from := n.piece.Len()
	n.piece.WriteString(s)
	return n.piece.String()[from:]
}
