package broker

import (
	"context"

	"queend"
)

// partItems is how many items are planned under one hold of the lock, so that
// a push to very many partitions does not keep everybody else waiting. Those
// of one partition are not torn apart, however many they are.
const partItems = 4000

// pushParts stores the items of a large push part by part.
func (b *Broker) pushParts(ctx context.Context, tenant queend.ID, producer *string, items []PushItem) ([]PushResult, error) {
	order, ends := byPartition(items)
	results := make([]PushResult, len(items))
	var last queend.LSN
	var part []PushItem
	begin, first := 0, true
	for i, end := range ends {
		if end-begin < partItems && i < len(ends)-1 {
			continue
		}
		part = part[:0]
		for _, at := range order[begin:end] {
			part = append(part, items[at])
		}
		got, lsn, spool, err := b.planPush(tenant, producer, part, nil, first)
		if spool {
			got, err = b.spoolPush(ctx, tenant, producer, part)
		}
		if err != nil {
			return nil, err
		}
		for i, at := range order[begin:end] {
			results[at] = got[i]
		}
		last = max(last, lsn)
		begin, first = end, false
	}
	if err := b.await(ctx, last); err != nil {
		return nil, err
	}
	b.meters.pushed(results)
	return results, nil
}

// byPartition returns the indexes of the items with those of one partition
// next to each other, in the order of the request, and where each ends.
func byPartition(items []PushItem) (order []int, ends []int) {
	type name struct{ queue, partition string }
	numbers := map[name]int{}
	of := make([]int, len(items))
	for i := range items {
		key := name{items[i].Queue, items[i].Partition}
		n, known := numbers[key]
		if !known {
			n = len(ends)
			numbers[key] = n
			ends = append(ends, 0)
		}
		of[i] = n
		ends[n]++
	}
	begins := make([]int, len(ends))
	for n, sum := 0, 0; n < len(ends); n++ {
		begins[n] = sum
		sum += ends[n]
		ends[n] = sum
	}
	order = make([]int, len(items))
	for i, n := range of {
		order[begins[n]] = i
		begins[n]++
	}
	return order, ends
}
