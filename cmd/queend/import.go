package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"slices"

	"queend/client"
)

// importer makes of the lines of an export what they say.
type importer struct {
	*remote
	batch  []client.Item
	from   []int64 // offsets that the items of the batch had
	bytes  int
	stored map[partitionName]spans

	// Hashes of the ids of the partition that messages are read of, to find
	// those it has twice; true once this run has stored one with it.
	at   partitionName
	ids  map[uint64]bool
	seed maphash.Seed

	options map[string]json.RawMessage // by queue, as imported
	letters client.Import              // to be filed together

	queues, lines int
	sum           map[string]int
	made          client.Imported
	shown         *progress
}

// cursorsAtOnce is how many cursors one request sets.
const cursorsAtOnce = 50_000

// importLines configures queues, pushes messages and makes groups and dead
// letters from the standard input.
func importLines(args []string, c *console) int {
	m := &importer{
		stored: map[partitionName]spans{}, seed: maphash.MakeSeed(), options: map[string]json.RawMessage{}, sum: map[string]int{}, shown: c.progress(),
	}
	m.remote = newRemote(c, "import", "", "Reads an export from the standard input: makes the queues with their options,\n"+
		"pushes the messages in their order, under the transaction ids they had, files\n"+
		"the dead letters and puts groups where they were. Done again after it broke off,\n"+
		"it does what is missing, within the time in which the broker knows ids\n"+
		"(dedupWindowSeconds). Exit code 1 when a message was not stored.")
	if code, ok := m.connect(args, 0, 0); !ok {
		return code
	}
	err := m.all(bufio.NewReaderSize(c.stdin(), 1<<20))
	m.shown.end()
	fmt.Fprintf(c.stdout, "%d queues, %d messages queued, %d known already, %d failed\n", m.queues, m.sum["queued"], m.sum["duplicate"], m.sum["failed"])
	fmt.Fprintf(c.stdout, "%d groups, %d cursors, %d dead letters, %d known already\n", m.made.Groups, m.made.Cursors, m.made.DeadLetters, m.made.Known)
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
			m.shown.say("%d lines imported", m.lines)
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
	if v.Kind == "message" {
		return m.message(&v, len(text))
	}
	if v.Kind == "deadLetter" {
		return m.letter(&v, len(text))
	}
	if err := m.flush(); err != nil {
		return err
	}
	switch v.Kind {
	case "queue":
		m.queues++
		m.options[v.Queue] = v.Options
		return m.configure(map[string]any{"queue": v.Queue, "namespace": v.Namespace, "task": v.Task, "options": v.Options})
	case "group":
		return m.group(&v)
	}
	return fmt.Errorf("%q is no kind of line of an export", v.Kind)
}

func (m *importer) configure(body map[string]any) error {
	ctx, cancel := m.ctx(0)
	defer cancel()
	_, err := m.Call(ctx, http.MethodPost, "/api/v1/configure", nil, body)
	return err
}

// flush pushes and files what has been gathered.
func (m *importer) flush() error {
	if err := m.push(); err != nil {
		return err
	}
	return m.file()
}

// message takes a message into the batch.
func (m *importer) message(v *exported, size int) error {
	if err := m.file(); err != nil {
		return err
	}
	item := client.Item{Queue: v.Queue, Partition: v.Partition, TransactionID: v.TransactionID, Payload: v.Payload}
	if len(v.Headers) > 0 {
		if err := json.Unmarshal(v.Headers, &item.Headers); err != nil {
			return err
		}
	}
	offset := int64(-1)
	if v.Offset != nil {
		offset = *v.Offset
	}
	if at := (partitionName{v.Queue, v.Partition}); at != m.at || m.ids == nil {
		m.at, m.ids = at, map[uint64]bool{}
	}
	id := m.hash(v.TransactionID)
	if _, twice := m.ids[id]; twice {
		if err := m.push(); err != nil {
			return err
		}
		if m.ids[id] {
			return m.again(item, offset)
		}
	}
	m.ids[id] = false
	m.batch, m.from = append(m.batch, item), append(m.from, offset)
	if m.bytes += size; len(m.batch) >= pushItems || m.bytes >= pushBytes {
		return m.push()
	}
	return nil
}

func (m *importer) hash(id string) uint64 { return maphash.String(m.seed, id) }

// again pushes a message whose id an earlier one of its partition has as well,
// long enough before it not to be its duplicate. That one has just been
// pushed, so the window is closed for this one.
func (m *importer) again(item client.Item, offset int64) (err error) {
	window := func(seconds any) error {
		return m.configure(map[string]any{"queue": item.Queue, "mode": "merge", "options": map[string]any{"dedupWindowSeconds": seconds}})
	}
	was := m.window(item.Queue)
	if err := window(0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, window(was)) }()
	m.batch, m.from = append(m.batch, item), append(m.from, offset)
	return m.push()
}

// window is the queue's dedupWindowSeconds as imported, nil for the default.
func (m *importer) window(queue string) *int64 {
	var options struct{ DedupWindowSeconds *int64 }
	if err := json.Unmarshal(m.options[queue], &options); err != nil {
		return nil
	}
	return options.DedupWindowSeconds
}

// push pushes the batch and notes where its messages are now.
func (m *importer) push() error {
	if len(m.batch) == 0 {
		return nil
	}
	items, from := slices.Clone(m.batch), slices.Clone(m.from)
	m.batch, m.from, m.bytes = m.batch[:0], m.from[:0], 0
	ctx, cancel := m.ctx(0)
	defer cancel()
	results, err := m.Push(ctx, items)
	if err == nil && len(results) != len(items) {
		err = fmt.Errorf("%d answers to %d messages", len(results), len(items))
	}
	if err != nil {
		return err
	}
	for i := range results {
		if err := m.pushed(&items[i], from[i], &results[i]); err != nil {
			return err
		}
	}
	if w := m.window(m.at.queue); w != nil && *w == 0 {
		clear(m.ids) // only what is in one request is compared
	}
	return nil
}

// pushed notes what became of a message that was at an offset.
func (m *importer) pushed(item *client.Item, from int64, res *client.Pushed) error {
	m.sum[res.Status]++
	at := partitionName{item.Queue, item.Partition}
	switch {
	case res.Error != "":
		fmt.Fprintf(m.c.stderr, "%s: %s: not stored: %s\n", m.Name(), res.TransactionID, res.Error)
	case res.Status == "buffered":
		return errors.New("push maintenance is on: what is pushed has no place yet")
	case res.Offset != nil && from >= 0:
		m.stored[at] = append(m.stored[at], span{from, *res.Offset, 1}).joined()
	}
	if res.Status == "queued" && at == m.at {
		m.ids[m.hash(item.TransactionID)] = true
	}
	return nil
}

// letter gathers a dead letter.
func (m *importer) letter(v *exported, size int) error {
	if err := m.push(); err != nil {
		return err
	}
	if v.Queue != m.letters.Queue {
		if err := m.file(); err != nil {
			return err
		}
	}
	l := client.ImportedLetter{
		ID: v.ID, Partition: v.Partition, ConsumerGroup: v.Group, TransactionID: v.TransactionID, Producer: v.Producer, Payload: v.Payload,
		Headers: v.Headers, ErrorMessage: v.Error, RetryCount: v.RetryCount, Attempts: v.Attempts, EnqueuedAt: v.EnqueuedAt,
	}
	if v.Offset != nil {
		l.Offset = m.stored[partitionName{v.Queue, v.Partition}].exactly(*v.Offset)
	}
	m.letters.Queue, m.letters.Letters = v.Queue, append(m.letters.Letters, l)
	if m.bytes += size; len(m.letters.Letters) >= pushItems || m.bytes >= pushBytes {
		return m.file()
	}
	return nil
}

// file files the dead letters that were gathered.
func (m *importer) file() error {
	if len(m.letters.Letters) == 0 {
		return nil
	}
	in := m.letters
	m.letters, m.bytes = client.Import{}, 0
	return m.make(in)
}

// group makes a group and puts it where its cursors are now.
func (m *importer) group(v *exported) error {
	g := client.ImportedGroup{Name: v.Group, Mode: v.Mode, Start: v.Start, Conflation: v.Conflation}
	cursors := slices.Clone(v.Cursors)
	for i := range cursors {
		c := &cursors[i]
		c.Next = m.stored[partitionName{v.Queue, c.Partition}].next(c.Next)
	}
	for {
		n := min(len(cursors), cursorsAtOnce)
		g.Cursors, cursors = cursors[:n], cursors[n:]
		if err := m.make(client.Import{Queue: v.Queue, Groups: []client.ImportedGroup{g}}); err != nil || len(cursors) == 0 {
			return err
		}
	}
}

func (m *importer) make(in client.Import) error {
	ctx, cancel := m.ctx(0)
	defer cancel()
	out, err := m.Import(ctx, in)
	m.made.Groups += out.Groups
	m.made.Cursors += out.Cursors
	m.made.DeadLetters += out.DeadLetters
	m.made.Known += out.Known
	return err
}

// span says that messages that were at source and on are at target and on,
// count of them.
type span struct{ source, target, count int64 }

// spans are those of a partition, rising on both sides.
type spans []span

// joined joins the last one to the one before it where it goes on, and drops
// it where it goes back: that message is where an earlier one is.
func (s spans) joined() spans {
	if len(s) < 2 {
		return s
	}
	last, before := s[len(s)-1], &s[len(s)-2]
	end := before.target + before.count
	switch {
	case last.target < end || last.source < before.source+before.count:
		return s[:len(s)-1]
	case last.target == end && last.source == before.source+before.count:
		before.count++
		return s[:len(s)-1]
	}
	return s
}

// exactly is where the message is that was at source, nil where it is not
// here.
func (s spans) exactly(source int64) *int64 {
	i, found := slices.BinarySearchFunc(s, source, func(x span, source int64) int { return cmp.Compare(x.source, source) })
	if !found {
		i--
	}
	if i < 0 || source >= s[i].source+s[i].count {
		return nil
	}
	at := s[i].target + source - s[i].source
	return &at
}

// next is where a group goes on that went on at source: behind the last
// message before it.
func (s spans) next(source int64) int64 {
	i, _ := slices.BinarySearchFunc(s, source, func(x span, source int64) int { return cmp.Compare(x.source, source) })
	switch {
	case i > 0:
		return s[i-1].target + min(s[i-1].count, source-s[i-1].source)
	case len(s) > 0:
		return s[0].target
	}
	return 0
}
