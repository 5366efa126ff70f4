package linear

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"queend/broker"
)

// stranded is how long a parked pop may be passed over. Delays and windows of
// exact queues last a second.
const stranded = 10 * time.Second

// watcher finds pops that are parked although there is something for them: it
// parks one of its own on every exact queue and group, again and again, and
// asks how much is ready all the while.
func (x *stress) watcher() {
	for i := range x.queues {
		for _, group := range stressGroups {
			x.crew.Go(func() { x.watch(queueName(exactQueue, i), group) })
		}
	}
}

func (x *stress) watch(queue, group string) {
	for !x.stop.Load() && !x.Failed() {
		ctx, leave := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			req := broker.PopRequest{
				Tenant: broker.DefaultTenant, Queue: queue, Group: group, Mode: "all", Batch: 1, Wait: true, TimeoutMS: 20000, LeaseSeconds: 1,
			}
			asked := x.cfg.Now()
			res, err := x.b.Pop(ctx, req)
			if err != nil && !tolerable(err) {
				x.Errorf("pop: %v", err)
			}
			if err != nil || len(res.Messages) == 0 {
				return
			}
			if err := x.ledger.delivered(res, &req, asked, x.cfg.Now()); err != nil {
				x.Error(err)
				return
			}
			x.ledger.ending(res)
			x.b.GiveBack(ctx, res)
		}()
		since := time.Now() // since then something was ready at every look
		for waiting := true; waiting; {
			select {
			case <-done:
				waiting = false
			case <-time.After(20 * time.Millisecond):
				if x.stop.Load() {
					leave()
				}
				d, err := x.b.Depth(context.Background(), broker.DefaultTenant, queue, &group)
				if err != nil {
					x.Errorf("depth: %v", err)
					d = &broker.Depth{}
				}
				if d.Ready == 0 {
					since = time.Now()
				}
				if time.Since(since) > stranded {
					x.Errorf("a pop of %s for %s is parked although %d messages were ready for %v", queue, group, d.Ready, stranded)
					leave()
					since = time.Now()
				}
			}
		}
		leave()
		time.Sleep(10 * time.Millisecond) // others want messages too
	}
}

// settleDown consumes what is left, by the queue alone: a partition that the
// broker forgot to offer is not found in any other way (F21). One consumer
// per queue and group is enough.
func (x *stress) settleDown() {
	x.Helper()
	ctx := context.Background()
	for i := range x.queues {
		queue := queueName(exactQueue, i)
		for _, group := range stressGroups {
			for end := time.Now().Add(patience); ; {
				d, err := x.b.Depth(ctx, broker.DefaultTenant, queue, &group)
				x.must(err)
				if d.Pending == 0 {
					break
				}
				if time.Now().After(end) {
					x.Fatalf("%s for %s: %d pending, %d ready, and no pop gets them", queue, group, d.Pending, d.Ready)
				}
				x.takeAll(queue, group)
			}
		}
	}
	if missing := x.ledger.missing(); len(missing) > 0 {
		x.Fatalf("%d messages were never delivered: %v", len(missing), missing[:min(len(missing), 10)])
	}
}

// takeAll pops and completes one large batch.
func (x *stress) takeAll(queue, group string) {
	x.Helper()
	ctx := context.Background()
	req := broker.PopRequest{
		Tenant: broker.DefaultTenant, Queue: queue, Group: group, Mode: "all", Batch: 500, Partitions: 64, Wait: true, TimeoutMS: 500, LeaseSeconds: 30,
	}
	asked := x.cfg.Now()
	res, err := x.b.Pop(ctx, req)
	x.must(err)
	if len(res.Messages) == 0 {
		return
	}
	x.must(x.ledger.delivered(res, &req, asked, x.cfg.Now()))
	x.ledger.ending(res)
	var items []broker.AckItem
	for i := range res.Messages {
		m := &res.Messages[i]
		items = append(items, broker.AckItem{
			TxnID: m.TxnID, Partition: m.PartitionUUID.String(), Lease: res.LeaseID.String(), Signal: broker.Completed, DelayMS: -1,
		})
	}
	said, err := x.b.Ack(ctx, broker.DefaultTenant, group, items)
	x.must(err)
	for i := range said {
		if !said[i].Success {
			x.Fatalf("%s of %s for %s: %+v", items[i].TxnID, queue, group, said[i])
		}
	}
	x.ledger.settled(res, items, said)
}

// reopens closes the broker and opens it again: everything that can be read
// reads the same.
func (x *stress) reopens() {
	x.Helper()
	for range 2 {
		before := x.picture()
		x.must(x.b.Close(context.Background()))
		x.open()
		if after := x.picture(); after != before {
			x.Fatalf("after a restart:\n%s", differences(before, after))
		}
	}
}

// differences are the lines that differ.
func differences(before, after string) string {
	var out []string
	b := strings.Split(after, "\n")
	for i, line := range strings.Split(before, "\n") {
		if i >= len(b) || b[i] != line {
			out = append(out, "- "+line)
			if i < len(b) {
				out = append(out, "+ "+b[i])
			}
		}
	}
	return strings.Join(out[:min(len(out), 20)], "\n")
}

// picture prints everything but ages.
func (x *stress) picture() string {
	x.Helper()
	ctx := context.Background()
	var out strings.Builder
	print := func(name string, v any) {
		text, err := json.Marshal(v)
		x.must(err)
		fmt.Fprintf(&out, "%s %s\n", name, text)
	}
	queues, err := x.b.Queues(ctx, broker.DefaultTenant)
	x.must(err)
	for _, q := range queues {
		d, err := x.b.QueueDetail(ctx, broker.DefaultTenant, q.Name)
		x.must(err)
		print("options "+q.Name, d.Values)
		var entries []broker.FetchEntry
		for _, p := range d.Partitions {
			p.Counts.Processing = 0 // leases end
			print("partition", p)
			entries = append(entries, broker.FetchEntry{Queue: q.Name, Partition: p.Name, Offset: 0, MaxBytes: 1 << 20})
		}
		x.messages(print, entries)
		for _, group := range stressGroups {
			depth, err := x.b.Depth(ctx, broker.DefaultTenant, q.Name, &group)
			x.must(err)
			for _, r := range depth.Partitions {
				print("depth", []any{q.Name, group, r.Partition, r.Pending})
			}
		}
		letters, err := x.b.DeadLetters(ctx, broker.DeadLetterQuery{Tenant: broker.DefaultTenant, Queue: &q.Name})
		x.must(err)
		print("letters", letters)
	}
	return out.String()
}

// messages prints what the partitions hold.
func (x *stress) messages(print func(string, any), entries []broker.FetchEntry) {
	x.Helper()
	for _, e := range entries {
		got, err := x.b.Fetch(context.Background(), broker.FetchRequest{Tenant: broker.DefaultTenant, Entries: []broker.FetchEntry{e}})
		x.must(err)
		if got[0].Error == broker.FetchOutOfRange {
			e.Offset = got[0].LogStart
			got, err = x.b.Fetch(context.Background(), broker.FetchRequest{Tenant: broker.DefaultTenant, Entries: []broker.FetchEntry{e}})
			x.must(err)
		}
		print("messages of "+e.Queue+" "+e.Partition, got[0])
	}
}
