package conformance

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// families are the metric families of S9 with their types.
var families = map[string]string{
	"queen_uptime_seconds": "gauge", "queen_process_resident_memory_bytes": "gauge",
	"queen_process_push_requests_total": "counter", "queen_process_push_messages_total": "counter", "queen_process_pop_requests_total": "counter",
	"queen_process_pop_messages_total": "counter", "queen_process_ack_requests_total": "counter", "queen_process_ack_messages_total": "counter",
	"queen_parked_long_polls":           "gauge",
	"queen_cluster_push_requests_total": "counter", "queen_cluster_push_messages_total": "counter", "queen_cluster_pop_requests_total": "counter",
	"queen_cluster_pop_messages_total": "counter", "queen_cluster_ack_requests_total": "counter", "queen_cluster_ack_messages_total": "counter",
	"queen_cluster_transactions_total": "counter", "queen_cluster_dlq_total": "counter", "queen_cluster_ack_total": "counter",
	"queen_queue_push_requests_per_minute": "gauge", "queen_queue_push_messages_per_minute": "gauge", "queen_queue_pop_messages_per_minute": "gauge",
	"queen_queue_pop_empty_per_minute": "gauge", "queen_queue_transactions_per_minute": "gauge", "queen_queue_ack_per_minute": "gauge",
	"queen_queue_conflated_per_minute": "gauge", "queen_queue_pop_lag_milliseconds": "gauge", "queen_queue_parked_consumers": "gauge",
	"queen_queue_metrics_age_seconds": "gauge",
	"queen_dlq_depth":                 "gauge", "queen_dlq_depth_by_queue": "gauge",
	"queen_pop_fill_wait_total": "counter", "queen_pop_fill_wait_microseconds_total": "counter",
	"queen_pop_wildcard_total": "counter", "queen_pop_targeted_total": "counter",
	"queen_maintenance_mode_enabled": "gauge", "queen_file_buffer_pending": "gauge", "queen_file_buffer_failed": "gauge", "queen_file_buffer_db_healthy": "gauge",
}

// further are families of S9 whose type is left open.
var further = []string{
	"queen_batches_fired_total", "queen_batch_items_fired_total", "queen_fusion_items_per_batch", "queen_raft_storage_full",
	"queen_raft_admit_bytes", "queen_raft_admit_waiting", "queen_raft_admit_total", "queen_raft_log_fsync_seconds",
}

// sampleLine is one sample of the text format.
var sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="(\\.|[^"\\])*",?)*\})? (NaN|[+-]?Inf|[-+0-9.eE]+)( \d+)?$`)

// scrape returns the lines of the Prometheus page.
func (e *env) scrape() []string {
	e.Helper()
	return strings.Split(strings.TrimSuffix(string(e.get("/metrics/prometheus").want(http.StatusOK).body), "\n"), "\n")
}

func TestS9_PrometheusPageIsWellFormed(t *testing.T) {
	e := shared(t)
	e.deadLetter(e.queue(), "p", "a")
	help, kind := map[string]bool{}, map[string]string{}
	for _, line := range e.scrape() {
		switch f := strings.Fields(line); {
		case strings.HasPrefix(line, "# HELP "):
			help[f[2]] = true
		case strings.HasPrefix(line, "# TYPE "):
			if kind[f[2]] != "" {
				t.Errorf("%s has two TYPE lines", f[2])
			}
			kind[f[2]] = f[3]
		case line == "" || strings.HasPrefix(line, "#"):
		case !sampleLine.MatchString(line):
			t.Errorf("bad sample %q", line)
		}
	}
	for name, want := range families {
		if kind[name] != want {
			t.Errorf("%s has type %q, want %s", name, kind[name], want)
		}
		if !help[name] {
			t.Errorf("%s has no HELP", name)
		}
	}
	for _, name := range further {
		if kind[name] == "" || !help[name] {
			t.Errorf("%s has no HELP and TYPE", name)
		}
	}
}

func TestS9_LabelsAreEscaped(t *testing.T) {
	e := shared(t)
	q := e.name("q") + `a"b\c`
	e.deadLetter(q, "p", "a")
	want := `queen_dlq_depth_by_queue{queue="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(q) + `"} 1`
	e.eventually("the dead letter is counted: "+want, func() bool {
		for _, line := range e.scrape() {
			if line == want {
				return true
			}
		}
		return false
	})
}

func TestS9_ClusterCountersSurviveARestart(t *testing.T) {
	b, e := own(t, "METRICS_FLUSH_MS=1000")
	q := e.queue()
	e.push(q, "p", "a", "b", "c")
	e.ack("", e.pop(q), "a=dlq")
	value := func(family string) string {
		for _, line := range e.scrape() {
			if strings.HasPrefix(line, family+"{") || strings.HasPrefix(line, family+" ") {
				return line[strings.LastIndexByte(line, ' ')+1:]
			}
		}
		return ""
	}
	if got := value("queen_cluster_push_messages_total"); got != "3" {
		t.Errorf("pushed %s, want 3", got)
	}
	if got := value("queen_cluster_dlq_total"); got != "1" {
		t.Errorf("dead letters %s, want 1", got)
	}
	b.Stop()
	e = b.Restart(t)
	if got := value("queen_cluster_push_messages_total"); got != "3" {
		t.Errorf("after the restart %s", got)
	}
	if got := value("queen_process_push_messages_total"); got != "0" {
		t.Errorf("since start %s", got)
	}
}

func TestS9_ParkedPopsAreCounted(t *testing.T) {
	e := shared(t)
	q := e.queue()
	p := e.park(q)
	want := `queen_parked_long_polls{queue="` + q + `"} 1`
	e.eventually(want, func() bool { return strings.Contains(strings.Join(e.scrape(), "\n"), want) })
	e.push(q, "p", "a")
	p.wakes()
}

func TestS9_MetricsJSON(t *testing.T) {
	e := shared(t)
	n := e.get("/metrics").obj(http.StatusOK).hasKeys("uptime requests messages memory cpu")
	n.at("requests").hasKeys("total rate")
	n.at("messages").hasKeys("total rate")
	n.at("memory").hasKeys("rss")
}

func TestS9_StatusPages(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	n := e.get("/api/v1/status").obj(http.StatusOK)
	n.hasKeys("timeRange bucketMinutes pointCount throughput queues messages leases deadLetterQueue workers errors statsAge")
	n.at("timeRange").hasKeys("from to")
	n.at("messages").hasKeys(six + " requests batchEfficiency")
	n.at("leases").hasKeys("active partitionsWithLeases totalBatchSize totalAcked")
	n.at("deadLetterQueue").hasKeys("totalMessages affectedPartitions topErrors")
	n.at("errors").hasKeys("dbErrors ackFailed dlqMessages")

	n = e.get("/api/v1/status/queues?queue=" + q).obj(http.StatusOK).hasKeys("queues pagination")
	n.at("pagination").is("limit", 100, "offset", 0)
	one := find(t, n.list("queues"), "name", q).hasKeys("id name namespace task createdAt partitions messages")
	one.at("messages").hasKeys("total pending processing completed deadLetter")
	if len(n.list("queues")) != 1 {
		t.Errorf("the filter let %d queues through", len(n.list("queues")))
	}

	n = e.get("/api/v1/status/queues/" + q).obj(http.StatusOK).hasKeys("queue partitions totals")
	n.at("queue").hasKeys("id name namespace task priority createdAt config").is("name", q)
	n.at("queue", "config").hasKeys("leaseTime retryLimit retryDelay ttl maxQueueSize deadLetterQueue").is("leaseTime", 60)
	n.at("totals").hasKeys(six + " messages")
	n = e.get("/api/v1/status/queues/" + q + "?includePartitions=true").obj(http.StatusOK)
	n.at("partitions", 0).hasKeys("id name createdAt messages stats cursor lastActivity oldestMessage newestMessage").at("cursor").is("totalConsumed", 0, "batchesConsumed", 0)

	n = e.get("/api/v1/status/analytics").obj(http.StatusOK).hasKeys("dataPoints interval from to").is("interval", "hour")
	n.list("dataPoints")
	e.get("/api/v1/status/analytics?interval=day").obj(http.StatusOK).is("interval", "day")
	e.get("/api/v1/status/analytics?interval=fortnight").obj(http.StatusOK).is("interval", "hour")
	e.get("/api/v1/status/buffers").obj(http.StatusOK).is("pending", 0, "failed", 0, "dbHealthy", true, "worker", 0)
	e.post("/api/v1/stats/refresh", "").want(http.StatusOK)
}

func TestS9_AnalyticsPages(t *testing.T) {
	e := shared(t)
	e.push(e.queue(), "p", "a")
	e.get("/api/v1/analytics/queue-lag").arr(http.StatusOK)
	for path, keys := range map[string]string{
		"queue-ops": "timeRange bucketMinutes series queues", "queue-parked-replicas": "series replicas", "retention": "series totals",
		"retention?groupBy=queue": "series totals rows", "system-metrics": "timeRange replicas replicaCount bucketMinutes pointCount",
		"worker-metrics": "timeRange bucketMinutes pointCount timeSeries workers queues summary",
	} {
		e.get("/api/v1/analytics/" + path).obj(http.StatusOK).hasKeys(keys)
	}
	e.get("/api/v1/analytics/workload").want(http.StatusOK).json()
	e.get("/api/v1/analytics/partition-liveness").want(http.StatusOK).json()
	e.get("/api/v1/analytics/dlq-signatures").refuses(http.StatusBadRequest, "queue required")
	e.get("/api/v1/analytics/dlq-signatures?queue=x").want(http.StatusOK).json()
	e.get("/api/v1/analytics/retention?groupBy=moon").refuses(http.StatusBadRequest, "bad groupBy")
}
