package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// offQueue is the queue without detection of duplicates.
const offQueue = "benchoff"

// plain is the broker as it takes pushes to another queue.
type plain struct {
	*queend
	to string
}

func (p *plain) producer(ctx context.Context, batch int) (producer, error) {
	return p.producerTo(ctx, p.to, batch)
}

// runDedup stores very many ids, pushes with and without detection of duplicates in
// turn, and checks that the verdicts are exact: old ids among new ones.
func runDedup(ctx context.Context, r *runner, f *scenarioFile) ([]result, error) {
	return r.one(ctx, f, func(b *bed, found *result) error {
		q, ok := b.system.(*queend)
		if !ok {
			return fmt.Errorf("%s does not detect duplicates", b.name)
		}
		c := caller{target: q.process.target}
		defer c.close()
		if err := c.configure(ctx, offQueue, `{"dedupWindowSeconds":0}`); err != nil {
			return err
		}
		off := &bed{system: &plain{q, offQueue}, name: b.name, shape: b.shape, clock: b.clock, sent: make([]uint32, len(b.sent))}
		if err := r.fillIDs(ctx, b); err != nil {
			return err
		}
		if err := r.compareDedup(ctx, f, found, b, off); err != nil {
			return err
		}
		found.Median = medians(found.Rounds)
		r.say("pushing %d ids, half of them old", b.shape.Again)
		if err := b.again(ctx, found.Median); err != nil {
			return err
		}
		return b.sample(ctx, found)
	})
}

// fillIDs stores the ids.
func (r *runner) fillIDs(ctx context.Context, b *bed) error {
	feeders, err := b.connect(ctx, b.shape.flow())
	if err != nil {
		return err
	}
	defer hangUp(feeders)
	for b.total < int64(b.shape.Messages) {
		r.say("%d ids of %d", b.total, b.shape.Messages)
		if err := b.run(ctx, feeders, pace{messages: int64(max(b.shape.Batch, b.shape.Messages/20))}, nil); err != nil {
			return err
		}
	}
	return nil
}

// compareDedup pushes to both queues in turn.
func (r *runner) compareDedup(ctx context.Context, f *scenarioFile, found *result, on, off *bed) error {
	sides := []*bed{on, off}
	feeders := make([][]*feeder, 2)
	for i, b := range sides {
		var err error
		if feeders[i], err = b.connect(ctx, b.shape.flow()); err != nil {
			return err
		}
		defer hangUp(feeders[i])
		if err := b.run(ctx, feeders[i], pace{time: seconds(f.WarmUp)}, nil); err != nil {
			return err
		}
	}
	for i := range f.Rounds {
		var each [2]figures
		for j := range sides {
			side := (i + j) % 2
			m, err := sides[side].measurePush(ctx, feeders[side], pace{time: seconds(f.Seconds)})
			if err != nil {
				return err
			}
			each[side] = m
		}
		m := each[0]
		m["off_msg_per_s"] = each[1]["msg_per_s"]
		m["on_over_off"] = each[0]["msg_per_s"] / each[1]["msg_per_s"]
		found.Rounds = append(found.Rounds, m)
		r.say("round %d/%d on %.0f msg/s, off %.0f msg/s", i+1, f.Rounds, m["msg_per_s"], m["off_msg_per_s"])
	}
	return nil
}

// again pushes batches in which every second id is an old one, and checks every
// verdict.
func (b *bed) again(ctx context.Context, f figures) error {
	p, err := b.producer(ctx, b.shape.Batch)
	if err != nil {
		return err
	}
	h := p.(*httpProducer)
	defer h.close()
	rng := rand.New(rand.NewPCG(1, 2))
	items := make([]slot, b.shape.Batch)
	took := newLatencies()
	for left := b.shape.Again; left > 0; left -= len(items) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		lane := uint32(rng.IntN(b.shape.Partitions))
		had := b.sent[lane]
		if int(had) < len(items) {
			continue
		}
		old := uint32(rng.IntN(int(had) - len(items)/2 + 1))
		for i := range items {
			items[i] = slot{lane, old + uint32(i/2)}
			if i%2 == 1 {
				items[i].seq = had + uint32(i/2)
			}
		}
		began := b.clock.now()
		if err := h.mixed(items); err != nil {
			return fmt.Errorf("lane %d, old ids from %d on, new ones from %d on: %w", lane, old, had, err)
		}
		took.add(time.Duration(b.clock.now()-began), 1)
		b.sent[lane] += uint32(len(items) / 2)
		b.total += int64(len(items) / 2)
	}
	took.into(f, "mixed_push")
	f["verdicts_checked"] = float64(b.shape.Again)
	return nil
}

// mixed pushes items of which every second one is new, beginning with an old one,
// and checks what is said about each.
func (h *httpProducer) mixed(items []slot) error {
	status, body, err := h.send(items, 0)
	if err != nil {
		return err
	}
	if status != 201 {
		return fmt.Errorf("status %d: %.300s", status, body)
	}
	for i := range items {
		word, rest, ok := between(body, statusKey)
		want := "duplicate"
		if i%2 == 1 {
			want = "queued"
		}
		if !ok || string(word) != want {
			return fmt.Errorf("item %d is %q and must be %s", i, word, want)
		}
		body = rest
	}
	if bytes.Contains(body, statusKey) {
		return fmt.Errorf("more than %d verdicts", len(items))
	}
	return nil
}

var statusKey = []byte(`"status":"`)

// sampled is how many partitions are read back.
const sampled = 100

// sample reads some partitions to the end: each id must be there once.
func (b *bed) sample(ctx context.Context, found *result) error {
	lanes := min(sampled, b.shape.Partitions)
	all := newTally(lanes, true)
	err := b.audit(ctx, lanes, func(payload []byte) error {
		s, _, err := readPayload(payload)
		if err != nil {
			return err
		}
		return all.take(s)
	})
	if err != nil {
		return err
	}
	found.Checked = all.total.Load()
	return all.complete(b.sent[:lanes])
}
