package main

import (
	"cmp"
	"encoding/json"
	"fmt"

	"queend/client"
)

// queues lists the queues, or the partitions of one.
func queues(args []string, c *console) int {
	r := newRemote(c, "queues", "[QUEUE]", "Lists the queues, or the partitions of one.")
	if code, ok := r.connect(args, 0, 1); !ok {
		return code
	}
	if r.NArg() == 1 {
		return r.partitions(r.Arg(0))
	}
	ctx, cancel := r.ctx(0)
	defer cancel()
	all, err := r.Queues(ctx)
	if err != nil {
		return r.failed(err)
	}
	if *r.json {
		for _, q := range all {
			r.printJSON(map[string]any{
				"queue": q.Name, "namespace": q.Namespace, "task": q.Task, "partitions": q.Partitions,
				"messages": q.Messages.Total, "pending": q.Messages.Pending, "processing": q.Messages.Processing,
				"retainedBytes": q.RetainedBytes,
			})
		}
		return exitOK
	}
	t := newTable(c.stdout, "QUEUE", "PARTITIONS", "MESSAGES", "PENDING", "PROCESSING", "SIZE")
	for _, q := range all {
		t.row(q.Name, q.Partitions, q.Messages.Total, q.Messages.Pending, q.Messages.Processing, size(q.RetainedBytes))
	}
	t.flush()
	return exitOK
}

func (r *remote) partitions(queue string) int {
	ctx, cancel := r.ctx(0)
	defer cancel()
	q, err := r.Queue(ctx, queue)
	if err != nil {
		return r.failed(err)
	}
	if *r.json {
		for _, p := range q.Partitions {
			r.printJSON(map[string]any{
				"queue": q.Name, "partition": p.Name, "partitionId": p.ID, "messages": p.Stats.Total,
				"pending": p.Stats.Pending, "processing": p.Stats.Processing, "deadLetters": p.Stats.DeadLetter,
				"oldest": p.OldestMessage, "newest": p.NewestMessage,
			})
		}
		return exitOK
	}
	t := newTable(r.c.stdout, "PARTITION", "MESSAGES", "PENDING", "PROCESSING", "DEAD", "NEWEST")
	for _, p := range q.Partitions {
		newest := "-"
		if p.NewestMessage != nil {
			newest = *p.NewestMessage
		}
		t.row(p.Name, p.Stats.Total, p.Stats.Pending, p.Stats.Processing, p.Stats.DeadLetter, newest)
	}
	t.flush()
	return exitOK
}

// groups lists consumer groups.
func groups(args []string, c *console) int {
	r := newRemote(c, "groups", "", "Lists the consumer groups with their lag, one line per group and queue.")
	queue := r.String("queue", "", "only those on this queue")
	group := r.String("group", "", "only this group")
	if code, ok := r.connect(args, 0, 0); !ok {
		return code
	}
	ctx, cancel := r.ctx(0)
	defer cancel()
	all, err := r.Groups(ctx)
	if err != nil {
		return r.failed(err)
	}
	t := newTable(c.stdout, "GROUP", "QUEUE", "CURSORS", "BEHIND", "LAG", "AGE", "WAITING", "STATE", "STARTS")
	for _, g := range all {
		if *queue != "" && g.QueueName != *queue || *group != "" && g.Name != *group {
			continue
		}
		if *r.json {
			r.printJSON(map[string]any{
				"group": g.Name, "queue": g.QueueName, "cursors": g.PartitionCursors, "partitionsBehind": g.PartitionsWithLag,
				"lag": g.TotalLag, "lagSeconds": g.MaxTimeLag, "waiting": g.Consumers, "state": g.State,
				"starts": g.SubscriptionMode, "conflation": g.Conflation,
			})
			continue
		}
		t.row(g.Name, g.QueueName, g.PartitionCursors, g.PartitionsWithLag, g.TotalLag, fmt.Sprintf("%.0fs", g.MaxTimeLag),
			g.Consumers, g.State, g.SubscriptionMode)
	}
	if !*r.json {
		t.flush()
	}
	return exitOK
}

// peek shows the newest messages of a queue without claiming them.
func peek(args []string, c *console) int {
	r := newRemote(c, "peek", "QUEUE", "Shows the newest messages of a queue, newest first. It claims nothing and moves\n"+
		"no cursor. Exit code 6: there are none.")
	partition := r.String("partition", "", "only those of this partition")
	status := r.String("status", "", "only those that are pending, processing, completed or dead_letter")
	n := r.Int("n", 10, "how many, at most 1000")
	if code, ok := r.connect(args, 1, 1); !ok {
		return code
	}
	if err := cmp.Or(inRange("n", *n, 1, 1000), oneOf("status", *status, "pending", "processing", "completed", "dead_letter")); err != nil {
		return r.misused(err)
	}
	ctx, cancel := r.ctx(0)
	defer cancel()
	messages, err := r.Messages(ctx, r.Arg(0), *partition, *status, *n)
	if err != nil {
		return r.failed(err)
	}
	return r.printMessages(messages, "STATUS", func(m *client.Message) any { return m.Status })
}

// printMessages prints messages with one column of the caller's.
func (r *remote) printMessages(messages []client.Message, column string, cell func(*client.Message) any) int {
	if len(messages) == 0 {
		return exitEmpty
	}
	if *r.json {
		for i := range messages {
			r.printJSON(&messages[i])
		}
		return exitOK
	}
	t := newTable(r.c.stdout, "CREATED", "PARTITION", "OFFSET", column, "TRANSACTION ID", "PAYLOAD")
	for i := range messages {
		m := &messages[i]
		t.row(m.CreatedAt, m.Partition, m.Offset, cell(m), m.TransactionID, payloadText(m.Data))
	}
	t.flush()
	return exitOK
}

// payloadText is a payload for a cell.
func payloadText(data json.RawMessage) string { return short(string(data), 100) }
