package main

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// loadQueue is the queue that measured messages go to.
const loadQueue = "bench"

// pusherHTTP is the part of the broker and the floor that takes pushes.
type pusherHTTP struct {
	process *process
	queue   string
	ids     ids
}

func (p *pusherHTTP) server() *process { return p.process }

func (p *pusherHTTP) close() {}

func (p *pusherHTTP) producer(ctx context.Context, batch int) (producer, error) {
	return p.producerTo(ctx, p.queue, batch)
}

// producerTo connects a producer that pushes to a queue.
func (p *pusherHTTP) producerTo(ctx context.Context, queue string, batch int) (*httpProducer, error) {
	addr, err := p.process.target.wait(ctx)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	h := &httpProducer{conn: c, ids: p.ids}
	h.prepare(queue, batch)
	return h, nil
}

// httpProducer is one connection with a request that has holes for what changes.
type httpProducer struct {
	conn     *conn
	ids      ids
	request  []byte
	lanes    []int // where the names of the partitions stand in request
	txns     []int // the transaction ids
	payloads []int
}

var queuedWord = []byte(`"status":"queued"`)

// prepare makes the request.
func (h *httpProducer) prepare(queue string, batch int) {
	body := []byte(`{"items":[`)
	for i := range batch {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"queue":"`+queue+`","partition":"p`...)
		h.lanes = append(h.lanes, len(body))
		body = append(body, laneName(0)[1:]+`","transactionId":"`...)
		h.txns = append(h.txns, len(body))
		body = append(body, idHole+`","payload":`...)
		h.payloads = append(h.payloads, len(body))
		body = append(append(body, payloadText...), '}')
	}
	body = append(body, "]}"...)
	h.request = appendRequest(nil, "POST", "/api/v1/push", body)
	head := len(h.request) - len(body)
	for i := range batch {
		h.lanes[i] += head
		h.txns[i] += head
		h.payloads[i] += head
	}
}

func (h *httpProducer) push(items []slot, at int64) error {
	status, body, err := h.send(items, at)
	if err != nil {
		return err
	}
	if status != 201 || bytes.Count(body, queuedWord) != len(items) {
		return fmt.Errorf("a push of %d was answered %d: %.300s", len(items), status, body)
	}
	return nil
}

// send pushes the items and returns the answer, which is valid until the next one.
func (h *httpProducer) send(items []slot, at int64) (status int, body []byte, err error) {
	if len(items) != len(h.lanes) {
		return 0, nil, fmt.Errorf("%d items for a batch of %d", len(items), len(h.lanes))
	}
	nowMS := time.Now().UnixMilli()
	for i, s := range items {
		putDecimal(h.request[h.lanes[i]:h.lanes[i]+laneDigits], s.lane)
		h.ids.put(h.request[h.txns[i]:], s, nowMS)
		fillPayload(h.request[h.payloads[i]:], s, at)
	}
	_ = h.conn.net.SetDeadline(time.Now().Add(callLimit)) // fails on a closed connection only, as the push then does
	return h.conn.roundTrip(h.request)
}

func (h *httpProducer) close() { h.conn.close() }
