package conformance

import (
	"net/http"
	"testing"
)

// six are the counters of a queue or partition.
const six = "total pending processing completed failed deadLetter"

func TestS5_ListOfQueues(t *testing.T) {
	e := shared(t)
	q := e.name("n") + ".mail"
	e.push(q, "p1", "a", "b", "c")
	e.push(q, "p2", "d")
	e.pin(q, "p1", "batch=2")
	var n node
	e.eventually("the counters arrive", func() bool {
		n = find(t, e.get("/api/v1/resources/queues").obj(http.StatusOK).list("queues"), "name", q)
		return n.num("messages", "total") == 4 && n.num("messages", "processing") == 2
	})
	n.hasKeys("id name namespace task createdAt partitions retainedBytes segments messages").is("partitions", 2, "task", "mail")
	n.matches(uuid7, "id")
	n.matches(timeMilli, "createdAt")
	n.at("segments").hasKeys("segments messages")
	n.at("messages").hasKeys("total pending processing")
	if n.num("retainedBytes") < 0 {
		t.Error("negative size")
	}
	// Filters are taken and ignored.
	find(t, e.get("/api/v1/resources/queues?namespace=nobody&task=x&limit=1").obj(http.StatusOK).list("queues"), "name", q)
}

func TestS5_QueueDetail(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p1", "a", "b", "c")
	e.push(q, "p2", "d", "e")
	e.finish("", e.pin(q, "p1", "batch=1"))
	e.pin(q, "p1", "batch=1")
	e.ack("", e.pin(q, "p2", "batch=1"), "d=dlq")
	n := e.detail(q).hasKeys("id name namespace task createdAt options partitions totals retainedBytes segments")
	n.is("name", q, "namespace", q, "task", "")
	n.matches(timeMilli, "createdAt")
	n.at("options").is("leaseTime", 60, "ttl", 3600, "encryptionEnabled", false)
	n.at("totals").hasKeys(six).is("total", 5, "pending", 3, "processing", 1, "failed", nil, "deadLetter", 1)
	p := find(t, n.list("partitions"), "name", "p1").hasKeys("id name createdAt stats oldestMessage newestMessage")
	p.at("stats").hasKeys(six).is("total", 3, "pending", 2, "processing", 1, "completed", 1, "failed", nil, "deadLetter", 0)
	find(t, n.list("partitions"), "name", "p2").at("stats").is("deadLetter", 1, "pending", 1)
	p.when("oldestMessage")
	p.when("newestMessage")
}

func TestS5_PendingIsMeasuredFromTheLowestCursor(t *testing.T) {
	e := shared(t)
	q, g, h := e.queue(), e.name("g"), e.name("g")
	e.push(q, "p", "a", "b", "c", "d")
	e.finish(g, e.pop(q, all(g)))
	e.finish(h, e.pop(q, all(h), "batch=1"))
	e.detail(q).at("totals").is("pending", 3, "total", 4)
}

func TestS5_UnknownQueue(t *testing.T) {
	e := shared(t, "S1")
	for _, path := range []string{"/api/v1/resources/queues/", "/api/v1/status/queues/"} {
		e.get(path+e.queue()).refuses(http.StatusNotFound, "Queue not found")
	}
	e.get("/api/v1/resources/queues/"+e.queue()+"/depth").refuses(http.StatusNotFound, "Queue not found")
	e.get("/api/v1/resources/queues/"+e.queue()+"/depth?group=g").refuses(http.StatusNotFound, "Queue not found")
}

func TestS5_DepthShape(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p1", "a", "b", "c")
	e.push(q, "p2", "d")
	e.pin(q, "p1", all(g), "batch=2")
	n := e.depth(q, g).hasKeys("queue group pending processing ready partitionsPending partitionsReady conflation effectivePending effectiveReady partitions")
	n.is("queue", q, "group", g, "pending", 4, "processing", 2, "ready", 2, "partitionsPending", 2, "conflation", false)
	find(t, n.list("partitions"), "partition", "p1").hasKeys("partition pending processing ready").is("pending", 3, "processing", 2, "ready", 1)
	find(t, n.list("partitions"), "partition", "p2").is("pending", 1, "processing", 0, "ready", 1)
}

func TestS5_DepthOfAGroupWithoutACursor(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a", "b")
	e.finish("", e.pop(q, "batch=1"))
	e.depth(q, e.name("g")).is("pending", 2, "processing", 0, "ready", 2)
}

func TestS5_DepthOfAConflatingGroup(t *testing.T) {
	e := shared(t, "R71")
	q, g := e.queue(), e.name("g")
	e.push(q, "p1", "a", "b", "c")
	e.push(q, "p2", "d", "e")
	e.pin(q, "p1", newest(g))
	e.depth(q, g).is("conflation", true, "pending", 5, "effectivePending", 2, "effectiveReady", 1)
}

func TestS5_DeleteQueue(t *testing.T) {
	e := shared(t, "S20")
	q, g := e.queue(), e.name("g")
	e.configure(q, `{"leaseTime":7}`)
	e.push(q, "p", "a", "b", "c")
	e.ack(g, e.pop(q, all(g)), "a=dlq")
	b := e.pop(q, group(g))
	id := e.detail(q).str("id")
	e.del("/api/v1/resources/queues/"+q).obj(http.StatusOK).is("deleted", true, "queue", q, "existed", true)
	e.notThere(q)
	if n := len(e.dlq(q)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	e.leased(b.lease, false)
	if got := e.get("/api/v1/consumer-groups/" + g).obj(http.StatusOK).keys(); len(got) != 0 {
		t.Errorf("the group still has %v", got)
	}
	e.del("/api/v1/resources/queues/"+q).obj(http.StatusOK).
		is("deleted", false, "queue", q, "existed", false, "message", "Queue not found, nothing was deleted")

	e.push(q, "p", "a")[0].is("offset", 0, "status", "queued")
	n := e.detail(q)
	n.at("options").is("leaseTime", 60)
	if n.str("id") == id {
		t.Error("the new queue has the old id")
	}
	if e.pop(q, all(g)).want("a").attempt(1).pid() == b.pid() {
		t.Error("the new partition has the old id")
	}
}

func TestS5_DeletedQueueServesItsParkedPops(t *testing.T) {
	e := shared(t, "R12")
	q := e.queue()
	e.popNone(q)
	p := e.park(q)
	e.del("/api/v1/resources/queues/" + q).want(http.StatusOK)
	settle()
	e.push(q, "p", "a")
	if r := p.wait(22e9); r.status == http.StatusOK {
		r.asBatch().want("a")
	} else {
		r.empty()
		e.pop(q).want("a")
	}
}

func TestS5_Overview(t *testing.T) {
	e := shared(t)
	e.push(e.queue(), "p", "a")
	n := e.get("/api/v1/resources/overview").obj(http.StatusOK).hasKeys("queues partitions namespaces tasks messages lag throughput timestamp statsAge")
	n.at("messages").hasKeys(six)
	n.at("lag", "time").hasKeys("avg median min max")
	n.at("lag", "offset").hasKeys("avg median min max")
	n.at("throughput").hasKeys("ingestedPerSecond processedPerSecond")
	if n.num("queues") < 1 {
		t.Error("no queues")
	}
	n.when("timestamp")
}

func TestS5_NamespacesAndTasks(t *testing.T) {
	e := shared(t)
	ns, task := e.name("n"), e.name("t")
	e.push(ns+"."+task, "p", "a", "b")
	e.push(ns+".other", "p", "c")
	check := func(path, list, key, value string, queues, total int) {
		t.Helper()
		e.eventually("the counters arrive", func() bool {
			for _, n := range e.get(path).obj(http.StatusOK).list(list) {
				if n.str(key) == value && n.num("messages", "total") == int64(total) {
					n.hasKeys(key+" queues partitions messages").is("queues", queues, "partitions", queues)
					n.at("messages").hasKeys("total pending")
					return true
				}
			}
			return false
		})
	}
	check("/api/v1/resources/namespaces", "namespaces", "namespace", ns, 2, 3)
	check("/api/v1/resources/tasks", "tasks", "task", task, 1, 2)
}

func TestS5_Partitions(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p1", "a", "b")
	e.push(q, "p2", "c")
	e.pin(q, "p2", "autoAck=true")
	e.get("/api/v1/resources/partitions?queue=" + q + "&limit=10").want(http.StatusOK).json()
}

func TestS5_FirstMessageIsCountedAtOnce(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.popNone(q)
	e.detail(q).at("totals").is("total", 0, "pending", 0)
	e.push(q, "p", "a")
	e.detail(q).at("totals").is("total", 1, "pending", 1)
	e.depth(q, "").is("pending", 1, "ready", 1)
}
