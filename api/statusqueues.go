package api

import (
	"github.com/valyala/fasthttp"

	"queend/broker"
)

// fiveCounts are the counts without those that failed.
type fiveCounts struct {
	Total      int64 `json:"total"`
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Completed  int64 `json:"completed"`
	DeadLetter int64 `json:"deadLetter"`
}

func fiveCountsOf(c broker.MessageCounts) fiveCounts {
	return fiveCounts{c.Total, c.Pending, c.Processing, c.Completed, c.DeadLetter}
}

// statusQueuesRow is a queue in GET /api/v1/status/queues.
type statusQueuesRow struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Namespace  string     `json:"namespace"`
	Task       string     `json:"task"`
	Created    instant    `json:"createdAt"`
	Partitions int        `json:"partitions"`
	Messages   fiveCounts `json:"messages"`
}

// pagination says which page of a listing it is.
type pagination struct {
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
}

// statusQueuesPage is the answer of GET /api/v1/status/queues.
type statusQueuesPage struct {
	Queues []statusQueuesRow `json:"queues"`
	Page   pagination        `json:"pagination"`
}

// statusQueues answers GET /api/v1/status/queues.
func (r *request) statusQueues() {
	limit, offset := r.query.page(100, 10000)
	ctx, cancel := r.within()
	defer cancel()
	found, err := r.chosenQueues(ctx)
	if r.badQuery() {
		return
	}
	if err != nil {
		r.unmanaged(err, "status")
		return
	}
	found = found[min(offset, len(found)):]
	found = found[:min(limit, len(found))]
	rows := make([]statusQueuesRow, len(found))
	for i := range found {
		q := &found[i]
		rows[i] = statusQueuesRow{q.ID.String(), q.Name, q.Namespace, q.Task, instant(q.Created), q.Partitions, fiveCountsOf(q.Counts)}
	}
	r.answer(fasthttp.StatusOK, statusQueuesPage{rows, pagination{limit, offset}})
}

// statusConfig is what of a queue's options its status shows.
type statusConfig struct {
	LeaseTime       int64 `json:"leaseTime"`
	RetryLimit      int64 `json:"retryLimit"`
	RetryDelay      int64 `json:"retryDelay"`
	TTL             int64 `json:"ttl"`
	MaxSize         int64 `json:"maxQueueSize"`
	DeadLetterQueue bool  `json:"deadLetterQueue"`
}

// statusPartition is a partition in the status of its queue.
type statusPartition struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Created  instant    `json:"createdAt"`
	Messages fiveCounts `json:"messages"`
	Stats    counts     `json:"stats"`
	Cursor   struct {
		Consumed int64 `json:"totalConsumed"`
		Batches  int64 `json:"batchesConsumed"` // not kept: always 0
	} `json:"cursor"`
	Activity *instant `json:"lastActivity"`
	Oldest   *instant `json:"oldestMessage"`
	Newest   *instant `json:"newestMessage"`
}

// statusQueueHead describes the queue itself.
type statusQueueHead struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	Namespace string       `json:"namespace"`
	Task      string       `json:"task"`
	Priority  int64        `json:"priority"`
	Created   instant      `json:"createdAt"`
	Config    statusConfig `json:"config"`
}

// statusTotals have the counts twice: clients of both ages read them.
type statusTotals struct {
	Messages fiveCounts `json:"messages"`
	counts
}

// statusQueuePage is the answer of GET /api/v1/status/queues/:queue.
type statusQueuePage struct {
	Queue      statusQueueHead   `json:"queue"`
	Partitions []statusPartition `json:"partitions"`
	Totals     statusTotals      `json:"totals"`
}

// statusQueue answers GET /api/v1/status/queues/:queue.
func (r *request) statusQueue() {
	withPartitions := r.query.flag("includePartitions", false)
	if r.badQuery() {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	d, err := r.broker.QueueDetail(ctx, r.tenant, r.param("queue"))
	if err != nil {
		r.unmanaged(err, "status")
		return
	}
	o := &d.Values
	partitions := []statusPartition{}
	if withPartitions {
		partitions = statusPartitionsOf(d.Partitions)
	}
	r.answer(fasthttp.StatusOK, statusQueuePage{
		statusQueueHead{d.ID.String(), d.Name, d.Namespace, d.Task, d.Priority, instant(d.Created), statusConfig{
			o.LeaseTime, o.RetryLimit, o.RetryDelay, o.TTL, o.MaxSize, o.DeadLetterQueue || o.DLQAfterMaxRetries,
		}},
		partitions, statusTotals{fiveCountsOf(d.Counts), countsOf(d.Counts)},
	})
}

func statusPartitionsOf(found []broker.PartitionRow) []statusPartition {
	out := make([]statusPartition, len(found))
	for i := range found {
		p := &found[i]
		out[i] = statusPartition{
			ID: p.ID.String(), Name: p.Name, Created: instant(p.Created), Messages: fiveCountsOf(p.Counts), Stats: countsOf(p.Counts),
			Activity: instantOf(p.LastActivity), Oldest: instantOf(p.Oldest), Newest: instantOf(p.Newest),
		}
		out[i].Cursor.Consumed = p.Consumed
	}
	return out
}
