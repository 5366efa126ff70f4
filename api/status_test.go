package api

import (
	"testing"
	"time"

	"queend/broker"
)

// busy is a broker on which a queue saw pushes, a delivery, an ack and a dead
// letter.
func busy(t *testing.T) *house {
	h := served(t)
	h.push("bills.new", "a", "b", "c")
	popped := h.pop("bills.new", "batch=2")
	h.fail(popped, 0, "", "smtp 550")
	h.pop("bills.new", "batch=1&autoAck=true")
	h.push("other", "x")
	return h
}

func TestTheStatusPageAddsUp(t *testing.T) {
	h := busy(t)
	page := h.ask(200, "GET", "/api/v1/status?queue=bills.new", "")
	keys(t, page, "timeRange bucketMinutes pointCount throughput queues messages leases deadLetterQueue workers errors statsAge")
	keys(t, at(t, page, "timeRange"), "from to")
	is(t, page, "bucketMinutes", 1, "statsAge", 0)
	point := at(t, page, "throughput", 0)
	keys(t, point, "timestamp ingested processed popMessages ingestedPerSecond processedPerSecond popPerSecond avgLagMs maxLagMs ackFailed dlqCount "+
		"popEmpty transactions")
	is(t, point, "ingested", 3, "popMessages", 3, "ingestedPerSecond", 0.05, "dlqCount", nil)
	if _, err := time.Parse("2006-01-02T15:04:05Z", at(t, point, "timestamp").(string)); err != nil {
		t.Error(err)
	}
	is(t, at(t, page, "messages"), "total", 3, "pending", 1, "completed", 2, "failed", nil, "deadLetter", 1)
	is(t, at(t, page, "messages", "requests"), "push", 1, "pop", nil, "ack", 1)
	is(t, at(t, page, "messages", "batchEfficiency"), "push", 3, "pop", nil, "ack", 1)
	is(t, at(t, page, "deadLetterQueue"), "totalMessages", 1, "affectedPartitions", 1)
	is(t, at(t, page, "deadLetterQueue", "topErrors", 0), "error", "smtp 550", "count", 1, "groups", 1)
	is(t, at(t, page, "queues", 0), "name", "bills.new", "ingested", 3)
	is(t, at(t, page, "workers", 0), "workerId", 0)
	all := h.ask(200, "GET", "/api/v1/status?from=2001-01-01", "")
	is(t, all, "bucketMinutes", 360)
	is(t, at(t, all, "messages"), "total", 4)
	h.ask(400, "GET", "/api/v1/status?from=soon", "")
}

func TestAnEmptyBrokerHasAStatus(t *testing.T) {
	h := served(t)
	page := h.ask(200, "GET", "/api/v1/status", "")
	is(t, page, "throughput", "[]", "queues", "[]", "pointCount", 0)
	is(t, at(t, page, "deadLetterQueue"), "totalMessages", 0, "topErrors", "[]")
	for _, name := range []string{"queue-ops", "retention?groupBy=queue", "workload", "worker-metrics", "queue-parked-replicas", "partition-liveness"} {
		h.ask(200, "GET", "/api/v1/analytics/"+name, "")
	}
	is(t, h.ask(200, "GET", "/api/v1/status/analytics", ""), "dataPoints", "[]", "interval", "hour")
}

func TestQueuesHaveAStatus(t *testing.T) {
	h := busy(t)
	page := h.ask(200, "GET", "/api/v1/status/queues?namespace=bills", "")
	keys(t, page, "queues pagination")
	is(t, at(t, page, "pagination"), "limit", 100, "offset", 0)
	row := at(t, page, "queues", 0)
	keys(t, row, "id name namespace task createdAt partitions messages")
	keys(t, at(t, row, "messages"), "total pending processing completed deadLetter")
	is(t, h.ask(200, "GET", "/api/v1/status/queues?offset=5", ""), "queues", "[]")
	if rows := at(t, h.ask(200, "GET", "/api/v1/status/queues?limit=1&offset=1", ""), "queues").([]any); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
	d := h.ask(200, "GET", "/api/v1/status/queues/bills.new", "")
	keys(t, d, "queue partitions totals")
	is(t, d, "partitions", "[]")
	keys(t, at(t, d, "queue"), "id name namespace task priority createdAt config")
	keys(t, at(t, d, "queue", "config"), "leaseTime retryLimit retryDelay ttl maxQueueSize deadLetterQueue")
	keys(t, at(t, d, "totals"), "messages "+countKeys)
	p := at(t, h.ask(200, "GET", "/api/v1/status/queues/bills.new?includePartitions=1", ""), "partitions", 0)
	keys(t, p, "id name createdAt messages stats cursor lastActivity oldestMessage newestMessage")
	is(t, at(t, p, "cursor"), "totalConsumed", 2, "batchesConsumed", 0)
	is(t, h.ask(404, "GET", "/api/v1/status/queues/none", ""), "error", "Queue not found")
}

func TestSmallStatusPages(t *testing.T) {
	h := busy(t)
	if got := serveWithout(t).do("GET", "/status", ""); got.status != 200 || got.body != `{"status":"ok","engine":"queend"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	keys(t, h.ask(200, "GET", "/api/v1/status/buffers", ""), "pending failed dbHealthy worker")
	is(t, h.ask(200, "POST", "/api/v1/stats/refresh", ""), "success", true)
	for interval, want := range map[string]string{"": "hour", "minute": "minute", "day": "day", "fortnight": "hour"} {
		page := h.ask(200, "GET", "/api/v1/status/analytics?interval="+interval, "")
		keys(t, page, "dataPoints interval from to")
		is(t, page, "interval", want)
		is(t, at(t, page, "dataPoints", 0), "messages", 4)
	}
}

func TestHealthSaysWhatIsUp(t *testing.T) {
	h := served(t)
	page := h.ask(200, "GET", "/health", "")
	keys(t, page, "status database engine version fsync encryption disk")
	is(t, page, "status", "healthy", "database", "connected", "version", "1.2.3", "fsync", "always", "encryption", "off")
	keys(t, at(t, page, "disk"), "usedPct full")
	is(t, serveWithout(t).ask(503, "GET", "/health", ""), "status", "unhealthy", "database", "disconnected", "progress", "reading the data directory")
}

func TestAnalyticsPagesHaveTheirShapes(t *testing.T) {
	h := busy(t)
	base := "/api/v1/analytics/"
	lag := h.ask(200, "GET", base+"queue-lag", "")
	keys(t, at(t, lag, 0), "queueName popCount avgLagMs maxLagMs bucketMinutes bucketTime")
	is(t, at(t, lag, 0), "queueName", "bills.new", "popCount", 3)
	ops := h.ask(200, "GET", base+"queue-ops", "")
	keys(t, ops, "timeRange bucketMinutes series queues")
	is(t, ops, "queues", "[bills.new other]")
	keys(t, at(t, ops, "series", 0), "bucket queueName pushRequests pushMessages popMessages popEmpty ackRequests ackSuccess ackFailed transactions "+
		"partitionsCreated partitionsDeleted partitionCount avgLagMs maxLagMs pushPerSecond popPerSecond ackPerSecond emptyPerSecond parkedCount")
	is(t, at(t, ops, "series", 1), "queueName", "other", "pushMessages", 1, "partitionsCreated", 1, "avgLagMs", nil)
	keys(t, h.ask(200, "GET", base+"queue-parked-replicas", ""), "timeRange bucketMinutes series replicas")
	keys(t, h.ask(200, "GET", base+"retention", ""), "timeRange bucketMinutes series totals")
	grouped := h.ask(200, "GET", base+"retention?groupBy=task", "")
	keys(t, grouped, "timeRange bucketMinutes series totals rows")
	keys(t, at(t, grouped, "totals"), "retentionMsgs completedRetentionMsgs evictionMsgs totalMsgs eventCount")
	is(t, h.ask(400, "GET", base+"retention?groupBy=moon", ""), "error", "bad groupBy")
	is(t, at(t, h.ask(200, "GET", base+"workload", ""), "queues", 0), "queueName", "bills.new")
	is(t, at(t, h.ask(200, "GET", base+"partition-liveness", ""), "queues", 1), "queueName", "other", "partitionCount", 1)
	is(t, h.ask(400, "GET", base+"dlq-signatures", ""), "error", "queue required")
	is(t, at(t, h.ask(200, "GET", base+"dlq-signatures?queue=bills.new", ""), "signatures", 0), "error", "smtp 550", "count", 1)
	system := h.ask(200, "GET", base+"system-metrics", "")
	keys(t, system, "timeRange replicas replicaCount bucketMinutes pointCount")
	keys(t, at(t, system, "replicas", 0), "hostname port workerId timeSeries")
	keys(t, at(t, system, "replicas", 0, "timeSeries", 0), "timestamp sampleCount metrics")
	keys(t, h.ask(200, "GET", base+"worker-metrics", ""), "timeRange bucketMinutes pointCount timeSeries workers queues summary")
	h.ask(404, "GET", base+"postgres-stats", "")
	for _, name := range []string{"queue-lag", "queue-ops", "queue-parked-replicas", "retention", "workload", "partition-liveness", "system-metrics", "worker-metrics"} {
		h.ask(400, "GET", base+name+"?to=never", "")
	}
}

func TestBucketsGrowWithTheWindow(t *testing.T) {
	h := served(t)
	for query, want := range map[string]int{
		"": 1, "from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:00Z": 1, "from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:01Z": 5,
		"from=2026-01-01T00:00:00Z&to=2026-01-01T06:00:00Z": 5, "from=2026-01-01&to=2026-01-02": 15, "from=2026-01-01&to=2026-01-08": 60,
		"from=2026-01-01&to=2026-01-09": 360, "from=2026-01-09&to=2026-01-01": 1,
	} {
		is(t, h.ask(200, "GET", "/api/v1/analytics/queue-ops?"+query, ""), "bucketMinutes", want)
	}
}

func TestWhatRetentionTookIsAddedUpByRule(t *testing.T) {
	point := func(at, aged, done, evicted int64) broker.TrafficPoint {
		return broker.TrafficPoint{At: at, Traffic: broker.Traffic{RetentionMessages: aged, CompletedMessages: done, EvictedMessages: evicted}}
	}
	series := []broker.QueueSeries{
		{QueueStats: broker.QueueStats{Name: "a", Namespace: "n"}, Points: []broker.TrafficPoint{point(1, 1, 0, 0), point(2, 0, 0, 0)}},
		{QueueStats: broker.QueueStats{Name: "b", Namespace: "n"}, Points: []broker.TrafficPoint{point(1, 0, 2, 0), point(3, 0, 0, 4)}},
		{QueueStats: broker.QueueStats{Name: "c", Namespace: "m"}},
	}
	if got, want := removedOf(together(series)), (removed{1, 2, 4, 7, 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	rows := retentionRows(series, groupings["namespace"])
	if len(rows) != 1 || rows[0].Name != "n" || rows[0].Total != 7 {
		t.Errorf("%+v", rows)
	}
	rows = retentionRows(series, groupings["queue"])
	if len(rows) != 2 || rows[0].Name != "b" || rows[1].Name != "a" {
		t.Errorf("%+v", rows)
	}
}
