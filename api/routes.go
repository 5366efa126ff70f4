package api

// routes is the route index (docs/api.md).
func routes() []route {
	table := []route{
		{"POST", "/api/v1/push", levelWriteOnly, (*request).push},
		{"GET", "/api/v1/pop/queue/:queue", levelReadWrite, (*request).popQueue},
		{"GET", "/api/v1/pop/queue/:queue/partition/:partition", levelReadWrite, (*request).popPartition},
		{"GET", "/api/v1/pop", levelReadWrite, (*request).popDiscover},
		{"POST", "/api/v1/ack", levelReadWrite, (*request).ack},
		{"POST", "/api/v1/ack/batch", levelReadWrite, (*request).ackBatch},
		{"POST", "/api/v1/lease/:leaseId/extend", levelReadWrite, (*request).extendLease},
		{"DELETE", "/api/v1/lease/:leaseId", levelReadWrite, (*request).releaseLease},
		{"POST", "/api/v1/transaction", levelReadWrite, (*request).transaction},
		{"POST", "/api/v1/configure", levelReadWrite, (*request).configure},
		{"GET", "/health", levelPublic, (*request).health},
		{"GET", "/metrics", levelPublic, (*request).metrics},
		{"GET", "/metrics/prometheus", levelPublic, (*request).prometheus},
		{"GET", "/openapi.json", levelPublic, (*request).openAPI},
	}
	for _, more := range [][]route{resourceRoutes, messageRoutes, groupRoutes, readRoutes, traceRoutes, systemRoutes, statusRoutes} {
		table = append(table, more...)
	}
	return table
}

var resourceRoutes = []route{
	{"GET", "/api/v1/resources/overview", levelReadOnly, (*request).overview},
	{"GET", "/api/v1/resources/queues", levelReadOnly, (*request).queues},
	{"GET", "/api/v1/resources/namespaces", levelReadOnly, (*request).namespaces},
	{"GET", "/api/v1/resources/tasks", levelReadOnly, (*request).tasks},
	{"GET", "/api/v1/resources/partitions", levelReadOnly, (*request).busyPartitions},
	{"GET", "/api/v1/resources/queues/:queue", levelReadOnly, (*request).queueDetail},
	{"GET", "/api/v1/resources/queues/:queue/depth", levelReadOnly, (*request).queueDepth},
	{"DELETE", "/api/v1/resources/queues/:queue", levelAdmin, (*request).deleteQueue},
}

var messageRoutes = []route{
	{"GET", "/api/v1/messages", levelReadOnly, (*request).messages},
	{"GET", "/api/v1/messages/:pid/:txn", levelReadOnly, (*request).message},
	{"DELETE", "/api/v1/messages/:pid/:txn", levelReadWrite, (*request).deleteMessage},
	{"POST", "/api/v1/messages/:pid/:txn/retry", levelReadWrite, (*request).retryMessage},
	{"GET", "/api/v1/dlq", levelReadOnly, (*request).deadLetters},
	{"DELETE", "/api/v1/dlq", levelReadWrite, (*request).purgeDeadLetters},
	{"DELETE", "/api/v1/dlq/:id", levelReadWrite, (*request).deleteDeadLetter},
	{"POST", "/api/v1/dlq/replay", levelReadWrite, (*request).replayLetters},
	{"POST", "/api/v1/dlq/:id/replay", levelReadWrite, (*request).replayLetter},
}

var groupRoutes = []route{
	{"GET", "/api/v1/consumer-groups", levelReadOnly, (*request).consumerGroups},
	{"GET", "/api/v1/consumer-groups/lagging", levelReadOnly, (*request).lagging},
	{"GET", "/api/v1/consumer-groups/:group", levelReadOnly, (*request).consumerGroup},
	{"POST", "/api/v1/consumer-groups/:group/subscription", levelReadWrite, (*request).setSubscription},
	{"POST", "/api/v1/consumer-groups/:group/queues/:queue/seek", levelReadWrite, (*request).seekQueue},
	{"POST", "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", levelReadWrite, (*request).seekPartition},
	{"DELETE", "/api/v1/consumer-groups/:group", levelAdmin, (*request).deleteGroup},
	{"DELETE", "/api/v1/consumer-groups/:group/queues/:queue", levelAdmin, (*request).deleteGroupOnQueue},
}

// readRoutes are the reads by offset.
var readRoutes = []route{
	{"POST", "/api/v1/fetch", levelReadOnly, (*request).fetch},
	{"POST", "/api/v1/fetch/offsets", levelReadOnly, (*request).fetchOffsets},
	{"POST", "/api/v1/partitions/changed", levelReadOnly, (*request).partitionsChanged},
}

var traceRoutes = []route{
	{"POST", "/api/v1/traces", levelReadWrite, (*request).recordTrace},
	{"GET", "/api/v1/traces/names", levelReadOnly, (*request).traceNames},
	{"GET", "/api/v1/traces/by-name/:name", levelReadOnly, (*request).tracesByName},
	{"GET", "/api/v1/traces/:pid/:txn", levelReadOnly, (*request).traces},
}

var systemRoutes = []route{
	{"GET", "/api/v1/system/maintenance", levelAdmin, (*request).maintenance},
	{"POST", "/api/v1/system/maintenance", levelAdmin, (*request).setMaintenance},
	{"GET", "/api/v1/system/maintenance/pop", levelAdmin, (*request).popMaintenance},
	{"POST", "/api/v1/system/maintenance/pop", levelAdmin, (*request).setPopMaintenance},
	{"GET", "/api/v1/system/shared-state", levelAdmin, (*request).sharedState},
	{"POST", "/internal/backup", levelAdmin, (*request).backup},
	{"POST", "/internal/import", levelAdmin, (*request).importState},
}

var statusRoutes = []route{
	{"GET", "/status", levelReadOnly, (*request).liveness},
	{"GET", "/api/v1/status", levelReadOnly, (*request).status},
	{"GET", "/api/v1/status/queues", levelReadOnly, (*request).statusQueues},
	{"GET", "/api/v1/status/queues/:queue", levelReadOnly, (*request).statusQueue},
	{"GET", "/api/v1/status/analytics", levelReadOnly, (*request).statusAnalytics},
	{"GET", "/api/v1/status/buffers", levelReadOnly, (*request).statusBuffers},
	{"GET", "/api/v1/analytics/queue-lag", levelReadOnly, (*request).queueLag},
	{"GET", "/api/v1/analytics/queue-ops", levelReadOnly, (*request).queueOps},
	{"GET", "/api/v1/analytics/queue-parked-replicas", levelReadOnly, (*request).parkedReplicas},
	{"GET", "/api/v1/analytics/retention", levelReadOnly, (*request).retention},
	{"GET", "/api/v1/analytics/workload", levelReadOnly, (*request).workload},
	{"GET", "/api/v1/analytics/partition-liveness", levelReadOnly, (*request).partitionLiveness},
	{"GET", "/api/v1/analytics/dlq-signatures", levelReadOnly, (*request).deadSignatures},
	{"GET", "/api/v1/analytics/system-metrics", levelReadOnly, (*request).systemMetrics},
	{"GET", "/api/v1/analytics/worker-metrics", levelReadOnly, (*request).workerMetrics},
	{"POST", "/api/v1/stats/refresh", levelAdmin, (*request).refreshStats},
}
