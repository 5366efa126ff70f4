package broker

import (
	"context"
	"strings"
	"testing"

	"queend"
)

func TestAPushTooLargeForOnePartitionStoresNoneOfItsItemsThere(t *testing.T) {
	r := newRig(t, func(c *Config) { c.EntryMaxBytes = 4096 })
	item := func(part, txn string, bytes int) PushItem {
		return PushItem{Queue: "q", Partition: part, TxnID: []byte(txn), Payload: []byte(`"` + strings.Repeat("x", bytes) + `"`)}
	}
	results, err := r.b.Push(context.Background(), DefaultTenant, nil, []PushItem{
		item("large", "a", 2000), item("small", "a", 10), item("large", "a", 10), item("large", "b", 3000), item("large", "c", 10),
	})
	r.must(err)
	for i, want := range []PushStatus{PushFailed, PushQueued, PushFailed, PushFailed, PushFailed} {
		if results[i].Status != want {
			t.Errorf("item %d: %+v", i, results[i])
		}
		if want == PushFailed && (results[i].Error != errTooLarge || results[i].Offset != queend.NoOffset || !results[i].ID.IsZero()) {
			t.Errorf("item %d: %+v", i, results[i])
		}
	}
	again, err := r.b.Push(context.Background(), DefaultTenant, nil, []PushItem{item("large", "a", 10)})
	r.must(err)
	if again[0].Status != PushQueued || again[0].Offset != 0 {
		t.Errorf("what was refused left a trace: %+v", again[0])
	}
}
