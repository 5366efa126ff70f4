package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// statusError is an answer of another status than the one asked for.
type statusError struct {
	request string
	status  int
	body    string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %d: %.300s", e.request, e.status, e.body)
}

// uncertain reports whether a request that ended in err may have been carried
// out all the same.
func uncertain(err error) bool {
	var s *statusError
	if errors.As(err, &s) {
		return s.status == 503
	}
	return errors.Is(err, errLost)
}

// ask sends a request and decodes the answer into answer.
func (c *caller) ask(ctx context.Context, method, path string, body []byte, want int, answer any) error {
	status, text, err := c.call(ctx, method, path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if status != want {
		return &statusError{method + " " + path, status, string(text)}
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s %s: the answer is no JSON of the expected shape: %w: %.300s", method, path, err, text)
	}
	return nil
}

// appendQuoted appends text as a JSON string.
func appendQuoted(dst []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return append(dst, quoted...)
}

// configure sets options of a queue, written as a JSON object.
func (c *caller) configure(ctx context.Context, queue, options string) error {
	body := append(appendQuoted([]byte(`{"queue":`), queue), `,"options":`+options+`}`...)
	var answer struct{ Configured bool }
	err := c.ask(ctx, "POST", "/api/v1/configure", body, 200, &answer)
	if err == nil && !answer.Configured {
		err = fmt.Errorf("configure of %s: not configured", queue)
	}
	return err
}

// pushed is what a push answers about one item.
type pushed struct {
	Index         int    `json:"index"`
	MessageID     string `json:"message_id"`
	TransactionID string `json:"transaction_id"`
	Queue         string `json:"queueName"`
	Status        string `json:"status"`
	Offset        *int64 `json:"offset"`
	Error         string `json:"error"`
}

// push sends the records in one request. There is one answer for each.
func (c *caller) push(ctx context.Context, records []record) ([]pushed, error) {
	body := []byte(`{"items":[`)
	for i, r := range records {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendQuoted(append(body, `{"queue":`...), r.queue)
		body = appendQuoted(append(body, `,"partition":`...), r.partition)
		body = appendQuoted(append(body, `,"transactionId":`...), r.id)
		body = append(append(append(body, `,"payload":`...), r.payload...), '}')
	}
	var answers []pushed
	if err := c.ask(ctx, "POST", "/api/v1/push", append(body, `]}`...), 201, &answers); err != nil {
		return nil, err
	}
	if len(answers) != len(records) {
		return nil, fmt.Errorf("a push of %d items has %d answers", len(records), len(answers))
	}
	for i, a := range answers {
		if a.Index != i || a.TransactionID != records[i].id || a.Queue != records[i].queue {
			return nil, fmt.Errorf("answer %d of a push is about item %d, %s in queue %s; it must be %s in %s",
				i, a.Index, a.TransactionID, a.Queue, records[i].id, records[i].queue)
		}
		if a.Status != "queued" && a.Status != "duplicate" || a.Offset == nil {
			return nil, fmt.Errorf("the push of %s was answered %+v", a.TransactionID, a)
		}
	}
	return answers, nil
}

// delivered is one message of a pop.
type delivered struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	Data          json.RawMessage `json:"data"`
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	PartitionID   string          `json:"partitionId"`
	Offset        int64           `json:"offset"`
	LeaseID       string          `json:"leaseId"`
}

// popOptions are the parameters of a pop.
type popOptions struct {
	queue, group      string
	batch, partitions int
	leaseSeconds      int // 0 is the queue's own
	waitMS            int // 0 does not wait
}

// pop takes messages; an empty answer is no message and no error.
func (c *caller) pop(ctx context.Context, o popOptions) ([]delivered, error) {
	path := "/api/v1/pop/queue/" + url.PathEscape(o.queue) + "?subscriptionMode=all&consumerGroup=" + url.QueryEscape(o.group) +
		"&batch=" + strconv.Itoa(o.batch) + "&partitions=" + strconv.Itoa(o.partitions)
	if o.leaseSeconds > 0 {
		path += "&leaseSeconds=" + strconv.Itoa(o.leaseSeconds)
	}
	if o.waitMS > 0 {
		path += "&wait=true&timeout=" + strconv.Itoa(o.waitMS)
	}
	var answer struct{ Messages []delivered }
	err := c.ask(ctx, "GET", path, nil, 200, &answer)
	var s *statusError
	if errors.As(err, &s) && s.status == 204 {
		return nil, nil
	}
	if err == nil && len(answer.Messages) == 0 {
		err = fmt.Errorf("GET %s: 200 without a message", path)
	}
	return answer.Messages, err
}

// byPartition cuts the messages of one pop where the partition changes.
func byPartition(messages []delivered) [][]delivered {
	var runs [][]delivered
	start := 0
	for i := 1; i <= len(messages); i++ {
		if i == len(messages) || messages[i].PartitionID != messages[start].PartitionID {
			runs = append(runs, messages[start:i])
			start = i
		}
	}
	return runs
}

// ackItem is what a worker says about one message.
type ackItem struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	LeaseID       string `json:"leaseId"`
	Status        string `json:"status"`
	Error         string `json:"error,omitempty"`
}

// acked is what an ack answers about one item.
type acked struct {
	Index         int     `json:"index"`
	TransactionID string  `json:"transactionId"`
	Success       bool    `json:"success"`
	Error         *string `json:"error"`
	LeaseReleased bool    `json:"leaseReleased"`
	DLQ           bool    `json:"dlq"`
	Dropped       bool    `json:"dropped"`
	Noop          bool    `json:"noop"`
}

func (a acked) String() string {
	text := "-"
	if a.Error != nil {
		text = *a.Error
	}
	return fmt.Sprintf("ack of %s: success=%v error=%q released=%v dlq=%v dropped=%v noop=%v",
		a.TransactionID, a.Success, text, a.LeaseReleased, a.DLQ, a.Dropped, a.Noop)
}

// ack sends the items in one request. There is one answer for each.
func (c *caller) ack(ctx context.Context, group string, items []ackItem) ([]acked, error) {
	body, err := json.Marshal(struct {
		Group string    `json:"consumerGroup"`
		Acks  []ackItem `json:"acknowledgments"`
	}{group, items})
	if err != nil {
		return nil, err
	}
	var answers []acked
	if err := c.ask(ctx, "POST", "/api/v1/ack/batch", body, 200, &answers); err != nil {
		return nil, err
	}
	if len(answers) != len(items) {
		return nil, fmt.Errorf("an ack of %d items has %d answers", len(items), len(answers))
	}
	for i, a := range answers {
		if a.Index != i || a.TransactionID != items[i].TransactionID {
			return nil, fmt.Errorf("answer %d of an ack is about item %d, %s; it must be %s", i, a.Index, a.TransactionID, items[i].TransactionID)
		}
	}
	return answers, nil
}

// deadLetter is one row of the dead letters.
type deadLetter struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	Group         string          `json:"consumerGroup"`
	Error         string          `json:"errorMessage"`
	RetryCount    int64           `json:"retryCount"`
	Offset        int64           `json:"offset"`
	Data          json.RawMessage `json:"data"`
}

// letterPage is how many dead letters one listing asks for.
const letterPage = 500

// deadLetters lists all dead letters of a queue, page by page.
func (c *caller) deadLetters(ctx context.Context, queue string) ([]deadLetter, error) {
	var all []deadLetter
	for {
		path := fmt.Sprintf("/api/v1/dlq?queue=%s&limit=%d&offset=%d", url.QueryEscape(queue), letterPage, len(all))
		var answer struct {
			Messages []deadLetter
			Total    int
			Count    int `json:"totalCount"`
		}
		if err := c.ask(ctx, "GET", path, nil, 200, &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Messages...)
		if len(answer.Messages) == 0 || len(all) >= answer.Count {
			if len(all) != answer.Count {
				return nil, fmt.Errorf("queue %s lists %d dead letters and counts %d", queue, len(all), answer.Count)
			}
			return all, nil
		}
	}
}

// replay moves a dead letter back to its partition and returns where it is now.
func (c *caller) replay(ctx context.Context, id string) (pushed, error) {
	var answer struct {
		Success bool   `json:"success"`
		Removed bool   `json:"dlqRowRemoved"`
		As      pushed `json:"replayedAs"`
	}
	if err := c.ask(ctx, "POST", "/api/v1/dlq/"+url.PathEscape(id)+"/replay", []byte("{}"), 200, &answer); err != nil {
		return pushed{}, err
	}
	if !answer.Success || !answer.Removed || answer.As.Status != "queued" {
		return pushed{}, fmt.Errorf("the replay of dead letter %s was answered %+v", id, answer)
	}
	return answer.As, nil
}

// pending is how many messages of the queue the group has before it.
func (c *caller) pending(ctx context.Context, queue, group string) (int64, error) {
	var answer struct{ Pending int64 }
	path := "/api/v1/resources/queues/" + url.PathEscape(queue) + "/depth?group=" + url.QueryEscape(group)
	err := c.ask(ctx, "GET", path, nil, 200, &answer)
	return answer.Pending, err
}

// stored is one message as it is read by offset.
type stored struct {
	Offset        int64           `json:"offset"`
	TransactionID string          `json:"transactionId"`
	Payload       json.RawMessage `json:"payload"`
}

// fetchAll reads a whole partition by offset, without lease or cursor.
func (c *caller) fetchAll(ctx context.Context, at address) ([]stored, error) {
	var all []stored
	for {
		body := appendQuoted([]byte(`{"entries":[{"queue":`), at.queue)
		body = appendQuoted(append(body, `,"partition":`...), at.partition)
		body = append(body, fmt.Sprintf(`,"offset":%d,"maxBytes":4194304}]}`, len(all))...)
		var answer struct {
			Entries []struct {
				Records []stored
				High    int64 `json:"highWatermark"`
				Error   string
			}
		}
		if err := c.ask(ctx, "POST", "/api/v1/fetch", body, 200, &answer); err != nil {
			return nil, err
		}
		if len(answer.Entries) != 1 || answer.Entries[0].Error != "" {
			return nil, fmt.Errorf("the fetch of %s from %d was answered %+v", at, len(all), answer)
		}
		e := answer.Entries[0]
		all = append(all, e.Records...)
		if len(e.Records) == 0 || int64(len(all)) >= e.High {
			return all, nil
		}
	}
}
