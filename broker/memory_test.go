package broker

import (
	"fmt"
	"runtime"
	"testing"
)

// heapInUse is what is in use on the heap, after everything that is not was freed.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// F16: memory grew with things that nobody used, and nobody had said how much
// each takes. The bounds are those of docs/operations.md, section Memory.
func TestF16IdleThingsTakeWhatIsDocumented(t *testing.T) {
	const n = 4000
	r := newRig(t)
	bound := func(what string, bytes int64, make func()) {
		t.Helper()
		r.reopen() // without the buffers of what was done before
		before := heapInUse()
		make()
		r.reopen()
		each := (heapInUse() - before) / n
		t.Logf("%s: %d bytes", what, each)
		if each > bytes {
			t.Errorf("%s takes %d bytes, at most %d are documented", what, each, bytes)
		}
	}
	each := func(queue, part func(i int) string) {
		for from := 0; from < n; from += 1000 {
			var items []PushItem
			for i := from; i < from+1000; i++ {
				items = append(items, PushItem{Queue: queue(i), Partition: part(i), TxnID: []byte("t"), Payload: []byte("1")})
			}
			_, err := r.b.Push(r.Context(), DefaultTenant, nil, items)
			r.must(err)
		}
	}
	named := func(format string) func(int) string { return func(i int) string { return fmt.Sprintf(format, i) } }
	r.pushTo("q", "first", "t")
	bound("a partition with a message", 430, func() { each(func(int) string { return "q" }, named("partition-%d")) })
	bound("a queue with a partition", 1350, func() { each(named("queue-%d"), func(int) string { return "p" }) })
	bound("a cursor of a group", 90, func() {
		for taken := 0; taken < n; {
			res := r.popReq(func(q *PopRequest) { q.Group, q.Batch, q.Partitions, q.AutoAck = "g", 1000, 1000, true })
			taken += len(res.Messages)
			if len(res.Messages) == 0 {
				t.Fatalf("%d popped", taken)
			}
		}
	})
	bound("a dead letter", 350, func() {
		for taken := 0; taken < n; {
			res := r.popReq(func(q *PopRequest) { q.Group, q.Batch, q.Partitions = "h", 1000, 1000 })
			var items []AckItem
			for _, m := range res.Messages {
				items = append(items, AckItem{TxnID: []byte(m.TxnID), Partition: m.PartitionUUID.String(), Lease: res.LeaseID.String(), Signal: DLQ, DelayMS: -1})
			}
			if taken += len(items); len(items) == 0 {
				t.Fatalf("%d filed", taken)
			}
			r.ackItems("h", items)
		}
	})
	ids := make([]string, 20*n)
	for i := range ids {
		ids[i] = fmt.Sprint("id", i)
	}
	r.pushTo("ids", "p", ids...)
	if fresh := &r.b.state.fresh; fresh.Len() < len(ids) || fresh.Bytes() > 32*fresh.Len() {
		t.Errorf("%d ids in no segment take %d bytes, at most 32 each are documented", fresh.Len(), fresh.Bytes())
	} else {
		t.Logf("an id in no segment: %d bytes", fresh.Bytes()/fresh.Len())
	}
}
