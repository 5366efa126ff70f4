package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"queend/broker"
)

// tolerable errors of calls that were cancelled on purpose.
func tolerable(err error) bool {
	var refusal *broker.Refusal
	return errors.As(err, &refusal) && (refusal.Code == broker.CodeTimeout || refusal.Code == broker.CodeOverloaded)
}

// client pushes, pops and settles until the run is over.
func (x *stress) client(rng *rand.Rand) {
	for !x.stop.Load() && !x.Failed() {
		queue := queueName(exactQueue, rng.IntN(x.queues))
		if rng.IntN(3) == 0 {
			queue = queueName(wildQueue, rng.IntN(x.queues))
		}
		var err error
		if rng.IntN(5) < 2 {
			err = x.push(rng, queue)
		} else {
			err = x.consume(rng, queue)
		}
		if err != nil {
			x.Error(err)
			return
		}
	}
}

// push stores some messages in one to three partitions.
func (x *stress) push(rng *rand.Rand, queue string) error {
	var items []broker.PushItem
	for range 1 + rng.IntN(3) {
		part := fmt.Sprint("p", rng.IntN(x.parts))
		for range 1 + rng.IntN(6) {
			id := x.ledger.newID()
			items = append(items, broker.PushItem{
				Queue: queue, Partition: part, TxnID: []byte(id), Payload: []byte(`"` + id + strings.Repeat("x", rng.IntN(300)) + `"`),
			})
		}
	}
	if rng.IntN(8) == 0 {
		return x.pushInTxn(queue, items)
	}
	said, err := x.b.Push(context.Background(), broker.DefaultTenant, nil, items)
	if tolerable(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	for i, s := range said {
		if s.Status != broker.PushQueued {
			return fmt.Errorf("push of a new id: %+v", s)
		}
		if isExact(queue) {
			x.ledger.stored(string(items[i].TxnID), lineKey{queue, items[i].Partition, ""}, int64(s.Offset))
		}
	}
	return nil
}

func (x *stress) pushInTxn(queue string, items []broker.PushItem) error {
	var ops []broker.TxnOp
	for i := range items {
		ops = append(ops, broker.TxnOp{Push: &items[i]})
	}
	out, err := x.b.Transaction(context.Background(), broker.DefaultTenant, nil, ops, nil)
	if tolerable(err) {
		return nil
	} else if err != nil || !out.Success {
		return fmt.Errorf("transaction: %+v %w", out, err)
	}
	for i := range items {
		if isExact(queue) {
			x.ledger.stored(string(items[i].TxnID), lineKey{queue, items[i].Partition, ""}, -1)
		}
	}
	return nil
}

// consume pops and settles. Pops that wait are cancelled now and then; the
// others must be answered in time.
func (x *stress) consume(rng *rand.Rand, queue string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req := broker.PopRequest{
		Tenant: broker.DefaultTenant, Queue: queue, Group: stressGroups[rng.IntN(len(stressGroups))], Mode: "all",
		Batch: 1 + rng.IntN(12), Partitions: 1 + rng.IntN(4), LeaseSeconds: 1 + rng.Int64N(2),
		Wait: rng.IntN(2) == 0, TimeoutMS: 200 + rng.Int64N(3000),
	}
	if rng.IntN(4) == 0 {
		req.Pinned, req.Partition = true, fmt.Sprint("p", rng.IntN(x.parts))
	}
	req.AutoAck = rng.IntN(10) == 0
	cancelled := req.Wait && !req.AutoAck && rng.IntN(4) == 0
	if cancelled {
		timer := time.AfterFunc(time.Duration(rng.Int64N(int64(30*time.Millisecond)))>>(6*rng.IntN(2)), cancel)
		defer timer.Stop()
	}
	asked := x.cfg.Now()
	res, err := x.b.Pop(ctx, req)
	if cancelled && (err == nil || tolerable(err)) {
		x.breaks.Add(1)
	}
	if tolerable(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("pop: %w", err)
	}
	if len(res.Messages) == 0 {
		x.empties.Add(1)
		if req.Wait && !cancelled && x.cfg.Now()-asked > (req.TimeoutMS*1000+patience.Microseconds()) {
			return fmt.Errorf("a pop with a time-out of %d ms took %d us", req.TimeoutMS, x.cfg.Now()-asked)
		}
		return nil
	}
	x.pops.Add(1)
	if err := x.ledger.delivered(res, &req, asked, x.cfg.Now()); err != nil {
		return err
	}
	if req.AutoAck {
		return nil
	}
	if rng.IntN(20) == 0 {
		x.ledger.ending(res)
		x.b.GiveBack(context.Background(), res)
		return nil
	}
	return x.settle(rng, res)
}

// settle acks the batch of a pop in one of many ways, or lets it expire.
func (x *stress) settle(rng *rand.Rand, res *broker.PopResult) error {
	ctx := context.Background()
	n := rng.IntN(60)
	if n == 0 {
		if _, _, err := x.b.Extend(ctx, broker.DefaultTenant, res.LeaseID.String(), 1); err != nil {
			return fmt.Errorf("extend: %w", err)
		}
	}
	if n == 1 {
		return nil
	}
	x.ledger.ending(res)
	if n == 2 {
		_, err := x.b.Release(ctx, broker.DefaultTenant, res.LeaseID.String())
		return err
	}
	var items []broker.AckItem
	for i := range res.Messages {
		m := &res.Messages[i]
		it := broker.AckItem{
			TxnID: m.TxnID, Partition: m.PartitionUUID.String(), Lease: res.LeaseID.String(), Signal: broker.Completed, DelayMS: -1,
		}
		if rng.IntN(15) == 0 {
			it.Signal = broker.Retry + broker.Signal(rng.IntN(2))
		}
		items = append(items, it)
	}
	said, err := x.b.Ack(ctx, broker.DefaultTenant, res.Group, items)
	if tolerable(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	x.ledger.settled(res, items, said)
	return nil
}

// cancelStorm leaves a backlog, on disk for the most part, to pops whose
// clients are gone at once. Nobody pushes meanwhile: what a pop does not give
// back is offered to nobody any more (F21).
func (x *stress) cancelStorm() {
	x.Helper()
	ctx := context.Background()
	for i := range x.queues {
		for p := range x.parts {
			at := lineKey{queueName(exactQueue, i), fmt.Sprint("p", p), ""}
			for range 5 {
				id := x.ledger.newID()
				said, err := x.b.Push(ctx, broker.DefaultTenant, nil, []broker.PushItem{{
					Queue: at.queue, Partition: at.part, TxnID: []byte(id), Payload: []byte(`"` + strings.Repeat("x", 500) + `"`),
				}})
				x.must(err)
				x.ledger.stored(id, at, int64(said[0].Offset))
			}
		}
	}
	x.must(x.b.Maintain())
	for i := range 8 {
		x.crew.Go(func() {
			rng := random(x.seed, 2000+i)
			for range 150 {
				if err := x.leavingPop(rng); err != nil {
					x.Error(err)
					return
				}
			}
		})
	}
	x.crew.Wait()
}

// leavingPop is a pop whose client leaves; what it got all the same is
// released.
func (x *stress) leavingPop(rng *rand.Rand) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.AfterFunc(time.Duration(rng.Int64N(int64(400*time.Microsecond))), cancel)
	defer timer.Stop()
	req := broker.PopRequest{
		Tenant: broker.DefaultTenant, Queue: queueName(exactQueue, rng.IntN(x.queues)), Group: stressGroups[rng.IntN(len(stressGroups))],
		Mode: "all", Batch: 1 + rng.IntN(12), Partitions: 1 + rng.IntN(8), LeaseSeconds: 1, Wait: rng.IntN(2) == 0, TimeoutMS: 1000,
	}
	asked := x.cfg.Now()
	res, err := x.b.Pop(ctx, req)
	if tolerable(err) || err == nil && len(res.Messages) == 0 {
		x.breaks.Add(1)
		return nil
	} else if err != nil {
		return fmt.Errorf("pop: %w", err)
	}
	if err := x.ledger.delivered(res, &req, asked, x.cfg.Now()); err != nil {
		return err
	}
	x.ledger.ending(res)
	_, err = x.b.Release(context.Background(), broker.DefaultTenant, res.LeaseID.String())
	return err
}
