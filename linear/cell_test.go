package linear

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// cell is one queue and the history of the calls on it.
type cell struct {
	queue string
	model cellModel
	began time.Time

	mu     sync.Mutex
	ops    []*op
	leases map[string]int32 // number by text
	texts  []string         // text by number
	partID [parts]string    // as pops told
	msgs   int              // numbers given
	grants []grant          // of all clients, for wrong and late acks
	ghosts int32            // leases of lost pops
}

// grant is what a client got with a lease, or has from somebody else.
type grant struct {
	lease int32
	group int
	runs  []run
	at    time.Time
}

func (c *cell) now() int64 { return time.Since(c.began).Microseconds() }

// partNames are the partitions of every cell, groupNames the groups.
var (
	partNames  = [parts]string{"a", "b"}
	groupNames = [groups]string{"", "ledger"}
)

func txnText(msg int) string { return "m" + strconv.Itoa(msg) }

func txnNumber(text string) (int, error) { return strconv.Atoi(strings.TrimPrefix(text, "m")) }

// newMsg gives a number that no message has.
func (c *cell) newMsg() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.msgs++
	return c.msgs
}

// leaseNumber is the number of a lease id.
func (c *cell) leaseNumber(text string) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.leases[text]; ok {
		return n
	}
	n := int32(len(c.texts))
	c.leases[text] = n
	c.texts = append(c.texts, text)
	return n
}

func (c *cell) leaseText(n int32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.texts[n]
}

// partitionID is the id of a partition, as a pop told it.
func (c *cell) partitionID(part int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partID[part]
}

// do carries out an operation and records it. An error says that an answer
// cannot be understood.
func (c *cell) do(h *httpClient, o *op, leave time.Duration) error {
	if err := h.connect(); err != nil {
		return err
	}
	o.call = c.now()
	err := c.send(h, o, leave)
	o.ret = c.now()
	if errors.Is(err, errUnsent) {
		return err
	}
	if errors.Is(err, errLost) {
		o.lost, o.ret, o.hungUp = true, -1, leave > 0
	} else if err != nil {
		return fmt.Errorf("%w\n%s", err, o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.kind == opPop && o.lost {
		c.ghosts--
		o.got = c.ghosts
	}
	c.ops = append(c.ops, o)
	return nil
}

// send carries out the call.
func (c *cell) send(h *httpClient, o *op, leave time.Duration) error {
	switch o.kind {
	case opPush:
		return c.push(h, o)
	case opPop:
		return c.pop(h, o, leave)
	case opAck:
		return c.ack(h, o)
	case opExtend:
		var answer struct{ Renewed int }
		_, err := h.call("POST", "/api/v1/lease/"+c.leaseText(o.lease)+"/extend", map[string]any{"seconds": o.seconds}, 0, &answer)
		o.count = answer.Renewed
		return err
	case opRelease:
		var answer struct{ Released int }
		_, err := h.call("DELETE", "/api/v1/lease/"+c.leaseText(o.lease), nil, 0, &answer)
		o.count = answer.Released
		return err
	case opTxn:
		return c.txn(h, o)
	case opRead:
		return c.read(h, o)
	default:
		return c.letters(h, o)
	}
}

func (c *cell) pushItem(m msgRef) map[string]any {
	return map[string]any{"queue": c.queue, "partition": partNames[m.part], "transactionId": txnText(m.msg), "payload": m.msg}
}

func (c *cell) push(h *httpClient, o *op) error {
	var items []map[string]any
	for _, msg := range o.msgs {
		items = append(items, c.pushItem(msgRef{o.part, msg}))
	}
	var answer []struct {
		Status string
		Offset *int32
	}
	if _, err := h.call("POST", "/api/v1/push", map[string]any{"items": items}, 0, &answer); err != nil {
		return err
	}
	if len(answer) != len(items) {
		return fmt.Errorf("a push of %d items has %d answers", len(items), len(answer))
	}
	for _, a := range answer {
		if a.Offset == nil || a.Status != "queued" && a.Status != "duplicate" {
			return fmt.Errorf("push answered %+v", answer)
		}
		o.pushed = append(o.pushed, pushSaid{a.Status == "duplicate", *a.Offset})
	}
	return nil
}

func (c *cell) pop(h *httpClient, o *op, leave time.Duration) error {
	path := "/api/v1/pop/queue/" + url.PathEscape(c.queue)
	if o.part >= 0 {
		path += "/partition/" + partNames[o.part]
	}
	path += fmt.Sprintf("?subscriptionMode=all&consumerGroup=%s&batch=%d&partitions=%d&leaseSeconds=%d&autoAck=%t",
		groupNames[o.group], o.batch, o.partitions, o.seconds, o.auto)
	if o.patient {
		path += fmt.Sprintf("&wait=true&timeout=%d", 150+10*o.batch)
	}
	var answer struct {
		LeaseID  string
		Messages []struct {
			TransactionID, Partition, PartitionID string
			Offset, DeliveryAttempt               int32
			Data                                  int
		}
	}
	if _, err := h.call("GET", path, nil, leave, &answer); err != nil {
		return err
	}
	if answer.LeaseID != "" {
		o.got = c.leaseNumber(answer.LeaseID)
	}
	for i, m := range answer.Messages {
		msg, err := txnNumber(m.TransactionID)
		if err != nil || m.Data != msg {
			return fmt.Errorf("popped %+v", m)
		}
		part := 0
		if m.Partition == partNames[1] {
			part = 1
		}
		if i == 0 || o.runs[len(o.runs)-1].part != part {
			o.runs = append(o.runs, run{part: part, first: m.Offset, attempt: m.DeliveryAttempt})
		}
		r := &o.runs[len(o.runs)-1]
		if m.Offset != r.first+int32(len(r.msgs)/2) || m.DeliveryAttempt != r.attempt {
			return fmt.Errorf("a pop without order: %+v", answer.Messages)
		}
		r.msgs = number(r.msgs, msg)
		c.mu.Lock()
		c.partID[part] = m.PartitionID
		c.mu.Unlock()
	}
	if len(o.runs) > 0 && !o.auto {
		c.mu.Lock()
		c.grants = append(c.grants, grant{o.got, o.group, o.runs, time.Now()})
		c.mu.Unlock()
	}
	return nil
}

// said is an ack item as the broker answers it.
type said struct {
	Success, LeaseReleased, DLQ, Dropped, Noop bool
	Error                                      *string
}

func (s *said) read() ackSaid {
	a := ackSaid{ok: s.Success, released: s.LeaseReleased, dlq: s.DLQ, dropped: s.Dropped, noop: s.Noop}
	if s.Error == nil {
		return a
	}
	switch {
	case strings.HasPrefix(*s.Error, "invalid or expired"):
		a.text = saidLease
	case strings.HasPrefix(*s.Error, "already committed"):
		a.text = saidPassed
	case strings.HasPrefix(*s.Error, "unresolvable"):
		a.text = saidUnresolvable
	default:
		a.text = *s.Error
	}
	return a
}

func (c *cell) ackItem(it ackOne) map[string]any {
	m := map[string]any{"transactionId": txnText(it.msg), "partitionId": c.partitionID(it.part), "status": signalNames[it.signal]}
	if it.lease != 0 {
		m["leaseId"] = c.leaseText(it.lease)
	}
	return m
}

func (c *cell) ack(h *httpClient, o *op) error {
	var items []map[string]any
	for _, it := range o.items {
		items = append(items, c.ackItem(it))
	}
	var answer []said
	body := map[string]any{"consumerGroup": groupNames[o.group], "acknowledgments": items}
	if _, err := h.call("POST", "/api/v1/ack/batch", body, 0, &answer); err != nil {
		return err
	}
	if len(answer) != len(items) {
		return fmt.Errorf("an ack of %d items has %d answers", len(items), len(answer))
	}
	for i := range answer {
		o.said = append(o.said, answer[i].read())
	}
	return nil
}

func (c *cell) txn(h *httpClient, o *op) error {
	var ops []map[string]any
	for _, it := range o.items {
		m := c.ackItem(it)
		m["type"], m["consumerGroup"] = "ack", groupNames[o.group]
		ops = append(ops, m)
	}
	for _, x := range o.pushes {
		m := c.pushItem(x)
		m["type"] = "push"
		ops = append(ops, m)
	}
	body := map[string]any{"operations": ops}
	if len(o.required) > 0 {
		var texts []string
		for _, n := range o.required {
			texts = append(texts, c.leaseText(n))
		}
		body["requiredLeases"] = texts
	}
	var answer struct {
		Success bool
		Reason  string
		Results []said
	}
	if _, err := h.call("POST", "/api/v1/transaction", body, 0, &answer); err != nil {
		return err
	}
	o.ok, o.reason = answer.Success, answer.Reason
	if !o.ok {
		return nil
	}
	if len(answer.Results) != len(ops) {
		return fmt.Errorf("a transaction of %d operations has %d results", len(ops), len(answer.Results))
	}
	for i := range o.items {
		o.said = append(o.said, answer.Results[i].read())
	}
	return nil
}

func (c *cell) read(h *httpClient, o *op) error {
	for {
		var answer struct {
			Entries []struct {
				Records       []struct{ TransactionID string }
				HighWatermark int
				Error         string
			}
		}
		entry := map[string]any{"queue": c.queue, "partition": partNames[o.part], "offset": len(o.log) / 2, "maxBytes": 1 << 20}
		if _, err := h.call("POST", "/api/v1/fetch", map[string]any{"entries": []any{entry}}, 0, &answer); err != nil {
			return err
		}
		if len(answer.Entries) != 1 || answer.Entries[0].Error != "" {
			return fmt.Errorf("fetch answered %+v", answer)
		}
		for _, r := range answer.Entries[0].Records {
			msg, err := txnNumber(r.TransactionID)
			if err != nil {
				return err
			}
			o.log = number(o.log, msg)
		}
		if len(answer.Entries[0].Records) == 0 || len(o.log)/2 >= answer.Entries[0].HighWatermark {
			return nil
		}
	}
}

func (c *cell) letters(h *httpClient, o *op) error {
	var answer struct {
		Messages []struct {
			Partition, ConsumerGroup string
			Offset                   int32
		}
		TotalCount int
	}
	if _, err := h.call("GET", "/api/v1/dlq?limit=10000&queue="+url.QueryEscape(c.queue), nil, 0, &answer); err != nil {
		return err
	}
	if answer.TotalCount != len(answer.Messages) {
		return fmt.Errorf("%d dead letters of %d", len(answer.Messages), answer.TotalCount)
	}
	for _, l := range answer.Messages {
		part, group := 0, 0
		if l.Partition == partNames[1] {
			part = 1
		}
		if l.ConsumerGroup == groupNames[1] {
			group = 1
		}
		o.sum += letterKey(part, group, l.Offset)
	}
	return nil
}
