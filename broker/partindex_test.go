package broker

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"queend"
)

// entries checks the invariant and returns all entries.
func (x *partitionIndex) entries(t *testing.T) (all []uint64) {
	t.Helper()
	if 5*x.count > 4*len(x.slots) {
		t.Fatalf("%d entries in %d slots", x.count, len(x.slots))
	}
	for at, entry := range x.slots {
		if entry == 0 {
			continue
		}
		all = append(all, entry)
		for way := x.home(entry); way != at; way = x.after(way) {
			if x.slots[way] == 0 {
				t.Fatalf("slot %d is free between home and place of the entry at %d", way, at)
			}
		}
	}
	return all
}

// Hashes of few bits fall on the same places, in the middle and at the end of
// the table.
func TestPartitionIndexIsLikeAMap(t *testing.T) {
	for _, bits := range []uint64{0, 0xf << 60, 0x3<<62 | 7<<45, ^uint64(0)} {
		var x partitionIndex
		model := map[queend.PartitionID]uint64{} // hash by number
		rnd := rand.New(rand.NewPCG(1, bits))
		for i := range queend.PartitionID(3000) {
			if i%1000 < 700 {
				id := i + 1
				model[id] = rnd.Uint64()&bits | ^bits&^(1<<63)
				x.add(model[id], id)
			}
			for range 2 {
				id := queend.PartitionID(rnd.Int64N(int64(i) + 2))
				hash, has := model[id]
				if found := slices.Contains(slices.Collect(x.all(hash)), id); has && !found {
					t.Fatalf("hashes of %x: %d is not found", bits, id)
				}
				if has && rnd.IntN(2) > 0 {
					x.remove(hash, id)
					delete(model, id)
				}
				x.remove(^hash, id+1<<20)
			}
			if i%97 == 0 && len(x.entries(t)) != len(model) || x.len() != len(model) {
				t.Fatalf("hashes of %x: %d entries, want %d", bits, x.len(), len(model))
			}
		}
		for id, hash := range maps.Clone(model) {
			x.remove(hash, id)
		}
		if x.len() != 0 || len(x.entries(t)) != 0 || len(x.slots) != indexMin {
			t.Errorf("hashes of %x: %d left in %d slots", bits, x.len(), len(x.slots))
		}
	}
}

// What is looked for in vain is rarely compared with a partition.
func TestPartitionIndexTellsApartWhatIsNotMeant(t *testing.T) {
	var x partitionIndex
	rnd := rand.New(rand.NewPCG(1, 2))
	const n = 100_000
	for id := range queend.PartitionID(n) {
		x.add(rnd.Uint64(), id+1)
	}
	compared := 0
	for range n {
		for range x.all(rnd.Uint64()) {
			compared++
		}
	}
	if compared > n/50 {
		t.Errorf("%d comparisons for %d names that are not there", compared, n)
	}
	if len(x.slots) > 2*n {
		t.Errorf("%d slots for %d entries", len(x.slots), n)
	}
}

func TestPartitionIndexKeepsTheHighestNumber(t *testing.T) {
	var x partitionIndex
	x.add(^uint64(0), maxPartitionID)
	if got := slices.Collect(x.all(^uint64(0))); len(got) != 1 || got[0] != maxPartitionID {
		t.Errorf("%v", got)
	}
}
