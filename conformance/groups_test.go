package conformance

import (
	"net/http"
	"testing"
	"time"
)

func TestS7_ListOfGroups(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p1", "a", "b", "c")
	e.push(q, "p2", "d")
	e.ack(g, e.pin(q, "p1", all(g)), "a=completed", "b=retry")
	e.finish(g, e.pin(q, "p2", group(g)))
	n := find(t, e.get("/api/v1/consumer-groups").arr(http.StatusOK), "name", g)
	n.hasKeys("name topics queueName members partitionCursors partitionsWithLag totalLag maxTimeLag state storage subscriptionMode subscriptionTimestamp subscriptionCreatedAt conflation")
	n.is("queueName", q, "members", 2, "partitionCursors", 2, "partitionsWithLag", 1, "totalLag", 2, "state", "Stable", "storage", "segments",
		"subscriptionMode", "all", "conflation", false)
	if topics := n.list("topics"); len(topics) != 1 || topics[0].str() != q {
		t.Errorf("topics %s", n.at("topics").text())
	}
	if lag := n.at("maxTimeLag").text(); lag[0] == '-' {
		t.Errorf("maxTimeLag %s", lag)
	}
	n.when("subscriptionCreatedAt")
}

func TestS7_QueueModeIsListed(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	e.pop(q)
	for _, n := range e.get("/api/v1/consumer-groups").arr(http.StatusOK) {
		if n.str("queueName") == q {
			n.is("name", "__QUEUE_MODE__", "totalLag", 1)
			return
		}
	}
	t.Error("queue mode is not listed")
}

func TestS7_GroupThatNeverConsumedIsDead(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "old")
	e.popNone(q, group(g))
	e.push(q, "p", "a")
	find(t, e.get("/api/v1/consumer-groups").arr(http.StatusOK), "name", g).is("state", "Dead", "totalLag", 1)
}

func TestS7_OneGroup(t *testing.T) {
	e := shared(t)
	q1, q2, g := e.queue(), e.queue(), e.name("g")
	e.push(q1, "p", "a", "b", "c")
	e.push(q2, "p", "x")
	b := e.pop(q1, all(g), "batch=2")
	e.ack(g, b, "a=completed")
	e.pop(q2, all(g), "autoAck=true")
	n := e.get("/api/v1/consumer-groups/" + g).obj(http.StatusOK).onlyKeys(q1 + " " + q2)
	one := n.at(q1).hasKeys("conflation partitions").is("conflation", false).at("partitions", 0)
	one.hasKeys("partition workerId lastConsumedAt totalConsumed offsetLag timeLagSeconds leaseActive")
	one.is("partition", "p", "workerId", b.lease, "lastConsumedAt", nil, "totalConsumed", 1, "offsetLag", 2, "leaseActive", true)
	n.at(q2, "partitions", 0).is("workerId", nil, "totalConsumed", 1, "offsetLag", 0, "leaseActive", false)
}

func TestS7_UnknownGroupIsEmpty(t *testing.T) {
	e := shared(t)
	e.get("/api/v1/consumer-groups/" + e.name("g")).obj(http.StatusOK).onlyKeys("")
}

func TestS7_Lagging(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	begun := time.Now()
	e.push(q, "p", "a", "b")
	b := e.pop(q, all(g))
	e.eventually("the group lags by a second", func() bool {
		for _, n := range e.get("/api/v1/consumer-groups/lagging?minLagSeconds=1").arr(http.StatusOK) {
			if n.str("consumer_group") != g {
				continue
			}
			n.onlyKeys("consumer_group queue_name partition_name partition_id worker_id offset_lag time_lag_seconds lag_hours oldest_unconsumed_at last_consumed_at")
			n.is("queue_name", q, "partition_name", "p", "partition_id", b.pid(), "worker_id", b.lease, "offset_lag", 2, "last_consumed_at", nil)
			return true
		}
		return false
	})
	e.atLeast(begun, 900*time.Millisecond, "listed")
	for _, n := range e.get("/api/v1/consumer-groups/lagging").arr(http.StatusOK) {
		if n.str("consumer_group") == g {
			t.Error("listed before the default of an hour")
		}
	}
}

func TestS7_Subscription(t *testing.T) {
	e := shared(t, "R41")
	q1, q2, g := e.queue(), e.queue(), e.name("g")
	e.push(q1, "p", "a")
	e.push(q2, "p", "b")
	e.popNone(q1, group(g))
	e.popNone(q2, group(g))
	path := "/api/v1/consumer-groups/" + g + "/subscription"
	n := e.post(path, `{"subscriptionTimestamp":"2999-01-01T00:00:00Z"}`).obj(http.StatusOK)
	n.hasKeys("success consumerGroup newTimestamp rowsUpdated").is("success", true, "consumerGroup", g, "rowsUpdated", 2)
	if n.when("newTimestamp").Year() != 2999 {
		t.Errorf("newTimestamp %s", n.str("newTimestamp"))
	}
	// No cursor moves; partitions not met yet start by the new time.
	e.push(q1, "p", "c")
	e.pop(q1, group(g)).want("c")
	e.push(q1, "later", "d")
	e.popNone(q1, group(g))
	e.post(path, `{"subscriptionTimestamp":"2001-01-01T00:00:00Z"}`).obj(http.StatusOK).is("rowsUpdated", 2)
	e.push(q2, "later", "e")
	e.pop(q2, group(g)).want("e")
	for _, body := range []string{"{}", `{"subscriptionTimestamp":""}`, `{"subscriptionTimestamp":null}`, ""} {
		e.post(path, body).obj(http.StatusBadRequest).hasKeys("error")
	}
	e.post("/api/v1/consumer-groups/"+e.name("g")+"/subscription", `{"subscriptionTimestamp":"2001-01-01T00:00:00Z"}`).obj(http.StatusOK).is("rowsUpdated", 0)
}

func TestF47_QueueModeDoesNotColourGroups(t *testing.T) {
	e := shared(t, "S5")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	e.pop(q, "batch=1")
	e.finish(g, e.pop(q, all(g)))
	e.depth(q, g).is("pending", 0, "processing", 0, "ready", 0)
	e.depth(q, "__QUEUE_MODE__").is("pending", 2, "processing", 1, "ready", 1)
}

func TestS7_StaticLaggingWinsOverAGroupOfThatName(t *testing.T) {
	e := shared(t, "S3")
	q := e.queue()
	e.push(q, "p", "a")
	e.pop(q, all("lagging"))
	e.get("/api/v1/consumer-groups/lagging").arr(http.StatusOK)
}
