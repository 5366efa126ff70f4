package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// runMany makes very many partitions of one message each, lets one group ack all,
// looks at what they cost, and then compares the traffic of a broker that has them
// with one that has not: the second entry.
func runMany(ctx context.Context, r *runner, f *scenarioFile) ([]result, error) {
	stands := make([]*stand, 0, 2)
	defer func() {
		for _, s := range stands {
			s.leave()
		}
	}()
	for _, e := range f.Entries {
		b, found, err := r.setUp(ctx, f, e)
		if err != nil {
			return nil, err
		}
		stands = append(stands, &stand{bed: b, result: found})
	}
	many := stands[0]
	held := figures{}
	err := r.fillMany(ctx, many.bed, held)
	if err == nil {
		err = r.compareMany(ctx, f, stands)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(err, context.Cause(ctx))
		}
		many.Void = fmt.Sprintf("%v\n%s", err, many.server().logTail(5))
	}
	var results []result
	for _, s := range stands {
		s.Median = medians(s.Rounds)
		s.Checked = s.tally.total.Load()
		if err := s.tally.complete(s.sent); err != nil && s.Void == "" {
			s.Void = err.Error()
		}
		results = append(results, s.result)
	}
	for name, v := range held {
		results[0].Median[name] = v
	}
	return results, nil
}

// fillMany makes the partitions and measures what they cost.
func (r *runner) fillMany(ctx context.Context, b *bed, held figures) error {
	s := b.shape
	r.say("making %d partitions", s.Partitions)
	feeders, err := b.connect(ctx, flow{batch: s.Batch, spread: s.Batch, connections: s.Connections, lanes: s.Partitions})
	if err != nil {
		return err
	}
	defer hangUp(feeders)
	made, err := b.measurePush(ctx, feeders, pace{pass: true})
	if err != nil {
		return err
	}
	if lane := slices.Index(b.sent, 0); lane >= 0 && lane < s.Partitions {
		return fmt.Errorf("partition %d was left out", lane)
	}
	held["created_per_s"] = round4(made["msg_per_s"])
	r.say("%.0f partitions a second; a group takes their messages", made["msg_per_s"])
	how := s.consumption(drainWait)
	how.partitions = 64
	acked, err := b.measureDrain(ctx, how)
	if err != nil {
		return err
	}
	held["acked_per_s"] = round4(acked["msg_per_s"])
	if err := r.settle(ctx); err != nil {
		return err
	}
	if err := b.holding(held, int64(s.Partitions), "partition"); err != nil {
		return err
	}
	held["rss_filled_mb"] = held["rss_mb"]
	delete(held, "rss_mb")
	r.say("starting it again")
	return b.restart(ctx, held)
}

// compareMany gives both the same load in turn: batches for many of the partitions
// of the one, and for the few that the other has.
func (r *runner) compareMany(ctx context.Context, f *scenarioFile, stands []*stand) error {
	for _, s := range stands {
		s.how = s.bed.shape.consumption(drainWait)
		if _, err := s.traffic(ctx, seconds(f.WarmUp)); err != nil {
			return err
		}
	}
	for i := range f.Rounds {
		for j := range stands {
			s := stands[(i+j)%len(stands)]
			found, err := s.traffic(ctx, seconds(f.Seconds))
			if err != nil {
				return err
			}
			s.Rounds = append(s.Rounds, found)
			r.say("round %d/%d %s %.0f msg/s, pop p99 %.1f ms", i+1, f.Rounds, s.Entry, found["msg_per_s"], found["take_p99_us"]/1000)
		}
	}
	for _, s := range stands {
		if err := s.server().resume(); err != nil {
			return err
		}
	}
	return nil
}

// traffic pushes for a time, takes everything and stops the server until its next
// turn.
func (s *stand) traffic(ctx context.Context, d time.Duration) (figures, error) {
	if err := s.server().resume(); err != nil {
		return nil, err
	}
	shape := s.bed.shape
	var err error
	if s.feeders, err = s.connect(ctx, flow{batch: shape.Batch, spread: 1, connections: shape.Connections, lanes: min(shape.Partitions, shape.Traffic)}); err != nil {
		return nil, err
	}
	defer s.rest()
	found, err := s.measurePush(ctx, s.feeders, pace{time: d})
	if err != nil {
		return nil, err
	}
	drain, err := s.measureDrain(ctx, s.how)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"take_p50_us", "take_p99_us"} {
		found[name] = drain[name]
	}
	found["taken_per_s"] = drain["msg_per_s"]
	return found, s.server().pause()
}
