package segment

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"queend"
)

// onePerRun are n runs of one message, each with a UUID of the client's as
// transaction id and a payload of the size.
func onePerRun(n, payload int) []testRun {
	rnd := rand.New(rand.NewPCG(8, 8))
	runs := make([]testRun, n)
	for i := range runs {
		at := int64(baseTime + i*100)
		runs[i] = testRun{queend.QueueID(1 + i%1000), queend.PartitionID(1 + i), []Message{{
			Offset: queend.Offset(rnd.IntN(1e6)), Time: at, ID: uuid7(rnd, at),
			TxnID: []byte(randomID(rnd).String()), Payload: randomBytes(rnd, payload),
		}}}
	}
	return runs
}

// F10: space and writing grew with the number of queues.
func TestARunOfOneMessageIsSmall(t *testing.T) {
	const n, payload = 40_000, 64
	file, _ := encode(t, Config{}, onePerRun(n, payload)...)
	each := float64(len(file)) / n
	t.Logf("%.1f bytes per run with %d of payload", each, payload)
	if each > 250 {
		t.Fatalf("%.1f bytes per run, want at most 250", each)
	}
}

func TestOpeningReadsHeaderAndTrailerOnly(t *testing.T) {
	file, entries := encode(t, Config{}, onePerRun(20_000, 10)...)
	counter := &countingReader{r: bytes.NewReader(file)}
	r, err := NewReader(counter, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if counter.bytes != headerSize+trailSize {
		t.Fatalf("opening read %d bytes", counter.bytes)
	}
	counter.bytes = 0
	if _, err := r.Messages(entries[12_345], 0, 1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Filter(entries[12_345]); err != nil {
		t.Fatal(err)
	}
	if counter.bytes > 400 {
		t.Fatalf("one message and filter read %d bytes", counter.bytes)
	}
}

func TestMintedTransactionIDsCostNothing(t *testing.T) {
	minted := orders(2, 0, 5000)
	for i := range minted {
		minted[i].TxnID = []byte(minted[i].ID.String())
	}
	bare, _ := encode(t, Config{}, testRun{1, 1, minted})
	for i := range minted {
		minted[i].TxnID = []byte{}
	}
	empty, _ := encode(t, Config{}, testRun{1, 1, minted})
	if len(bare) > len(empty)+100 {
		t.Fatalf("%d bytes with minted ids, %d with empty ones", len(bare), len(empty))
	}
}

func TestOrdersShrink(t *testing.T) {
	messages := orders(1, 0, 20_000)
	raw := 0
	for _, m := range messages {
		raw += len(m.Payload)
	}
	file, entries := encode(t, Config{}, testRun{1, 1, messages})
	t.Logf("%d bytes of payload in a file of %d: %.1f a message, descriptor %d", raw, len(file),
		float64(len(file))/float64(len(messages)), entries[0].Size)
	if len(file)*2 > raw {
		t.Fatalf("%d bytes of payload in a file of %d", raw, len(file))
	}
}
