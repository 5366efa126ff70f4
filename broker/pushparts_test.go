package broker

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func TestALargePushKeepsTheOrderOfItsAnswersAndOfEachPartition(t *testing.T) {
	r := newRig(t)
	const count, partitions = 3 * partItems, 700
	var items []PushItem
	for i := range count {
		items = append(items, PushItem{
			Queue: fmt.Sprint("q", i%2), Partition: fmt.Sprint("p", i%partitions), TxnID: fmt.Append(nil, i), Payload: fmt.Append(nil, i),
		})
	}
	items = append(items, items[5], items[partItems+5]) // again, far from the first ones
	results, err := r.b.Push(context.Background(), DefaultTenant, nil, items)
	r.must(err)
	next := map[string]int64{}
	for i, res := range results[:count] {
		key := items[i].Queue + "/" + items[i].Partition
		if res.Status != PushQueued || string(res.TxnID) != fmt.Sprint(i) || int64(res.Offset) != next[key] {
			t.Fatalf("item %d: %+v, want offset %d", i, res, next[key])
		}
		next[key]++
	}
	for _, res := range results[count:] {
		if res.Status != PushDuplicate {
			t.Errorf("a repeated id was %v", res.Status)
		}
	}
	if got := r.b.state.totals.PushRequests; got != 1 {
		t.Errorf("one push counts as %d", got)
	}
}

func TestPinnedPopsThatLeftHoldNoNames(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.pop(1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	const pops = 10
	for i := range pops {
		go func() {
			_, err := r.b.Pop(ctx, PopRequest{Tenant: DefaultTenant, Queue: "q", Pinned: true, Partition: fmt.Sprint("p", i/2), Wait: true})
			done <- err
		}()
	}
	names := func() (n int) {
		r.b.locked(func() {
			for _, g := range r.b.state.groups {
				n += len(g.d.pinned)
			}
		})
		return n
	}
	for names() < pops/2 { // until they are parked
		time.Sleep(time.Millisecond)
	}
	cancel()
	for range pops {
		r.must(<-done)
	}
	if n := names(); n != 0 {
		t.Errorf("%d names are left", n)
	}
}
