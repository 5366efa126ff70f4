package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// counted is a producer that remembers what it was given.
type counted struct {
	got   map[slot]bool
	stall time.Duration // of the first push
	fail  error
}

func (c *counted) push(items []slot, _ int64) error {
	time.Sleep(c.stall)
	c.stall = 0
	for _, s := range items {
		if c.got[s] {
			return errors.New("twice")
		}
		c.got[s] = true
	}
	return c.fail
}

func (c *counted) close() {}

// feed is one feeder over n lanes.
func feed(c *counted, n, batch int, wide bool) (*bed, *feeder) {
	b := &bed{clock: &clock{time.Now()}, sent: make([]uint32, n)}
	d := &feeder{producer: c, bed: b, batch: batch, wide: wide, items: make([]slot, batch)}
	for lane := range n {
		d.lanes = append(d.lanes, uint32(lane))
	}
	return b, d
}

func TestAPassReachesEveryLane(t *testing.T) {
	c := &counted{got: map[slot]bool{}}
	b, d := feed(c, 250, 100, true)
	if err := b.run(t.Context(), []*feeder{d}, pace{pass: true}, nil); err != nil {
		t.Fatal(err)
	}
	for lane, n := range b.sent {
		if n == 0 || !c.got[slot{uint32(lane), n - 1}] {
			t.Errorf("lane %d has %d messages", lane, n)
		}
	}
	if b.total != 300 || len(c.got) != 300 {
		t.Errorf("%d counted, %d pushed", b.total, len(c.got))
	}
}

func TestWhatFailedIsNotCountedAsSent(t *testing.T) {
	c := &counted{got: map[slot]bool{}, fail: errors.New("no")}
	b, d := feed(c, 2, 10, false)
	if err := b.run(t.Context(), []*feeder{d}, pace{messages: 100}, nil); !errors.Is(err, c.fail) {
		t.Fatalf("got %v", err)
	}
	if b.total != 0 || b.sent[0] != 0 {
		t.Errorf("%d counted, %v sent", b.total, b.sent)
	}
}

// A stall must be seen by every request that was due during it, not only by the
// one that met it.
func TestAStallIsSeenByAllThatWereDue(t *testing.T) {
	c := &counted{got: map[slot]bool{}, stall: 100 * time.Millisecond}
	b, d := feed(c, 1, 1, false)
	lat := newLatencies()
	if err := b.run(context.Background(), []*feeder{d}, pace{time: 100 * time.Millisecond, rate: 1000}, lat); err != nil {
		t.Fatal(err)
	}
	f := figures{}
	lat.into(f, "push")
	if b.total != 100 {
		t.Errorf("%d requests of 100 were due", b.total)
	}
	if f["push_p50_us"] < 40000 || f["push_max_us"] < 100000 {
		t.Errorf("a stall of 100 ms has p50 %.0f us, max %.0f us", f["push_p50_us"], f["push_max_us"])
	}
}
