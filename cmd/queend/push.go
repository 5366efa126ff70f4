package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"queend/client"
)

// pusher is the command line of push.
type pusher struct {
	*remote
	partition, id string
	text          bool
	headers       map[string]string
	sum           map[string]int
	pushed        int
}

// push pushes messages from the command line or the standard input.
func push(args []string, c *console) int {
	p := &pusher{sum: map[string]int{}}
	p.remote = newRemote(c, "push", "QUEUE [PAYLOAD...]", "Pushes messages, each a JSON text: the arguments, or without them the lines of\n"+
		"the standard input. Exit code 1 when one was not stored.")
	p.StringVar(&p.partition, "partition", "", "the partition; Default when not given")
	p.StringVar(&p.id, "id", "", "the transaction id; of several messages they get -1, -2, ... behind it")
	p.BoolVar(&p.text, "text", false, "payloads are text, to be stored as JSON strings")
	p.Func("header", "a header as name=value; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("%q is not name=value", s)
		}
		if p.headers == nil {
			p.headers = map[string]string{}
		}
		p.headers[name] = value
		return nil
	})
	if code, ok := p.connect(args, 1, 1<<20); !ok {
		return code
	}
	err := p.pushAll(p.source())
	if err != nil {
		fmt.Fprintf(c.stderr, "%s: %v; %d messages were pushed before\n", p.Name(), err, p.pushed)
		return exitFailure
	}
	return p.report()
}

// source gives one payload after the other, io.EOF at the end.
func (p *pusher) source() func() (string, error) {
	if texts := p.Args()[1:]; len(texts) > 0 {
		return func() (string, error) {
			if len(texts) == 0 {
				return "", io.EOF
			}
			text := texts[0]
			texts = texts[1:]
			return text, nil
		}
	}
	in := bufio.NewReaderSize(p.c.stdin(), 1<<20)
	return func() (string, error) {
		for {
			line, err := in.ReadString('\n')
			line = strings.TrimRight(line, "\r\n")
			if line != "" || err != nil && err != io.EOF {
				return line, unlessEOF(err)
			}
			if err != nil {
				return "", err
			}
		}
	}
}

func unlessEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// stdin is the standard input; tests have their own.
func (c *console) stdin() io.Reader {
	if c.in != nil {
		return c.in
	}
	return os.Stdin
}

// One request holds at most so many messages and about so many bytes.
const (
	pushItems = 500
	pushBytes = 4 << 20
)

// pushAll pushes in batches, and begins the next one when one is full.
func (p *pusher) pushAll(next func() (string, error)) error {
	shown := p.c.progress()
	defer shown.end()
	var items []client.Item
	bytes, line := 0, 0
	for {
		text, err := next()
		if err != nil && err != io.EOF {
			return err
		}
		done := err == io.EOF
		if !done {
			line++
			item, err := p.item(text, line)
			if err != nil {
				return err
			}
			items = append(items, item)
			bytes += len(text)
		}
		if len(items) >= pushItems || bytes >= pushBytes || done && len(items) > 0 {
			if err := p.batch(items); err != nil {
				return err
			}
			items, bytes = nil, 0
			shown.say("%d pushed", p.pushed)
		}
		if done {
			return nil
		}
	}
}

// item makes the n-th message of a payload.
func (p *pusher) item(text string, n int) (client.Item, error) {
	item := client.Item{Queue: p.Arg(0), Partition: p.partition, Headers: p.headers, TransactionID: p.id}
	if p.id != "" && p.NArg() != 2 {
		item.TransactionID = fmt.Sprintf("%s-%d", p.id, n)
	}
	switch {
	case p.text:
		quoted, err := json.Marshal(text)
		item.Payload = quoted
		return item, err
	case !json.Valid([]byte(text)):
		return item, fmt.Errorf("payload %d is no JSON; -text stores it as a string: %s", n, short(text, 60))
	}
	item.Payload = json.RawMessage(text)
	return item, nil
}

func (p *pusher) batch(items []client.Item) error {
	ctx, cancel := p.ctx(0)
	defer cancel()
	results, err := p.Push(ctx, items)
	if err != nil {
		return err
	}
	for _, res := range results {
		p.sum[res.Status]++
		p.pushed++
		if *p.json {
			p.printJSON(res)
		} else if res.Error != "" {
			fmt.Fprintf(p.c.stderr, "%s: not stored: %s\n", p.Name(), res.Error)
		}
	}
	return nil
}

func (p *pusher) report() int {
	if !*p.json {
		var words []string
		for _, status := range []string{"queued", "duplicate", "buffered", "failed"} {
			if n := p.sum[status]; n > 0 {
				words = append(words, fmt.Sprintf("%d %s", n, status))
			}
		}
		if len(words) == 0 {
			words = []string{"nothing to push"}
		}
		fmt.Fprintln(p.c.stdout, strings.Join(words, ", "))
	}
	if p.sum["failed"] > 0 {
		return exitFailure
	}
	return exitOK
}

// pop claims messages and shows them.
func pop(args []string, c *console) int {
	r := newRemote(c, "pop", "QUEUE", "Claims messages of a queue, under a lease unless -ack is given: without it they\n"+
		"come again when the lease ends. Exit code 6: there are none.")
	p := client.Pop{}
	r.StringVar(&p.Partition, "partition", "", "only this partition")
	r.StringVar(&p.Group, "group", "", "the consumer group; the queue's own when not given")
	r.StringVar(&p.Mode, "mode", "", "where a new group begins: new or all")
	r.IntVar(&p.Batch, "n", 1, "how many at most")
	r.IntVar(&p.Partitions, "partitions", 1, "of how many partitions at most")
	r.IntVar(&p.LeaseSeconds, "lease", 0, "seconds of the lease; the queue's own when 0")
	r.DurationVar(&p.Wait, "wait", 0, "how long to wait for messages, at most 60s")
	r.BoolVar(&p.AutoAck, "ack", false, "be done with them: they count as processed once claimed")
	if code, ok := r.connect(args, 1, 1); !ok {
		return code
	}
	// The broker takes any other word for all.
	if err := cmp.Or(oneOf("mode", p.Mode, "new", "all"), inRange("n", p.Batch, 1, 100_000),
		inRange("partitions", p.Partitions, 1, 64), inRange("lease", p.LeaseSeconds, 0, math.MaxInt32)); err != nil {
		return r.misused(err)
	}
	p.Queue, p.Wait = r.Arg(0), min(p.Wait, time.Minute)
	ctx, cancel := r.ctx(p.Wait)
	defer cancel()
	messages, err := r.Pop(ctx, p)
	if err != nil {
		return r.failed(err)
	}
	code := r.printMessages(messages, "ATTEMPT", func(m *client.Message) any { return m.Attempt })
	if code == exitOK && !p.AutoAck && !*r.json {
		fmt.Fprintf(c.stdout, "lease %s\n", messages[0].LeaseID)
	}
	return code
}
