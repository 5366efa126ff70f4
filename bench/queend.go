package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// loadGroup is the consumer group of measured consumers.
const loadGroup = "workers"

// queend is the broker under test.
type queend struct {
	pusherHTTP
	env []string
}

func newQueend(w *workshop, dir string, s shape) (system, error) {
	return makeQueend(w, dir, s)
}

// makeQueend describes a broker on dir.
func makeQueend(w *workshop, dir string, s shape) (*queend, error) {
	env := append([]string{"QUEEN_FSYNC=always"}, s.Env...)
	p, err := newBroker(w.binary, dir, env...)
	if err != nil {
		return nil, err
	}
	q := &queend{pusherHTTP: pusherHTTP{process: p, queue: loadQueue, ids: ids{random: s.IDs == "random"}}, env: env}
	if s.IDs == "fixed" {
		q.ids.fixedMS = time.Now().UnixMilli()
	}
	if w.profile != "" {
		p.flags = []string{"-profile", w.profile}
	}
	return q, nil
}

func (q *queend) promise() string {
	return "a push is answered after fdatasync (shared by requests that wait at the same moment), a batch whole or not at all, its transaction ids checked against 3600 s of ids; a claim and an ack likewise; a consumer has the next pop and the ack of the last one on their way at the same time, over two connections; " + strings.Join(q.env, " ")
}

func (q *queend) ordered() bool { return true }

// open configures the queue; partitions come with their first push.
func (q *queend) open(ctx context.Context, _ int) error {
	c := caller{target: q.process.target}
	defer c.close()
	return c.configure(ctx, q.queue, `{"leaseTime":60,"dedupWindowSeconds":3600}`)
}

func (q *queend) consumer(ctx context.Context, n int, how consumption) (consumer, error) {
	addr, err := q.process.target.wait(ctx)
	if err != nil {
		return nil, err
	}
	c := &queendConsumer{limit: callLimit + how.wait}
	if c.pops, err = dial(ctx, addr); err != nil {
		return nil, err
	}
	if c.acks, err = dial(ctx, addr); err != nil {
		c.pops.close()
		return nil, err
	}
	path := "/api/v1/pop/queue/" + q.queue
	if how.pinned {
		path += "/partition/" + laneName(n)
	}
	path += "?consumerGroup=" + loadGroup + "&subscriptionMode=all&batch=" + strconv.Itoa(how.batch)
	if !how.pinned {
		path += "&partitions=" + strconv.Itoa(max(1, how.partitions))
	}
	if how.wait > 0 {
		path += "&wait=true&timeout=" + strconv.FormatInt(how.wait.Milliseconds(), 10)
	}
	c.pop = appendRequest(nil, "GET", path, nil)
	return c, nil
}

// queendConsumer pops over one connection and acks over another, so that it need
// not wait for an ack before it asks for more.
type queendConsumer struct {
	pops, acks *conn
	pop        []byte // the request
	body       []byte // of the ack
	ack        []byte // the request
	sent       int    // items of the ack that is on its way, 0: none is
	limit      time.Duration
}

func (c *queendConsumer) close() {
	c.pops.close()
	c.acks.close()
}

func (c *queendConsumer) take(in *intake) error {
	_ = c.pops.net.SetDeadline(time.Now().Add(c.limit)) // fails on a closed connection only, as the pop then does
	began := in.clock.now()
	if err := c.pops.send(c.pop); err != nil {
		return err
	}
	if err := c.settle(); err != nil {
		return err
	}
	status, body, err := c.pops.receive()
	switch {
	case err != nil:
		return err
	case status == 204:
		return nil
	case status != 200:
		return fmt.Errorf("a pop was answered %d: %.300s", status, body)
	}
	in.arrived(began)
	n, err := c.scan(body, in)
	if err != nil {
		return err
	}
	in.flush()
	c.ack = appendRequest(c.ack[:0], "POST", "/api/v1/ack/batch", c.body)
	c.sent = n
	_ = c.acks.net.SetDeadline(time.Now().Add(callLimit)) // fails on a closed connection only, as the ack then does
	return c.acks.send(c.ack)
}

// settle waits for the answer of the ack that is on its way.
func (c *queendConsumer) settle() error {
	n := c.sent
	if c.sent = 0; n == 0 {
		return nil
	}
	_ = c.acks.net.SetDeadline(time.Now().Add(callLimit)) // fails on a closed connection only, as the ack then does
	status, body, err := c.acks.receive()
	if err != nil {
		return err
	}
	if status != 200 || bytes.Count(body, successWord) != n {
		return fmt.Errorf("an ack of %d was answered %d: %.300s", n, status, body)
	}
	return nil
}

var (
	txnKey         = []byte(`"transactionId":"`)
	dataKey        = []byte(`"data":`)
	partitionIDKey = []byte(`"partitionId":"`)
	leaseKey       = []byte(`"leaseId":"`)
	successWord    = []byte(`"success":true`)
)

var errAnswer = errors.New("a pop has an answer of another shape")

// scan takes the messages of a pop and builds the body of their ack. It looks for
// what it needs and decodes nothing: the load generator shares the cores with the
// broker.
func (c *queendConsumer) scan(body []byte, in *intake) (n int, err error) {
	lease, _, ok := between(body, leaseKey)
	if !ok {
		return 0, fmt.Errorf("%w: %.300s", errAnswer, body)
	}
	c.body = append(c.body[:0], `{"consumerGroup":"`+loadGroup+`","acknowledgments":[`...)
	for {
		txn, rest, ok := between(body, txnKey)
		if !ok {
			break
		}
		data := bytes.Index(rest, dataKey)
		if data < 0 || len(rest) < data+len(dataKey)+payloadBytes {
			return 0, fmt.Errorf("%w: %.300s", errAnswer, body)
		}
		rest = rest[data+len(dataKey):]
		payload := rest[:payloadBytes]
		partition, rest, ok := between(rest[payloadBytes:], partitionIDKey)
		if !ok {
			return 0, fmt.Errorf("%w: %.300s", errAnswer, body)
		}
		if err := in.message(payload); err != nil {
			return 0, err
		}
		if n > 0 {
			c.body = append(c.body, ',')
		}
		c.body = append(append(c.body, `{"transactionId":"`...), txn...)
		c.body = append(append(c.body, `","partitionId":"`...), partition...)
		c.body = append(append(c.body, `","leaseId":"`...), lease...)
		c.body = append(c.body, `","status":"completed"}`...)
		n++
		body = rest
	}
	c.body = append(c.body, "]}"...)
	if n == 0 {
		return 0, fmt.Errorf("%w: %.300s", errAnswer, body)
	}
	return n, nil
}

// between returns the text from key to the next quote, and what follows.
func between(text, key []byte) (value, rest []byte, ok bool) {
	at := bytes.Index(text, key)
	if at < 0 {
		return nil, nil, false
	}
	text = text[at+len(key):]
	end := bytes.IndexByte(text, '"')
	if end < 0 {
		return nil, nil, false
	}
	return text[:end], text[end:], true
}

// audit pops every partition as another group.
func (q *queend) audit(ctx context.Context, lanes int, message func([]byte) error) error {
	c := caller{target: q.process.target}
	defer c.close()
	for lane := range lanes {
		path := "/api/v1/pop/queue/" + q.queue + "/partition/" + laneName(lane) + "?autoAck=true&batch=10000&consumerGroup=audit&subscriptionMode=all"
		for {
			status, body, err := c.call(ctx, "GET", path, nil)
			if err != nil {
				return err
			}
			if status == 204 {
				break
			}
			if status != 200 {
				return &statusError{"GET " + path, status, string(body)}
			}
			if err := eachPayload(body, message); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachPayload gives the payloads of a pop in their order.
func eachPayload(body []byte, message func([]byte) error) error {
	for {
		at := bytes.Index(body, dataKey)
		if at < 0 {
			return nil
		}
		body = body[at+len(dataKey):]
		if len(body) < payloadBytes {
			return fmt.Errorf("%w: %.300s", errAnswer, body)
		}
		if err := message(body[:payloadBytes]); err != nil {
			return err
		}
		body = body[payloadBytes:]
	}
}

// dataDir is where the broker keeps its files.
func (p *process) dataDir() string { return filepath.Join(p.dir, "data") }
