package segment

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

func filterOf(t *testing.T, messages []Message) *Filter {
	t.Helper()
	file, entries := encode(t, Config{}, testRun{1, 2, messages})
	f, err := open(t, file).Filter(entries[0])
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// withTxnIDs are n messages whose transaction ids f makes.
func withTxnIDs(n int, f func(i int) []byte) []Message {
	messages := make([]Message, n)
	for i := range messages {
		messages[i] = orders(1, 0, 1)[0]
		messages[i].Offset, messages[i].TxnID = messages[0].Offset, f(i)
		messages[i].Offset += messages[0].Offset
	}
	for i := 1; i < n; i++ {
		messages[i].Offset = messages[i-1].Offset + 1
	}
	return messages
}

func TestFilterKnowsEveryID(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	for _, n := range []int{1, 2, 3, 10, 5000} {
		for name, make := range map[string]func(i int) []byte{
			"uuid":        func(int) []byte { return []byte(randomID(rnd).String()) },
			"prefix":      func(i int) []byte { return fmt.Appendf(nil, "%070d/%d", 7, i) },
			"long prefix": func(i int) []byte { return fmt.Appendf(nil, "%0500d/%d", 7, i) },
			"short":       func(i int) []byte { return binary.AppendUvarint(nil, uint64(i)) },
			"any":         func(int) []byte { return randomBytes(rnd, rnd.IntN(80)) },
			"empty":       func(int) []byte { return []byte{} },
			"same":        func(int) []byte { return []byte("one and the same id for all messages") },
		} {
			messages := withTxnIDs(n, make)
			f := filterOf(t, messages)
			for _, m := range messages {
				if !f.MayHold(m.TxnID, Hash(m.TxnID)) {
					t.Fatalf("%s: %q is excluded", name, m.TxnID)
				}
			}
			if f.Size() < n {
				t.Fatalf("filter of %d ids says it holds %d bytes", n, f.Size())
			}
		}
	}
}

func TestFilterAnswersOneInAHundredFalsely(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{1, 10, 100, 20_000} {
		f := filterOf(t, withTxnIDs(n, func(int) []byte { return []byte(randomID(rnd).String()) }))
		f.low, f.high = nil, []byte{0xff} // the field alone
		const probes = 200_000
		wrong := 0
		for range probes {
			id := []byte(randomID(rnd).String())
			if f.MayHold(id, Hash(id)) {
				wrong++
			}
		}
		rate := 100 * float64(wrong) / probes
		t.Logf("%d ids: %.2f %% false positives", n, rate)
		if rate > 1.5 {
			t.Errorf("%d ids: %.2f %% false positives", n, rate)
		}
	}
}

func TestBoundsExcludeIDsOfOtherTimes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	f := filterOf(t, withTxnIDs(1000, func(i int) []byte {
		return []byte(uuid7(rnd, baseTime+int64(i)*1000).String())
	}))
	f.field = []byte{0xff} // the bounds alone
	for _, at := range []int64{baseTime - 1000, baseTime + 1000*1000} {
		id := []byte(uuid7(rnd, at).String())
		if f.MayHold(id, Hash(id)) {
			t.Errorf("%s is not excluded by %s to %s", id, f.low, f.high)
		}
	}
}

func TestFilterHasTheTimesOfTheRun(t *testing.T) {
	messages := orders(1, 40, 300)
	f := filterOf(t, messages)
	if f.FirstTime != messages[0].Time || f.LastTime != messages[299].Time || f.First != 40 || f.Last != 339 {
		t.Fatalf("%+v", f)
	}
}
