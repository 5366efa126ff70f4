package api

// routes is the route index (CONTRACT section 3).
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
		{"DELETE", "/api/v1/resources/queues/:queue", levelAdmin, (*request).deleteQueue},
		{"GET", "/health", levelPublic, (*request).health},
	}
	return table
}
