package main

import (
	"context"
	"fmt"
	"maps"
)

// runGrowth measures the cost of a message while the number of partitions grows
// tenfold from point to point.
func runGrowth(ctx context.Context, r *runner, f *scenarioFile) ([]result, error) {
	return r.one(ctx, f, func(b *bed, found *result) error {
		var points []figures
		have := 0
		for n := 10; n <= b.shape.Partitions; n *= 10 {
			if err := b.grow(ctx, have, n); err != nil {
				return err
			}
			have = n
			if len(points) == 0 { // warm up
				if _, err := b.cost(ctx, n, 1, int64(b.shape.Messages)); err != nil {
					return err
				}
			}
			p, err := b.cost(ctx, n, f.Rounds, int64(b.shape.Messages))
			if err != nil {
				return err
			}
			p["x"] = float64(n)
			points = append(points, p)
			r.say("%d partitions: push %.2f us, pop and ack %.2f us of the broker's CPU a message", n, p["push_cpu_us_per_msg"], p["pop_cpu_us_per_msg"])
		}
		found.Series = map[string][]figures{"partitions": points}
		found.bends(points)
		found.Checked = b.tally.total.Load()
		return b.tally.complete(b.sent)
	})
}

// bends makes the result of a row from its points.
func (r *result) bends(points []figures) {
	last := figures{}
	maps.Copy(last, points[len(points)-1])
	delete(last, "x")
	for _, name := range []string{"push", "pop"} {
		last[name+"_bend"] = bend(points, name+"_cpu_us_per_msg")
	}
	r.Rounds = []figures{last}
	r.Median = medians(r.Rounds)
}

// grow makes partitions up to n, each with one message that the group has acked.
func (b *bed) grow(ctx context.Context, have, n int) error {
	batch := min(b.shape.Batch, n-have)
	feeders, err := b.connect(ctx, flow{batch: batch, spread: batch, connections: min(b.shape.Connections, max(1, (n-have)/batch)), first: have, lanes: n - have})
	if err != nil {
		return err
	}
	defer hangUp(feeders)
	if err := b.run(ctx, feeders, pace{pass: true}, nil); err != nil {
		return err
	}
	how := b.shape.consumption(drainWait)
	how.partitions = 64
	_, err = b.measureDrain(ctx, how)
	return err
}

// cost pushes and takes messages over n partitions, and returns the medians of what
// a message costs.
func (b *bed) cost(ctx context.Context, n, rounds int, messages int64) (figures, error) {
	feeders, err := b.connect(ctx, flow{batch: b.shape.Batch, spread: 1, connections: b.shape.Connections, lanes: n})
	if err != nil {
		return nil, err
	}
	defer hangUp(feeders)
	var all []figures
	for range rounds {
		f, err := b.costOnce(ctx, feeders, messages)
		if err != nil {
			return nil, fmt.Errorf("%d partitions: %w", n, err)
		}
		all = append(all, f)
	}
	return medians(all), nil
}

// costOnce pushes and takes so many messages.
func (b *bed) costOnce(ctx context.Context, feeders []*feeder, messages int64) (figures, error) {
	push, err := b.measurePush(ctx, feeders, pace{messages: messages})
	if err != nil {
		return nil, err
	}
	pop, err := b.measureDrain(ctx, b.shape.consumption(drainWait))
	if err != nil {
		return nil, err
	}
	return figures{
		"push_cpu_us_per_msg": push["server_cpu_us_per_msg"], "push_per_s": push["msg_per_s"], "push_p99_us": push["push_p99_us"],
		"pop_cpu_us_per_msg": pop["server_cpu_us_per_msg"], "pop_per_s": pop["msg_per_s"], "take_p99_us": pop["take_p99_us"],
		"rss_mb": pop["rss_mb"],
	}, nil
}
