package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// runWake measures how fast a parked consumer gets its message, with a consumer
// on every partition, and what it costs when nothing comes.
func runWake(ctx context.Context, r *runner, f *scenarioFile) ([]result, error) {
	var results []result
	for _, e := range f.Entries {
		b, found, err := r.setUp(ctx, f, e)
		if err != nil {
			return nil, err
		}
		if b != nil {
			err := r.wake(ctx, f, b, &found)
			b.end()
			if ctx.Err() != nil {
				return nil, errors.Join(err, context.Cause(ctx))
			}
			if err != nil {
				found.Void = err.Error()
			}
		}
		results = append(results, found)
	}
	return results, nil
}

// wake measures one system.
func (r *runner) wake(ctx context.Context, f *scenarioFile, b *bed, found *result) error {
	how := b.shape.consumption(time.Minute)
	how.consumers, how.batch, how.pinned = b.shape.Partitions, 1, true
	feeders, err := b.connect(ctx, b.shape.flow())
	if err != nil {
		return err
	}
	defer hangUp(feeders)
	c, err := b.gather(ctx, how)
	if err != nil {
		return err
	}
	defer c.leave()
	home := make(chan error, 1)
	go func() { home <- c.work(ctx) }()
	// The first message of each partition makes it, and the place of its consumer.
	if err := b.run(ctx, feeders, pace{pass: true}, nil); err != nil {
		return err
	}
	if err := c.arrived(ctx, home); err != nil {
		return err
	}
	r.say("%s: %d consumers parked, nothing comes", found.Entry, how.consumers)
	idle, err := b.idle(ctx, seconds(f.Seconds))
	if err != nil {
		return err
	}
	for i := range f.Rounds {
		m, err := b.measureWake(ctx, c, feeders, pace{time: seconds(f.Seconds), rate: b.shape.Rate}, home)
		if err != nil {
			return err
		}
		m["idle_cpu_pct"] = idle
		found.Rounds = append(found.Rounds, m)
		r.say("round %d/%d %s wake p50 %.0f us", i+1, f.Rounds, found.Entry, m["e2e_p50_us"])
	}
	found.Median = medians(found.Rounds)
	found.Checked = b.tally.total.Load()
	return b.tally.complete(b.sent)
}

// arrived waits until everything that was pushed has come.
func (c *crowd) arrived(ctx context.Context, home <-chan error) error {
	for end := time.Now().Add(patience); c.bed.tally.total.Load() < c.bed.total; time.Sleep(time.Millisecond) {
		select {
		case err := <-home:
			return fmt.Errorf("a consumer has ended: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("gap: %d messages were acknowledged, %d came, and no more in %v", c.bed.total, c.bed.tally.total.Load(), patience)
		}
	}
	return nil
}

// idle is what the server uses while nothing happens, in hundredths of a core.
func (b *bed) idle(ctx context.Context, d time.Duration) (float64, error) {
	time.Sleep(time.Second) // the last acks
	before, err := b.server().usage()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	after, err := b.server().usage()
	return round4(100 * (after.cpu - before.cpu).Seconds() / time.Since(began).Seconds()), err
}

// measureWake pushes one by one to parked consumers.
func (b *bed) measureWake(ctx context.Context, c *crowd, feeders []*feeder, p pace, home <-chan error) (figures, error) {
	c.ends.reset()
	pushes := newLatencies()
	m, err := b.meter()
	if err != nil {
		return nil, err
	}
	before := b.total
	if err := b.run(ctx, feeders, p, pushes); err != nil {
		return nil, err
	}
	if err := c.arrived(ctx, home); err != nil {
		return nil, err
	}
	f, err := m.stop(b.total-before, 0)
	if err != nil {
		return nil, err
	}
	pushes.into(f, "push")
	c.ends.into(f, "e2e")
	f["wake_over_push_p50_us"] = f["e2e_p50_us"] - f["push_p50_us"]
	return f, nil
}
