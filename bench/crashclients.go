package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// produce pushes its records in a loop, each round under new ids, until the
// last kill is over. It repeats a push until it is answered, and now and then
// one that was answered.
func (r *crashRun) produce(ctx context.Context, hand []record, rng *rand.Rand) error {
	r.pushersLeft.Add(1)
	defer r.pushersLeft.Add(-1)
	c := caller{target: r.broker.target}
	defer c.close()
	perMessage := time.Duration(pushers) * time.Second / time.Duration(r.rate)
	for round := 0; ; round++ {
		for start := 0; start < len(hand); start += crashPushBatch {
			if r.stopPush.Load() || ctx.Err() != nil {
				return nil
			}
			batch := renamed(hand[start:min(start+crashPushBatch, len(hand))], round)
			began := time.Now()
			if err := r.pushOnce(ctx, &c, batch, rng); err != nil {
				return stopped(ctx, err)
			}
			sleep(ctx, time.Duration(len(batch))*perMessage-time.Since(began))
		}
	}
}

// renamed returns the records under the ids of one round.
func renamed(records []record, round int) []record {
	again := make([]record, len(records))
	for i, r := range records {
		r.id = fmt.Sprintf("%s#%d", r.id, round)
		again[i] = r
	}
	return again
}

// pushOnce brings one batch to the broker, however often it must be sent.
func (r *crashRun) pushOnce(ctx context.Context, c *caller, batch []record, rng *rand.Rand) error {
	messages := r.history.sending(batch, marked)
	again := rng.IntN(10) == 0
	for first := true; ; first = false {
		answers, err := c.push(ctx, batch)
		switch {
		case err == nil:
			if err := r.history.pushAnswered(messages, answers, first); err != nil {
				return err
			}
			if !again {
				return nil
			}
			again = false
		case !uncertain(err) || ctx.Err() != nil:
			return err
		default:
			r.history.lost()
		}
	}
}

// work takes and settles messages for one group until everything is settled.
func (r *crashRun) work(ctx context.Context, group string, rng *rand.Rand) error {
	c := caller{target: r.broker.target}
	defer c.close()
	empty := 0 // queues in a row that had nothing
	for at := rng.IntN(len(r.queues)); !r.stopAll.Load(); at++ {
		asked := r.history.now()
		leased := time.Now()
		messages, err := c.pop(ctx, popOptions{queue: r.queues[at%len(r.queues)], group: group,
			batch: 1 + rng.IntN(200), partitions: 1 + rng.IntN(32), leaseSeconds: r.lease})
		switch {
		case err == nil:
		case !uncertain(err) || ctx.Err() != nil:
			return stopped(ctx, err)
		default:
			r.history.lost()
			continue
		}
		if len(messages) == 0 {
			if empty++; empty >= len(r.queues) {
				sleep(ctx, 20*time.Millisecond)
				empty = 0
			}
			continue
		}
		empty = 0
		if err := r.settle(ctx, &c, group, asked, leased, messages, rng); err != nil {
			return stopped(ctx, err)
		}
	}
	return nil
}

// settle checks the messages of one pop and acks them in one call. When the
// answer is lost it sometimes asks again, and sometimes lets the lease expire.
func (r *crashRun) settle(ctx context.Context, c *caller, group string, asked int64, leased time.Time, messages []delivered, rng *rand.Rand) error {
	runs := byPartition(messages)
	var items []ackItem
	ends := make([]int, len(runs)) // in items, of each run
	for i, run := range runs {
		if err := r.history.deliveredRun(group, asked, run); err != nil {
			return err
		}
		items = append(items, r.history.acking(group, run)...)
		ends[i] = len(items)
	}
	for first := true; ; first = false {
		answers, err := c.ack(ctx, group, items)
		if err != nil {
			if !uncertain(err) || ctx.Err() != nil {
				return err
			}
			if r.history.lost(); rng.IntN(2) == 0 {
				return nil
			}
			continue
		}
		if first {
			if err := refusedTooSoon(answers, time.Since(leased), time.Duration(r.lease)*time.Second); err != nil {
				return fmt.Errorf("group %s: %w", group, err)
			}
		}
		start := 0
		for i, run := range runs {
			if err := r.history.ackAnswered(group, run, answers[start:ends[i]]); err != nil {
				return err
			}
			start = ends[i]
		}
		return nil
	}
}

// refusedTooSoon finds an ack that was refused under a lease that must be live,
// also after a restart.
func refusedTooSoon(answers []acked, since, lease time.Duration) error {
	if since >= lease {
		return nil
	}
	for _, a := range answers {
		if !a.Success {
			return fmt.Errorf("refused %s after the pop, with a lease of %s: %v", short(since), lease, a)
		}
	}
	return nil
}

// stopped turns the error of a client that was told to stop into none.
func stopped(ctx context.Context, err error) error {
	if gone(ctx, err) {
		return nil
	}
	return err
}

// sleep waits unless ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
