package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// shape is one kind of load.
type shape struct {
	name       string
	batch      int // messages of one push, all for one partition
	conns      int // each with one request in flight
	partitions int // each written by one connection
}

var shapes = []shape{
	{"push-1", 1, 64, 64},
	{"push-100", 100, 8, 64},
}

const (
	loadQueue    = "bench"
	payloadBytes = 256
	warmUp       = 500 * time.Millisecond
)

// load drives one server with one shape over connections that stay open.
type load struct {
	shape
	server  *process
	pushers []*pusher
}

// measure is what one run of a load has found.
type measure struct {
	Requests  int     `json:"requests"`
	Messages  int     `json:"messages"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"msg_per_s"`
	P50       uint32  `json:"p50_us"`
	P99       uint32  `json:"p99_us"`
	CPU       float64 `json:"server_cpu_us_per_request"`
	LoadCPU   float64 `json:"load_cpu_us_per_request"`
}

func (m measure) String() string {
	return fmt.Sprintf("%8.0f msg/s   p50 %5d us   p99 %6d us   %6.1f us CPU a request (%.1f us of the load generator)",
		m.PerSecond, m.P50, m.P99, m.CPU, m.LoadCPU)
}

// newLoad connects to the server and prepares the requests.
func newLoad(ctx context.Context, s shape, server *process) (*load, error) {
	addr, err := server.target.wait(ctx)
	if err != nil {
		return nil, err
	}
	l := &load{shape: s, server: server}
	for i := range s.conns {
		c, err := dial(ctx, addr)
		if err != nil {
			l.close()
			return nil, err
		}
		p := &pusher{conn: c, batch: s.batch, rng: rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))}
		for at := i; at < s.partitions; at += s.conns {
			p.lanes = append(p.lanes, newPrepared(at, s.batch))
		}
		l.pushers = append(l.pushers, p)
	}
	return l, nil
}

func (l *load) close() {
	for _, p := range l.pushers {
		p.conn.close()
	}
}

// run pushes for d and returns what it found.
func (l *load) run(ctx context.Context, d time.Duration) (measure, error) {
	cpu, err := l.server.cpu()
	if err != nil {
		return measure{}, err
	}
	own := ownCPU()
	began := time.Now()
	g, ctx := newCrew(ctx)
	for _, p := range l.pushers {
		_ = p.conn.net.SetDeadline(began.Add(d + callLimit)) // fails on a closed connection only, as the push then does
		g.run(func() error { return p.run(ctx, began.Add(d)) })
	}
	err = g.wait()
	took := time.Since(began)
	own = ownCPU() - own
	after, cpuErr := l.server.cpu()
	var latencies []uint32
	for _, p := range l.pushers {
		latencies = append(latencies, p.latencies...)
	}
	slices.Sort(latencies)
	n := len(latencies)
	if err = errors.Join(err, cpuErr); err == nil && n == 0 {
		err = errors.New("not one request was answered")
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(n, 1)) }
	return measure{Requests: n, Messages: n * l.batch, Seconds: took.Seconds(), PerSecond: float64(n*l.batch) / took.Seconds(),
		P50: quantile(latencies, 0.5), P99: quantile(latencies, 0.99), CPU: each(after - cpu), LoadCPU: each(own)}, err
}

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pusher is one connection of a load.
type pusher struct {
	conn      *conn
	batch     int
	rng       *rand.Rand
	lanes     []*prepared
	at        int      // lane of the next push
	latencies []uint32 // of the last run, in microseconds
}

var queuedWord = []byte(`"status":"queued"`)

// run pushes to its partitions in turn until the end.
func (p *pusher) run(ctx context.Context, end time.Time) error {
	p.latencies = p.latencies[:0]
	for began := time.Now(); began.Before(end) && ctx.Err() == nil; {
		lane := p.lanes[p.at%len(p.lanes)]
		p.at++
		sum := lane.fill(p.rng, began)
		status, body, err := p.conn.roundTrip(lane.request)
		if err != nil {
			return err
		}
		if status != 201 || bytes.Count(body, queuedWord) != p.batch {
			return fmt.Errorf("a push of %d was answered %d: %.300s", p.batch, status, body)
		}
		lane.sum += sum
		lane.count += int64(p.batch)
		now := time.Now()
		p.latencies = append(p.latencies, uint32(now.Sub(began).Microseconds()))
		began = now
	}
	return nil
}
