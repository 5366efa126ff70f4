package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	crashRetryLimit = 1 // failures that only redeliver; the next one dead-letters
	crashPushBatch  = 40
)

var crashGroups = []string{"ledger", "mirror"}

// tight makes a small load meet checkpoints, flushes and merges.
var tight = []string{"QUEEN_CHECKPOINT_S=1", "QUEEN_CHECKPOINT_MB=1", "QUEEN_TAIL_MB=1", "QUEEN_SEAL_AGE_S=1", "QUEEN_SEGMENT_BYTES=1048576"}

// crashConfig are the flags of crash.
type crashConfig struct {
	common
	kills   int
	seed    uint64
	rate    int
	workers int
	lease   int
	up      time.Duration
	drain   time.Duration
	env     []string               // settings of the broker
	harm    func(dir string) error // done to the directory after each kill, nil for none
}

// crashRun is one run of the scenario crash.
type crashRun struct {
	crashConfig
	records     []record
	queues      []string
	broker      *process
	history     *history
	report      report
	stopPush    atomic.Bool
	stopAll     atomic.Bool
	pushersLeft atomic.Int64
	boots       []time.Duration
}

// runCrash pushes and consumes while the broker is killed again and again, and
// audits in the end all that was answered. A kill leaves the page cache whole:
// this finds what the broker forgets or makes up, not a missing sync.
func runCrash(ctx context.Context, args []string, out io.Writer) error {
	c := crashConfig{env: tight}
	flags := flag.NewFlagSet("crash", flag.ContinueOnError)
	source := flags.String("records", recordsDir, "directory of the JSON files")
	count := flags.Int("count", 0, "use only about so many records, taken evenly; 0 is all")
	easy := flags.Bool("default-limits", false, "leave the broker's limits as they are, so that checkpoints and flushes are rare")
	flags.IntVar(&c.kills, "kills", 20, "how often the broker is killed")
	flags.Uint64Var(&c.seed, "seed", 0, "of the moments and choices; 0 takes one from the clock")
	flags.IntVar(&c.rate, "rate", 5000, "messages a second to push at most")
	flags.IntVar(&c.workers, "workers", 3, "workers of each group")
	flags.IntVar(&c.lease, "lease", 3, "seconds a worker has for a batch")
	flags.DurationVar(&c.up, "up", 900*time.Millisecond, "longest time between a start and the next kill")
	flags.DurationVar(&c.drain, "drain", 60*time.Second, "how long the groups may take for the rest")
	if err := c.parse(flags, args, out); err != nil {
		return err
	}
	if c.seed == 0 {
		c.seed = uint64(time.Now().UnixNano())
	}
	if *easy {
		c.env = nil
	}
	records, err := readRecords(*source)
	if err != nil {
		return err
	}
	return c.kill(ctx, thin(records, *count), out)
}

// kill makes one run with the records.
func (c *crashConfig) kill(ctx context.Context, records []record, out io.Writer) error {
	dir, remove, err := c.workspace()
	if err != nil {
		return err
	}
	defer remove()
	broker, err := newBroker(c.binary, dir, c.env...)
	if err != nil {
		return err
	}
	defer broker.kill()
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	r := &crashRun{crashConfig: *c, records: records, queues: queuesOf(records), broker: broker, history: newHistory(), report: report{out}}
	r.report.note("seed", "%d, kills %d, %d records in a loop", c.seed, c.kills, len(records))
	if err := r.run(ctx); err != nil {
		return fmt.Errorf("seed %d: %w\nlog of the broker:\n%s", c.seed, err, broker.logTail(20))
	}
	return nil
}

// run goes through the phases.
func (r *crashRun) run(ctx context.Context) error {
	a := &audit{history: r.history, caller: caller{target: r.broker.target}, groups: crashGroups}
	defer a.close()
	for _, phase := range []struct {
		name string
		step func() (string, error)
	}{
		{"start", func() (string, error) { return "broker on an empty directory", r.start(ctx) }},
		{"crash", func() (string, error) { return r.crash(ctx) }},
		{"kill", func() (string, error) { return "and start again, before the audit", r.restart(ctx) }},
		{"messages", func() (string, error) { return a.messages(ctx) }},
		{"duplicates", func() (string, error) { return a.duplicates(ctx) }},
		{"dead letters", func() (string, error) { return a.letters(ctx, r.queues) }},
		{"nothing left", func() (string, error) { return a.nothingLeft(ctx, r.queues) }},
		{"messages", func() (string, error) { return a.messages(ctx) }},
	} {
		if err := r.report.phase(phase.name, phase.step); err != nil {
			return err
		}
	}
	return nil
}

// start starts the broker and sets the queues up.
func (r *crashRun) start(ctx context.Context) error {
	if err := r.broker.start(ctx); err != nil {
		return err
	}
	c := caller{target: r.broker.target}
	defer c.close()
	for _, queue := range r.queues {
		if err := c.configure(ctx, queue, fmt.Sprintf(`{"retryLimit":%d,"leaseTime":%d}`, crashRetryLimit, r.lease)); err != nil {
			return err
		}
	}
	return nil
}

// restart kills the broker and starts it again.
func (r *crashRun) restart(ctx context.Context) error {
	r.broker.kill()
	return r.broker.start(ctx)
}

// crash runs all clients and the killer, then lets the groups get the rest.
func (r *crashRun) crash(parent context.Context) (string, error) {
	g, ctx := newCrew(parent)
	for i, hand := range deal(r.records, pushers) {
		g.run(func() error { return r.produce(ctx, hand, r.random(i)) })
	}
	for i, group := range crashGroups {
		for j := range r.workers {
			g.run(func() error { return r.work(ctx, group, r.random(100+10*i+j)) })
		}
	}
	g.run(func() error {
		defer r.stopPush.Store(true)
		return r.killer(ctx, r.random(1000))
	})
	g.run(func() error {
		defer r.stopAll.Store(true)
		return r.watchDrain(ctx)
	})
	err := g.wait()
	if err == nil {
		err = context.Cause(parent)
	}
	n := r.history.counts
	return fmt.Sprintf("%d kills (boots up to %s); %d pushed, %d again; %d delivered, %d completed, %d filed; %d answers lost",
		r.kills, short(longest(r.boots)), n.pushed, n.repeated, n.delivered, n.completed, n.filed, n.lost), err
}

// random is the source of one client's choices.
func (r *crashRun) random(client int) *rand.Rand {
	return rand.New(rand.NewPCG(r.seed, uint64(client)))
}

// killer kills the broker at random moments of its life, at times while it
// boots, and starts it again.
func (r *crashRun) killer(ctx context.Context, rng *rand.Rand) error {
	for kill := range r.kills {
		pause := 20*time.Millisecond + time.Duration(rng.Int64N(int64(r.up)))
		select {
		case <-r.broker.exited:
			return fmt.Errorf("the broker ended by itself: %v", r.broker.cmd.ProcessState)
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		r.broker.kill()
		if r.harm != nil {
			if err := r.harm(r.broker.dir); err != nil {
				return err
			}
		}
		if kill%4 == 3 {
			if err := r.killBooting(rng); err != nil {
				return err
			}
		}
		began := time.Now()
		if err := r.broker.start(ctx); err != nil {
			return fmt.Errorf("after kill %d: %w", kill+1, err)
		}
		r.boots = append(r.boots, time.Since(began))
	}
	return nil
}

// killBooting starts the broker and kills it before anybody may know it is up.
func (r *crashRun) killBooting(rng *rand.Rand) error {
	if _, err := r.broker.spawn(); err != nil {
		return err
	}
	select {
	case <-r.broker.exited:
		return fmt.Errorf("the broker ended by itself while it booted: %v", r.broker.cmd.ProcessState)
	case <-time.After(time.Duration(rng.Int64N(int64(40 * time.Millisecond)))):
	}
	r.broker.kill()
	return nil
}

// watchDrain returns when the kills are over and the groups have everything.
func (r *crashRun) watchDrain(ctx context.Context) error {
	c := caller{target: r.broker.target}
	defer c.close()
	var until time.Time
	for {
		sleep(ctx, 25*time.Millisecond)
		if ctx.Err() != nil {
			return nil
		}
		if !r.stopPush.Load() || r.pushersLeft.Load() > 0 {
			continue
		}
		if until.IsZero() {
			until = time.Now().Add(r.drain)
		}
		behind, err := r.behind(ctx, &c)
		switch {
		case err != nil:
			return stopped(ctx, err)
		case behind == "":
			return nil
		case time.Now().After(until):
			return fmt.Errorf("not drained %s after the last kill: %s", r.drain, behind)
		}
	}
}

// behind says who has not settled everything, "" if nobody.
func (r *crashRun) behind(ctx context.Context, c *caller) (string, error) {
	if behind := r.history.behind(crashGroups); behind != "" {
		return behind, nil
	}
	for _, queue := range r.queues {
		for _, group := range crashGroups {
			pending, err := c.pending(ctx, queue, group)
			if err != nil || pending > 0 {
				return fmt.Sprintf("group %s has %d pending in %s", group, pending, queue), err
			}
		}
	}
	return "", nil
}

// marked chooses the messages that are failed until they are dead-lettered:
// one in 50, by its id.
func marked(r record) bool {
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, r.id) // it never fails
	return sum.Sum32()%failEvery == 0
}

func longest(all []time.Duration) time.Duration {
	most := time.Duration(0)
	for _, d := range all {
		most = max(most, d)
	}
	return most
}

// gone reports that a client was stopped, which is no error.
func gone(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)) || uncertain(err))
}
