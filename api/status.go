package api

import (
	"context"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"queend/broker"
)

// liveness answers GET /status: it touches nothing.
func (r *request) liveness() {
	r.json(fasthttp.StatusOK, func(dst []byte) []byte { return append(dst, `{"status":"ok","engine":"queend"}`...) })
}

// throughput is one bucket of GET /api/v1/status.
type throughput struct {
	At           bucketTime `json:"timestamp"`
	Ingested     int64      `json:"ingested"`
	Processed    int64      `json:"processed"`
	Popped       int64      `json:"popMessages"`
	IngestedRate two        `json:"ingestedPerSecond"`
	DoneRate     two        `json:"processedPerSecond"`
	PoppedRate   two        `json:"popPerSecond"`
	lags
	AckFailed    int64  `json:"ackFailed"`
	DeadLetters  *int64 `json:"dlqCount"` // not kept by time: always null
	Empty        int64  `json:"popEmpty"`
	Transactions int64  `json:"transactions"`
}

func (w *window) throughputOf(points []broker.TrafficPoint) []throughput {
	out := make([]throughput, len(points))
	for i := range points {
		t := &points[i].Traffic
		out[i] = throughput{
			At: bucketTime(points[i].At), Ingested: t.PushMessages, Processed: consumed(t), Popped: t.PopMessages,
			IngestedRate: w.perSecond(t.PushMessages), DoneRate: w.perSecond(consumed(t)), PoppedRate: w.perSecond(t.PopMessages),
			lags: lagsOf(t), AckFailed: t.AckFailed, Empty: t.PopEmpty, Transactions: t.Transactions,
		}
	}
	return out
}

// byOperation is a figure of each data operation; null where it is not kept
// by queue.
type byOperation[T any] struct {
	Push T `json:"push"`
	Pop  T `json:"pop"`
	Ack  T `json:"ack"`
}

// statusMessages are the counts with what led to them.
type statusMessages struct {
	counts
	Requests   byOperation[*int64] `json:"requests"`
	Efficiency byOperation[*two]   `json:"batchEfficiency"` // messages per request
}

// statusQueue is a queue in GET /api/v1/status with its traffic in the window.
type statusQueue struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Ingested  int64  `json:"ingested"`
	Processed int64  `json:"processed"`
	Popped    int64  `json:"popMessages"`
	Parked    int    `json:"parkedCount"`
	lags
}

// statusLeases are the leases now; null where that is not counted.
type statusLeases struct {
	Active     *int  `json:"active"`
	Partitions *int  `json:"partitionsWithLeases"`
	BatchSize  int64 `json:"totalBatchSize"`
	Acked      int64 `json:"totalAcked"`
}

// statusErrors are what went wrong in the window, dead letters as of now.
type statusErrors struct {
	Store       int   `json:"dbErrors"` // a store that fails ends the process
	AckFailed   int64 `json:"ackFailed"`
	DeadLetters int   `json:"dlqMessages"`
}

// statusPage is the answer of GET /api/v1/status.
type statusPage struct {
	TimeRange   timeRange      `json:"timeRange"`
	Minutes     int64          `json:"bucketMinutes"`
	Points      int            `json:"pointCount"`
	Throughput  []throughput   `json:"throughput"`
	Queues      []statusQueue  `json:"queues"`
	Messages    statusMessages `json:"messages"`
	Leases      statusLeases   `json:"leases"`
	DeadLetters deadSummary    `json:"deadLetterQueue"`
	Workers     []worker       `json:"workers"`
	Errors      statusErrors   `json:"errors"`
	Age         int            `json:"statsAge"` // figures are taken for the answer
}

// status answers GET /api/v1/status.
func (r *request) status() {
	w := r.readWindow(broker.Hour)
	series, ok := r.readTraffic(&w)
	if !ok {
		return
	}
	if r.badQuery() {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	total, err := r.countMessages(ctx)
	if err != nil {
		r.unmanaged(err, "status")
		return
	}
	dead, err := r.summarizeDead(ctx)
	if err != nil {
		r.unmanaged(err, "status")
		return
	}
	points := together(series)
	traffic := totalOf(points)
	page := statusPage{
		TimeRange: w.timeRange(), Minutes: w.minutes, Points: len(points), Throughput: w.throughputOf(points),
		Queues: statusQueuesOf(series), DeadLetters: dead, Workers: []worker{r.server.worker()},
		Leases: statusLeases{BatchSize: total.Processing, Acked: consumed(&traffic)},
		Errors: statusErrors{AckFailed: traffic.AckFailed, DeadLetters: dead.Total},
	}
	page.Messages = statusMessages{
		counts: countsOf(total), Requests: byOperation[*int64]{Push: &traffic.PushRequests, Ack: &traffic.AckRequests},
		Efficiency: byOperation[*two]{
			Push: ratio(traffic.PushMessages, traffic.PushRequests), Ack: ratio(traffic.AckSuccess+traffic.AckFailed, traffic.AckRequests),
		},
	}
	if !r.server.config.Tenancy { // leases are counted for all tenants together
		leases := r.broker.Stats().Leases
		page.Leases.Active = &leases
	}
	r.answer(fasthttp.StatusOK, page)
}

func statusQueuesOf(series []broker.QueueSeries) []statusQueue {
	out := make([]statusQueue, len(series))
	for i := range series {
		q := &series[i]
		t := totalOf(q.Points)
		out[i] = statusQueue{
			Name: q.Name, Namespace: q.Namespace, Task: q.Task, Ingested: t.PushMessages, Processed: consumed(&t),
			Popped: t.PopMessages, Parked: q.Parked, lags: lagsOf(&t),
		}
	}
	return out
}

// chosenQueues are the queues that queue, namespace and task choose.
func (r *request) chosenQueues(ctx context.Context) ([]broker.QueueRow, error) {
	name, namespace, task := r.query.optional("queue"), r.query.text("namespace", ""), r.query.text("task", "")
	rows, err := r.broker.Queues(ctx, r.tenant)
	return slices.DeleteFunc(rows, func(q broker.QueueRow) bool {
		return name != nil && q.Name != *name || namespace != "" && q.Namespace != namespace || task != "" && q.Task != task
	}), err
}

// countMessages adds the messages of these queues up.
func (r *request) countMessages(ctx context.Context) (total broker.MessageCounts, err error) {
	rows, err := r.chosenQueues(ctx)
	for i := range rows {
		c := &rows[i].Counts
		total.Total += c.Total
		total.Pending += c.Pending
		total.Processing += c.Processing
		total.Completed += c.Completed
		total.DeadLetter += c.DeadLetter
	}
	return total, err
}

// worker is the one process there is, as one of the many of a cluster.
type worker struct {
	ID       int    `json:"workerId"`
	Hostname string `json:"hostname"`
	Uptime   int64  `json:"uptimeSeconds"`
	RSS      int64  `json:"memoryBytes"`
}

func (s *Server) worker() worker {
	return worker{0, s.hostname, int64(s.uptime() / time.Second), residentMemory()}
}

// analyticsPoint is what was pushed in one bucket.
type analyticsPoint struct {
	At       bucketTime `json:"timestamp"`
	Messages int64      `json:"messages"`
}

// analyticsPage is the answer of GET /api/v1/status/analytics.
type analyticsPage struct {
	Points   []analyticsPoint `json:"dataPoints"`
	Interval string           `json:"interval"`
	From     instant          `json:"from"`
	To       instant          `json:"to"`
}

// statusAnalytics answers GET /api/v1/status/analytics.
func (r *request) statusAnalytics() {
	interval, minutes := "hour", int64(60)
	switch r.query.text("interval", "") {
	case "minute":
		interval, minutes = "minute", 1
	case "day":
		interval, minutes = "day", 1440
	}
	w := r.readWindow(broker.Day)
	w.minutes = minutes
	series, ok := r.readTraffic(&w)
	if !ok {
		return
	}
	buckets := together(series)
	if r.badQuery() {
		return
	}
	points := make([]analyticsPoint, len(buckets))
	for i := range buckets {
		points[i] = analyticsPoint{bucketTime(buckets[i].At), buckets[i].PushMessages}
	}
	r.answer(fasthttp.StatusOK, analyticsPage{points, interval, instant(w.from), instant(w.to)})
}

// buffersPage is the answer of GET /api/v1/status/buffers.
type buffersPage struct {
	Pending int64 `json:"pending"`
	Failed  int64 `json:"failed"`
	Healthy bool  `json:"dbHealthy"`
	Worker  int   `json:"worker"`
}

// statusBuffers answers GET /api/v1/status/buffers.
func (r *request) statusBuffers() {
	s := r.broker.Stats().Spool
	r.answer(fasthttp.StatusOK, buffersPage{s.Buffered, s.FailedFiles, s.Healthy, 0})
}

// statsRefreshed is the answer of POST /api/v1/stats/refresh.
type statsRefreshed struct {
	Success bool    `json:"success"`
	At      instant `json:"timestamp"`
}

// refreshStats answers POST /api/v1/stats/refresh. Figures are always fresh.
func (r *request) refreshStats() {
	r.answer(fasthttp.StatusOK, statsRefreshed{true, instant(r.server.now())})
}
