package sched

// entry is one Key and its instant in 24 bytes: when is the instant in µs,
// shifted left by kindBits, with the kind below it.
type entry struct{ when, a, b uint64 }

func (e entry) due() int64 { return int64(e.when >> kindBits) }

// chunkEntries makes a chunk 1000 bytes, which with the allocator's own 8 fills
// its class of 1024: a little over a byte per entry goes to all of that, and the
// few hundred slots waste at most one chunk each.
const chunkEntries = 41

// chunk is a piece of a list. The link stands first, so the garbage collector
// looks at its first word and skips the entries.
type chunk struct {
	next    *chunk
	used    int
	entries [chunkEntries]entry
}

// list is a bag of entries in chunks; only its head has room.
type list struct{ head *chunk }

func (l *list) add(e entry, spare *pool) {
	c := l.head
	if c == nil || c.used == chunkEntries {
		c = spare.get()
		c.next = l.head
		l.head = c
	}
	c.entries[c.used] = e
	c.used++
}

// spareChunks bounds the pool to about 1 MiB; what is more goes to the garbage
// collector, so a burst of entries does not keep its memory.
const spareChunks = 1024

// pool keeps emptied chunks for reuse.
type pool struct {
	head  *chunk
	count int
}

func (p *pool) get() *chunk {
	c := p.head
	if c == nil {
		return new(chunk)
	}
	p.head = c.next
	p.count--
	return c
}

func (p *pool) put(c *chunk) {
	if p.count == spareChunks {
		return
	}
	c.used = 0
	c.next = p.head
	p.head = c
	p.count++
}

// soonest is a binary heap of entries by instant. It holds at most what falls
// into one tick.
type soonest struct{ entries []entry }

func (h *soonest) len() int     { return len(h.entries) }
func (h *soonest) first() entry { return h.entries[0] }

func (h *soonest) push(e entry) {
	h.entries = append(h.entries, e)
	i := len(h.entries) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h.entries[up].when <= e.when {
			break
		}
		h.entries[i] = h.entries[up]
		i = up
	}
	h.entries[i] = e
}

// soonestKeep is the capacity, in entries, that an emptied heap may keep.
const soonestKeep = 4096

func (h *soonest) pop() entry {
	top := h.entries[0]
	end := len(h.entries) - 1
	last := h.entries[end]
	h.entries = h.entries[:end]
	if end == 0 {
		if cap(h.entries) > soonestKeep {
			h.entries = nil
		}
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= end {
			break
		}
		if child+1 < end && h.entries[child+1].when < h.entries[child].when {
			child++
		}
		if h.entries[child].when >= last.when {
			break
		}
		h.entries[i] = h.entries[child]
		i = child
	}
	h.entries[i] = last
	return top
}
