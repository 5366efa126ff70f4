package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"queend"
	"queend/index"
)

// numbers lists what the table has, in the order of all.
func (t *partitionTable) numbers() (ids []queend.PartitionID) {
	for p := range t.all() {
		ids = append(ids, p.id)
	}
	return ids
}

func TestPartitionTableIsLikeAMap(t *testing.T) {
	var table partitionTable
	model := map[queend.PartitionID]string{}
	rnd := rand.New(rand.NewPCG(1, 2))
	for last := queend.PartitionID(0); last < 2000; {
		if rnd.IntN(5) < 3 {
			last++
			name := strings.Repeat("n", rnd.IntN(300)) + fmt.Sprint(last)
			if p := table.put(partition{name: name}, facts{id: last}); p != table.get(last) || p.name != name {
				t.Fatalf("partition %d is not where it was put", last)
			}
			model[last] = name
		} else {
			id := queend.PartitionID(rnd.Int64N(int64(last) + 2))
			table.delete(id)
			delete(model, id)
		}
		id := queend.PartitionID(rnd.Int64N(int64(last) + 2))
		p := table.get(id)
		if name, has := model[id]; has != (p != nil) || has && (p.id != id || p.name != name) || table.len() != len(model) {
			t.Fatalf("partition %d: %+v, %d in all", id, p, table.len())
		}
	}
	ids := table.numbers()
	if len(ids) != len(model) || !slices.IsSorted(ids) {
		t.Errorf("%d of %d partitions, in order: %v", len(ids), len(model), slices.IsSorted(ids))
	}
	for id := range model {
		table.delete(id)
	}
	if len(table.pages) != 0 || table.len() != 0 || table.numbers() != nil {
		t.Errorf("%d pages of none", len(table.pages))
	}
}

// Who walks gives up the lock between two partitions.
func TestPartitionTableMayChangeUnderAWalk(t *testing.T) {
	var table partitionTable
	const n = 5 * pageSlots
	for id := queend.PartitionID(1); id <= n; id++ {
		table.put(partition{}, facts{id: id})
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	met, gone := map[queend.PartitionID]int{}, map[queend.PartitionID]bool{}
	last := queend.PartitionID(n)
	for p := range table.all() {
		if met[p.id]++; gone[p.id] {
			t.Errorf("partition %d was met after it went", p.id)
		}
		for range 3 {
			id := queend.PartitionID(1 + rnd.Int64N(n))
			table.delete(id)
			gone[id] = true
		}
		if last++; last < 2*n {
			table.put(partition{}, facts{id: last})
		}
	}
	for id := queend.PartitionID(1); id <= n; id++ {
		if met[id] > 1 || met[id] == 0 && !gone[id] {
			t.Errorf("partition %d was met %d times", id, met[id])
		}
	}
}

// A pop that is answering may still look at a partition that went.
func TestAPartitionThatWentStaysAsItWas(t *testing.T) {
	var table partitionTable
	p := table.put(partition{name: "seven"}, facts{id: 7, ord: 3})
	table.delete(7)
	table.put(partition{name: "eight"}, facts{id: 8})
	if p.id != 7 || p.name != "seven" || p.ord != 3 || table.get(7) != nil {
		t.Errorf("%+v", p)
	}
}

func TestAPageOfPartitionsFillsItsSizeClass(t *testing.T) {
	const class, header = 16 << 10, 8
	if size := unsafe.Sizeof(partitionPage{}) + header; size > class || size < class*95/100 {
		t.Errorf("a page takes %d bytes of %d", size, class)
	}
}

// The row of a group is found among those of any number of groups.
func TestRowsAreByGroup(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var all rows
		model := map[queend.GroupID]*row{}
		for range rnd.IntN(12) {
			r := &row{group: queend.GroupID(rnd.IntN(8))}
			all.put(r)
			model[r.group] = r
		}
		var groups []queend.GroupID
		for r := range all.all() {
			groups = append(groups, r.group)
		}
		if len(groups) != len(model) || !slices.IsSorted(groups) {
			t.Fatalf("groups %v of %v", groups, model)
		}
		for g := queend.GroupID(0); g < 8; g++ {
			if all.find(g) != model[g] {
				t.Fatalf("group %d: %p, want %p", g, all.find(g), model[g])
			}
		}
	}
}

func TestNumbersThatThePartitionIndexCannotHoldAreDamage(t *testing.T) {
	for _, id := range []queend.PartitionID{0, maxPartitionID + 1} {
		var e encoder
		(&partitionNew{id: id, queue: 1}).encode(&e)
		d := decoder{buf: e.buf[1:]}
		if new(partitionNew).decode(&d); d.err == nil {
			t.Errorf("partition %d was read", id)
		}
	}
}

func TestRunsArePlacedAsTheyAre(t *testing.T) {
	p := partition{facts: &facts{}}
	for n := range 4 {
		for _, before := range []int{0, 1, 2, 3} {
			for _, count := range []int{before, n} {
				runs := make(index.Runs, count)
				for i := range runs {
					runs[i] = index.Run{File: queend.FileID(i + 1), First: queend.Offset(10 * i)}
				}
				p.place(runs)
				if got := p.runs(); !slices.Equal(got, runs) {
					t.Errorf("%d runs are %v", count, got)
				}
				for i := range p.runs() {
					p.runs()[i].Low = 5
				}
				for _, r := range p.runs() {
					if r.Low != 5 {
						t.Errorf("of %d runs one did not change", count)
					}
				}
			}
		}
	}
}
