package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// settler is a consumer that keeps acks back for its next request.
type settler interface{ settle() error }

// crowd are the consumers of a row at work.
type crowd struct {
	bed       *bed
	how       consumption
	consumers []consumer
	until     atomic.Int64 // how many messages the tally must have for them to go home
	since     atomic.Int64 // when until was set
	last      atomic.Int64 // when the last message was acknowledged
	ends      *latencies
	takes     *latencies
}

// consumption is that of the shape.
func (s shape) consumption(wait time.Duration) consumption {
	return consumption{lanes: max(s.Partitions, s.Traffic), consumers: s.Consumers, batch: s.TakeBatch, partitions: max(1, s.TakeFrom), wait: wait}
}

// gather connects the consumers.
func (b *bed) gather(ctx context.Context, how consumption) (*crowd, error) {
	c := &crowd{bed: b, how: how, ends: newLatencies(), takes: newLatencies()}
	c.until.Store(1 << 62)
	for n := range how.consumers {
		one, err := b.consumer(ctx, n, how)
		if err != nil {
			c.leave()
			return nil, err
		}
		c.consumers = append(c.consumers, one)
	}
	return c, nil
}

// leave ends all connections.
func (c *crowd) leave() {
	for _, one := range c.consumers {
		one.close()
	}
}

// work lets all consumers take until the tally has what is wanted. It fails at the
// first message that is out of order, missing or there twice.
func (c *crowd) work(ctx context.Context) error {
	g, ctx := newCrew(ctx)
	for _, one := range c.consumers {
		g.run(func() error { return c.one(ctx, one) })
	}
	return g.wait()
}

// one is the work of one consumer.
func (c *crowd) one(ctx context.Context, one consumer) error {
	in := &intake{tally: c.bed.tally, clock: c.bed.clock, ends: c.ends, takes: c.takes}
	for ctx.Err() == nil {
		if c.bed.tally.total.Load() >= c.until.Load() {
			break
		}
		in.now = 0
		if err := one.take(in); err != nil {
			return err
		}
		if in.now != 0 {
			c.done()
		} else if err := c.stuck(); err != nil {
			return err
		}
	}
	// A last take that brought nothing has taken the acks along, or they went before.
	if s, ok := one.(settler); ok && in.now != 0 {
		if err := s.settle(); err != nil {
			return err
		}
		c.done()
	}
	return context.Cause(ctx)
}

// patience is how long a message that was acknowledged may take to come once
// nobody pushes.
const patience = 30 * time.Second

// stuck is an error when messages are wanted that do not come.
func (c *crowd) stuck() error {
	until, got := c.until.Load(), c.bed.tally.total.Load()
	if until == 1<<62 || got >= until || c.bed.clock.now()-max(c.last.Load(), c.since.Load()) < int64(patience) {
		return nil
	}
	return fmt.Errorf("gap: %d messages were acknowledged, %d came, and no more in %v", until, got, patience)
}

// want sets how many messages there are to come.
func (c *crowd) want(total int64) {
	c.since.Store(c.bed.clock.now())
	c.until.Store(total)
}

// done notes that a consumer has just acknowledged.
func (c *crowd) done() {
	now := c.bed.clock.now()
	for {
		last := c.last.Load()
		if last >= now || c.last.CompareAndSwap(last, now) {
			return
		}
	}
}

// drainWait is how long a consumer of a backlog waits for more.
const drainWait = 200 * time.Millisecond

// measureDrain lets consumers take everything that is stored and measures it.
func (b *bed) measureDrain(ctx context.Context, how consumption) (figures, error) {
	c, err := b.gather(ctx, how)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	c.want(b.total)
	before := b.tally.total.Load()
	m, err := b.meter()
	if err != nil {
		return nil, err
	}
	if err := c.work(ctx); err != nil {
		return nil, err
	}
	f, err := m.stop(b.tally.total.Load()-before, c.last.Load())
	if err == nil {
		c.takes.into(f, "take")
	}
	return f, err
}

// measureBoth pushes at a rate while consumers take, and waits for the last
// message.
func (b *bed) measureBoth(ctx context.Context, feeders []*feeder, p pace, how consumption) (figures, error) {
	c, err := b.gather(ctx, how)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	m, err := b.meter()
	if err != nil {
		return nil, err
	}
	pushes := newLatencies()
	before := b.total
	g, ctx := newCrew(ctx)
	g.run(func() error { return c.work(ctx) })
	g.run(func() error {
		err := b.run(ctx, feeders, p, pushes)
		c.want(b.total)
		return err
	})
	if err := g.wait(); err != nil {
		return nil, err
	}
	if b.tally.total.Load() != b.total {
		return nil, fmt.Errorf("%d messages were acknowledged, %d came", b.total, b.tally.total.Load())
	}
	f, err := m.stop(b.total-before, c.last.Load())
	if err == nil {
		pushes.into(f, "push")
		c.ends.into(f, "e2e")
		c.takes.into(f, "take")
	}
	return f, err
}
