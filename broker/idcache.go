package broker

import (
	"cmp"
	"slices"

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
	parts *dedup.Cache[idKey, any]
	max   int
}

func newIDCache(bytes int64) *idCache {
	return &idCache{parts: dedup.NewCache[idKey, any](int(bytes)), max: int(bytes)}
}

// hasRoom reports whether the hashes of a run fit beside what is cached. A
// quarter is left to filters and chunks.
func (c *idCache) hasRoom(r *index.Run) bool {
	return c.parts.Bytes()+hashesSize(int(r.Last-r.First)+1) <= c.max/4*3
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
