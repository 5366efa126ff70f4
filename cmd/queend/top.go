package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"queend/client"
)

// topper is the command line of top.
type topper struct {
	*remote
	interval time.Duration
	n, lines int
}

// top shows the busiest queues over and over.
func top(args []string, c *console) int {
	t := &topper{}
	t.remote = newRemote(c, "top", "", "Shows the queues with what they hold and carry per second, the busiest first,\n"+
		"over and over until interrupted.")
	t.DurationVar(&t.interval, "interval", 2*time.Second, "time between two looks")
	t.IntVar(&t.n, "n", 0, "end after so many looks; 0: never")
	t.IntVar(&t.lines, "lines", 20, "how many queues to show")
	if code, ok := t.connect(args, 0, 0); !ok {
		return code
	}
	if err := cmp.Or(inRange("n", t.n, 0, math.MaxInt32), inRange("lines", t.lines, 1, math.MaxInt32)); err != nil {
		return t.misused(err)
	}
	if t.interval <= 0 {
		return t.misused(fmt.Errorf("-interval: %v is no time to wait", t.interval))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := t.loop(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		return t.failed(err)
	}
	return exitOK
}

// look is what is known of everything at one moment.
type look struct {
	at       time.Time
	overview client.Overview
	queues   []client.Queue
	work     map[string]client.Work
}

func (t *topper) loop(ctx context.Context) error {
	begin := time.Now()
	var before look
	for i := 1; ; i++ {
		now, err := t.look(ctx, begin)
		if err != nil {
			return err
		}
		t.show(&before, &now)
		before = now
		if i == t.n {
			return nil
		}
		select {
		case <-time.After(t.interval):
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *topper) look(ctx context.Context, begin time.Time) (l look, err error) {
	ctx, cancel := context.WithTimeout(ctx, *t.timeout)
	defer cancel()
	l.at = time.Now()
	if l.overview, err = t.Overview(ctx); err != nil {
		return l, err
	}
	if l.queues, err = t.Queues(ctx); err != nil {
		return l, err
	}
	l.work, err = t.Workload(ctx, begin)
	return l, err
}

// rates are messages in and out per second between two looks.
func rates(before, now *look, queue string) (in, out float64) {
	seconds := now.at.Sub(before.at).Seconds()
	if before.work == nil || seconds <= 0 {
		return 0, 0
	}
	a, b := before.work[queue], now.work[queue]
	return max(0, float64(b.PushMessages-a.PushMessages)/seconds), max(0, float64(b.PopMessages-a.PopMessages)/seconds)
}

func (t *topper) show(before, now *look) {
	queues := slices.Clone(now.queues)
	busy := func(q client.Queue) float64 {
		in, out := rates(before, now, q.Name)
		return in + out
	}
	slices.SortStableFunc(queues, func(a, b client.Queue) int {
		if x, y := busy(a), busy(b); x != y {
			return int(min(1, max(-1, (y-x)*1e6)))
		}
		return int(min(1, max(-1, b.Messages.Pending-a.Messages.Pending)))
	})
	if *t.json {
		for _, q := range queues {
			in, out := rates(before, now, q.Name)
			t.printJSON(map[string]any{
				"time": now.at.UTC().Format(time.RFC3339), "queue": q.Name, "inPerSecond": in, "outPerSecond": out,
				"pending": q.Messages.Pending, "processing": q.Messages.Processing, "messages": q.Messages.Total,
			})
		}
		return
	}
	t.print(t.c.stdout, before, now, queues)
}

func (t *topper) print(w io.Writer, before, now *look, queues []client.Queue) {
	if isTerminal(w) {
		fmt.Fprint(w, "\x1b[H\x1b[2J")
	}
	o := &now.overview
	fmt.Fprintf(w, "%s  %d queues, %d partitions, %d pending, %d processing, %d dead letters\n\n",
		now.at.Format(time.TimeOnly), o.Queues, o.Partitions, o.Messages.Pending, o.Messages.Processing, o.Messages.DeadLetter)
	rows := newTable(w, "QUEUE", "IN/S", "OUT/S", "PENDING", "PROCESSING", "MESSAGES", "SIZE")
	for _, q := range queues[:min(len(queues), t.lines)] {
		in, out := rates(before, now, q.Name)
		rows.row(q.Name, fmt.Sprintf("%.1f", in), fmt.Sprintf("%.1f", out), q.Messages.Pending, q.Messages.Processing,
			q.Messages.Total, size(q.RetainedBytes))
	}
	rows.flush()
}
