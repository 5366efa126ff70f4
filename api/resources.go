package api

import (
	"context"
	"strconv"

	"github.com/valyala/fasthttp"

	"queend"
	"queend/broker"
)

// queueSegments is what of a queue has left the log.
type queueSegments struct {
	Segments int   `json:"segments"`
	Messages int64 `json:"messages"`
}

// queueRow is a queue in GET /api/v1/resources/queues (docs/rules.md, S5).
type queueRow struct {
	ID            string        `json:"id"`
	Name          string        `json:"name"`
	Namespace     string        `json:"namespace"`
	Task          string        `json:"task"`
	Created       instant       `json:"createdAt"`
	Partitions    int           `json:"partitions"`
	RetainedBytes int64         `json:"retainedBytes"`
	Segments      queueSegments `json:"segments"`
	Messages      struct {
		Total      int64 `json:"total"`
		Pending    int64 `json:"pending"`
		Processing int64 `json:"processing"`
	} `json:"messages"`
}

// queuesPage is the answer of GET /api/v1/resources/queues.
type queuesPage struct {
	Queues []queueRow `json:"queues"`
}

// queues answers GET /api/v1/resources/queues; its filters are ignored.
func (r *request) queues() {
	ctx, cancel := r.within()
	defer cancel()
	found, err := r.broker.Queues(ctx, r.tenant)
	if err != nil {
		r.unmanaged(err, "queues")
		return
	}
	rows := make([]queueRow, len(found))
	for i := range found {
		q := &found[i]
		rows[i] = queueRow{
			ID: q.ID.String(), Name: q.Name, Namespace: q.Namespace, Task: q.Task, Created: instant(q.Created),
			Partitions: q.Partitions, RetainedBytes: q.RetainedBytes, Segments: queueSegments{q.Segments, q.Counts.Total},
		}
		m := &rows[i].Messages
		m.Total, m.Pending, m.Processing = q.Counts.Total, q.Counts.Pending, q.Counts.Processing
	}
	r.answer(fasthttp.StatusOK, queuesPage{rows})
}

// counts are the six figures of messages. Failed is not measured: a failed
// message is pending again or a dead letter.
type counts struct {
	Total      int64  `json:"total"`
	Pending    int64  `json:"pending"`
	Processing int64  `json:"processing"`
	Completed  int64  `json:"completed"`
	Failed     *int64 `json:"failed"`
	DeadLetter int64  `json:"deadLetter"`
}

func countsOf(c broker.MessageCounts) counts {
	return counts{
		Total: c.Total, Pending: c.Pending, Processing: c.Processing, Completed: c.Completed, DeadLetter: c.DeadLetter,
	}
}

// queuePartition is a partition in the detail of its queue.
type queuePartition struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Created instant  `json:"createdAt"`
	Stats   counts   `json:"stats"`
	Oldest  *instant `json:"oldestMessage"`
	Newest  *instant `json:"newestMessage"`
}

// queueDetailPage is the answer of GET /api/v1/resources/queues/:queue.
type queueDetailPage struct {
	ID            string           `json:"id"`
	Name          string           `json:"name"`
	Namespace     string           `json:"namespace"`
	Task          string           `json:"task"`
	Created       instant          `json:"createdAt"`
	Options       options          `json:"options"`
	Partitions    []queuePartition `json:"partitions"`
	Totals        counts           `json:"totals"`
	RetainedBytes int64            `json:"retainedBytes"`
	Segments      int              `json:"segments"`
}

// queueDetail answers GET /api/v1/resources/queues/:queue.
func (r *request) queueDetail() {
	ctx, cancel := r.within()
	defer cancel()
	d, err := r.broker.QueueDetail(ctx, r.tenant, r.param("queue"))
	if err != nil {
		r.unmanaged(err, "queue")
		return
	}
	partitions := make([]queuePartition, len(d.Partitions))
	for i := range d.Partitions {
		p := &d.Partitions[i]
		partitions[i] = queuePartition{
			ID: p.ID.String(), Name: p.Name, Created: instant(p.Created), Stats: countsOf(p.Counts),
			Oldest: instantOf(p.Oldest), Newest: instantOf(p.Newest),
		}
	}
	r.answer(fasthttp.StatusOK, queueDetailPage{
		d.ID.String(), d.Name, d.Namespace, d.Task, instant(d.Created), d.Options, partitions, countsOf(d.Counts),
		d.RetainedBytes, d.Segments,
	})
}

// options are the options of a queue by their names, in their order.
type options []broker.OptionValue

// MarshalJSON writes them as an object.
func (o options) MarshalJSON() ([]byte, error) { return appendOptions(nil, o), nil }

// queueDepth answers GET /api/v1/resources/queues/:queue/depth.
func (r *request) queueDepth() {
	var group *string
	if name := r.query.text("group", ""); name != "" {
		group = &name
	}
	if r.badQuery() {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	d, err := r.broker.Depth(ctx, r.tenant, r.param("queue"), group)
	if err != nil {
		r.unmanaged(err, "depth")
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte { return appendDepth(dst, d) })
}

// appendDepth is written by hand: a queue may have a million partitions.
func appendDepth(dst []byte, d *broker.Depth) []byte {
	dst = append(dst, `{"queue":`...)
	dst = appendString(dst, d.Queue)
	dst = appendTextOrNull(dst, "group", d.Group)
	dst = appendWaiting(dst, &d.DepthRow)
	dst = appendInt(dst, "partitionsPending", int64(d.PartitionsPending))
	dst = appendInt(dst, "partitionsReady", int64(d.PartitionsReady))
	dst = appendBool(dst, "conflation", d.Conflation)
	dst = appendInt(dst, "effectivePending", d.EffectivePending)
	dst = appendInt(dst, "effectiveReady", d.EffectiveReady)
	dst = appendKey(dst, "partitions")
	dst = appendList(dst, len(d.Partitions), func(dst []byte, i int) []byte {
		dst = append(dst, `{"partition":`...)
		dst = appendString(dst, d.Partitions[i].Partition)
		return append(appendWaiting(dst, &d.Partitions[i]), '}')
	})
	return append(dst, '}')
}

func appendWaiting(dst []byte, d *broker.DepthRow) []byte {
	dst = append(dst, `,"pending":`...)
	dst = strconv.AppendInt(dst, d.Pending, 10)
	dst = appendInt(dst, "processing", d.Processing)
	return appendInt(dst, "ready", d.Ready)
}

// overviewLag sums up how far groups are behind on partitions.
type overviewLag struct {
	Time   spread `json:"time"`
	Offset spread `json:"offset"`
}

// overviewRates are those of the last five minutes.
type overviewRates struct {
	Ingested  two `json:"ingestedPerSecond"`
	Processed two `json:"processedPerSecond"`
}

// overviewPage is the answer of GET /api/v1/resources/overview.
type overviewPage struct {
	Queues     int           `json:"queues"`
	Partitions int           `json:"partitions"`
	Namespaces int           `json:"namespaces"`
	Tasks      int           `json:"tasks"`
	Messages   counts        `json:"messages"`
	Lag        overviewLag   `json:"lag"`
	Throughput overviewRates `json:"throughput"`
	At         instant       `json:"timestamp"`
	Age        int           `json:"statsAge"` // figures are taken for the answer
}

// overview answers GET /api/v1/resources/overview.
func (r *request) overview() {
	ctx, cancel := r.within()
	defer cancel()
	o, err := r.broker.Overview(ctx, r.tenant)
	if err != nil {
		r.unmanaged(err, "overview")
		return
	}
	r.answer(fasthttp.StatusOK, overviewPage{
		o.Queues, o.Partitions, o.Namespaces, o.Tasks, countsOf(o.Counts),
		overviewLag{spreadOf(o.TimeLag), spreadOf(o.OffsetLag)}, overviewRates{two(o.Ingested), two(o.Processed)}, instant(o.At), 0,
	})
}

// two is a figure written with at most two decimals.
type two float64

// MarshalJSON rounds.
func (v two) MarshalJSON() ([]byte, error) { return appendFloat(nil, float64(v)), nil }

// spread sums up a row of figures.
type spread struct {
	Avg    two `json:"avg"`
	Median two `json:"median"`
	Min    two `json:"min"`
	Max    two `json:"max"`
}

func spreadOf(s broker.Spread) spread {
	return spread{two(s.Avg), two(s.Median), two(s.Min), two(s.Max)}
}

// namespaces answers GET /api/v1/resources/namespaces.
func (r *request) namespaces() { r.labels("namespaces", "namespace", r.broker.Namespaces) }

// tasks answers GET /api/v1/resources/tasks.
func (r *request) tasks() { r.labels("tasks", "task", r.broker.Tasks) }

// labels answers with what carries each namespace or task.
func (r *request) labels(list, name string, read func(context.Context, queend.ID) ([]broker.LabelRow, error)) {
	ctx, cancel := r.within()
	defer cancel()
	rows, err := read(ctx, r.tenant)
	if err != nil {
		r.unmanaged(err, list)
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte {
		dst = append(appendString(append(dst, '{'), list), ':')
		dst = appendList(dst, len(rows), func(dst []byte, i int) []byte {
			dst = append(appendString(append(dst, '{'), name), ':')
			dst = appendString(dst, rows[i].Name)
			dst = appendInt(dst, "queues", int64(rows[i].Queues))
			dst = appendInt(dst, "partitions", int64(rows[i].Partitions))
			dst = strconv.AppendInt(append(dst, `,"messages":{"total":`...), rows[i].Counts.Total, 10)
			return append(appendInt(dst, "pending", rows[i].Counts.Pending), "}}"...)
		})
		return append(dst, '}')
	})
}

// busyPartition is one of the partitions with most pending messages.
type busyPartition struct {
	ID         string   `json:"id"`
	Queue      string   `json:"queue"`
	Partition  string   `json:"partition"`
	Pending    int64    `json:"pending"`
	Processing int64    `json:"processing"`
	Lag        *float64 `json:"lagSeconds"`
}

// busyPartitionsPage is the answer of GET /api/v1/resources/partitions.
type busyPartitionsPage struct {
	Partitions []busyPartition `json:"partitions"`
}

// busyPartitions answers GET /api/v1/resources/partitions.
func (r *request) busyPartitions() {
	queue := r.query.optional("queue")
	limit, _ := r.query.page(610, 10000)
	if r.badQuery() {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	found, err := r.broker.Partitions(ctx, r.tenant, queue, limit)
	if err != nil {
		r.unmanaged(err, "partitions")
		return
	}
	rows := make([]busyPartition, len(found))
	for i, p := range found {
		rows[i] = busyPartition{p.ID.String(), p.Queue, p.Partition, p.Pending, p.Processing, nil}
		if p.Lag != nil {
			lag := secondsOf(*p.Lag)
			rows[i].Lag = &lag
		}
	}
	r.answer(fasthttp.StatusOK, busyPartitionsPage{rows})
}
