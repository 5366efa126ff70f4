package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// api begins the path of every route here.
func api(segments ...string) string { return "/api/v1" + Path(segments...) }

// Queue is a line of the listing of queues.
type Queue struct {
	Name          string
	Namespace     string
	Task          string
	Partitions    int64
	RetainedBytes int64
	Messages      struct{ Total, Pending, Processing int64 }
}

// QueueDetail is one queue.
type QueueDetail struct {
	Name       string
	Namespace  string
	Task       string
	Options    json.RawMessage
	Partitions []Partition
}

// Partition is one partition of a QueueDetail.
type Partition struct {
	ID, Name string
	Stats    struct {
		Total, Pending, Processing, DeadLetter int64
	}
	OldestMessage, NewestMessage *string
}

// Queues lists all queues.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	var out struct{ Queues []Queue }
	err := c.Get(ctx, api("resources", "queues"), nil, &out)
	return out.Queues, err
}

// Queue reads one queue.
func (c *Client) Queue(ctx context.Context, name string) (QueueDetail, error) {
	var out QueueDetail
	err := c.Get(ctx, api("resources", "queues", name), nil, &out)
	return out, err
}

// Group is a consumer group on a queue.
type Group struct {
	Name              string
	QueueName         string
	PartitionCursors  int64
	PartitionsWithLag int64
	TotalLag          int64
	MaxTimeLag        float64
	State             string
	SubscriptionMode  string
	Conflation        bool
	Consumers         int64

	SubscriptionTimestamp string // "" when it reads from the beginning
}

// GroupOnQueue is how far a group is on one queue.
type GroupOnQueue struct {
	Partitions []struct {
		Partition string
		OffsetLag int64
	}
}

// Groups lists all groups.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	var out []Group
	err := c.Get(ctx, api("consumer-groups"), nil, &out)
	return out, err
}

// Group reads how far a group is, by queue.
func (c *Client) Group(ctx context.Context, name string) (map[string]GroupOnQueue, error) {
	var out map[string]GroupOnQueue
	err := c.Get(ctx, api("consumer-groups", name), nil, &out)
	return out, err
}

// DeadLetter is a dead letter.
type DeadLetter struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	ConsumerGroup string          `json:"consumerGroup"`
	ErrorMessage  string          `json:"errorMessage"`
	RetryCount    int64           `json:"retryCount"`
	Data          json.RawMessage `json:"data"`
	FailedAt      string          `json:"failedAt"`
	Headers       json.RawMessage `json:"headers,omitempty"`

	// Not every server says these.
	Offset     *int64  `json:"offset,omitempty"`
	EnqueuedAt string  `json:"enqueuedAt,omitempty"`
	Attempts   int64   `json:"attempts,omitempty"`
	Producer   *string `json:"originalProducerSub,omitempty"`
}

// DeadLetters is a page of them.
type DeadLetters struct {
	Messages   []DeadLetter
	TotalCount int64
}

// Filter chooses dead letters of a queue, which may have the empty name. Other
// empty fields choose all.
type Filter struct {
	Queue         string `json:"queue"`
	ConsumerGroup string `json:"consumerGroup,omitempty"`
	Partition     string `json:"partition,omitempty"`
	ErrorContains string `json:"errorContains,omitempty"`
	From          string `json:"from,omitempty"`
	To            string `json:"to,omitempty"`
}

func (f *Filter) query() url.Values {
	q := url.Values{"queue": {f.Queue}}
	for name, value := range map[string]string{
		"consumerGroup": f.ConsumerGroup, "partition": f.Partition,
		"errorContains": f.ErrorContains, "from": f.From, "to": f.To,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// DeadLetters lists dead letters, newest failure first.
func (c *Client) DeadLetters(ctx context.Context, f Filter, limit, offset int) (DeadLetters, error) {
	q := f.query()
	q.Set("limit", strconv.Itoa(limit))
	q.Set("offset", strconv.Itoa(offset))
	var out DeadLetters
	err := c.Get(ctx, api("dlq"), q, &out)
	return out, err
}

// Replay is the outcome of a bulk replay.
type Replay struct {
	Matched    int64 `json:"matched"`
	Replayed   int64 `json:"replayed"`
	Duplicates int64 `json:"duplicates"`
	Failed     int64 `json:"failed"`
	Remaining  int64 `json:"remaining"`
}

// Replay moves up to limit dead letters back, oldest first.
func (c *Client) Replay(ctx context.Context, f Filter, limit int, dryRun bool) (Replay, error) {
	body := struct {
		Filter
		Limit  int  `json:"limit"`
		DryRun bool `json:"dryRun"`
	}{f, limit, dryRun}
	var out Replay
	err := c.Post(ctx, api("dlq", "replay"), body, &out)
	return out, err
}

// Purge deletes dead letters and returns how many.
func (c *Client) Purge(ctx context.Context, f Filter) (int64, error) {
	var out struct{ Deleted int64 }
	err := c.decode(ctx, http.MethodDelete, api("dlq"), f.query(), nil, &out)
	return out.Deleted, err
}

// Import is what an import makes of a queue beside its messages.
type Import struct {
	Queue   string           `json:"queue"`
	Groups  []ImportedGroup  `json:"groups,omitempty"`
	Letters []ImportedLetter `json:"deadLetters,omitempty"`
}

// ImportedGroup is a group with its cursors.
type ImportedGroup struct {
	Name       string   `json:"name"`
	Mode       string   `json:"mode,omitempty"`
	Start      string   `json:"start,omitempty"`
	Conflation bool     `json:"conflation,omitempty"`
	Cursors    []Cursor `json:"cursors,omitempty"`
}

// Cursor is the first message of a partition that a group is not done with.
type Cursor struct {
	Partition string `json:"partition"`
	Next      int64  `json:"next"`
}

// ImportedLetter is a dead letter.
type ImportedLetter struct {
	ID            string          `json:"id,omitempty"`
	Partition     string          `json:"partition"`
	ConsumerGroup string          `json:"consumerGroup"`
	Offset        *int64          `json:"offset,omitempty"`
	TransactionID string          `json:"transactionId"`
	Producer      *string         `json:"producerSub,omitempty"`
	Payload       json.RawMessage `json:"payload"`
	Headers       json.RawMessage `json:"headers,omitempty"`
	ErrorMessage  string          `json:"errorMessage"`
	RetryCount    int64           `json:"retryCount"`
	Attempts      int64           `json:"attempts"`
	EnqueuedAt    string          `json:"enqueuedAt,omitempty"`
}

// Imported counts what an import made, and what was known already.
type Imported struct {
	Groups, Cursors, DeadLetters, Known int
}

// Import makes groups, cursors and dead letters of a queue.
func (c *Client) Import(ctx context.Context, in Import) (Imported, error) {
	var out Imported
	err := c.Post(ctx, Path("internal", "import"), in, &out)
	return out, err
}

// Item is a message to push.
type Item struct {
	Queue         string            `json:"queue"`
	Partition     string            `json:"partition,omitempty"`
	TransactionID string            `json:"transactionId,omitempty"`
	Payload       json.RawMessage   `json:"payload"`
	Headers       map[string]string `json:"headers,omitempty"`
}

// Pushed is what became of an item.
type Pushed struct {
	Index         int    `json:"index"`
	MessageID     string `json:"message_id"`
	TransactionID string `json:"transaction_id"`
	QueueName     string `json:"queueName"`
	Status        string `json:"status"`
	Offset        *int64 `json:"offset,omitempty"`
	Error         string `json:"error,omitempty"`
}

// Push pushes items.
func (c *Client) Push(ctx context.Context, items []Item) ([]Pushed, error) {
	var out []Pushed
	err := c.Post(ctx, api("push"), map[string]any{"items": items}, &out)
	return out, err
}

// Message is a message as pop and the listing give it.
type Message struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	PartitionID   string          `json:"partitionId"`
	Partition     string          `json:"partition"`
	Queue         string          `json:"queue"`
	Offset        int64           `json:"offset"`
	CreatedAt     string          `json:"createdAt"`
	Status        string          `json:"status,omitempty"`
	LeaseID       string          `json:"leaseId,omitempty"`
	Attempt       int64           `json:"deliveryAttempt,omitempty"`
	Headers       json.RawMessage `json:"headers,omitempty"`
	Data          json.RawMessage `json:"data"`
}

// Messages lists the newest messages of a queue, newest first. partition and
// status may be empty.
func (c *Client) Messages(ctx context.Context, queue, partition, status string, limit int) ([]Message, error) {
	q := url.Values{"queue": {queue}, "from": {"1970-01-01"}, "limit": {strconv.Itoa(limit)}}
	if partition != "" {
		q.Set("partition", partition)
	}
	if status != "" {
		q.Set("status", status)
	}
	var out struct{ Messages []Message }
	err := c.Get(ctx, api("messages"), q, &out)
	return out.Messages, err
}

// Pop says what a pop asks for. Zero values are left to the broker.
type Pop struct {
	Queue, Partition, Group, Mode string
	Batch, Partitions             int
	Wait                          time.Duration
	LeaseSeconds                  int
	AutoAck                       bool
}

// Pop claims messages.
func (c *Client) Pop(ctx context.Context, p Pop) ([]Message, error) {
	path := []string{"pop", "queue", p.Queue}
	if p.Partition != "" {
		path = append(path, "partition", p.Partition)
	}
	q := url.Values{}
	for name, n := range map[string]int{"batch": p.Batch, "partitions": p.Partitions, "leaseSeconds": p.LeaseSeconds} {
		if n > 0 {
			q.Set(name, strconv.Itoa(n))
		}
	}
	for name, text := range map[string]string{"consumerGroup": p.Group, "subscriptionMode": p.Mode} {
		if text != "" {
			q.Set(name, text)
		}
	}
	if p.Wait > 0 {
		q.Set("wait", "true")
		q.Set("timeout", strconv.FormatInt(p.Wait.Milliseconds(), 10))
	}
	if p.AutoAck {
		q.Set("autoAck", "true")
	}
	var out struct{ Messages []Message }
	err := c.Get(ctx, api(path...), q, &out)
	return out.Messages, err
}

// Position is a place to read a partition from.
type Position struct {
	Queue     string `json:"queue"`
	Partition string `json:"partition"`
	Offset    int64  `json:"offset"`
	MaxBytes  int64  `json:"maxBytes,omitempty"`
}

// Record is a message read by offset.
type Record struct {
	Offset        int64           `json:"offset"`
	TransactionID string          `json:"transactionId"`
	Payload       json.RawMessage `json:"payload"`
	Time          string          `json:"ts"`
	Headers       json.RawMessage `json:"headers,omitempty"`
}

// Fetched is what was read at a Position. Error is a word of the broker's.
type Fetched struct {
	Queue, Partition string
	Records          []Record
	HighWatermark    int64
	LogStartOffset   int64
	Error            string
}

// Fetch reads by offset, and waits until there is something for at most wait.
func (c *Client) Fetch(ctx context.Context, from []Position, wait time.Duration) ([]Fetched, error) {
	body := map[string]any{"entries": from}
	if wait > 0 {
		body["maxWaitMs"], body["minBytes"] = wait.Milliseconds(), 1
	}
	var out struct{ Entries []Fetched }
	err := c.Post(ctx, api("fetch"), body, &out)
	return out.Entries, err
}

// Overview is the state of everything.
type Overview struct {
	Queues, Partitions int64
	Messages           struct{ Total, Pending, Processing, DeadLetter int64 }
	Throughput         struct{ IngestedPerSecond, ProcessedPerSecond float64 }
}

// Overview reads it.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	var out Overview
	err := c.Get(ctx, api("resources", "overview"), nil, &out)
	return out, err
}

// Work is what a queue carried since a time.
type Work struct {
	QueueName                 string
	PushMessages, PopMessages int64
}

// Workload reads what queues carried since a time, by name.
func (c *Client) Workload(ctx context.Context, since time.Time) (map[string]Work, error) {
	var out struct{ Queues []Work }
	q := url.Values{"from": {since.UTC().Format(time.RFC3339)}}
	err := c.Get(ctx, api("analytics", "workload"), q, &out)
	byName := map[string]Work{}
	for _, w := range out.Queues {
		byName[w.QueueName] = w
	}
	return byName, err
}
