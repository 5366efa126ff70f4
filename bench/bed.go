package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// shape is what a load looks like. Which fields count depends on the kind of the
// row.
type shape struct {
	Batch       int      `json:"batch"`                 // messages of one push
	Spread      int      `json:"spread,omitempty"`      // partitions of one push; 0 is 1
	Connections int      `json:"connections,omitempty"` // of producers, each with one request in flight
	Partitions  int      `json:"partitions"`            // that take messages, each from one connection
	Rate        float64  `json:"rate,omitempty"`        // messages a second over all producers; 0 is as fast as they can
	Consumers   int      `json:"consumers,omitempty"`
	TakeBatch   int      `json:"take_batch,omitempty"`      // messages of one pop
	TakeFrom    int      `json:"take_partitions,omitempty"` // partitions of one pop
	Backlog     int      `json:"backlog,omitempty"`         // messages stored before a round of consumers
	Messages    int      `json:"messages,omitempty"`        // stored in all
	Traffic     int      `json:"traffic,omitempty"`         // partitions in use of those that are there
	Again       int      `json:"again,omitempty"`           // ids pushed once more
	IDs         string   `json:"ids,omitempty"`             // of the broker's messages: "" version 7 of now, "fixed" version 7 that can be told again, "random" version 4
	Env         []string `json:"env,omitempty"`             // of the broker
}

// bed is one system under the load of one row.
type bed struct {
	system
	name  string
	dir   string
	shape shape
	clock *clock
	sent  []uint32 // acknowledged messages by lane; a lane belongs to one feeder at a time
	total int64    // of them
	tally *tally   // what consumers took
}

// newBed makes the system and starts it.
func newBed(ctx context.Context, w *workshop, name, dir string, s shape) (*bed, error) {
	sys, err := makers[name](w, dir, s)
	if err != nil {
		return nil, err
	}
	lanes := max(s.Partitions, s.Traffic)
	b := &bed{system: sys, name: name, dir: dir, shape: s, clock: &clock{time.Now()}, sent: make([]uint32, lanes), tally: newTally(lanes, sys.ordered())}
	if err := sys.server().start(ctx); err != nil {
		return nil, err
	}
	if err := sys.open(ctx, lanes); err != nil {
		b.end()
		return nil, fmt.Errorf("%w\n%s", err, sys.server().logTail(10))
	}
	return b, nil
}

// end kills what is still running.
func (b *bed) end() {
	b.close()
	b.server().kill()
}

// quit ends the server in order.
func (b *bed) quit() error {
	p := b.server()
	if err := p.resume(); err != nil {
		return err
	}
	b.close()
	p.stop()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the server ended with code %d\n%s", code, p.logTail(10))
	}
	return nil
}

// flow is what producers do: batches for lanes first to first+lanes-1.
type flow struct {
	batch, spread, connections int
	first, lanes               int
}

// flow is that of the shape.
func (s shape) flow() flow {
	return flow{batch: s.Batch, spread: max(1, s.Spread), connections: s.Connections, lanes: s.Partitions}
}

// feeder is one producer with the lanes that are its own.
type feeder struct {
	producer
	bed   *bed
	lanes []uint32
	at    int // in lanes
	batch int
	wide  bool // each item of a batch is for another lane
	items []slot
	fed   int64 // messages of the last run
	asked int64 // requests of the last run
}

// connect makes the producers of a flow.
func (b *bed) connect(ctx context.Context, f flow) ([]*feeder, error) {
	var feeders []*feeder
	n := min(f.connections, f.lanes)
	for i := range n {
		p, err := b.producer(ctx, f.batch)
		if err != nil {
			hangUp(feeders)
			return nil, err
		}
		d := &feeder{producer: p, bed: b, batch: f.batch, wide: f.spread > 1, items: make([]slot, f.batch)}
		for lane := i; lane < f.lanes; lane += n {
			d.lanes = append(d.lanes, uint32(f.first+lane))
		}
		if d.wide && len(d.lanes) < f.batch {
			hangUp(append(feeders, d))
			return nil, fmt.Errorf("a producer has %d lanes for %d items of one push", len(d.lanes), f.batch)
		}
		feeders = append(feeders, d)
	}
	return feeders, nil
}

func hangUp(feeders []*feeder) {
	for _, d := range feeders {
		d.close()
	}
}

// next makes the next batch and stores it. at is when it was due.
func (d *feeder) next(at int64) error {
	lane := d.lanes[d.at%len(d.lanes)]
	seq := d.bed.sent[lane]
	for i := range d.items {
		if d.wide {
			lane = d.lanes[(d.at+i)%len(d.lanes)]
			seq = d.bed.sent[lane]
			d.items[i] = slot{lane, seq}
			continue
		}
		d.items[i] = slot{lane, seq + uint32(i)}
	}
	if err := d.producer.push(d.items, at); err != nil {
		return err
	}
	if d.wide {
		for _, s := range d.items {
			d.bed.sent[s.lane]++
		}
		d.at += len(d.items)
	} else {
		d.bed.sent[lane] += uint32(len(d.items))
		d.at++
	}
	d.fed += int64(len(d.items))
	d.asked++
	return nil
}

// pace is how long and how fast producers work: for a time, until so many messages
// are stored, or until each lane has had its turn.
type pace struct {
	time     time.Duration
	messages int64
	pass     bool
	rate     float64 // messages a second over all producers; 0 is as fast as they can
}

// run lets the feeders push and returns how many messages were stored.
// Latencies count from the instant a request was due: with a rate that is its
// place in the schedule, whatever came before it.
func (b *bed) run(ctx context.Context, feeders []*feeder, p pace, lat *latencies) error {
	var left atomic.Int64
	left.Store(p.messages)
	g, ctx := newCrew(ctx)
	start := b.clock.now()
	for i, d := range feeders {
		d.fed, d.asked = 0, 0
		g.run(func() error { return d.work(ctx, p, start, i, len(feeders), &left, lat) })
	}
	err := g.wait()
	for _, d := range feeders {
		b.total += d.fed
	}
	return err
}

// work is the n-th of all feeders.
func (d *feeder) work(ctx context.Context, p pace, start int64, n, all int, left *atomic.Int64, lat *latencies) error {
	interval := int64(0)
	if p.rate > 0 {
		interval = int64(float64(time.Second) * float64(d.batch*all) / p.rate)
	}
	due := start + interval*int64(n)/int64(all)
	for ctx.Err() == nil {
		if p.time > 0 && due >= start+int64(p.time) {
			return nil
		}
		if p.pass && d.at >= len(d.lanes) {
			return nil
		}
		if p.messages > 0 && left.Add(-int64(d.batch)) < 0 {
			return nil
		}
		now := d.bed.clock.now()
		if wait := due - now; wait > 0 {
			time.Sleep(time.Duration(wait))
		}
		if err := d.next(due); err != nil {
			return err
		}
		now = d.bed.clock.now()
		if lat != nil {
			lat.add(time.Duration(now-due), 1)
		}
		if interval > 0 {
			due += interval
		} else {
			due = now
		}
	}
	return context.Cause(ctx)
}

// meter measures a stretch of time.
type meter struct {
	bed    *bed
	began  int64
	before usage
	own    time.Duration
}

func (b *bed) meter() (*meter, error) {
	u, err := b.server().usage()
	return &meter{bed: b, began: b.clock.now(), before: u, own: ownCPU()}, err
}

// stop returns the figures of n messages; end is when they were done, 0 for now.
func (m *meter) stop(n, end int64) (figures, error) {
	now, own := m.bed.clock.now(), ownCPU()
	u, err := m.bed.server().usage()
	if err != nil {
		return nil, err
	}
	if end == 0 {
		end = now
	}
	if n == 0 {
		return nil, errors.New("not one message got through")
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }
	return figures{
		"messages":              float64(n),
		"seconds":               float64(end-m.began) / 1e9,
		"msg_per_s":             float64(n) / (float64(end-m.began) / 1e9),
		"server_cpu_s":          (u.cpu - m.before.cpu).Seconds(),
		"loader_cpu_s":          (own - m.own).Seconds(),
		"server_cpu_us_per_msg": each(u.cpu - m.before.cpu),
		"loader_cpu_us_per_msg": each(own - m.own),
		"rss_mb":                float64(u.memory) / (1 << 20),
		"written_bytes_per_msg": float64(u.written-m.before.written) / float64(n),
	}, nil
}

// measurePush lets the feeders push and measures it.
func (b *bed) measurePush(ctx context.Context, feeders []*feeder, p pace) (figures, error) {
	m, err := b.meter()
	if err != nil {
		return nil, err
	}
	lat := newLatencies()
	before := b.total
	if err := b.run(ctx, feeders, p, lat); err != nil {
		return nil, err
	}
	f, err := m.stop(b.total-before, 0)
	if err == nil {
		lat.into(f, "push")
	}
	return f, err
}

// verify reads everything that was stored and checks that it is what was
// acknowledged.
func (b *bed) verify(ctx context.Context) (int64, error) {
	if err := b.server().resume(); err != nil {
		return 0, err
	}
	all := newTally(len(b.sent), true)
	err := b.audit(ctx, len(b.sent), func(payload []byte) error {
		s, _, err := readPayload(payload)
		if err != nil {
			return err
		}
		return all.take(s)
	})
	if err != nil {
		return 0, err
	}
	return b.total, all.complete(b.sent)
}
