package conformance

import (
	"net/http"
	"testing"
	"time"
)

// expire pushes the ids to a queue whose retention is one second and waits
// until nothing of it is left.
func expire(e *env, q string, ids ...string) {
	e.Helper()
	e.configure(q, `{"retentionEnabled":true,"retentionSeconds":1}`)
	e.push(q, "p", ids...)
	e.eventually("retention empties the queue", func() bool { return e.retained(q) == 0 })
}

func TestR90_AgeLimitDeletesUnconsumed(t *testing.T) {
	e := shared(t, "R8")
	q, g := e.queue(), e.name("g")
	e.configure(q, `{"retentionEnabled":true,"retentionSeconds":2}`)
	begun := time.Now()
	e.push(q, "p", "a", "b")
	e.eventually("retention runs", func() bool { return e.retained(q) == 0 })
	e.atLeast(begun, 1900*time.Millisecond, "deletion")
	e.popNone(q, all(g))
	e.depth(q, g).is("pending", 0)
	e.get("/api/v1/messages?queue="+arg(q)).obj(http.StatusOK).is("total", 0)
	e.push(q, "p", "c")[0].is("offset", 2)
	e.pop(q, all(g)).want("c").msgs[0].is("offset", 2)
}

func TestR90_NeedsTheSwitch(t *testing.T) {
	e := shared(t, "R91", "R93")
	q := e.queue()
	e.configure(q, `{"retentionEnabled":false,"retentionSeconds":1,"completedRetentionSeconds":1}`)
	e.push(q, "p", "a", "b")
	e.pop(q, "autoAck=true", "batch=1").want("a")
	z := e.queue()
	e.configure(z, `{"retentionEnabled":true,"retentionSeconds":0,"completedRetentionSeconds":0}`)
	e.push(z, "p", "a")
	expire(e, e.queue(), "witness") // a whole cycle has passed, with a message as old
	if n := e.retained(q); n != 2 {
		t.Errorf("%d of 2 messages left", n)
	}
	if n := e.retained(z); n != 1 {
		t.Errorf("%d of 1 messages left", n)
	}
}

func TestR8_DeliveryResumesBehindAGap(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", series(0, 3)...)
	e.finish(g, e.pop(q, all(g), "batch=1"))
	e.configure(q, `{"retentionEnabled":true,"retentionSeconds":1}`)
	e.eventually("retention runs", func() bool { return e.retained(q) == 0 })
	e.configure(q, `{}`)
	e.push(q, "p", "m4", "m5")
	b := e.pop(q, group(g)).want("m4", "m5")
	b.msgs[0].is("offset", 4)
	e.finish(g, b)
	e.depth(q, g).is("pending", 0)
}

func TestR9_EmptyPartitionIsSealed(t *testing.T) {
	e := shared(t, "S20", "F47")
	q, g := e.queue(), e.name("g")
	e.configure(q, `{"maxWaitTimeSeconds":1}`)
	e.push(q, "p", "a", "b")
	b := e.pop(q, all(g), "batch=1", "leaseSeconds=1")
	e.eventually("the messages are gone", func() bool { return e.retained(q) == 0 })
	e.eventually("the lease ends", func() bool {
		return e.get("/api/v1/consumer-groups/"+g).obj(200).at(q, "partitions", 0, "leaseActive").text() == "false"
	})
	e.popNone(q, group(g))
	e.ackAs(g, b, "", "a=completed")[0].is("success", true, "noop", true)
	e.depth(q, g).is("pending", 0)
	e.push(q, "p", "c")
	e.pop(q, group(g)).want("c")
}

func TestR91_OnlyWhatEveryGroupConsumed(t *testing.T) {
	e := shared(t, "F46")
	q, g, h := e.queue(), e.name("g"), e.name("g")
	e.configure(q, `{"retentionEnabled":true,"completedRetentionSeconds":1}`)
	e.push(q, "p", series(1, 10)...)
	e.ack(g, e.pop(q, all(g)), "m8=completed")
	e.ack(h, e.pop(q, all(h)), "m5=completed", "m6=retry")
	e.eventually("the consumed part goes", func() bool { return e.retained(q) <= 5 })
	expire(e, e.queue(), "witness")
	if n := e.retained(q); n != 5 {
		t.Errorf("%d of 5 messages left", n)
	}
	e.pop(q, group(h)).want(series(6, 10)...)
	e.depth(q, "").is("pending", 5)
}

func TestR91_WithoutGroupsNothingGoes(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"retentionEnabled":true,"completedRetentionSeconds":1}`)
	e.push(q, "p", "a")
	expire(e, e.queue(), "witness")
	if n := e.retained(q); n != 1 {
		t.Errorf("%d of 1 messages left", n)
	}
	e.pop(q).want("a")
}

func TestR92_MaxWaitTakesLeasedMessagesToo(t *testing.T) {
	e := shared(t, "S20")
	q := e.queue()
	e.configure(q, `{"maxWaitTimeSeconds":1}`)
	e.push(q, "p", "a", "b")
	b := e.pop(q, "batch=1", "leaseSeconds=60").want("a")
	e.eventually("the messages are gone", func() bool { return e.retained(q) == 0 })
	if n := len(e.dlq(q)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	// Acking what retention removed meanwhile succeeds and releases.
	e.ack("", b, "a=completed")[0].is("success", true, "error", nil, "leaseReleased", true)
	e.popNone(q)
	e.push(q, "p", "c")
	e.pop(q).want("c")
}

func TestR31_PoisonRemovedByRetention(t *testing.T) {
	e := shared(t, "S20")
	q := e.queue()
	e.configure(q, `{"maxWaitTimeSeconds":1,"retryLimit":0}`)
	e.push(q, "p", "a", "b")
	b := e.pop(q, "leaseSeconds=60").want("a", "b")
	e.eventually("the messages are gone", func() bool { return e.retained(q) == 0 })
	for _, status := range []string{"dlq", "failed"} {
		n := e.ack("", b, "a="+status)[0]
		n.is("success", false, "error", dlqRejected, "dlq", false, "leaseReleased", false)
	}
	e.leased(b.lease, true)
	if n := len(e.dlq(q)); n != 0 {
		t.Errorf("%d dead letters without payload", n)
	}
}

func TestR93_DeadLettersSurvive(t *testing.T) {
	e := shared(t)
	q := e.queue()
	row := e.deadLetter(q, "p", "a")
	expire(e, q, "b")
	rows := e.dlq(q)
	if len(rows) != 1 {
		t.Fatalf("%d dead letters", len(rows))
	}
	if got := rows[0].at("data").text(); got != payloadOf("a") {
		t.Errorf("data %s", got)
	}
	e.configure(q, `{}`)
	e.post("/api/v1/dlq/"+row.str("id")+"/replay", "").obj(http.StatusOK).is("success", true)
	if got := e.pop(q).want("dlq:" + row.str("id")).msgs[0].at("data").text(); got != payloadOf("a") {
		t.Errorf("data %s", got)
	}
}

func TestR93_TracesSurvive(t *testing.T) {
	e := shared(t, "S8")
	q := e.queue()
	e.push(q, "p", "a")
	b := e.pop(q)
	e.post("/api/v1/traces", `{"transactionId":"a","partitionId":`+quote(b.pid())+`,"data":{"x":1}}`).obj(http.StatusCreated)
	expire(e, q, "b")
	e.del("/api/v1/resources/queues/" + seg(q)).obj(http.StatusOK)
	if n := len(e.get("/api/v1/traces/" + seg(b.pid()) + "/a").obj(http.StatusOK).list("traces")); n != 1 {
		t.Errorf("%d traces", n)
	}
}

func TestR93_SwitchedOffNothingReturns(t *testing.T) {
	e := shared(t)
	q := e.queue()
	expire(e, q, "a")
	e.configure(q, `{}`)
	e.popNone(q)
	if n := e.retained(q); n != 0 {
		t.Errorf("%d messages came back", n)
	}
	e.push(q, "p", "b")
	expire(e, e.queue(), "witness")
	e.pop(q).want("b")
}

func TestR94_AnEmptiedPartitionKeepsItsPlace(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	pid := e.pop(q).pid()
	e.configure(q, `{"maxWaitTimeSeconds":1}`)
	e.eventually("the queue empties", func() bool { return e.retained(q) == 0 })
	e.configure(q, `{}`)
	// Younger than a day: neither deleted nor made anew.
	if n := len(e.detail(q).list("partitions")); n != 1 {
		t.Errorf("%d partitions", n)
	}
	e.push(q, "p", "b")[0].is("offset", 1)
	if got := e.pop(q, all(e.name("g"))).pid(); got != pid {
		t.Errorf("partition id %s became %s", pid, got)
	}
}

func TestR8_GroupThatStartsAtTheOldestStartsBehindTheGap(t *testing.T) {
	e := shared(t, "R40")
	q, g := e.queue(), e.name("g")
	expire(e, q, "a", "b")
	e.configure(q, `{}`)
	e.push(q, "p", "c")
	e.pop(q, all(g)).want("c").msgs[0].is("offset", 2)
	e.ack(g, e.popAfterSeek(q, g), "c=completed")
	e.depth(q, g).is("pending", 0)
}

// popAfterSeek seeks before the oldest message and pops.
func (e *env) popAfterSeek(q, g string) batch {
	e.Helper()
	e.seek(g, q, farPast).obj(http.StatusOK)
	return e.pop(q, group(g))
}

func TestS7_LagOfAnEmptiedQueueIsZero(t *testing.T) {
	e := shared(t, "F47")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b", "c")
	e.finish(g, e.pop(q, all(g), "batch=1"))
	e.configure(q, `{"maxWaitTimeSeconds":1}`)
	e.eventually("the queue empties", func() bool { return e.retained(q) == 0 })
	e.depth(q, g).is("pending", 0, "ready", 0, "partitionsPending", 0)
	find(t, e.get("/api/v1/consumer-groups").arr(http.StatusOK), "name", g).is("totalLag", 0, "partitionsWithLag", 0)
	e.get("/api/v1/consumer-groups/"+g).obj(http.StatusOK).at(q, "partitions", 0).is("offsetLag", 0)
}
