package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stand is one entry of a row at work.
type stand struct {
	*bed
	result
	feeders []*feeder // while it is at work
	how     consumption
}

// measureRounds measures the rows in which all systems get the same load: pushes,
// a backlog, or both at once. Rounds are interleaved, so that whatever else the
// machine does hits all, and those that wait are stopped.
func measureRounds(ctx context.Context, r *runner, f *scenarioFile) ([]result, error) {
	stands := make([]*stand, 0, len(f.Entries))
	defer func() {
		for _, s := range stands {
			s.leave()
		}
	}()
	for _, e := range f.Entries {
		r.say("starting %s", e.name())
		s, err := r.stand(ctx, f, e)
		if err != nil {
			return nil, err
		}
		stands = append(stands, s)
	}
	for i := range f.Rounds {
		for j := range stands {
			s := stands[(i+j)%len(stands)]
			if s.Missing != "" || s.Void != "" {
				continue
			}
			if err := s.turn(ctx, f, seconds(f.Seconds)); err != nil {
				if ctx.Err() != nil {
					return nil, errors.Join(err, context.Cause(ctx))
				}
				s.Void = fmt.Sprintf("round %d: %v", i+1, err)
				r.say("%s is void: %s", s.Entry, s.Void)
				_ = s.server().pause() // it may be gone; the others must not pay for it
				continue
			}
			r.say("round %d/%d %s %.0f msg/s", i+1, f.Rounds, s.Entry, s.Rounds[len(s.Rounds)-1]["msg_per_s"])
		}
	}
	results := make([]result, 0, len(stands))
	for _, s := range stands {
		if err := s.finish(ctx, r, f); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Entry, err)
		}
		results = append(results, s.result)
	}
	return results, nil
}

// stand starts an entry, warms it up and stops it until its turn.
func (r *runner) stand(ctx context.Context, f *scenarioFile, e rowEntry) (*stand, error) {
	b, found, err := r.setUp(ctx, f, e)
	s := &stand{bed: b, result: found}
	if err != nil || b == nil {
		return s, err
	}
	s.how = b.shape.consumption(drainWait)
	if f.Kind == "both" {
		s.how.wait = time.Second
	}
	if s.feeders, err = b.connect(ctx, b.shape.flow()); err != nil {
		return s, err
	}
	defer s.rest()
	if err := b.run(ctx, s.feeders, pace{time: seconds(f.WarmUp), rate: b.shape.Rate}, nil); err != nil {
		s.Void = fmt.Sprintf("warming up: %v", err)
		return s, nil
	}
	if f.Kind != "push" {
		if _, err := b.measureDrain(ctx, s.how); err != nil {
			s.Void = fmt.Sprintf("warming up: %v", err)
			return s, nil
		}
	}
	return s, b.server().pause()
}

// rest ends the connections of the producers: while the others have their turns
// they would be idle for longer than a server has to bear.
func (s *stand) rest() {
	hangUp(s.feeders)
	s.feeders = nil
}

// turn is one round of an entry.
func (s *stand) turn(ctx context.Context, f *scenarioFile, d time.Duration) error {
	if err := s.server().resume(); err != nil {
		return err
	}
	var err error
	if s.feeders, err = s.connect(ctx, s.bed.shape.flow()); err != nil {
		return err
	}
	defer s.rest()
	found, err := s.measure(ctx, f, d)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.server().logTail(5))
	}
	s.Rounds = append(s.Rounds, found)
	return s.server().pause()
}

// measure does what the kind of the row asks for.
func (s *stand) measure(ctx context.Context, f *scenarioFile, d time.Duration) (figures, error) {
	switch f.Kind {
	case "consume":
		if err := s.run(ctx, s.feeders, pace{messages: int64(s.bed.shape.Backlog)}, nil); err != nil {
			return nil, err
		}
		return s.measureDrain(ctx, s.how)
	case "both":
		return s.measureBoth(ctx, s.feeders, pace{time: d, rate: s.bed.shape.Rate}, s.how)
	}
	return s.measurePush(ctx, s.feeders, pace{time: d})
}

// finish checks what the entry has stored or given out and ends it.
func (s *stand) finish(ctx context.Context, r *runner, f *scenarioFile) error {
	if s.bed == nil || s.Missing != "" || s.Void != "" {
		return nil
	}
	r.say("checking %s", s.Entry)
	var err error
	if f.Kind == "push" {
		s.Checked, err = s.verify(ctx)
	} else {
		err = s.tally.complete(s.sent)
		s.Checked = s.tally.total.Load()
	}
	if err != nil {
		s.Void = err.Error()
		return ctx.Err()
	}
	s.Median = medians(s.Rounds)
	size, files, err := diskUse(s.bed.dir)
	if err != nil {
		return err
	}
	s.Median["disk_mb"] = round4(float64(size) / (1 << 20))
	s.Median["files"] = float64(files)
	if err := s.quit(); err != nil {
		return err
	}
	s.Profile, err = r.keepProfile(s.server(), f.Row, s.Entry)
	return err
}

// leave ends what is still there.
func (s *stand) leave() {
	s.rest()
	if s.bed != nil {
		s.end()
	}
}
