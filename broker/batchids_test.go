package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"queend"
	"queend/segment"
)

func TestBatchIDsAgreeWithALookAtEveryMessage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		messages := make([]Delivered, 1+rnd.IntN(40))
		from := queend.Offset(rnd.IntN(5))
		for i := range messages {
			txn := fmt.Appendf(nil, "%.*d", rnd.IntN(3), rnd.IntN(30)) // repeated, and empty ones too
			messages[i].Message = segment.Message{Offset: from + queend.Offset(i), Time: int64(100 + i), TxnID: txn}
		}
		ids := batchIDsOf(messages)
		for range 100 {
			txn := fmt.Appendf(nil, "%.*d", rnd.IntN(3), rnd.IntN(30))
			lo, hi := from+queend.Offset(rnd.IntN(len(messages))), from+queend.Offset(rnd.IntN(len(messages)))
			want := queend.NoOffset
			for i := len(messages) - 1; i >= 0; i-- {
				if off := messages[i].Offset; off >= lo && off <= hi && string(messages[i].TxnID) == string(txn) {
					want = off
				}
			}
			if !ids.covers(100, lo, hi) {
				t.Fatalf("%d to %d is not covered", lo, hi)
			}
			if got, found := ids.find(txn, lo, hi); got != want || found != (want != queend.NoOffset) {
				t.Fatalf("%q from %d to %d is at %d, want %d", txn, lo, hi, got, want)
			}
		}
		end := from + queend.Offset(len(messages))
		if ids.covers(101, from, from) || ids.covers(0, from-1, from) || ids.covers(0, from, end) {
			t.Fatal("more is covered than there is")
		}
	}
}

func TestAnAckOfWhatWasJustGivenReadsNoIDs(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	r.flushed()
	p := r.pop(10).want("a b c")
	hits, misses := r.b.storage.ids.asked()
	r.said(p.ack("b=completed"), "ok")
	r.said(p.ack("c=completed"), "ok")
	if h, m := r.b.storage.ids.asked(); h != hits || m != misses {
		t.Fatalf("ids of files were asked for %d times", h-hits+m-misses)
	}
	if n := r.b.storage.batches.Bytes(); n != 0 {
		t.Fatalf("%d bytes are kept of a batch that is settled", n)
	}
}
