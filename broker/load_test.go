package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"queend"
)

// load is producers and consumers on a broker whose storage works without
// pause.
type load struct {
	t    *testing.T
	b    *Broker
	stop chan struct{}
	mu   sync.Mutex
	sent map[string]queend.ID // transaction id to message id
	got  map[string]int
}

const (
	loadQueues = 3
	loadParts  = 5
)

// produce pushes n batches of ten, each id twice: in its batch and again.
func (l *load) produce(who, n int) {
	for i := range n {
		var items []PushItem
		for j := range 10 {
			items = append(items, PushItem{
				Queue: fmt.Sprint("q", i%loadQueues), Partition: fmt.Sprint("p", j%loadParts),
				TxnID: fmt.Appendf(nil, "%d-%d-%d", who, i, j), Payload: fmt.Appendf(nil, `"%0*d"`, 1+i%700, j),
			})
		}
		l.push(items, PushQueued)
		l.push(items, PushDuplicate)
	}
}

func (l *load) push(items []PushItem, want PushStatus) {
	res, err := l.b.Push(context.Background(), DefaultTenant, nil, items)
	if err != nil {
		l.t.Error(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range res {
		txn := r.Queue + "/" + string(r.TxnID)
		switch {
		case r.Status != want:
			l.t.Errorf("item %s: %+v, want status %d", txn, r, want)
		case want == PushDuplicate && !r.ID.IsZero() && l.sent[txn] != r.ID:
			l.t.Errorf("item %s: original %v, want %v", txn, r.ID, l.sent[txn])
		case want == PushQueued:
			l.sent[txn] = r.ID
		}
	}
}

// consume pops and acks until everything is stopped and the queue is empty.
func (l *load) consume(queue string) {
	for {
		stopped := false
		select {
		case <-l.stop:
			stopped = true
		default:
		}
		res, err := l.b.Pop(context.Background(), PopRequest{
			Tenant: DefaultTenant, Queue: queue, Group: "g", Mode: "all", Batch: 40, Partitions: 3, Wait: !stopped, TimeoutMS: 200,
		})
		if err != nil {
			l.t.Error(err)
			return
		}
		if len(res.Messages) == 0 {
			if stopped {
				return
			}
			continue
		}
		l.ack(res)
	}
}

func (l *load) ack(res *PopResult) {
	var items []AckItem
	l.mu.Lock()
	for i := range res.Messages {
		m := &res.Messages[i]
		l.got[m.Queue+"/"+string(m.TxnID)]++
		items = append(items, AckItem{
			TxnID: m.TxnID, Partition: m.PartitionUUID.String(), Lease: res.LeaseID.String(), Signal: Completed, DelayMS: -1,
		})
	}
	l.mu.Unlock()
	acked, err := l.b.Ack(context.Background(), DefaultTenant, "g", items)
	if err != nil {
		l.t.Error(err)
		return
	}
	for i, r := range acked {
		if !r.Success {
			l.t.Errorf("ack of %s: %+v", items[i].TxnID, r)
		}
	}
}

func TestNothingIsLostWhileTheStorageWorks(t *testing.T) {
	start, base := time.Now(), time.Now().UnixMicro()
	cfg := testConfig(t.TempDir(), nil)
	cfg.Now = func() int64 { return base + time.Since(start).Microseconds() }
	cfg.DedupCacheBytes, cfg.CheckpointBytes = 40<<10, 64<<10
	cfg.TailBytes, cfg.AdmitBytes = 16<<10, -1
	b := openTest(t, cfg)
	l := &load{t: t, b: b, stop: make(chan struct{}), sent: map[string]queend.ID{}, got: map[string]int{}}
	b.locked(func() {
		t := b.begin()
		for q := range loadQueues {
			opts := DefaultOptions()
			opts.RetentionEnabled, opts.CompletedRetentionSeconds = true, 1
			t.add(&queueSet{
				id: queend.QueueID(q + 1), uuid: b.newID(t.stamp), tenant: DefaultTenant, name: fmt.Sprint("q", q),
				created: t.stamp, opts: opts,
			})
		}
		b.commit(t)
	})
	var producers, others sync.WaitGroup
	for who := range 4 {
		producers.Go(func() { l.produce(who, 60) })
	}
	for q := range loadQueues {
		others.Go(func() { l.consume(fmt.Sprint("q", q)) })
	}
	ended := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				if err := b.Maintain(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	producers.Wait()
	close(l.stop)
	others.Wait()
	close(ended)
	keeper.Wait()
	for txn := range l.sent {
		if l.got[txn] != 1 {
			t.Errorf("%s was delivered %d times", txn, l.got[txn])
		}
	}
	if len(l.sent) != 4*60*10 {
		t.Errorf("%d messages were stored", len(l.sent))
	}
	settled(t, b)
	again := openTest(t, func() Config { c := cfg; c.Dir = copyDir(t, cfg.Dir); return c }())
	sameDump(t, "after the load", dump(t, b), dump(t, again))
}
