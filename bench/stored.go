package main

import "context"

// storedPoints is how many times the cost is measured while messages pile up.
const storedPoints = 20

// storedWarmUp is which part of the messages comes before the first point.
const storedWarmUp = 25

// runStored stores and acks very many messages, measures what one costs on the way
// and looks at what they take in the end.
func runStored(ctx context.Context, r *runner, f *scenarioFile) ([]result, error) {
	return r.one(ctx, f, func(b *bed, found *result) error {
		feeders, err := b.connect(ctx, b.shape.flow())
		if err != nil {
			return err
		}
		defer hangUp(feeders)
		// A broker that has just started has nothing to do in the background yet.
		if _, err := b.costOnce(ctx, feeders, int64(b.shape.Messages/storedWarmUp)); err != nil {
			return err
		}
		var points []figures
		for b.total < int64(b.shape.Messages) {
			x := b.total
			p, err := b.costOnce(ctx, feeders, int64(b.shape.Messages/storedPoints))
			if err != nil {
				return err
			}
			p["x"] = float64(x)
			points = append(points, p)
			r.say("%d stored: push %.2f us, pop and ack %.2f us of the broker's CPU a message", x, p["push_cpu_us_per_msg"], p["pop_cpu_us_per_msg"])
		}
		found.Series = map[string][]figures{"stored": points}
		found.bends(points)
		if err := r.settle(ctx); err != nil {
			return err
		}
		if err := b.holding(found.Median, b.total, "message"); err != nil {
			return err
		}
		found.Checked = b.tally.total.Load()
		if err := b.tally.complete(b.sent); err != nil {
			return err
		}
		return b.restart(ctx, found.Median)
	})
}
