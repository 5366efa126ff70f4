package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"queend/client"
)

// exported is a line of an export. Kind says which fields it has.
type exported struct {
	Kind          string          `json:"kind"` // queue, message, deadLetter or group
	Queue         string          `json:"queue"`
	Namespace     string          `json:"namespace,omitempty"`
	Task          string          `json:"task,omitempty"`
	Options       json.RawMessage `json:"options,omitempty"`
	Partition     string          `json:"partition,omitempty"`
	TransactionID string          `json:"transactionId,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	Headers       json.RawMessage `json:"headers,omitempty"`
	Offset        *int64          `json:"offset,omitempty"`
	Time          string          `json:"time,omitempty"`
	Group         string          `json:"group,omitempty"`

	// Of a dead letter.
	ID         string  `json:"id,omitempty"`
	Error      string  `json:"error,omitempty"`
	RetryCount int64   `json:"retryCount,omitempty"`
	Attempts   int64   `json:"attempts,omitempty"`
	EnqueuedAt string  `json:"enqueuedAt,omitempty"`
	Producer   *string `json:"producerSub,omitempty"`

	// Of a group.
	Mode       string          `json:"mode,omitempty"`
	Start      string          `json:"start,omitempty"`
	Conflation bool            `json:"conflation,omitempty"`
	Cursors    []client.Cursor `json:"cursors,omitempty"`
}

// exporter writes queues as lines. It reads what every server of this API
// answers, so that any of them can be the source.
type exporter struct {
	*remote
	out      *bufio.Writer
	shown    *progress
	messages int
	ends     map[partitionName]int64 // next offset of the partitions that were exported
}

// partitionName is the full one.
type partitionName struct{ queue, partition string }

// export prints queues with their options, messages, dead letters and groups.
func export(args []string, c *console) int {
	e := &exporter{out: bufio.NewWriterSize(c.stdout, 1<<20), shown: c.progress(), ends: map[partitionName]int64{}}
	e.remote = newRemote(c, "export", "", "Prints queues as lines of JSON, for queend import: each queue with its options,\n"+
		"its retained messages, partition by partition in their order, its dead letters,\n"+
		"and in the end the groups with their cursors. It claims nothing.")
	queue := e.String("queue", "", "only this queue")
	if code, ok := e.connect(args, 0, 0); !ok {
		return code
	}
	err := e.all(*queue)
	err = errors.Join(err, e.out.Flush())
	e.shown.end()
	if err != nil {
		return e.failed(err)
	}
	fmt.Fprintf(c.stderr, "%d messages exported\n", e.messages)
	return exitOK
}

func (e *exporter) all(queue string) error {
	names := []string{queue}
	if queue == "" {
		ctx, cancel := e.ctx(0)
		defer cancel()
		queues, err := e.Queues(ctx)
		if err != nil {
			return err
		}
		names = names[:0]
		for _, q := range queues {
			names = append(names, q.Name)
		}
	}
	for _, name := range names {
		if err := e.queue(name); err != nil {
			return fmt.Errorf("queue %q: %w", name, err)
		}
	}
	return e.groups(names)
}

func (e *exporter) line(v exported) error {
	data := json.NewEncoder(e.out)
	data.SetEscapeHTML(false)
	return data.Encode(v)
}

func (e *exporter) queue(name string) error {
	ctx, cancel := e.ctx(0)
	defer cancel()
	q, err := e.Queue(ctx, name)
	if err != nil {
		return err
	}
	if err := e.line(exported{Kind: "queue", Queue: name, Namespace: q.Namespace, Task: q.Task, Options: q.Options}); err != nil {
		return err
	}
	for _, p := range q.Partitions {
		if err := e.partition(name, p.Name); err != nil {
			return fmt.Errorf("partition %q: %w", p.Name, err)
		}
	}
	return e.letters(name)
}

// partition writes what was there when it began. What retention removes
// meanwhile is left out.
func (e *exporter) partition(queue, name string) error {
	var at, end int64
	for first := true; first || at < end; first = false {
		f, err := e.read(client.Position{Queue: queue, Partition: name, Offset: at})
		switch {
		case err != nil:
			return err
		case f.Error == "OFFSET_OUT_OF_RANGE" && f.LogStartOffset > at:
			at = f.LogStartOffset
			end = max(end, f.HighWatermark)
			e.ends[partitionName{queue, name}] = end
			continue
		case f.Error != "":
			return errors.New(f.Error)
		}
		if first || end == 0 {
			end = f.HighWatermark
			e.ends[partitionName{queue, name}] = end
		}
		for _, rec := range f.Records {
			if rec.Offset >= end {
				return nil
			}
			e.messages++
			at = rec.Offset + 1
			if err := e.line(exported{
				Kind: "message", Queue: queue, Partition: name, TransactionID: rec.TransactionID,
				Payload: rec.Payload, Headers: rec.Headers, Offset: &rec.Offset, Time: rec.Time,
			}); err != nil {
				return err
			}
		}
		e.shown.say("%d messages exported", e.messages)
		if len(f.Records) == 0 {
			return nil
		}
	}
	return nil
}

func (e *exporter) read(from client.Position) (client.Fetched, error) {
	ctx, cancel := e.ctx(0)
	defer cancel()
	found, err := e.Fetch(ctx, []client.Position{from}, 0)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d answers to one question", len(found))
	}
	if err != nil {
		return client.Fetched{}, err
	}
	return found[0], nil
}

// letters writes the dead letters of a queue, the oldest failure first. A
// listing begins with the newest, so that none is missed while others come.
func (e *exporter) letters(queue string) error {
	var all []client.DeadLetter
	for {
		ctx, cancel := e.ctx(0)
		page, err := e.DeadLetters(ctx, client.Filter{Queue: queue}, letterPage, len(all))
		cancel()
		if err != nil {
			return err
		}
		if len(page.Messages) == 0 {
			break
		}
		all = append(all, page.Messages...)
	}
	for _, d := range slices.Backward(all) {
		if err := e.line(exported{
			Kind: "deadLetter", Queue: queue, Partition: d.Partition, TransactionID: d.TransactionID, Payload: d.Data, Headers: d.Headers,
			Offset: d.Offset, Time: d.FailedAt, Group: d.ConsumerGroup, ID: d.ID, Error: d.ErrorMessage, RetryCount: d.RetryCount,
			Attempts: d.Attempts, EnqueuedAt: d.EnqueuedAt, Producer: d.Producer,
		}); err != nil {
			return err
		}
	}
	return nil
}

// groups writes the groups on the queues that were exported, in the order of
// their names.
func (e *exporter) groups(queues []string) error {
	ctx, cancel := e.ctx(0)
	defer cancel()
	groups, err := e.Groups(ctx)
	if err != nil {
		return err
	}
	cursors := map[string]map[string]client.GroupOnQueue{}
	for i := range groups {
		g := &groups[i]
		if !slices.Contains(queues, g.QueueName) {
			continue
		}
		if cursors[g.Name] == nil {
			if cursors[g.Name], err = e.group(g.Name); err != nil {
				return fmt.Errorf("group %q: %w", g.Name, err)
			}
		}
		if err := e.line(exported{
			Kind: "group", Queue: g.QueueName, Group: g.Name, Mode: g.SubscriptionMode, Start: g.SubscriptionTimestamp,
			Conflation: g.Conflation, Cursors: e.cursors(g.QueueName, cursors[g.Name][g.QueueName]),
		}); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) group(name string) (map[string]client.GroupOnQueue, error) {
	ctx, cancel := e.ctx(0)
	defer cancel()
	return e.Group(ctx, name)
}

// cursors are the offsets at which a group goes on. Its lag is taken after the
// end of the partition was: what was pushed between makes it look further
// behind, never further ahead.
func (e *exporter) cursors(queue string, g client.GroupOnQueue) (out []client.Cursor) {
	for _, p := range g.Partitions {
		if end, exported := e.ends[partitionName{queue, p.Partition}]; exported {
			out = append(out, client.Cursor{Partition: p.Partition, Next: max(end-p.OffsetLag, 0)})
		}
	}
	return out
}
