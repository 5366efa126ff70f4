// Package dedup remembers which transaction ids were seen. It knows neither the
// clock nor the ids: it maps a hash to the offsets that may carry the id, and
// the caller compares the id that is stored there.
package dedup

import (
	"sync"
	"sync/atomic"

	"queend"
)

// Hash is the hash of a transaction id within a partition; sum is the xxhash64
// of the id. It is no proof: two ids may share it.
func Hash(p queend.PartitionID, sum uint64) uint64 {
	h := sum ^ uint64(p)*0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return h ^ h>>32
}

// shardCount is so large that partitions that push at the same time seldom meet
// at one lock.
const shardCount = 64

// Table maps hashes to offsets, in generations: entries go into the current
// one, and a sealed one is forgotten whole. It holds about 18 to 37 bytes per
// entry. The zero value is an empty table; it is safe for concurrent use.
type Table struct {
	current atomic.Uint64 // number of the generation that Add fills
	entries atomic.Int64
	bytes   atomic.Int64
	shards  [shardCount]shard
}

// shard holds the entries of one value of shardOf.
type shard struct {
	mu          sync.Mutex
	generations []generation // oldest first; one without entries here is absent
}

type generation struct {
	number uint64
	dir    directory
}

// shardOf takes bits from the middle of the hash: a directory uses those at the
// top, a page those at the bottom.
func (t *Table) shardOf(hash uint64) *shard { return &t.shards[hash>>32%shardCount] }

// Add notes that the id with this hash may stand at off. It never replaces an
// entry: equal hashes are kept side by side. It moves at most the entries of
// one page, so it pauses for some tens of microseconds at most.
func (t *Table) Add(hash uint64, off queend.Offset) {
	s := t.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	number := t.current.Load()
	if n := len(s.generations); n == 0 || s.generations[n-1].number != number {
		s.generations = append(s.generations, generation{number: number})
	}
	dir := &s.generations[len(s.generations)-1].dir
	before := dir.bytes
	dir.add(hash, off)
	t.entries.Add(1)
	t.bytes.Add(int64(dir.bytes - before))
}

// Lookup calls yield with every offset added under this hash, newest generation
// first, until yield returns false. No lock is held while yield runs.
func (t *Table) Lookup(hash uint64, yield func(off queend.Offset) bool) {
	var few [8]queend.Offset // more than one is rare, so this seldom grows
	for _, off := range t.shardOf(hash).find(hash, few[:0]) {
		if !yield(off) {
			return
		}
	}
}

func (s *shard) find(hash uint64, found []queend.Offset) []queend.Offset {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.generations) - 1; i >= 0; i-- {
		found = s.generations[i].dir.find(hash, found)
	}
	return found
}

// Seal closes the current generation and returns its number; an Add that starts
// later goes into the next one. It takes no time, whatever the size.
func (t *Table) Seal() uint64 { return t.current.Add(1) - 1 }

// Drop forgets a sealed generation with all its entries. It does nothing for a
// number that Seal has not returned, or that was dropped before.
func (t *Table) Drop(gen uint64) {
	if gen >= t.current.Load() {
		return
	}
	for i := range t.shards {
		if dir := t.shards[i].take(gen); dir != nil {
			t.entries.Add(-int64(dir.entries))
			t.bytes.Add(-int64(dir.bytes))
		}
	}
}

// take removes a generation and returns its directory, nil when it is absent.
func (s *shard) take(number uint64) *directory {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.generations {
		if s.generations[i].number != number {
			continue
		}
		dir := s.generations[i].dir
		last := len(s.generations) - 1
		copy(s.generations[i:], s.generations[i+1:])
		s.generations[last] = generation{}
		s.generations = s.generations[:last]
		return &dir
	}
	return nil
}

// Len returns the number of entries.
func (t *Table) Len() int { return int(t.entries.Load()) }

// Bytes returns the memory that the entries and their directories take.
func (t *Table) Bytes() int { return int(t.bytes.Load()) }
