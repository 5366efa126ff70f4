package segment

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestFindKnowsEveryMessageOfAnID(t *testing.T) {
	for _, n := range []int{1, 2, 400, 4000} {
		messages := orders(uint64(n), 77, n)
		for i := range messages {
			switch i % 5 {
			case 0:
				messages[i].TxnID = messages[i/2].TxnID
			case 1:
				messages[i].TxnID = []byte{}
			}
		}
		file, entries := encode(t, Config{BlockBytes: 5000}, testRun{1, 2, messages})
		r := open(t, file)
		want := map[string][]Match{}
		for _, m := range messages {
			want[string(m.TxnID)] = append(want[string(m.TxnID)], Match{m.Offset, m.Time, m.ID})
		}
		for txn, matches := range want {
			got, err := r.Find(entries[0], []byte(txn), Hash([]byte(txn)))
			if err != nil || !reflect.DeepEqual(got, matches) {
				t.Fatalf("%q: got %v, %v, want %v", txn, got, err, matches)
			}
		}
	}
}

func TestFindingANewIDReadsFewBlocks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	file, entries := encode(t, Config{}, testRun{1, 2, orders(1, 0, 40_000)})
	counter := &countingReader{r: bytes.NewReader(file)}
	r, err := NewReader(counter, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	const probes = 300
	counter.bytes = 0
	for range probes {
		id := []byte(randomID(rnd).String())
		if got, err := r.Find(entries[0], id, Hash(id)); err != nil || len(got) != 0 {
			t.Fatal(got, err)
		}
	}
	each := counter.bytes / probes
	t.Logf("%d bytes read for each new id", each)
	if limit := int(entries[0].Size) + int(filterSize(40_000)) + 40_000; each > limit {
		t.Fatalf("%d bytes read for each new id, want at most %d", each, limit)
	}
}

// IDs.Find compares ids in the form they are stored in: text, the 16 bytes of a
// UUID, or the message's own id.
func TestIDsFindComparesEveryFormOfAnID(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	msgs := orders(7, 0, 300)
	for i := range msgs {
		switch rnd.IntN(4) {
		case 0:
			msgs[i].TxnID = fmt.Appendf(nil, "bill-%d", rnd.IntN(40))
		case 1:
			msgs[i].TxnID = msgs[i].ID.Append(nil)
		case 2:
			msgs[i].TxnID = bytes.ToUpper(msgs[i].ID.Append(nil))
		}
	}
	file, entries := encode(t, Config{}, testRun{1, 2, msgs})
	ids, err := open(t, file).IDs(entries[0])
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		end := rnd.IntN(301)
		from := rnd.IntN(end + 1)
		txn := msgs[rnd.IntN(300)].TxnID
		want := end
		for i := from; i < end; i++ {
			if bytes.Equal(msgs[i].TxnID, txn) {
				want = i
				break
			}
		}
		if got := ids.Find(txn, from, end); got != want {
			t.Fatalf("%q in [%d, %d) is at %d, want %d", txn, from, end, got, want)
		}
	}
}
