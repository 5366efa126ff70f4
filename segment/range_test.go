package segment

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"queend"
)

// Whatever a run holds, its range excludes none of it, and the descriptor says
// the same as the writer did.
func TestARangeExcludesNoIDOfItsRun(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 9))
	mint := map[string]func() []byte{
		"v7": func() []byte {
			id := queend.ID{1, 0x99, 0xaa, byte(rnd.IntN(3)), byte(rnd.Uint32()), byte(rnd.Uint32()), 0x70, byte(rnd.Uint32())}
			return id.Append(nil)
		},
		"upper": func() []byte { return bytes.ToUpper(queend.ID{0xab, byte(rnd.Uint32())}.Append(nil)) },
		"text":  func() []byte { return fmt.Appendf(nil, "%x-bill", rnd.IntN(1000)) },
		"near":  func() []byte { return fmt.Appendf(nil, "%08x-%04x-%04x", rnd.IntN(9), rnd.IntN(9), rnd.IntN(9)) },
		"empty": func() []byte { return []byte{} },
	}
	kinds := []string{"v7", "upper", "text", "near", "empty"}
	bounded := 0
	for range 500 {
		msgs := orders(uint64(rnd.IntN(1000)), 0, 1+rnd.IntN(6))
		var from []string
		for range 1 + rnd.IntN(2) {
			from = append(from, kinds[rnd.IntN(len(kinds))])
		}
		for i := range msgs {
			msgs[i].TxnID = mint[from[rnd.IntN(len(from))]]()
		}
		file, entries := encode(t, Config{}, testRun{1, 2, msgs})
		filter, err := open(t, file).Filter(entries[0])
		if err != nil {
			t.Fatal(err)
		}
		if filter.IDs != entries[0].IDs {
			t.Fatalf("%v read, %v written", filter.IDs, entries[0].IDs)
		}
		if entries[0].IDs != (Range{}) {
			bounded++
		}
		for i := range msgs {
			if place, ok := Place(msgs[i].TxnID); ok && filter.IDs.Excludes(place) {
				t.Fatalf("%v excludes %s", filter.IDs, msgs[i].TxnID)
			}
		}
	}
	if bounded < 50 {
		t.Fatalf("%d of 500 runs are bounded", bounded)
	}
}

func TestAnIDFromLaterIsOutsideTheRange(t *testing.T) {
	msgs := orders(1, 0, 9)
	for i := range msgs {
		msgs[i].TxnID = queend.ID{1, 0x99, 0xaa, 0, byte(i)}.Append(nil)
	}
	_, entries := encode(t, Config{}, testRun{1, 2, msgs})
	place, ok := Place(queend.ID{1, 0x99, 0xaa, 0, 9}.Append(nil))
	if !ok || !entries[0].IDs.Excludes(place) {
		t.Errorf("%v does not exclude %x", entries[0].IDs, place)
	}
	if (Range{}).Excludes(place) {
		t.Error("a range of nothing excludes")
	}
}
