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

// queueLag answers GET /api/v1/analytics/queue-lag.
func (r *request) queueLag() {
	type row struct {
		Queue  string `json:"queueName"`
		Popped int64  `json:"popCount"`
		lags
		Minutes int64      `json:"bucketMinutes"`
		At      bucketTime `json:"bucketTime"`
	}
	w := r.readWindow(broker.Hour)
	series := r.readTraffic(&w)
	if r.badQuery() {
		return
	}
	rows := []row{}
	for i := range series {
		for j := range series[i].Points {
			if p := &series[i].Points[j]; p.PopMessages > 0 {
				rows = append(rows, row{series[i].Name, p.PopMessages, lagsOf(&p.Traffic), w.minutes, bucketTime(p.At)})
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

// queueOps answers GET /api/v1/analytics/queue-ops.
func (r *request) queueOps() {
	w := r.readWindow(broker.Hour)
	series := r.readTraffic(&w)
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
	r.answer(fasthttp.StatusOK, struct {
		TimeRange timeRange  `json:"timeRange"`
		Minutes   int64      `json:"bucketMinutes"`
		Series    []queueOps `json:"series"`
		Queues    []string   `json:"queues"`
	}{w.timeRange(), w.minutes, rows, names})
}

// parkedReplicas answers GET /api/v1/analytics/queue-parked-replicas: the one
// replica there is, and only what is parked now.
func (r *request) parkedReplicas() {
	type row struct {
		At       bucketTime `json:"bucket"`
		Queue    string     `json:"queueName"`
		Hostname string     `json:"hostname"`
		Worker   int        `json:"workerId"`
		Parked   int        `json:"parkedCount"`
	}
	type replica struct {
		Hostname string `json:"hostname"`
		Worker   int    `json:"workerId"`
	}
	w := r.readWindow(broker.Hour)
	series := r.readTraffic(&w)
	if r.badQuery() {
		return
	}
	now := r.server.now()
	rows := []row{}
	for i := range series {
		if q := &series[i]; q.Parked > 0 {
			rows = append(rows, row{bucketTime(now - now%w.step()), q.Name, r.server.hostname, 0, q.Parked})
		}
	}
	r.answer(fasthttp.StatusOK, struct {
		TimeRange timeRange `json:"timeRange"`
		Minutes   int64     `json:"bucketMinutes"`
		Series    []row     `json:"series"`
		Replicas  []replica `json:"replicas"`
	}{w.timeRange(), w.minutes, rows, []replica{{r.server.hostname, 0}}})
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

// retention answers GET /api/v1/analytics/retention.
func (r *request) retention() {
	type bucket struct {
		At bucketTime `json:"bucket"`
		removed
	}
	label, ok := groupings[r.query.text("groupBy", "")]
	if !ok {
		r.badRequest("bad groupBy")
		return
	}
	w := r.readWindow(broker.Day)
	series := r.readTraffic(&w)
	if r.badQuery() {
		return
	}
	points := together(series)
	buckets := []bucket{}
	for i := range points {
		if m := removedOf(points[i : i+1]); m.Total > 0 {
			buckets = append(buckets, bucket{bucketTime(points[i].At), m})
		}
	}
	page := struct {
		TimeRange timeRange      `json:"timeRange"`
		Minutes   int64          `json:"bucketMinutes"`
		Series    []bucket       `json:"series"`
		Totals    removed        `json:"totals"`
		Rows      []retentionRow `json:"rows,omitzero"`
	}{w.timeRange(), w.minutes, buckets, removedOf(points), nil}
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

// workload answers GET /api/v1/analytics/workload: the queues by what they
// carried in the window, the busiest first.
func (r *request) workload() {
	type row struct {
		Queue     string `json:"queueName"`
		Namespace string `json:"namespace"`
		Task      string `json:"task"`
		Pushed    int64  `json:"pushMessages"`
		Popped    int64  `json:"popMessages"`
		Acked     int64  `json:"ackMessages"`
		lags
		Partitions int `json:"partitionCount"`
	}
	w := r.readWindow(broker.Hour)
	series := r.readTraffic(&w)
	if r.badQuery() {
		return
	}
	rows := []row{}
	for i := range series {
		q := &series[i]
		t := totalOf(q.Points)
		rows = append(rows, row{q.Name, q.Namespace, q.Task, t.PushMessages, t.PopMessages, t.AckSuccess + t.AckFailed, lagsOf(&t), q.Partitions})
	}
	slices.SortStableFunc(rows, func(x, y row) int { return cmp.Compare(y.Pushed+y.Popped, x.Pushed+x.Popped) })
	r.answer(fasthttp.StatusOK, struct {
		TimeRange timeRange `json:"timeRange"`
		Minutes   int64     `json:"bucketMinutes"`
		Queues    []row     `json:"queues"`
	}{w.timeRange(), w.minutes, rows})
}

// partitionLiveness answers GET /api/v1/analytics/partition-liveness: how many
// partitions there are of each queue and how many look ready for somebody.
func (r *request) partitionLiveness() {
	type row struct {
		Queue   string `json:"queueName"`
		Total   int    `json:"partitionCount"`
		Ready   int    `json:"readyCount"`
		Parked  int    `json:"parkedCount"`
		Created int64  `json:"partitionsCreated"`
		Deleted int64  `json:"partitionsDeleted"`
	}
	w := r.readWindow(broker.Day)
	series := r.readTraffic(&w)
	if r.badQuery() {
		return
	}
	rows := []row{}
	for i := range series {
		q := &series[i]
		t := totalOf(q.Points)
		rows = append(rows, row{q.Name, q.Partitions, q.Ready, q.Parked, t.PartitionsCreated, t.PartitionsDeleted})
	}
	r.answer(fasthttp.StatusOK, struct {
		TimeRange timeRange `json:"timeRange"`
		Queues    []row     `json:"queues"`
	}{w.timeRange(), rows})
}

// systemMetrics answers GET /api/v1/analytics/system-metrics with one sample,
// taken now.
func (r *request) systemMetrics() {
	type sample struct {
		At      bucketTime     `json:"timestamp"`
		Count   int            `json:"sampleCount"`
		Metrics map[string]any `json:"metrics"`
	}
	type replica struct {
		Hostname string   `json:"hostname"`
		Port     int      `json:"port"`
		Worker   int      `json:"workerId"`
		Series   []sample `json:"timeSeries"`
	}
	w := r.readWindow(broker.Hour)
	if r.badQuery() {
		return
	}
	user, system := processorTime()
	now := sample{bucketTime(r.server.now()), 1, map[string]any{
		"memoryBytes": residentMemory(), "cpuUserMicros": user, "cpuSystemMicros": system, "uptimeSeconds": int64(r.server.uptime() / time.Second),
	}}
	r.answer(fasthttp.StatusOK, struct {
		TimeRange timeRange `json:"timeRange"`
		Replicas  []replica `json:"replicas"`
		Count     int       `json:"replicaCount"`
		Minutes   int64     `json:"bucketMinutes"`
		Points    int       `json:"pointCount"`
	}{w.timeRange(), []replica{{r.server.hostname, r.port(), 0, []sample{now}}}, 1, w.minutes, 1})
}

// workerMetrics answers GET /api/v1/analytics/worker-metrics.
func (r *request) workerMetrics() {
	type summary struct {
		Ingested  int64 `json:"ingested"`
		Processed int64 `json:"processed"`
		Popped    int64 `json:"popMessages"`
		AckFailed int64 `json:"ackFailed"`
		lags
	}
	w := r.readWindow(broker.Hour)
	series := r.readTraffic(&w)
	if r.badQuery() {
		return
	}
	points := together(series)
	t := totalOf(points)
	r.answer(fasthttp.StatusOK, struct {
		TimeRange timeRange     `json:"timeRange"`
		Minutes   int64         `json:"bucketMinutes"`
		Points    int           `json:"pointCount"`
		Series    []throughput  `json:"timeSeries"`
		Workers   []worker      `json:"workers"`
		Queues    []statusQueue `json:"queues"`
		Summary   summary       `json:"summary"`
	}{
		w.timeRange(), w.minutes, len(points), w.throughputOf(points), []worker{r.server.worker()}, statusQueuesOf(series),
		summary{t.PushMessages, consumed(&t), t.PopMessages, t.AckFailed, lagsOf(&t)},
	})
}
