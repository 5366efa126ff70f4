package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// realGroups are the two groups that both get every record.
var realGroups = []string{"ledger", "mirror"}

const (
	failEvery  = 50 // one record in so many is failed until it is dead-lettered
	retryLimit = 3  // failures that only redeliver; the next one dead-letters
	pushBatch  = 100
	pushers    = 4
)

// realRun is one run of the scenario real.
type realRun struct {
	records []record
	queues  []string
	workers int
	broker  *process
	books   []*book // one per group
	report  report
}

// runReal pushes every record, consumes, dead-letters and replays, and checks
// that each came back byte for byte, in order, once for each group.
func runReal(ctx context.Context, args []string, out io.Writer) error {
	var c common
	flags := flag.NewFlagSet("real", flag.ContinueOnError)
	source := flags.String("records", recordsDir, "directory of the JSON files")
	count := flags.Int("count", 0, "use only about so many records, taken evenly; 0 is all")
	workers := flags.Int("workers", 8, "workers of each group")
	if err := c.parse(flags, args, out); err != nil {
		return err
	}
	records, err := readRecords(*source)
	if err != nil {
		return err
	}
	dir, remove, err := c.workspace()
	if err != nil {
		return err
	}
	defer remove()
	broker, err := newBroker(c.binary, dir)
	if err != nil {
		return err
	}
	defer broker.kill()
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	records = thin(records, *count)
	r := &realRun{records: records, queues: queuesOf(records), workers: *workers, broker: broker, report: report{out}}
	for i, group := range realGroups {
		r.books = append(r.books, newBook(group, i, records))
	}
	if err := r.run(ctx); err != nil {
		return fmt.Errorf("%w\nlog of the broker:\n%s", err, broker.logTail(10))
	}
	return nil
}

// run goes through the phases.
func (r *realRun) run(ctx context.Context) error {
	letters := map[string][]deadLetter{} // by group
	for _, phase := range []struct {
		name string
		step func() (string, error)
	}{
		{"start", func() (string, error) { return "broker on an empty directory", r.broker.start(ctx) }},
		{"push", func() (string, error) { return r.push(ctx, "queued") }},
		{"push again", func() (string, error) { return r.push(ctx, "duplicate") }},
		{"consume", func() (string, error) { return r.consume(ctx) }},
		{"dead letters", func() (string, error) { return r.list(ctx, letters) }},
		{"restart", func() (string, error) { return r.restart(ctx) }},
		{"replay", func() (string, error) { return r.replay(ctx, letters) }},
		{"consume again", func() (string, error) { return r.consume(ctx) }},
		{"check", func() (string, error) { return r.check(ctx) }},
	} {
		if err := r.report.phase(phase.name, phase.step); err != nil {
			return err
		}
	}
	return nil
}

// push sends all records, each partition over one connection, and expects the
// same verdict for all. Offsets follow the order of pushing.
func (r *realRun) push(ctx context.Context, verdict string) (string, error) {
	began := time.Now()
	g, ctx := newCrew(ctx)
	for _, hand := range deal(r.records, pushers) {
		g.run(func() error {
			c := caller{target: r.broker.target}
			defer c.close()
			next := map[address]int64{}
			for start := 0; start < len(hand); start += pushBatch {
				batch := hand[start:min(start+pushBatch, len(hand))]
				answers, err := c.push(ctx, batch)
				if err != nil {
					return err
				}
				for i, a := range answers {
					want := next[batch[i].address]
					next[batch[i].address]++
					if a.Status != verdict || *a.Offset != want {
						return fmt.Errorf("%s in %s: %s at offset %d; it must be %s at %d",
							batch[i].id, batch[i].address, a.Status, *a.Offset, verdict, want)
					}
				}
			}
			return nil
		})
	}
	err := g.wait()
	return fmt.Sprintf("%d records to %d queues, all %s, %s", len(r.records), len(r.queues), verdict,
		perSecond(len(r.records), time.Since(began))), err
}

// consume lets the workers of all groups run until every group has settled all
// that is due to it.
func (r *realRun) consume(ctx context.Context) (string, error) {
	began := time.Now()
	var settled atomic.Int64
	g, ctx := newCrew(ctx)
	for _, b := range r.books {
		before := b.settled()
		g.run(func() error {
			workers, ctx := newCrew(ctx)
			for i := range r.workers {
				workers.run(func() error {
					w := worker{caller: caller{target: r.broker.target}, book: b, queues: r.queues, at: i}
					defer w.close()
					return w.run(ctx)
				})
			}
			err := workers.wait()
			settled.Add(int64(b.settled() - before))
			return err
		})
	}
	err := g.wait()
	return fmt.Sprintf("%d messages settled by %d groups of %d workers, %s", settled.Load(), len(r.books), r.workers,
		perSecond(int(settled.Load()), time.Since(began))), err
}

// list reads the dead letters and checks that they are the failed records.
func (r *realRun) list(ctx context.Context, letters map[string][]deadLetter) (string, error) {
	c := caller{target: r.broker.target}
	defer c.close()
	total := 0
	for _, queue := range r.queues {
		rows, err := c.deadLetters(ctx, queue)
		if err != nil {
			return "", err
		}
		for _, row := range rows {
			letters[row.Group] = append(letters[row.Group], row)
		}
		total += len(rows)
	}
	for _, b := range r.books {
		if err := b.checkLetters(letters[b.group]); err != nil {
			return "", err
		}
		total -= len(letters[b.group])
	}
	if total != 0 {
		return "", fmt.Errorf("%d dead letters are of no known group", total)
	}
	return fmt.Sprintf("%d of %s, %d of %s, each with its payload", len(letters[realGroups[0]]), realGroups[0],
		len(letters[realGroups[1]]), realGroups[1]), nil
}

// restart stops the broker as an operator would, and starts it again.
func (r *realRun) restart(ctx context.Context) (string, error) {
	r.broker.stop()
	if code := r.broker.cmd.ProcessState.ExitCode(); code != 0 {
		return "", fmt.Errorf("the broker ended with code %d", code)
	}
	stopped := time.Now()
	err := r.broker.start(ctx)
	return "stopped, and ready again after " + short(time.Since(stopped)), err
}

// replay moves every dead letter back. The replay reaches all groups.
func (r *realRun) replay(ctx context.Context, letters map[string][]deadLetter) (string, error) {
	c := caller{target: r.broker.target}
	defer c.close()
	total := 0
	for _, group := range realGroups {
		for _, letter := range letters[group] {
			as, err := c.replay(ctx, letter.ID)
			if err != nil {
				return "", err
			}
			if as.TransactionID != "dlq:"+letter.ID {
				return "", fmt.Errorf("dead letter %s was replayed as %s", letter.ID, as.TransactionID)
			}
			for _, b := range r.books {
				b.expectReplay(as.TransactionID, letter)
			}
			total++
		}
	}
	return fmt.Sprintf("%d dead letters moved back to their partitions", total), nil
}

// check makes sure that everything is settled and nothing is left.
func (r *realRun) check(ctx context.Context) (string, error) {
	c := caller{target: r.broker.target}
	defer c.close()
	for _, queue := range r.queues {
		rows, err := c.deadLetters(ctx, queue)
		if err != nil || len(rows) > 0 {
			return "", fmt.Errorf("queue %s: %d dead letters after all were replayed (%v)", queue, len(rows), err)
		}
		for _, b := range r.books {
			pending, err := c.pending(ctx, queue, b.group)
			if err != nil || pending != 0 {
				return "", fmt.Errorf("queue %s, group %s: %d pending after all was acked (%v)", queue, b.group, pending, err)
			}
			more, err := c.pop(ctx, popOptions{queue: queue, group: b.group, batch: 1, partitions: 1})
			if err != nil || len(more) > 0 {
				return "", fmt.Errorf("queue %s, group %s: %d messages after all was acked (%v)", queue, b.group, len(more), err)
			}
		}
	}
	for _, b := range r.books {
		if err := b.checkAll(); err != nil {
			return "", err
		}
	}
	return "every record byte for byte, in order, once for each group", nil
}

// worker takes messages for one group and settles them.
type worker struct {
	caller
	book   *book
	queues []string
	at     int // the queue it asks next
}

// run works until its group has settled everything.
func (w *worker) run(ctx context.Context) error {
	empty := 0 // queues in a row that had nothing
	for !w.book.finished() {
		o := popOptions{queue: w.queues[w.at%len(w.queues)], group: w.book.group, batch: 200, partitions: 16}
		if empty >= len(w.queues) {
			o.waitMS = 100
		}
		w.at++
		messages, err := w.pop(ctx, o)
		if err != nil {
			return err
		}
		if empty++; len(messages) > 0 {
			empty = 0
		}
		if err := w.settle(ctx, messages); err != nil {
			return err
		}
	}
	return nil
}

// settle judges the messages of one pop and acks them in one call.
func (w *worker) settle(ctx context.Context, messages []delivered) error {
	var items []ackItem
	var dead []bool // by item: this ack must dead-letter
	for _, run := range byPartition(messages) {
		verdict, err := w.book.judge(run)
		if err != nil {
			return err
		}
		items, dead = append(items, verdict.items...), append(dead, verdict.dead...)
	}
	if len(items) == 0 {
		return nil
	}
	answers, err := w.ack(ctx, w.book.group, items)
	if err != nil {
		return err
	}
	for i, a := range answers {
		if !a.Success || a.Dropped || a.Noop || a.DLQ != dead[i] {
			return fmt.Errorf("group %s, status %s, to be dead-lettered %v: %v", w.book.group, items[i].Status, dead[i], a)
		}
	}
	return nil
}

// samePayload compares two payloads byte for byte.
func samePayload(what string, got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s has the payload\n%s\nand must have\n%s", what, got, want)
	}
	return nil
}
