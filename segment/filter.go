package segment

import (
	"bytes"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"queend"
)

// Hash is the hash of a transaction id that filters are made of: xxhash64.
func Hash(txnID []byte) uint64 { return xxhash.Sum64(txnID) }

const (
	filterBitsPerID = 10
	filterProbes    = 7 // best for 10 bits: 0.8 % false positives
)

// filterSize returns the bytes of a filter for n ids.
func filterSize(n uint64) uint64 { return (n*filterBitsPerID + 7) / 8 }

// probe calls f with the places of a hash in m bits until f returns false. The
// high bits of h choose the place; multiplying by an odd number brings all bits
// below into them for the next. (Adding a step instead is no cheaper and, in
// the 16 bits of a run of one message, three times as often wrong.)
func probe(h uint64, m uint64, f func(bit uint64) bool) {
	for range filterProbes {
		bit, _ := bits.Mul64(h, m)
		if !f(bit) {
			return
		}
		h *= 0x9e3779b97f4a7c15
	}
}

// appendFilter appends the filter of the hashes to dst.
func appendFilter(dst []byte, hashes []uint64) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, filterSize(uint64(len(hashes))))...)
	field := dst[at:]
	m := uint64(len(field)) * 8
	for _, h := range hashes {
		probe(h, m, func(bit uint64) bool {
			field[bit/8] |= 1 << (bit % 8)
			return true
		})
	}
	return dst
}

// Filter says which transaction ids a run surely does not hold, and between
// which times its messages are. It is immutable.
type Filter struct {
	FirstTime, LastTime int64 // earliest and latest time, microseconds
	First, Last         queend.Offset
	IDs                 Range

	low, high []byte // bounds of the ids; high may be cut short
	field     []byte
}

// MayHold reports false only if no message of the run has this transaction id.
// hash is Hash(txnID). About one absent id in a hundred is answered true.
func (f *Filter) MayHold(txnID []byte, hash uint64) bool {
	if bytes.Compare(txnID, f.low) < 0 {
		return false
	}
	if bytes.Compare(txnID[:min(len(txnID), len(f.high))], f.high) > 0 {
		return false
	}
	return mayHold(f.field, hash)
}

// mayHold reports whether all bits of the hash are set in a filter.
func mayHold(field []byte, hash uint64) bool {
	hit := true
	probe(hash, uint64(len(field))*8, func(bit uint64) bool {
		hit = field[bit/8]&(1<<(bit%8)) != 0
		return hit
	})
	return hit
}

// Size returns the bytes of memory that the filter holds, for caches.
func (f *Filter) Size() int { return 128 + cap(f.low) + cap(f.high) + cap(f.field) }

// idBounds are the smallest and largest transaction id of a run, by bytes.
type idBounds struct {
	low, high []byte
	set       bool
}

func (b *idBounds) reset() { b.low, b.high, b.set = b.low[:0], b.high[:0], false }

func (b *idBounds) add(txn []byte) {
	if !b.set || bytes.Compare(txn, b.low) < 0 {
		b.low = append(b.low[:0], txn...)
	}
	if !b.set || bytes.Compare(txn, b.high) > 0 {
		b.high = append(b.high[:0], txn...)
	}
	b.set = true
}

// cut returns the bounds shortened to what is worth storing, and how many bytes
// they share: 24 bytes are the time and more of a UUIDv7, and ids with a common
// prefix keep 16 bytes past it. A lower bound cut short is still one; an upper
// bound is compared by its own length only.
func (b *idBounds) cut() (low, high []byte, shared int) {
	for shared < len(b.low) && shared < len(b.high) && b.low[shared] == b.high[shared] {
		shared++
	}
	keep := 24
	if !bytes.Equal(b.low, b.high) {
		keep = min(max(shared+16, 24), 64)
	}
	low, high = b.low[:min(len(b.low), keep)], b.high[:min(len(b.high), keep)]
	return low, high, min(shared, len(low), len(high))
}
