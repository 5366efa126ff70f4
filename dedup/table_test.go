package dedup

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"queend"
)

func lookup(t *Table, hash uint64) []queend.Offset {
	var found []queend.Offset
	t.Lookup(hash, func(off queend.Offset) bool {
		found = append(found, off)
		return true
	})
	slices.Sort(found)
	return found
}

func TestFindsEveryOffsetOfItsLiveGenerations(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { compareWithMaps(t, seed) })
	}
}

// compareWithMaps drives a table beside one map per generation. Its hashes
// repeat, and some share all bits but a few.
func compareWithMaps(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	masks := []uint64{^uint64(0), 0xffff, 0xffff << 48, 0x3f00000000, 0}
	var table Table
	model := map[uint64]map[uint64][]queend.Offset{}
	var sealed []uint64
	gen := uint64(0)
	for i := range 30_000 {
		hash := rnd.Uint64() & masks[rnd.IntN(len(masks))]
		if hash == 1 {
			hash = 0 // the two are one to the table
		}
		if model[gen] == nil {
			model[gen] = map[uint64][]queend.Offset{}
		}
		table.Add(hash, queend.Offset(i))
		model[gen][hash] = append(model[gen][hash], queend.Offset(i))
		if rnd.IntN(7_000) == 0 {
			sealed = append(sealed, table.Seal())
			gen++
		}
		if len(sealed) > 2 {
			table.Drop(sealed[0])
			delete(model, sealed[0])
			sealed = sealed[1:]
		}
	}
	checkAgainst(t, &table, model)
}

func checkAgainst(t *testing.T, table *Table, model map[uint64]map[uint64][]queend.Offset) {
	t.Helper()
	all := map[uint64][]queend.Offset{}
	total := 0
	for _, byHash := range model {
		for hash, offs := range byHash {
			all[hash] = append(all[hash], offs...)
			total += len(offs)
		}
	}
	if table.Len() != total {
		t.Fatalf("Len is %d, want %d", table.Len(), total)
	}
	for hash, want := range all {
		slices.Sort(want)
		if got := lookup(table, hash); !slices.Equal(got, want) {
			t.Fatalf("hash %x: %d offsets, want %d", hash, len(got), len(want))
		}
		if other := hash ^ 1<<40; all[other] == nil && len(lookup(table, other)) != 0 {
			t.Fatalf("hash %x was never added", other)
		}
	}
}

func TestEqualHashesStandSideBySide(t *testing.T) {
	var table Table
	const n = 20_000 // more than a page holds
	for i := range n {
		table.Add(42, queend.Offset(i))
	}
	table.Add(43, 7)
	if got := lookup(&table, 42); len(got) != n || got[0] != 0 || got[n-1] != n-1 {
		t.Fatalf("%d offsets, want %d", len(got), n)
	}
	if got := lookup(&table, 43); !slices.Equal(got, []queend.Offset{7}) {
		t.Fatalf("the neighbour has %v", got)
	}
	if table.Bytes() > 64*n {
		t.Fatalf("%d bytes for %d entries", table.Bytes(), n)
	}
}

// Hashes that agree in all but their last bits ask for a directory of 2^50.
func TestHashesThatDifferLateDoNotBlowUpTheTable(t *testing.T) {
	var table Table
	const n = 50_000
	for i := range uint64(n) {
		table.Add(1<<63|i<<2, queend.Offset(i))
	}
	if table.Bytes() > 64*n {
		t.Fatalf("%d bytes for %d entries", table.Bytes(), n)
	}
	if got := lookup(&table, 1<<63|4321<<2); !slices.Equal(got, []queend.Offset{4321}) {
		t.Fatalf("found %v", got)
	}
}

func TestLookupStopsWhenYieldSaysSo(t *testing.T) {
	var table Table
	for i := range 20 {
		table.Add(5, queend.Offset(i))
	}
	calls := 0
	table.Lookup(5, func(queend.Offset) bool {
		calls++
		return calls < 3
	})
	if calls != 3 {
		t.Fatalf("%d calls, want 3", calls)
	}
}

func TestLookupYieldsTheNewestGenerationFirst(t *testing.T) {
	var table Table
	for i := range 3 {
		table.Add(5, queend.Offset(i))
		table.Seal()
	}
	var got []queend.Offset
	table.Lookup(5, func(off queend.Offset) bool {
		got = append(got, off)
		return true
	})
	if !slices.Equal(got, []queend.Offset{2, 1, 0}) {
		t.Fatalf("got %v", got)
	}
}

func TestADroppedGenerationLeavesNothing(t *testing.T) {
	var table Table
	for i := range uint64(10_000) {
		table.Add(i*0x9e3779b97f4a7c15, queend.Offset(i))
	}
	gen := table.Seal()
	table.Drop(gen)
	table.Drop(gen)
	if table.Len() != 0 || table.Bytes() != 0 || len(lookup(&table, 0x9e3779b97f4a7c15)) != 0 {
		t.Fatalf("%d entries, %d bytes left", table.Len(), table.Bytes())
	}
}

func TestTheOpenGenerationCannotBeDropped(t *testing.T) {
	var table Table
	table.Seal()
	table.Add(9, 1)
	table.Drop(1)
	table.Drop(77)
	if table.Len() != 1 {
		t.Fatal("the open generation is gone")
	}
}

func TestHashDependsOnPartitionAndID(t *testing.T) {
	a := Hash(1, 31)
	if a != Hash(1, 31) || a == Hash(2, 31) || a == Hash(1, 32) {
		t.Fatal("a hash must follow from partition and id, and differ with either")
	}
}

func TestLookupsAndAddsDoNotAllocateOnceGrown(t *testing.T) {
	var table Table
	const id = 0x0199aa0000007000
	table.Add(Hash(1, id), 1)
	n := testing.AllocsPerRun(100, func() {
		table.Lookup(Hash(1, id), func(queend.Offset) bool { return true })
	})
	if n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestConcurrentUseLosesNothing(t *testing.T) {
	var table Table
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(5000) {
				hash := Hash(queend.PartitionID(g), i)
				table.Add(hash, queend.Offset(i))
				if i%500 == 0 {
					table.Seal()
				}
				if got := lookup(&table, hash); !slices.Contains(got, queend.Offset(i)) {
					t.Errorf("%d/%d is not there", g, i)
				}
			}
		})
	}
	wg.Wait()
	if table.Len() != 20_000 {
		t.Fatalf("%d entries", table.Len())
	}
}

func TestAnEntryCostsAtMost40Bytes(t *testing.T) {
	for _, n := range []int{200_000, 500_000, 1_000_000} {
		var table Table
		before := heap()
		for i := range uint64(n) {
			table.Add(Hash(1, i), queend.Offset(i))
		}
		real, said := float64(heap()-before)/float64(n), float64(table.Bytes())/float64(n)
		runtime.KeepAlive(&table)
		if real > 40 || said > 1.1*real || said < 0.9*real {
			t.Errorf("%d entries: %.1f bytes each, Bytes says %.1f", n, real, said)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkAdd(b *testing.B) {
	var table Table
	b.ReportAllocs()
	for i := range b.N {
		table.Add(uint64(i)*0x9e3779b97f4a7c15, queend.Offset(i))
	}
	b.ReportMetric(float64(table.Bytes())/float64(b.N), "B/entry")
}

// BenchmarkMiss is the normal case of a push: an id nobody has seen, against
// four generations of a million each.
func BenchmarkMiss(b *testing.B) {
	var table Table
	for i := range uint64(4_000_000) {
		table.Add(i*0x9e3779b97f4a7c15, queend.Offset(i))
		if i%1_000_000 == 999_999 {
			table.Seal()
		}
	}
	b.ResetTimer()
	for i := range b.N {
		table.Lookup(uint64(i)*0xbf58476d1ce4e5b9, func(queend.Offset) bool { return true })
	}
}

func BenchmarkHash(b *testing.B) {
	for i := range b.N {
		Hash(7, uint64(i))
	}
}
