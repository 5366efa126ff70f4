package api

import "testing"

func TestGroupsAreListed(t *testing.T) {
	h := served(t)
	h.push("q", "a", "b")
	h.pop("q", "batch=1&consumerGroup=g&subscriptionMode=all")
	rows := h.ask(200, "GET", "/api/v1/consumer-groups", "")
	row := at(t, rows, 0)
	keys(t, row, "name topics queueName members partitionCursors partitionsWithLag totalLag maxTimeLag state storage subscriptionMode "+
		"subscriptionTimestamp subscriptionCreatedAt conflation consumers")
	is(t, row, "name", "g", "queueName", "q", "members", 1, "partitionCursors", 1, "totalLag", 2, "storage", "segments", "subscriptionMode", "all",
		"subscriptionTimestamp", nil, "conflation", false, "consumers", 0)
	is(t, at(t, row, "topics"), 0, "q")
	lagging := h.ask(200, "GET", "/api/v1/consumer-groups/lagging?minLagSeconds=0", "")
	keys(t, at(t, lagging, 0), "consumer_group queue_name partition_name partition_id worker_id offset_lag time_lag_seconds lag_hours "+
		"oldest_unconsumed_at last_consumed_at")
	is(t, at(t, lagging, 0), "consumer_group", "g", "offset_lag", 2, "last_consumed_at", nil)
	if old := h.ask(200, "GET", "/api/v1/consumer-groups/lagging", "").([]any); len(old) != 0 {
		t.Error(old)
	}
	h.ask(400, "GET", "/api/v1/consumer-groups/lagging?minLagSeconds=x", "")
	d := h.ask(200, "GET", "/api/v1/consumer-groups/g", "")
	is(t, at(t, d, "q"), "conflation", false)
	p := at(t, d, "q", "partitions", 0)
	keys(t, p, "partition workerId lastConsumedAt totalConsumed offsetLag timeLagSeconds leaseActive")
	is(t, p, "partition", "p", "lastConsumedAt", nil, "totalConsumed", 0, "offsetLag", 2, "leaseActive", true)
	keys(t, h.ask(200, "GET", "/api/v1/consumer-groups/nobody", ""), "")
}

func TestASubscriptionIsChanged(t *testing.T) {
	h := served(t)
	h.push("q", "a")
	h.pop("q", "consumerGroup=g&subscriptionMode=all")
	at := "2026-01-02T03:04:05Z"
	out := h.ask(200, "POST", "/api/v1/consumer-groups/g/subscription", `{"subscriptionTimestamp":"`+at+`"}`)
	keys(t, out, "success consumerGroup newTimestamp rowsUpdated")
	is(t, out, "success", true, "consumerGroup", "g", "newTimestamp", at, "rowsUpdated", 1)
	is(t, h.ask(200, "POST", "/api/v1/consumer-groups/none/subscription", `{"subscriptionTimestamp":"`+at+`"}`), "rowsUpdated", 0)
	for _, body := range []string{"", "{}", "[]", "nope", `{"subscriptionTimestamp":""}`, `{"subscriptionTimestamp":null}`, `{"subscriptionTimestamp":"soon"}`, `{"subscriptionTimestamp":7}`} {
		h.ask(400, "POST", "/api/v1/consumer-groups/g/subscription", body)
	}
}

func TestAGroupSeeks(t *testing.T) {
	h := served(t)
	h.push("q", "a")
	h.pop("q", "consumerGroup=g&subscriptionMode=all")
	queue, part := "/api/v1/consumer-groups/g/queues/q/seek", "/api/v1/consumer-groups/g/queues/q/partitions/p/seek"
	out := h.ask(200, "POST", queue, `{"timestamp":"2001-01-01"}`)
	keys(t, out, "success consumerGroup queueName seekToEnd targetTimestamp partitionsUpdated")
	is(t, out, "seekToEnd", false, "targetTimestamp", "2001-01-01", "partitionsUpdated", 1)
	is(t, h.ask(200, "POST", queue, `{"toEnd":true,"timestamp":"2001-01-01"}`), "seekToEnd", true, "targetTimestamp", nil)
	for _, body := range []string{"", "{}"} {
		out = h.ask(200, "POST", part, body)
		keys(t, out, "success consumerGroup queueName partitionName seekToEnd targetTimestamp updated")
		is(t, out, "seekToEnd", true, "updated", true)
		h.ask(400, "POST", queue, body)
	}
	is(t, h.ask(400, "POST", part, `{"toEnd":false}`), "error", noSeekTarget)
	is(t, h.ask(400, "POST", queue, `{"toEnd":false}`), "error", noSeekTarget)
	h.ask(400, "POST", part, `{"toEnd":"yes"}`)
	out = h.ask(404, "POST", "/api/v1/consumer-groups/g/queues/none/seek", `{"toEnd":true}`)
	keys(t, out, "success error consumerGroup queueName partitionsUpdated")
	is(t, out, "success", false, "error", "Queue not found or has no partitions", "partitionsUpdated", 0)
	out = h.ask(404, "POST", "/api/v1/consumer-groups/g/queues/q/partitions/none/seek", "")
	is(t, out, "success", false, "error", "Partition not found")
}

func TestAGroupIsDeleted(t *testing.T) {
	h := served(t)
	h.push("q", "a")
	h.pop("q", "consumerGroup=g&subscriptionMode=all")
	out := h.ask(200, "DELETE", "/api/v1/consumer-groups/g/queues/q?deleteMetadata=0", "")
	keys(t, out, "success consumerGroup queueName deletedPartitions metadataDeleted")
	is(t, out, "success", true, "queueName", "q", "deletedPartitions", 1, "metadataDeleted", false)
	out = h.ask(200, "DELETE", "/api/v1/consumer-groups/g?deleteMetadata=yes", "")
	keys(t, out, "success consumerGroup deletedPartitions metadataDeleted")
	is(t, out, "deletedPartitions", 0, "metadataDeleted", true)
	is(t, h.ask(200, "DELETE", "/api/v1/consumer-groups/nobody", ""), "deletedPartitions", 0)
	h.ask(400, "DELETE", "/api/v1/consumer-groups/g?deleteMetadata=maybe", "")
}
