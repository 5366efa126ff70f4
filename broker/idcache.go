package broker

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"queend"
	"queend/dedup"
	"queend/index"
	"queend/segment"
)

// What is read of runs to find ids, in three grades, each asked for only when
// the one before leaves it open:
//
//	filter  which ids the run surely does not hold; 1.25 bytes per id
//	hashes  the hash of every id, sorted; 12 bytes per id
//	chunk   the ids themselves, of idChunk offsets and somewhat around
type idPart uint8

const (
	_ idPart = iota
	partFilter
	partHashes
	partChunk
)

// idChunk is how many offsets a chunk answers for.
const idChunk = 256

// idKey names a part of a run. Runs never change and file numbers are not
// used twice.
type idKey struct {
	file  queend.FileID
	pos   uint64
	part  idPart
	chunk uint32 // which, counted from the run's first offset
}

// idCache keeps parts up to a number of bytes. It decides nothing: what it
// does not have is read again.
type idCache struct {
	parts  *dedup.Cache[idKey, any] // filters and hashes
	chunks *dedup.Cache[idKey, any]
	max    int // of parts, bytes
	credit int // see wantsHashes; under the broker's lock

	mu      sync.Mutex
	reading map[idKey]*reading
}

// reading is a part that is being read; others who want it wait for it.
type reading struct {
	done chan struct{}
	part any
	err  error
}

// newIDCache gives a quarter to chunks, so that they never push out what
// answers for whole runs.
func newIDCache(bytes int64) *idCache {
	chunks := int(bytes / 4)
	max := int(bytes) - chunks
	return &idCache{parts: dedup.NewCache[idKey, any](max), chunks: dedup.NewCache[idKey, any](chunks), max: max,
		reading: map[idKey]*reading{}}
}

func (c *idCache) of(part idPart) *dedup.Cache[idKey, any] {
	if part == partChunk {
		return c.chunks
	}
	return c.parts
}

func (c *idCache) get(k idKey) (any, bool) { return c.of(k.part).Get(k) }

func (c *idCache) put(k idKey, v any, size int) { c.of(k.part).Put(k, v, size+entryBytes) }

// entryBytes is what the cache itself needs for a part.
const entryBytes = 128

// asked counts what was asked for and was there, and what was not.
func (c *idCache) asked() (hits, misses uint64) {
	return c.parts.Hits() + c.chunks.Hits(), c.parts.Misses() + c.chunks.Misses()
}

// load reads a part, once however many want it at a time.
func (c *idCache) load(k idKey, read func() (part any, size int, err error)) (any, error) {
	c.mu.Lock()
	r := c.reading[k]
	if r != nil {
		c.mu.Unlock()
		<-r.done
		return r.part, r.err
	}
	r = &reading{done: make(chan struct{}), err: errNotRead}
	c.reading[k] = r
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.reading, k)
		c.mu.Unlock()
		close(r.done)
	}()
	var size int
	if r.part, size, r.err = read(); r.err == nil {
		c.put(k, r.part, size)
	}
	return r.part, r.err
}

// errNotRead is what others see of a reading that panicked.
var errNotRead = errors.New("ids were not read")

// forget drops what is cached of a run that nobody names any more.
func (c *idCache) forget(r *index.Run) {
	c.parts.Drop(keyOf(r, partFilter, 0))
	c.parts.Drop(keyOf(r, partHashes, 0))
}

// hashCredit is how many ids may be read for each lookup that found no room
// for its run's hashes: in time the runs that are asked about most get in,
// and no lookup pays much for it.
const hashCredit = 512

// wantsHashes says whether to read the hashes of a run that are not cached,
// because there is room or because it is time to try.
func (c *idCache) wantsHashes(r *index.Run) bool {
	n := int(r.Last-r.First) + 1
	if c.parts.Bytes()+hashesSize(n)+entryBytes <= c.max {
		return true
	}
	if c.credit += hashCredit; c.credit < n {
		return false
	}
	c.credit = 0
	return true
}

func hashesSize(n int) int { return 64 + 12*n }

// idHashes are the hashes of a run's ids, sorted, with their offsets.
type idHashes struct {
	hashes  []uint64
	offsets []uint32 // less the run's first offset
}

// each calls yield with the offsets that carry a hash, in rising order.
func (h *idHashes) each(first queend.Offset, hash uint64, yield func(queend.Offset) bool) {
	i, _ := slices.BinarySearch(h.hashes, hash)
	for ; i < len(h.hashes) && h.hashes[i] == hash; i++ {
		if !yield(first + queend.Offset(h.offsets[i])) {
			return
		}
	}
}

// need is a part that has to be read: where it is, and in whose run.
type need struct {
	key   idKey
	queue queend.QueueID
	owner queend.PartitionID
	run   index.Run
}

// read reads the part from its file and says how many bytes of memory it
// takes.
func (n *need) read(r *segment.Reader) (part any, size int, err error) {
	e := entryOf(n.queue, n.owner, &n.run)
	switch n.key.part {
	case partFilter:
		f, err := r.Filter(e)
		if err != nil {
			return nil, 0, err
		}
		return f, f.Size(), nil
	case partHashes:
		h, err := readHashes(r, e)
		if err != nil {
			return nil, 0, err
		}
		return h, hashesSize(len(h.hashes)), nil
	}
	from := n.run.First + queend.Offset(n.key.chunk)*idChunk
	ids, err := r.IDsRange(e, from, min(from+idChunk-1, n.run.Last))
	if err != nil {
		return nil, 0, err
	}
	return ids, ids.Size(), nil
}

// hashStep bounds the ids that are in memory at once while hashes are made.
const hashStep = 16 << 10

// readHashes makes the sorted hashes of a run.
func readHashes(r *segment.Reader, e segment.Entry) (*idHashes, error) {
	type pair struct {
		hash uint64
		i    uint32
	}
	n := int(e.Last - e.First + 1)
	pairs := make([]pair, 0, n)
	var txn []byte
	for from := e.First; from <= e.Last; {
		ids, err := r.IDsRange(e, from, min(from+hashStep-1, e.Last))
		if err != nil {
			return nil, err
		}
		// What comes with the first block from before was there already.
		for i := int(from - ids.Offset(0)); i < ids.Len(); i++ {
			txn = ids.AppendTxnID(txn[:0], i)
			pairs = append(pairs, pair{segment.Hash(txn), uint32(ids.Offset(i) - e.First)})
		}
		from = ids.Offset(ids.Len()-1) + 1
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		if a.hash != b.hash {
			return cmp.Compare(a.hash, b.hash)
		}
		return cmp.Compare(a.i, b.i)
	})
	h := &idHashes{hashes: make([]uint64, n), offsets: make([]uint32, n)}
	for i, p := range pairs {
		h.hashes[i], h.offsets[i] = p.hash, p.i
	}
	return h, nil
}
