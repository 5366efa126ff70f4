package broker

import (
	"iter"

	"queend"
)

// partitionIndex finds partitions by a hash of what names them. It holds
// numbers only, so that a million partitions are nothing for the garbage
// collector to follow, and the partition itself says whether it is meant. The
// hashes must be of a seed that nobody outside knows: else names could be
// chosen that all fall on one place.
//
// It is an open-addressing table with linear probing. The place of an entry
// follows from the upper bits of its hash, which are in the entry, so growing
// asks no partition and reads and writes memory in order: some ten
// milliseconds for a million entries.
//
// Invariant: at most four fifths of the slots are taken, and between an entry
// and its home every slot is.
type partitionIndex struct {
	slots []uint64 // upper bits of the hash, then the number; 0: free
	count int
}

const (
	indexNumberBits = 40 // of a partition's number
	indexHashBits   = 64 - indexNumberBits

	// maxPartitionID is the highest number of a partition. A million new ones
	// a second reach it in twelve days, but a thousand in 34 years.
	maxPartitionID queend.PartitionID = 1<<indexNumberBits - 1

	indexMin = 8 // slots of a table that has an entry
)

// add notes a partition under a hash. It may be there already, under another
// hash too.
func (x *partitionIndex) add(hash uint64, id queend.PartitionID) {
	if 5*(x.count+1) > 4*len(x.slots) {
		x.resize(max(indexMin, len(x.slots)+len(x.slots)/2))
	}
	x.insert(hash>>indexNumberBits<<indexNumberBits | uint64(id))
	x.count++
}

// remove forgets a partition that was added under the hash; nothing happens
// when it was not.
func (x *partitionIndex) remove(hash uint64, id queend.PartitionID) {
	if x.count == 0 {
		return
	}
	entry := hash>>indexNumberBits<<indexNumberBits | uint64(id)
	at := x.home(entry)
	for x.slots[at] != entry {
		if x.slots[at] == 0 {
			return
		}
		at = x.after(at)
	}
	x.close(at)
	if x.count--; x.count < len(x.slots)/8 && len(x.slots) > indexMin {
		x.resize(max(indexMin, 2*x.count))
	}
}

// all yields the partitions that may be under the hash, those that are among
// them.
func (x *partitionIndex) all(hash uint64) iter.Seq[queend.PartitionID] {
	return func(yield func(queend.PartitionID) bool) {
		if x.count == 0 {
			return
		}
		for at := x.home(hash); x.slots[at] != 0; at = x.after(at) {
			if entry := x.slots[at]; entry>>indexNumberBits == hash>>indexNumberBits {
				if !yield(queend.PartitionID(entry & uint64(maxPartitionID))) {
					return
				}
			}
		}
	}
}

// len counts the entries.
func (x *partitionIndex) len() int { return x.count }

// home is the slot that an entry has when none of its neighbours is in the
// way: entries are in the order of their hashes.
func (x *partitionIndex) home(entry uint64) int {
	return int(entry >> indexNumberBits * uint64(len(x.slots)) >> indexHashBits)
}

func (x *partitionIndex) after(at int) int {
	if at++; at == len(x.slots) {
		return 0
	}
	return at
}

func (x *partitionIndex) insert(entry uint64) {
	at := x.home(entry)
	for x.slots[at] != 0 {
		at = x.after(at)
	}
	x.slots[at] = entry
}

func (x *partitionIndex) resize(n int) {
	old := x.slots
	x.slots = make([]uint64, n)
	for _, entry := range old {
		if entry != 0 {
			x.insert(entry)
		}
	}
}

// close frees a slot, and moves up what would not be found any more.
func (x *partitionIndex) close(free int) {
	for at := x.after(free); x.slots[at] != 0; at = x.after(at) {
		// An entry may move to the free slot unless its home lies behind that,
		// on the way from it to here.
		home := x.home(x.slots[at])
		if behind := x.distance(free, home); behind == 0 || behind > x.distance(free, at) {
			x.slots[free], free = x.slots[at], at
		}
	}
	x.slots[free] = 0
}

// distance is the number of steps from one slot on to another.
func (x *partitionIndex) distance(from, to int) int {
	if to < from {
		to += len(x.slots)
	}
	return to - from
}
