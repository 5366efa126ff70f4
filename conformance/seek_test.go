package conformance

import (
	"net/http"
	"testing"
	"time"
)

// pinSeek moves the cursor of a group on one partition.
func (e *env) pinSeek(g, q, p, body string) reply {
	e.Helper()
	return e.post("/api/v1/consumer-groups/"+seg(g)+"/queues/"+seg(q)+"/partitions/"+seg(p)+"/seek", body)
}

// farPast is older than any log.
const farPast = `{"timestamp":"2001-01-01T00:00:00Z"}`

func TestS7_QueueSeekShape(t *testing.T) {
	e := shared(t, "R44")
	q, g := lanes(e, 3), e.name("g")
	e.pop(q, all(g))
	n := e.seek(g, q, `{"toEnd":true}`).obj(http.StatusOK)
	n.onlyKeys("success consumerGroup queueName seekToEnd targetTimestamp partitionsUpdated")
	n.is("success", true, "consumerGroup", g, "queueName", q, "seekToEnd", true, "targetTimestamp", nil, "partitionsUpdated", 3)
	n = e.seek(g, q, farPast).obj(http.StatusOK).is("success", true, "seekToEnd", false, "partitionsUpdated", 3)
	if at := n.when("targetTimestamp"); at.Year() != 2001 {
		t.Errorf("targetTimestamp %v", at)
	}
}

func TestS7_PartitionSeekShape(t *testing.T) {
	e := shared(t, "R44")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	e.pop(q, all(g))
	n := e.pinSeek(g, q, "p", `{"toEnd":true}`).obj(http.StatusOK)
	n.onlyKeys("success consumerGroup queueName partitionName seekToEnd targetTimestamp updated")
	n.is("success", true, "consumerGroup", g, "queueName", q, "partitionName", "p", "seekToEnd", true, "targetTimestamp", nil, "updated", true)
	e.pinSeek(g, q, "p", farPast).obj(http.StatusOK).is("seekToEnd", false, "updated", true)
}

func TestS7_SeekRefusals(t *testing.T) {
	e := shared(t, "S20")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	e.pop(q, all(g))
	for _, body := range []string{"{}", `{"toEnd":false}`, `{"timestamp":null}`} {
		e.seek(g, q, body).refuses(http.StatusBadRequest, "Must specify toEnd=true or a timestamp")
	}
	for _, body := range []string{"", "nope", "[", `{"timestamp":"soon"}`} {
		e.seek(g, q, body).obj(http.StatusBadRequest).hasKeys("error")
	}
	e.pinSeek(g, q, "p", "nope").obj(http.StatusBadRequest).hasKeys("error")
	e.pinSeek(g, q, "p", `{"toEnd":false}`).refuses(http.StatusBadRequest, "Must specify toEnd=true or a timestamp")
	e.depth(q, g).is("pending", 1, "processing", 1)
}

func TestS20_PartitionSeekWithoutABodyIsToEnd(t *testing.T) {
	e := shared(t, "S7")
	for _, body := range []string{"", "{}"} {
		q, g := e.queue(), e.name("g")
		e.push(q, "p", "a")
		e.pop(q, all(g))
		e.pinSeek(g, q, "p", body).obj(http.StatusOK).is("success", true, "seekToEnd", true, "updated", true)
		e.depth(q, g).is("pending", 0, "processing", 0)
	}
}

func TestS7_SeekOfNothing(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	shape := func() {
		n := e.seek(g, q, `{"toEnd":true}`).refuses(http.StatusNotFound, "Queue not found or has no partitions")
		n.is("success", false, "consumerGroup", g, "queueName", q, "partitionsUpdated", 0)
	}
	shape()
	e.pinSeek(g, q, "p", `{"toEnd":true}`).refuses(http.StatusNotFound, "Partition not found").is("success", false)
	e.configure(q, `{}`)
	shape()
	e.push(q, "p", "a")
	e.pinSeek(g, q, "other", `{"toEnd":true}`).refuses(http.StatusNotFound, "Partition not found").is("success", false)
}

func TestR44_SeekToEnd(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	e.pop(q, all(g), "batch=1")
	e.seek(g, q, `{"toEnd":true}`).want(http.StatusOK)
	e.popNone(q, group(g))
	e.push(q, "p", "c")
	e.pop(q, group(g)).want("c").attempt(1)
}

func TestR44_SeekToATime(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	for _, id := range []string{"a", "b", "c"} {
		e.push(q, "p", id)
	}
	b := e.pop(q, all(g)).want("a", "b", "c")
	e.finish(g, b)
	e.seek(g, q, `{"timestamp":`+quote(b.msgs[1].str("createdAt"))+`}`).want(http.StatusOK)
	e.pop(q, group(g)).want("b", "c")
	e.seek(g, q, farPast).want(http.StatusOK)
	e.pop(q, group(g)).want("a", "b", "c")
	after := b.msgs[1].when("createdAt").Add(time.Microsecond).Format("2006-01-02T15:04:05.000000Z")
	e.seek(g, q, `{"timestamp":`+quote(after)+`}`).want(http.StatusOK)
	e.pop(q, group(g)).want("c")
	e.seek(g, q, `{"timestamp":"2999-01-01T00:00:00Z"}`).want(http.StatusOK)
	e.popNone(q, group(g))
	e.depth(q, g).is("pending", 0)
	e.seek(g, q, `{"timestamp":"2001-02-03"}`).want(http.StatusOK)
	e.pop(q, group(g)).want("a", "b", "c")
}

func TestR44_SeekReleasesTheLease(t *testing.T) {
	e := shared(t, "F20")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	b := e.pop(q, all(g), "batch=1")
	e.seek(g, q, farPast).want(http.StatusOK)
	e.leased(b.lease, false)
	refused(badLease, e.ack(g, b, "a=completed")...)
	refused(badLease, e.ack(g, b, "a=failed")...)
	e.pop(q, group(g)).want("a", "b").attempt(1)
}

func TestR44_SeekResetsBudgetAndAttempt(t *testing.T) {
	e := shared(t, "R29")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	for range 2 {
		e.ack(g, e.pop(q, all(g)), "a=failed")
	}
	e.seek(g, q, farPast).want(http.StatusOK)
	b := e.pop(q, group(g)).want("a").attempt(1)
	e.ack(g, b, "a=dlq")
	e.dlq(q)[0].is("retryCount", 0)
}

func TestR44_SeekMovesOneGroupOnly(t *testing.T) {
	e := shared(t)
	q, g, h := e.queue(), e.name("g"), e.name("g")
	e.push(q, "p", "a")
	e.pop(q, all(g))
	b := e.pop(q, all(h))
	e.seek(g, q, `{"toEnd":true}`).want(http.StatusOK)
	e.leased(b.lease, true)
	e.depth(q, h).is("pending", 1)
}

func TestR44_PartitionSeekMovesOnePartitionOnly(t *testing.T) {
	e := shared(t)
	q, g := lanes(e, 2), e.name("g")
	e.finish(g, e.pop(q, all(g), "partitions=2"))
	e.pinSeek(g, q, "p1", farPast).want(http.StatusOK)
	e.pop(q, group(g), "partitions=2").want("m1").is("partitionsClaimed", 1)
}

func TestR44_SeekOfAGroupThatNeverPopped(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	e.seek(g, q, `{"toEnd":true}`).obj(http.StatusOK).is("success", true, "partitionsUpdated", 1)
	e.push(q, "p", "b")
	e.pop(q, all(g)).want("b")
}

func TestR44_SeekOfQueueMode(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b")
	e.finish("", b)
	e.seek("__QUEUE_MODE__", q, farPast).obj(http.StatusOK).is("consumerGroup", "__QUEUE_MODE__")
	e.pop(q).want("a", "b")
}
