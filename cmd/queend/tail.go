package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"queend/client"
)

// tailer follows the messages of a queue by offset.
type tailer struct {
	*remote
	queue, partition string
	n, count         int
	once             bool
	next             map[string]int64 // where to read on, by partition
	names            []string         // of them, in the order they were met
}

// tailWait is how long one request waits for new messages, and so how late a
// new partition may be met.
const tailWait = 2 * time.Second

// maxPositions is how many partitions one request may read.
const maxPositions = 1024

// tail prints the newest messages of a queue and those that come.
func tail(args []string, c *console) int {
	t := &tailer{next: map[string]int64{}}
	t.remote = newRemote(c, "tail", "QUEUE", "Prints the last messages of each partition of a queue, then new ones as they\n"+
		"come, until interrupted. It claims nothing and moves no cursor.")
	t.StringVar(&t.partition, "partition", "", "only this partition")
	t.IntVar(&t.n, "n", 10, "how many stored messages of each partition to begin with")
	t.IntVar(&t.count, "count", 0, "end after so many messages; 0: never")
	t.BoolVar(&t.once, "once", false, "end when there are no more")
	if code, ok := t.connect(args, 1, 1); !ok {
		return code
	}
	if err := cmp.Or(inRange("n", t.n, 0, math.MaxInt32), inRange("count", t.count, 0, math.MaxInt32)); err != nil {
		return t.misused(err)
	}
	t.queue = t.Arg(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := t.follow(ctx)
	if err != nil && ctx.Err() == nil {
		return t.failed(err)
	}
	return exitOK
}

func (t *tailer) follow(ctx context.Context) error {
	for first := true; ; first = false {
		if err := t.discover(ctx, first); err != nil {
			return err
		}
		n, err := t.round(ctx)
		if err != nil {
			return err
		}
		if n < 0 || t.once && n == 0 {
			return nil
		}
	}
}

// discover learns which partitions there are. Those met later are read from
// their first message on.
func (t *tailer) discover(ctx context.Context, first bool) error {
	names := []string{t.partition}
	if t.partition == "" {
		q, err := t.Queue(ctx, t.queue)
		if err != nil {
			return err
		}
		names = names[:0]
		for _, p := range q.Partitions {
			names = append(names, p.Name)
		}
	}
	var fresh []client.Position
	for _, name := range names {
		if _, known := t.next[name]; !known {
			fresh = append(fresh, client.Position{Queue: t.queue, Partition: name, MaxBytes: 1})
		}
	}
	for chunk := range slices.Chunk(fresh, maxPositions) {
		found, err := t.Fetch(ctx, chunk, 0)
		if err != nil {
			return err
		}
		for _, f := range found {
			t.names = append(t.names, f.Partition)
			t.next[f.Partition] = f.LogStartOffset
			if first {
				t.next[f.Partition] = max(f.LogStartOffset, f.HighWatermark-int64(t.n))
			}
		}
	}
	return nil
}

// round reads once from every partition and prints what came. It returns how
// many messages that was, -1 when enough were printed.
func (t *tailer) round(ctx context.Context) (n int, err error) {
	var from []client.Position
	for _, name := range t.names {
		from = append(from, client.Position{Queue: t.queue, Partition: name, Offset: t.next[name]})
	}
	wait := tailWait
	if t.once || len(from) > maxPositions {
		wait = 0
	}
	if len(from) == 0 {
		return 0, t.pause(ctx)
	}
	for chunk := range slices.Chunk(from, maxPositions) {
		bounded, cancel := context.WithTimeout(ctx, *t.timeout+wait)
		found, err := t.Fetch(bounded, chunk, wait)
		cancel()
		if err != nil {
			return n, err
		}
		for i := range found {
			printed, enough := t.take(&found[i])
			if n += printed; enough {
				return -1, nil
			}
		}
	}
	if n == 0 && wait == 0 {
		return 0, t.pause(ctx)
	}
	return n, nil
}

// pause is the wait of a round that cannot wait at the broker.
func (t *tailer) pause(ctx context.Context) error {
	if t.once {
		return nil
	}
	select {
	case <-time.After(tailWait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take prints what was read of a partition and moves on behind it.
func (t *tailer) take(f *client.Fetched) (n int, enough bool) {
	switch f.Error {
	case "":
	case "UNKNOWN_TOPIC_OR_PARTITION": // not yet, or not any more
		return 0, false
	default: // retention has overtaken it
		t.next[f.Partition] = f.LogStartOffset
		return 0, false
	}
	for i := range f.Records {
		rec := &f.Records[i]
		t.next[f.Partition] = rec.Offset + 1
		if *t.json {
			t.printJSON(struct {
				Queue     string `json:"queue"`
				Partition string `json:"partition"`
				*client.Record
			}{f.Queue, f.Partition, rec})
		} else {
			fmt.Fprintf(t.c.stdout, "%s %s/%d %s %s\n", rec.Time, clean(f.Partition), rec.Offset, clean(rec.TransactionID), rec.Payload)
		}
		n++
		if t.count > 0 {
			if t.count--; t.count == 0 {
				return n, true
			}
		}
	}
	return n, false
}
