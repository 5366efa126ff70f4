package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"queend/client"
)

// exported is a line of an export. Kind says which fields it has.
type exported struct {
	Kind          string          `json:"kind"` // queue, message or deadLetter
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
	Error         string          `json:"error,omitempty"`
}

// exporter writes queues as lines.
type exporter struct {
	*remote
	out      *bufio.Writer
	shown    *progress
	messages int
}

// export prints queues with their options, messages and dead letters.
func export(args []string, c *console) int {
	e := &exporter{out: bufio.NewWriterSize(c.stdout, 1<<20), shown: c.progress()}
	e.remote = newRemote(c, "export", "", "Prints queues as lines of JSON, for queend import: each queue with its options,\n"+
		"then its retained messages, partition by partition in their order, then its dead\n"+
		"letters. It claims nothing. Groups and their cursors are not in it.")
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
	return nil
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
			continue
		case f.Error != "":
			return errors.New(f.Error)
		}
		if first || end == 0 {
			end = f.HighWatermark
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

func (e *exporter) letters(queue string) error {
	for at := 0; ; {
		ctx, cancel := e.ctx(0)
		page, err := e.DeadLetters(ctx, client.Filter{Queue: queue}, letterPage, at)
		cancel()
		if err != nil || len(page.Messages) == 0 {
			return err
		}
		for i := range page.Messages {
			d := &page.Messages[i]
			if err := e.line(exported{
				Kind: "deadLetter", Queue: queue, Partition: d.Partition, TransactionID: d.TransactionID, Payload: d.Data,
				Headers: d.Headers, Offset: &d.Offset, Time: d.FailedAt, Group: d.ConsumerGroup, Error: d.ErrorMessage,
			}); err != nil {
				return err
			}
		}
		at += len(page.Messages)
	}
}

// importer pushes the lines of an export.
type importer struct {
	*remote
	items                      []client.Item
	bytes, queues, dead, lines int
	sum                        map[string]int
	shown                      *progress
}

// importLines configures queues and pushes messages from the standard input.
func importLines(args []string, c *console) int {
	m := &importer{sum: map[string]int{}, shown: c.progress()}
	m.remote = newRemote(c, "import", "", "Reads an export from the standard input: makes the queues with their options and\n"+
		"pushes the messages in their order, under the transaction ids they had. Done\n"+
		"again after it broke off, it pushes only what is missing, within the time in\n"+
		"which the broker knows ids (dedupWindowSeconds). Dead letters are counted and\n"+
		"left out. Exit code 1 when a message was not stored.")
	if code, ok := m.connect(args, 0, 0); !ok {
		return code
	}
	err := m.all(bufio.NewReaderSize(c.stdin(), 1<<20))
	m.shown.end()
	fmt.Fprintf(c.stdout, "%d queues, %d messages queued, %d known already, %d failed, %d dead letters left out\n",
		m.queues, m.sum["queued"]+m.sum["buffered"], m.sum["duplicate"], m.sum["failed"], m.dead)
	if err != nil {
		return m.failed(fmt.Errorf("line %d: %w", m.lines, err))
	}
	if m.sum["failed"] > 0 {
		return exitFailure
	}
	return exitOK
}

func (m *importer) all(in *bufio.Reader) error {
	for {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(text) > 1 {
			m.lines++
			if err := m.line(text); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return m.flush()
		}
	}
}

func (m *importer) line(text []byte) error {
	var v exported
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	switch v.Kind {
	case "queue":
		return m.configure(&v)
	case "deadLetter":
		m.dead++
		return nil
	case "message":
	default:
		return fmt.Errorf("%q is no kind of line of an export", v.Kind)
	}
	item := client.Item{Queue: v.Queue, Partition: v.Partition, TransactionID: v.TransactionID, Payload: v.Payload}
	if len(v.Headers) > 0 {
		if err := json.Unmarshal(v.Headers, &item.Headers); err != nil {
			return err
		}
	}
	m.items = append(m.items, item)
	if m.bytes += len(text); len(m.items) >= pushItems || m.bytes >= pushBytes {
		return m.flush()
	}
	return nil
}

// configure makes a queue with the options it had.
func (m *importer) configure(v *exported) error {
	if err := m.flush(); err != nil {
		return err
	}
	ctx, cancel := m.ctx(0)
	defer cancel()
	m.queues++
	_, err := m.Call(ctx, http.MethodPost, "/api/v1/configure", nil, map[string]any{
		"queue": v.Queue, "namespace": v.Namespace, "task": v.Task, "options": v.Options,
	})
	return err
}

func (m *importer) flush() error {
	if len(m.items) == 0 {
		return nil
	}
	items := slices.Clone(m.items)
	m.items, m.bytes = m.items[:0], 0
	ctx, cancel := context.WithTimeout(context.Background(), *m.timeout)
	defer cancel()
	results, err := m.Push(ctx, items)
	if err != nil {
		return err
	}
	for _, res := range results {
		m.sum[res.Status]++
		if res.Error != "" {
			fmt.Fprintf(m.c.stderr, "%s: %s: not stored: %s\n", m.Name(), res.TransactionID, res.Error)
		}
	}
	m.shown.say("%d lines imported", m.lines)
	return nil
}
