package fuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"

	"queend/broker"
	"queend/log"
)

// setup is the configuration of one sequence.
type setup struct {
	settings
	Seed            uint64 // of the broker's ids
	TailBytes       int64
	SegmentBytes    int64
	DedupCacheBytes int64
	CheckpointBytes int64
	SealAgeSeconds  int64
}

// harness runs commands against a broker and the model and compares them.
type harness struct {
	setup
	base   string // directory for data directories
	used   int    // how many of them
	opened uint64 // how often a broker was opened
	wall   atomic.Int64
	failed atomic.Value // error of the log

	b       *broker.Broker
	ctx     context.Context // of the command that runs: ends when it hangs
	m       *model
	parked  []*parkedPop
	answers chan *parkedPop
	arrived []*parkedPop // answered, not yet compared
	last    *popped      // the last pop that claimed
}

// popped is a pop that can be given back.
type popped struct {
	res    *broker.PopResult
	claims []claimed
}

// startTime is the first instant of every sequence: 2026-01-01.
const startTime = 1767225600 * second

func newHarness(base string, s setup) (*harness, error) {
	h := &harness{setup: s, base: base, answers: make(chan *parkedPop, 64)}
	h.m = newModel(startTime, s.settings)
	h.wall.Store(startTime)
	return h, h.open()
}

func (h *harness) dir() string { return filepath.Join(h.base, fmt.Sprint(h.used)) }

func (h *harness) open() error {
	h.opened++
	c := broker.Config{
		Dir: h.dir(), Now: h.wall.Load, Manual: true, Sync: log.SyncNever,
		Rand:        rand.New(rand.NewPCG(h.Seed, h.opened)),
		WindowBatch: h.WindowBatch, QuietWindow: h.Quiet, TxnWindowSeconds: h.TxnWindow, PopMaxBytes: h.PopMaxBytes,
		TailBytes: h.TailBytes, SegmentBytes: h.SegmentBytes, DedupCacheBytes: h.DedupCacheBytes,
		CheckpointBytes: h.CheckpointBytes, SealAgeSeconds: h.SealAgeSeconds,
		CleanupDays: h.CleanupDays, CleanupOff: h.CleanupDays == 0,
		StatDisk: func(string) (uint64, uint64, error) { return 1, 100, nil },
		OnFail:   func(err error) { h.failed.Store(fmt.Errorf("the broker failed: %w", err)) },
	}
	if h.Encrypts {
		c.EncryptionKey = make([]byte, 32)
	}
	b, err := broker.Open(c)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	h.b = b
	return nil
}

// do runs one command, lets parked pops have their answers and compares what
// can be read.
func (h *harness) do(o op) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	h.m.command++
	var done context.CancelFunc
	h.ctx, done = context.WithTimeout(context.Background(), patience)
	defer done()
	if err := o.run(h); err != nil {
		return err
	}
	if h.ctx.Err() != nil {
		return errors.New("the command did not end")
	}
	if err := h.settle(); err != nil {
		return err
	}
	if err := h.verify(); err != nil {
		return err
	}
	if failed := h.failed.Load(); failed != nil {
		return failed.(error)
	}
	return nil
}

// close ends the sequence and frees everything.
func (h *harness) close() error {
	if h.b == nil {
		return nil
	}
	err := h.hangUpAll()
	if cerr := h.b.Close(context.Background()); err == nil {
		err = cerr
	}
	h.b = nil
	return err
}

// advance moves the clock. The broker's goes on from where it was however far
// the wall clock was set back.
func (h *harness) advance(d int64) {
	h.wall.Add(d)
	h.m.now += d
	h.b.Tick()
}

// restartOp closes and opens, or copies the directory of the running broker
// and opens the copy, as after a crash. Back sets the wall clock back
// meanwhile.
type restartOp struct {
	Crash bool
	Back  int64
}

func (o restartOp) run(h *harness) error {
	for _, p := range h.parked {
		if p.filling(h.m) {
			return nil // its claim would race with the end
		}
	}
	// The newest stamp is the clock the next broker begins with.
	if err := (pushOp{Items: []pushItem{{Queue: "scratch"}}}).run(h); err != nil {
		return err
	}
	if err := h.hangUpAll(); err != nil {
		return err
	}
	h.last = nil
	if o.Crash {
		from := h.dir()
		h.used++
		if err := os.CopyFS(h.dir(), os.DirFS(from)); err != nil {
			return err
		}
	}
	over, cancel := context.WithCancel(context.Background())
	if o.Crash {
		cancel()
	}
	defer cancel()
	if err := h.b.Close(over); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	h.wall.Add(-o.Back)
	return h.open()
}

// advanceOp lets time pass: a millisecond more than asked for, so that
// nothing is due at the very instant something else happens.
type advanceOp struct{ MS int64 }

func (o advanceOp) run(h *harness) error {
	h.advance(o.MS*millisecond + millisecond)
	return nil
}

// setBackOp sets the wall clock back while the broker runs: no time passes.
type setBackOp struct{ By int64 }

func (o setBackOp) run(h *harness) error {
	h.wall.Add(-o.By)
	h.b.Tick()
	return nil
}

// maintainOp does a round of background work.
type maintainOp struct{}

func (o maintainOp) run(h *harness) error {
	if err := h.b.Maintain(); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	h.m.retain()
	for _, q := range h.m.queues {
		var candidates []*mPart
		for _, p := range q.order {
			if h.m.mayGo(p) {
				candidates = append(candidates, p)
			}
		}
		if len(candidates) == 0 {
			continue
		}
		d, err := h.b.QueueDetail(h.ctx, broker.DefaultTenant, q.name)
		if err != nil {
			return err
		}
		for _, p := range candidates {
			if !listed(d, p.name) {
				h.m.dropPart(p)
			}
		}
	}
	return nil
}

func listed(d *broker.QueueDetail, name string) bool {
	for i := range d.Partitions {
		if d.Partitions[i].Name == name {
			return true
		}
	}
	return false
}

// refusal returns the code of a refusal, "" for none.
func refusal(err error) broker.ErrorCode {
	var r *broker.Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}
