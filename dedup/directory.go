package dedup

import "queend"

// directory is an extendible hash table: the top depth bits of a hash choose a
// page, and a page that is full is split in two by its next bit. So growing
// never moves more than one page, and needs no large piece of memory but the
// array of pages.
type directory struct {
	depth   uint8
	pages   []*page // 1<<depth, a page of depth d stands 1<<(depth-d) times
	count   int     // different pages, not counting overflow
	entries int
	bytes   int
}

const (
	minSlots = 16   // a page starts small and doubles
	maxSlots = 4096 // then it is split

	slotBytes = 16 // hash and offset
	pageBytes = 72 // the page itself

	// A directory may grow to this many times its pages. Hashes that differ
	// late, which only a client can make on purpose, would double it for ever;
	// beyond this they go into overflow pages.
	maxSpread = 16
)

// page is an open-addressing table with linear probing by the low bits of the
// hash. A zero hash is a free slot. A page never loses entries.
type page struct {
	hashes  []uint64
	offsets []queend.Offset
	used    int
	depth   uint8
	older   *page // overflow: full pages of the same hashes
}

func newPage(slots int, depth uint8) *page {
	return &page{hashes: make([]uint64, slots), offsets: make([]queend.Offset, slots), depth: depth}
}

func (p *page) bytes() int { return pageBytes + len(p.hashes)*slotBytes }

// full reports a load of 14/16, where a miss still looks at few cache lines.
func (p *page) full() bool { return p.used >= len(p.hashes)/16*14 }

// put adds an entry to a page that is not full.
func (p *page) put(hash uint64, off queend.Offset) {
	mask := uint64(len(p.hashes) - 1)
	i := hash & mask
	for p.hashes[i] != 0 {
		i = (i + 1) & mask
	}
	p.hashes[i] = hash
	p.offsets[i] = off
	p.used++
}

// find appends the offsets under a hash to found.
func (p *page) find(hash uint64, found []queend.Offset) []queend.Offset {
	mask := uint64(len(p.hashes) - 1)
	for i := hash & mask; p.hashes[i] != 0; i = (i + 1) & mask {
		if p.hashes[i] == hash {
			found = append(found, p.offsets[i])
		}
	}
	return found
}

// key makes room for the mark of a free slot: two hashes become one, which
// costs a comparison of ids, once in 2^64.
func key(hash uint64) uint64 {
	if hash == 0 {
		return 1
	}
	return hash
}

func (d *directory) find(hash uint64, found []queend.Offset) []queend.Offset {
	if d.pages == nil {
		return found
	}
	hash = key(hash)
	for p := d.pages[d.index(hash)]; p != nil; p = p.older {
		found = p.find(hash, found)
	}
	return found
}

// index is the place of a hash's page. A shift by 64 gives 0 in Go, as depth 0
// needs.
func (d *directory) index(hash uint64) uint64 { return hash >> (64 - d.depth) }

func (d *directory) add(hash uint64, off queend.Offset) {
	hash = key(hash)
	if d.pages == nil {
		first := newPage(minSlots, 0)
		d.pages = []*page{first}
		d.count = 1
		d.bytes = first.bytes() + 8
	}
	p := d.pages[d.index(hash)]
	for p.full() {
		p = d.makeRoom(hash, p)
	}
	p.put(hash, off)
	d.entries++
}

// makeRoom gives a full page more room and returns the page that now takes the
// hash; it may be full still, when all entries went to one side of a split.
func (d *directory) makeRoom(hash uint64, p *page) *page {
	switch {
	case len(p.hashes) < maxSlots:
		bigger := newPage(2*len(p.hashes), p.depth)
		bigger.older = p.older
		p.move(func(uint64) *page { return bigger })
		d.bytes += bigger.bytes() - p.bytes()
		d.replace(hash, p.depth, bigger)
	case p.older != nil || p.depth == d.depth && 2*len(d.pages) > maxSpread*d.count:
		fresh := newPage(minSlots, p.depth)
		fresh.older = p
		d.bytes += fresh.bytes()
		d.replace(hash, p.depth, fresh)
	default:
		if p.depth == d.depth {
			d.double()
		}
		d.split(hash, p)
	}
	return d.pages[d.index(hash)]
}

// split puts the entries of a page into two, by the first bit that the page
// does not yet have in common.
func (d *directory) split(hash uint64, p *page) {
	bit := uint64(1) << (63 - p.depth)
	ones := 0
	for _, h := range p.hashes {
		if h&bit != 0 {
			ones++
		}
	}
	zero, one := newPage(slotsFor(p.used-ones), p.depth+1), newPage(slotsFor(ones), p.depth+1)
	p.move(func(h uint64) *page {
		if h&bit != 0 {
			return one
		}
		return zero
	})
	d.replace(hash&^bit, p.depth+1, zero)
	d.replace(hash|bit, p.depth+1, one)
	d.count++
	d.bytes += zero.bytes() + one.bytes() - p.bytes()
}

// slotsFor is the smallest page that holds n entries and has room for more,
// where one exists.
func slotsFor(n int) int {
	slots := minSlots
	for slots < maxSlots && n >= slots/16*14 {
		slots *= 2
	}
	return slots
}

func (p *page) move(to func(hash uint64) *page) {
	for i, h := range p.hashes {
		if h != 0 {
			to(h).put(h, p.offsets[i])
		}
	}
}

// replace puts a page at every place of the hashes that have depth bits in
// common with hash.
func (d *directory) replace(hash uint64, depth uint8, p *page) {
	spread := uint64(1) << (d.depth - depth)
	first := d.index(hash) &^ (spread - 1)
	for i := range spread {
		d.pages[first+i] = p
	}
}

// double gives every page twice as many places.
func (d *directory) double() {
	pages := make([]*page, 2*len(d.pages))
	for i, p := range d.pages {
		pages[2*i], pages[2*i+1] = p, p
	}
	d.bytes += 8 * len(d.pages)
	d.pages = pages
	d.depth++
}
