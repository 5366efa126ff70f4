package api

import (
	"cmp"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"queend/broker"
)

// analytics are the pages under /api/v1/analytics. What is measured is real;
// what is not is null. History is that of this run of the process.

// queueLagRow is the lag of a queue in one bucket.
type queueLagRow struct {
	Queue  string `json:"queueName"`
	Popped int64  `json:"popCount"`
	lags
	Minutes int64      `json:"bucketMinutes"`
	At      bucketTime `json:"bucketTime"`
}

// queueLag answers GET /api/v1/analytics/queue-lag.
func (r *request) queueLag() {
	w := r.readWindow(broker.Hour)
	series, ok := r.readTraffic(&w)
	if !ok {
		return
	}
	if r.badQuery() {
		return
	}
	rows := []queueLagRow{}
	for i := range series {
		for j := range series[i].Points {
			if p := &series[i].Points[j]; p.PopMessages > 0 {
				rows = append(rows, queueLagRow{series[i].Name, p.PopMessages, lagsOf(&p.Traffic), w.minutes, bucketTime(p.At)})
			}
		}
	}
	r.answer(fasthttp.StatusOK, rows)
}

// queueOps is the traffic of a queue in one bucket.
type queueOps struct {
	At                bucketTime `json:"bucket"`
	Queue             string     `json:"queueName"`
	PushRequests      int64      `json:"pushRequests"`
	PushMessages      int64      `json:"pushMessages"`
	PopMessages       int64      `json:"popMessages"`
	PopEmpty          int64      `json:"popEmpty"`
	AckRequests       int64      `json:"ackRequests"`
	AckSuccess        int64      `json:"ackSuccess"`
	AckFailed         int64      `json:"ackFailed"`
	Transactions      int64      `json:"transactions"`
	PartitionsCreated int64      `json:"partitionsCreated"`
	PartitionsDeleted int64      `json:"partitionsDeleted"`
	Partitions        int        `json:"partitionCount"` // now
	lags
	PushRate  two `json:"pushPerSecond"`
	PopRate   two `json:"popPerSecond"`
	AckRate   two `json:"ackPerSecond"`
	EmptyRate two `json:"emptyPerSecond"`
	Parked    int `json:"parkedCount"` // now
}

func (w *window) opsOf(q *broker.QueueSeries, p *broker.TrafficPoint) queueOps {
	t := &p.Traffic
	return queueOps{
		At: bucketTime(p.At), Queue: q.Name, PushRequests: t.PushRequests, PushMessages: t.PushMessages, PopMessages: t.PopMessages,
		PopEmpty: t.PopEmpty, AckRequests: t.AckRequests, AckSuccess: t.AckSuccess, AckFailed: t.AckFailed,
		Transactions: t.Transactions, PartitionsCreated: t.PartitionsCreated, PartitionsDeleted: t.PartitionsDeleted,
		Partitions: q.Partitions, lags: lagsOf(t), PushRate: w.perSecond(t.PushMessages), PopRate: w.perSecond(t.PopMessages),
		AckRate: w.perSecond(t.AckSuccess + t.AckFailed), EmptyRate: w.perSecond(t.PopEmpty), Parked: q.Parked,
	}
}

// queueOpsPage is the answer of GET /api/v1/analytics/queue-ops.
type queueOpsPage struct {
	TimeRange timeRange  `json:"timeRange"`
	Minutes   int64      `json:"bucketMinutes"`
	Series    []queueOps `json:"series"`
	Queues    []string   `json:"queues"`
}

// queueOps answers GET /api/v1/analytics/queue-ops.
func (r *request) queueOps() {
	w := r.readWindow(broker.Hour)
	series, ok := r.readTraffic(&w)
	if !ok {
		return
	}
	if r.badQuery() {
		return
	}
	rows, names := []queueOps{}, []string{}
	for i := range series {
		names = append(names, series[i].Name)
		for j := range series[i].Points {
			rows = append(rows, w.opsOf(&series[i], &series[i].Points[j]))
		}
	}
	r.answer(fasthttp.StatusOK, queueOpsPage{w.timeRange(), w.minutes, rows, names})
}

// parkedRow is how many pops of a queue wait.
type parkedRow struct {
	At       bucketTime `json:"bucket"`
	Queue    string     `json:"queueName"`
	Hostname string     `json:"hostname"`
	Worker   int        `json:"workerId"`
	Parked   int        `json:"parkedCount"`
}

// replicaRow names the one replica there is.
type replicaRow struct {
	Hostname string `json:"hostname"`
	Worker   int    `json:"workerId"`
}

// parkedPage is the answer of GET /api/v1/analytics/queue-parked-replicas.
type parkedPage struct {
	TimeRange timeRange    `json:"timeRange"`
	Minutes   int64        `json:"bucketMinutes"`
	Series    []parkedRow  `json:"series"`
	Replicas  []replicaRow `json:"replicas"`
}

// parkedReplicas answers GET /api/v1/analytics/queue-parked-replicas: the one
// replica there is, and only what is parked now.
func (r *request) parkedReplicas() {
	w := r.readWindow(broker.Hour)
	series, ok := r.readTraffic(&w)
	if !ok {
		return
	}
	if r.badQuery() {
		return
	}
	now := r.server.now()
	rows := []parkedRow{}
	for i := range series {
		if q := &series[i]; q.Parked > 0 {
			rows = append(rows, parkedRow{bucketTime(now - now%w.step()), q.Name, r.server.hostname, 0, q.Parked})
		}
	}
	r.answer(fasthttp.StatusOK, parkedPage{w.timeRange(), w.minutes, rows, []replicaRow{{r.server.hostname, 0}}})
}

// removed is what retention took away, by rule.
type removed struct {
	Retention int64 `json:"retentionMsgs"`
	Completed int64 `json:"completedRetentionMsgs"`
	Evicted   int64 `json:"evictionMsgs"`
	Total     int64 `json:"totalMsgs"`
	Events    int64 `json:"eventCount"` // buckets in which something went
}

func removedOf(points []broker.TrafficPoint) (m removed) {
	for i := range points {
		t := &points[i].Traffic
		if n := t.RetentionMessages + t.CompletedMessages + t.EvictedMessages; n > 0 {
			m.Total += n
			m.Events++
		}
		m.Retention += t.RetentionMessages
		m.Completed += t.CompletedMessages
		m.Evicted += t.EvictedMessages
	}
	return m
}

// retentionBucket is what retention took in one bucket.
type retentionBucket struct {
	At bucketTime `json:"bucket"`
	removed
}

// retentionPage is the answer of GET /api/v1/analytics/retention.
type retentionPage struct {
	TimeRange timeRange         `json:"timeRange"`
	Minutes   int64             `json:"bucketMinutes"`
	Series    []retentionBucket `json:"series"`
	Totals    removed           `json:"totals"`
	Rows      []retentionRow    `json:"rows,omitzero"`
}

// retention answers GET /api/v1/analytics/retention.
func (r *request) retention() {
	label, ok := groupings[r.query.text("groupBy", "")]
	if !ok {
		r.badRequest("bad groupBy")
		return
	}
	w := r.readWindow(broker.Day)
	series, ok := r.readTraffic(&w)
	if !ok {
		return
	}
	if r.badQuery() {
		return
	}
	points := together(series)
	buckets := []retentionBucket{}
	for i := range points {
		if m := removedOf(points[i : i+1]); m.Total > 0 {
			buckets = append(buckets, retentionBucket{bucketTime(points[i].At), m})
		}
	}
	page := retentionPage{w.timeRange(), w.minutes, buckets, removedOf(points), nil}
	if label != nil {
		page.Rows = retentionRows(series, label)
	}
	r.answer(fasthttp.StatusOK, page)
}

// retentionRow is what retention took from the queues with one label.
type retentionRow struct {
	Name string `json:"name"`
	removed
}

// groupings are what retention may be grouped by.
var groupings = map[string]func(*broker.QueueSeries) string{
	"":          nil,
	"queue":     func(q *broker.QueueSeries) string { return q.Name },
	"namespace": func(q *broker.QueueSeries) string { return q.Namespace },
	"task":      func(q *broker.QueueSeries) string { return q.Task },
}

func retentionRows(series []broker.QueueSeries, label func(*broker.QueueSeries) string) []retentionRow {
	by := map[string][]broker.QueueSeries{}
	for i := range series {
		name := label(&series[i])
		by[name] = append(by[name], series[i])
	}
	rows := []retentionRow{}
	for name, some := range by {
		if m := removedOf(together(some)); m.Total > 0 {
			rows = append(rows, retentionRow{name, m})
		}
	}
	slices.SortFunc(rows, func(x, y retentionRow) int {
		return cmp.Or(cmp.Compare(y.Total, x.Total), cmp.Compare(x.Name, y.Name))
	})
	return rows
}

// workloadRow is what a queue carried in the window.
type workloadRow struct {
	Queue     string `json:"queueName"`
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Pushed    int64  `json:"pushMessages"`
	Popped    int64  `json:"popMessages"`
	Acked     int64  `json:"ackMessages"`
	lags
	Partitions int `json:"partitionCount"`
}

// workloadPage is the answer of GET /api/v1/analytics/workload.
type workloadPage struct {
	TimeRange timeRange     `json:"timeRange"`
	Minutes   int64         `json:"bucketMinutes"`
	Queues    []workloadRow `json:"queues"`
}

// workload answers GET /api/v1/analytics/workload: the queues by what they
// carried in the window, the busiest first.
func (r *request) workload() {
	w := r.readWindow(broker.Hour)
	series, ok := r.readTraffic(&w)
	if !ok {
		return
	}
	if r.badQuery() {
		return
	}
	rows := []workloadRow{}
	for i := range series {
		q := &series[i]
		t := totalOf(q.Points)
		rows = append(rows, workloadRow{q.Name, q.Namespace, q.Task, t.PushMessages, t.PopMessages, t.AckSuccess + t.AckFailed, lagsOf(&t), q.Partitions})
	}
	slices.SortStableFunc(rows, func(x, y workloadRow) int { return cmp.Compare(y.Pushed+y.Popped, x.Pushed+x.Popped) })
	r.answer(fasthttp.StatusOK, workloadPage{w.timeRange(), w.minutes, rows})
}

// livenessRow is the partitions of a queue.
type livenessRow struct {
	Queue   string `json:"queueName"`
	Total   int    `json:"partitionCount"`
	Ready   int    `json:"readyCount"`
	Parked  int    `json:"parkedCount"`
	Created int64  `json:"partitionsCreated"`
	Deleted int64  `json:"partitionsDeleted"`
}

// livenessPage is the answer of GET /api/v1/analytics/partition-liveness.
type livenessPage struct {
	TimeRange timeRange     `json:"timeRange"`
	Queues    []livenessRow `json:"queues"`
}

// partitionLiveness answers GET /api/v1/analytics/partition-liveness: how many
// partitions there are of each queue and how many look ready for somebody.
func (r *request) partitionLiveness() {
	w := r.readWindow(broker.Day)
	series, ok := r.readTraffic(&w)
	if !ok {
		return
	}
	if r.badQuery() {
		return
	}
	rows := []livenessRow{}
	for i := range series {
		q := &series[i]
		t := totalOf(q.Points)
		rows = append(rows, livenessRow{q.Name, q.Partitions, q.Ready, q.Parked, t.PartitionsCreated, t.PartitionsDeleted})
	}
	r.answer(fasthttp.StatusOK, livenessPage{w.timeRange(), rows})
}

// systemSample is figures of the process at one time.
type systemSample struct {
	At      bucketTime     `json:"timestamp"`
	Count   int            `json:"sampleCount"`
	Metrics map[string]any `json:"metrics"`
}

// systemReplica is the one replica there is with its samples.
type systemReplica struct {
	Hostname string         `json:"hostname"`
	Port     int            `json:"port"`
	Worker   int            `json:"workerId"`
	Series   []systemSample `json:"timeSeries"`
}

// systemPage is the answer of GET /api/v1/analytics/system-metrics.
type systemPage struct {
	TimeRange timeRange       `json:"timeRange"`
	Replicas  []systemReplica `json:"replicas"`
	Count     int             `json:"replicaCount"`
	Minutes   int64           `json:"bucketMinutes"`
	Points    int             `json:"pointCount"`
}

// systemMetrics answers GET /api/v1/analytics/system-metrics with one sample,
// taken now.
func (r *request) systemMetrics() {
	w := r.readWindow(broker.Hour)
	if r.badQuery() {
		return
	}
	user, system := processorTime()
	now := systemSample{bucketTime(r.server.now()), 1, map[string]any{
		"memoryBytes": residentMemory(), "cpuUserMicros": user, "cpuSystemMicros": system, "uptimeSeconds": int64(r.server.uptime() / time.Second),
	}}
	r.answer(fasthttp.StatusOK, systemPage{w.timeRange(), []systemReplica{{r.server.hostname, r.port(), 0, []systemSample{now}}}, 1, w.minutes, 1})
}

// workerSummary adds the window up.
type workerSummary struct {
	Ingested  int64 `json:"ingested"`
	Processed int64 `json:"processed"`
	Popped    int64 `json:"popMessages"`
	AckFailed int64 `json:"ackFailed"`
	lags
}

// workerPage is the answer of GET /api/v1/analytics/worker-metrics.
type workerPage struct {
	TimeRange timeRange     `json:"timeRange"`
	Minutes   int64         `json:"bucketMinutes"`
	Points    int           `json:"pointCount"`
	Series    []throughput  `json:"timeSeries"`
	Workers   []worker      `json:"workers"`
	Queues    []statusQueue `json:"queues"`
	Summary   workerSummary `json:"summary"`
}

// workerMetrics answers GET /api/v1/analytics/worker-metrics.
func (r *request) workerMetrics() {
	w := r.readWindow(broker.Hour)
	series, ok := r.readTraffic(&w)
	if !ok {
		return
	}
	if r.badQuery() {
		return
	}
	points := together(series)
	t := totalOf(points)
	r.answer(fasthttp.StatusOK, workerPage{
		w.timeRange(), w.minutes, len(points), w.throughputOf(points), []worker{r.server.worker()}, statusQueuesOf(series),
		workerSummary{t.PushMessages, consumed(&t), t.PopMessages, t.AckFailed, lagsOf(&t)},
	})
}
