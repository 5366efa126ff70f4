package api

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"queend/log"
)

// family is a family of metrics: what every scrape shows of it, with HELP and
// TYPE also while it has no sample (docs/rules.md, S9).
type family struct {
	name, help string
	kind       prometheus.ValueType // untyped: a histogram
	labels     []string
	desc       *prometheus.Desc
	counted    bool // by the observer and not by the broker
}

// families lists all of our own, in the order they were declared.
var families []*family

func declare(kind prometheus.ValueType, name, help string, labels ...string) *family {
	f := &family{name, help, kind, labels, prometheus.NewDesc(name, help, labels, nil), false}
	families = append(families, f)
	return f
}

func counter(name, help string, labels ...string) *family {
	return declare(prometheus.CounterValue, name, help, labels...)
}

func gauge(name, help string, labels ...string) *family {
	return declare(prometheus.GaugeValue, name, help, labels...)
}

func histogram(name, help string, labels ...string) *family {
	return declare(prometheus.UntypedValue, name, help, labels...)
}

// observed marks a family that the observer counts.
func observed(f *family) *family {
	f.counted = true
	return f
}

// spread shows counts by powers of two of a unit as a histogram.
func (f *family) spread(counts *log.Spread, count uint64, sum, unit float64) prometheus.Metric {
	buckets := map[float64]uint64{}
	below := uint64(0)
	for i, n := range counts[:len(counts)-1] { // the last one has no bound
		below += n
		buckets[math.Ldexp(unit, i)] = below
	}
	return prometheus.MustNewConstHistogram(f.desc, count, sum, buckets)
}

func (f *family) is(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// typeWord is the kind as TYPE names it.
func (f *family) typeWord() string {
	switch f.kind {
	case prometheus.CounterValue:
		return "counter"
	case prometheus.GaugeValue:
		return "gauge"
	}
	return "histogram"
}

// The process.
var (
	uptimeSeconds = gauge("queen_uptime_seconds", "Time since the process began.")
	residentBytes = gauge("queen_process_resident_memory_bytes", "Memory of the process that is in RAM.")

	processPushRequests = counter("queen_process_push_requests_total", "Pushes answered since the start.")
	processPushMessages = counter("queen_process_push_messages_total", "Messages queued since the start.")
	processPopRequests  = counter("queen_process_pop_requests_total", "Pops answered since the start.")
	processPopMessages  = counter("queen_process_pop_messages_total", "Messages delivered since the start.")
	processAckRequests  = counter("queen_process_ack_requests_total", "Ack calls answered since the start.")
	processAckMessages  = counter("queen_process_ack_messages_total", "Ack items answered since the start.")

	fillWaits   = counter("queen_pop_fill_wait_total", "Pops held back by minPopWaitTime for their batch to fill.")
	fillMicros  = counter("queen_pop_fill_wait_microseconds_total", "Time they were held back.")
	popWildcard = counter("queen_pop_wildcard_total", "Pops of a queue or by namespace and task.")
	popTargeted = counter("queen_pop_targeted_total", "Pops of one partition.")
)

// Requests.
var (
	refusedRequests = observed(counter("queend_refused_total", "Requests that were refused, by the part of the API and the code of the answer.", "operation", "reason"))
	requestSeconds  = observed(histogram("queend_request_seconds", "Time to answer, without requests that may wait.", "operation"))
)

// Since the data directory began.
var (
	clusterPushRequests = counter("queen_cluster_push_requests_total", "Pushes that stored something.", "scope")
	clusterPushMessages = counter("queen_cluster_push_messages_total", "Messages queued.", "scope")
	clusterPopRequests  = counter("queen_cluster_pop_requests_total", "Pops that delivered something.", "scope")
	clusterPopMessages  = counter("queen_cluster_pop_messages_total", "Messages delivered.", "scope")
	clusterAckRequests  = counter("queen_cluster_ack_requests_total", "Ack calls that changed something.", "scope")
	clusterAckMessages  = counter("queen_cluster_ack_messages_total", "Ack items of these calls.", "scope")
	clusterTransactions = counter("queen_cluster_transactions_total", "Transactions committed.", "scope")
	clusterDeadLetters  = counter("queen_cluster_dlq_total", "Dead letters filed.", "scope")
	clusterAcks         = counter("queen_cluster_ack_total", "Ack items by their result.", "scope", "result")
)

// Queues.
var (
	parkedLongPolls = gauge("queen_parked_long_polls", "Pops that wait for messages.", "queue")

	pushRequestsRate = gauge("queen_queue_push_requests_per_minute", "Pushes in the last minute.", "queue")
	pushMessagesRate = gauge("queen_queue_push_messages_per_minute", "Messages queued in the last minute.", "queue")
	popMessagesRate  = gauge("queen_queue_pop_messages_per_minute", "Messages delivered in the last minute.", "queue")
	popEmptyRate     = gauge("queen_queue_pop_empty_per_minute", "Pops without messages in the last minute.", "queue")
	transactionsRate = gauge("queen_queue_transactions_per_minute", "Transactions in the last minute.", "queue")
	acksRate         = gauge("queen_queue_ack_per_minute", "Ack items in the last minute by their result.", "queue", "result")
	conflatedRate    = gauge("queen_queue_conflated_per_minute", "Messages passed over by conflation in the last minute.", "queue")
	popLag           = gauge("queen_queue_pop_lag_milliseconds", "Age of messages when they were delivered.", "queue", "stat")
	parkedConsumers  = gauge("queen_queue_parked_consumers", "Pops that wait for messages of an active queue.", "queue")
	metricsAge       = gauge("queen_queue_metrics_age_seconds", "How long ago the queue was last active.", "queue")

	deadLetterDepth = gauge("queen_dlq_depth", "Dead letters there are.", "scope")
	deadLetterQueue = gauge("queen_dlq_depth_by_queue", "Dead letters there are of a queue.", "queue")
)

// The store.
var (
	maintenanceOn   = gauge("queen_maintenance_mode_enabled", "1 while pushes go to the spool.")
	bufferPending   = gauge("queen_file_buffer_pending", "Messages in the spool.")
	bufferFailed    = gauge("queen_file_buffer_failed", "Records of the spool that were set aside.")
	bufferHealthy   = gauge("queen_file_buffer_db_healthy", "1 when the spool was last written or read without an error.")
	batchesFired    = counter("queen_batches_fired_total", "Groups of log records written and synced together.", "op")
	batchItems      = counter("queen_batch_items_fired_total", "Log records in these groups.", "op")
	itemsPerBatch   = gauge("queen_fusion_items_per_batch", "Log records per group, on average since the start.", "op")
	storageFull     = gauge("queen_raft_storage_full", "1 while the disk is too full for pushes.")
	admitBytes      = gauge("queen_raft_admit_bytes", "Bytes of the write budget that are taken.")
	admitWaiting    = gauge("queen_raft_admit_waiting", "Pushes that wait for the write budget.")
	admitTotal      = counter("queen_raft_admit_total", "Pushes that passed the write budget since the start.")
	fsyncSeconds    = histogram("queen_raft_log_fsync_seconds", "Time that commits waited for the disk.")
	groupRecords    = histogram("queend_commit_group_records", "Log records per group.")
	fsyncMax        = gauge("queend_log_fsync_max_seconds", "The longest of these since the start.")
	logDisk         = gauge("queend_log_disk_bytes", "Size of the log on disk.")
	segmentFiles    = gauge("queend_segment_files", "Segment files.")
	segmentBytes    = gauge("queend_segment_bytes", "Their size.")
	segmentDead     = gauge("queend_segment_dead_bytes", "Bytes of them that are needed no more.")
	tailBytes       = gauge("queend_tail_bytes", "Messages in memory that are in no segment yet.")
	identifierBytes = gauge("queend_dedup_memory_bytes", "Memory of transaction ids, by where they are from.", "kind")
	queuesTotal     = gauge("queend_queues", "Queues.")
	partitionsTotal = gauge("queend_partitions", "Partitions.")
	leasesTotal     = gauge("queend_leases", "Leases, some of them maybe over.")
	groupsTotal     = gauge("queend_consumer_groups", "Consumer groups, each on one queue.")
	readyTotal      = gauge("queend_ready_partitions", "Partitions that look ready for a group, once for each.")
	waitingTotal    = gauge("queend_waiting_requests", "Requests that wait for messages.", "kind")
	idCacheHits     = counter("queend_id_cache_hits_total", "What of the ids in segments was asked for and in memory.")
	idCacheMisses   = counter("queend_id_cache_misses_total", "What of them had to be read.")
	checkpointsMade = counter("queend_checkpoints_total", "Checkpoints made since the start.")
	checkpointAge   = gauge("queend_checkpoint_age_seconds", "How long ago the newest checkpoint was cut, or the broker started.")
	bootSeconds     = gauge("queend_boot_seconds", "Time that the start took.")
	damageFound     = gauge("queend_damage_found", "Places that were found damaged since the start.")
	diskUsed        = gauge("queend_disk_used_ratio", "How full the file system of the data directory is, from 0 to 1.")
)
