package broker

// ring is the FIFO of partitions that look ready to one group. An entry is a
// hint, checked under the lock when it is taken: a stale one is legal, a
// missing one is not. A partition is in it at most once.
type ring struct {
	items []*partition
	head  int
	in    []uint64 // one bit per partition, by its ord in the queue
}

// add puts p at the back; false when it was in already.
func (r *ring) add(p *partition) bool {
	word, bit := int(p.ord/64), uint64(1)<<(p.ord%64)
	for word >= len(r.in) {
		r.in = append(r.in, make([]uint64, word+1-len(r.in))...)
	}
	if r.in[word]&bit != 0 {
		return false
	}
	r.in[word] |= bit
	r.items = append(r.items, p)
	return true
}

// has reports whether p is in the ring.
func (r *ring) has(p *partition) bool {
	word := int(p.ord / 64)
	return p.ord >= 0 && word < len(r.in) && r.in[word]&(1<<(p.ord%64)) != 0
}

// take removes and returns the front, nil when the ring is empty. Partitions
// deleted meanwhile are passed over.
func (r *ring) take() *partition {
	for r.head < len(r.items) {
		p := r.items[r.head]
		r.items[r.head] = nil
		r.head++
		if r.head == len(r.items) {
			r.items, r.head = r.items[:0], 0
		} else if r.head > 1024 && r.head*2 > len(r.items) {
			n := copy(r.items, r.items[r.head:])
			clear(r.items[n:])
			r.items, r.head = r.items[:n], 0
		}
		if p.ord >= 0 {
			r.in[p.ord/64] &^= 1 << (p.ord % 64)
			return p
		}
	}
	return nil
}

// len counts the entries, stale ones included.
func (r *ring) len() int { return len(r.items) - r.head }

// each shows the entries from the front until yield says false.
func (r *ring) each(yield func(*partition) bool) {
	for _, p := range r.items[r.head:] {
		if p.ord >= 0 && !yield(p) {
			return
		}
	}
}
