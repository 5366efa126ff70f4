package api

import (
	"fmt"
	"testing"
)

const countKeys = "total pending processing completed failed deadLetter"

func TestQueuesAreListed(t *testing.T) {
	h := served(t)
	h.push("bills.new", "a", "b", "c")
	h.pop("bills.new", "batch=2")
	rows := at(t, h.ask(200, "GET", "/api/v1/resources/queues?namespace=ignored&limit=1", ""), "queues")
	row := at(t, rows, 0)
	keys(t, row, "id name namespace task createdAt partitions retainedBytes segments messages")
	is(t, row, "name", "bills.new", "namespace", "bills", "task", "new", "partitions", 1)
	keys(t, at(t, row, "segments"), "segments messages")
	is(t, at(t, row, "messages"), "total", 3, "pending", 3, "processing", 2)
	empty := served(t)
	if rows := at(t, empty.ask(200, "GET", "/api/v1/resources/queues", ""), "queues").([]any); len(rows) != 0 {
		t.Error(rows)
	}
}

func TestAQueueIsDescribed(t *testing.T) {
	h := served(t)
	h.push("q", "a", "b")
	h.pop("q", "batch=1&autoAck=true")
	d := h.ask(200, "GET", "/api/v1/resources/queues/q", "")
	keys(t, d, "id name namespace task createdAt options partitions totals retainedBytes segments")
	keys(t, at(t, d, "options"), "namespace task leaseTime retryLimit deadLetterQueue dlqAfterMaxRetries delayedProcessing windowBuffer "+
		"retentionEnabled retentionSeconds completedRetentionSeconds maxWaitTimeSeconds minPopWaitTime encryptionEnabled dedupWindowSeconds "+
		"priority maxSize retryDelay ttl")
	p := at(t, d, "partitions", 0)
	keys(t, p, "id name createdAt stats oldestMessage newestMessage")
	keys(t, at(t, p, "stats"), countKeys)
	keys(t, at(t, d, "totals"), countKeys)
	is(t, at(t, d, "totals"), "total", 2, "pending", 1, "processing", 0, "completed", 1, "failed", nil, "deadLetter", 0)
	is(t, h.ask(404, "GET", "/api/v1/resources/queues/none", ""), "error", "Queue not found")
}

func TestDepthIsMeasuredPerGroup(t *testing.T) {
	h := served(t)
	h.push("q", "a", "b", "c")
	h.pop("q", "batch=2")
	d := h.ask(200, "GET", "/api/v1/resources/queues/q/depth?group=__QUEUE_MODE__", "")
	keys(t, d, "queue group pending processing ready partitionsPending partitionsReady conflation effectivePending effectiveReady partitions")
	is(t, d, "queue", "q", "group", "__QUEUE_MODE__", "pending", 3, "processing", 2, "ready", 1, "partitionsPending", 1, "partitionsReady", 1,
		"conflation", false, "effectivePending", 3, "effectiveReady", 1)
	is(t, at(t, d, "partitions", 0), "partition", "p", "pending", 3, "processing", 2, "ready", 1)
	is(t, h.ask(200, "GET", "/api/v1/resources/queues/q/depth?group=new", ""), "group", "new", "pending", 3, "ready", 3)
	is(t, h.ask(200, "GET", "/api/v1/resources/queues/q/depth?group=", ""), "group", nil)
	is(t, h.ask(404, "GET", "/api/v1/resources/queues/none/depth", ""), "error", "Queue not found")
}

func TestTheOverviewAddsUp(t *testing.T) {
	h := served(t)
	h.push("a.x", "1", "2")
	h.push("b.x", "1")
	o := h.ask(200, "GET", "/api/v1/resources/overview", "")
	keys(t, o, "queues partitions namespaces tasks messages lag throughput timestamp statsAge")
	is(t, o, "queues", 2, "partitions", 2, "namespaces", 2, "tasks", 1)
	keys(t, at(t, o, "messages"), countKeys)
	is(t, at(t, o, "messages"), "total", 3, "pending", 3)
	keys(t, at(t, o, "lag", "time"), "avg median min max")
	is(t, at(t, o, "lag", "offset"), "avg", 1.5, "median", 1.5, "min", 1, "max", 2)
	keys(t, at(t, o, "throughput"), "ingestedPerSecond processedPerSecond")
}

func TestNamespacesTasksAndPartitionsAreListed(t *testing.T) {
	h := served(t)
	h.push("a.x", "1", "2")
	h.push("b.x", "1")
	h.push("plain", "1")
	spaces := at(t, h.ask(200, "GET", "/api/v1/resources/namespaces", ""), "namespaces")
	keys(t, at(t, spaces, 0), "namespace queues partitions messages")
	is(t, at(t, spaces, 0), "namespace", "a", "queues", 1, "partitions", 1)
	is(t, at(t, spaces, 0, "messages"), "total", 2, "pending", 2)
	tasks := at(t, h.ask(200, "GET", "/api/v1/resources/tasks", ""), "tasks")
	is(t, at(t, tasks, 0), "task", "", "queues", 1)
	is(t, at(t, tasks, 1), "task", "x", "queues", 2)
	busy := at(t, h.ask(200, "GET", "/api/v1/resources/partitions?limit=1", ""), "partitions").([]any)
	if len(busy) != 1 {
		t.Fatal(busy)
	}
	keys(t, busy[0], "id queue partition pending processing lagSeconds")
	is(t, busy[0], "queue", "a.x", "partition", "p", "pending", 2)
	h.pop("plain", "autoAck=true")
	idle := at(t, h.ask(200, "GET", "/api/v1/resources/partitions?queue=plain", ""), "partitions", 0)
	is(t, idle, "pending", 0, "lagSeconds", nil)
}

func TestMessagesAreListedAndShown(t *testing.T) {
	h := served(t)
	h.push("bills.new", "a", "b", "c")
	popped := h.pop("bills.new", "batch=2")
	h.fail(popped, 0, "", "smtp 550")
	page := h.ask(200, "GET", "/api/v1/messages?queue=bills.new", "")
	keys(t, page, "messages mode total")
	is(t, page, "total", 3)
	is(t, at(t, page, "mode"), "hasQueueMode", true, "busGroupsCount", 0, "type", "queue")
	newest := at(t, page, "messages", 0)
	keys(t, newest, "id transactionId txnHash partitionId queuePath queue partition namespace task status queueStatus busStatus traceId "+
		"producerSub payloadAvailable segment createdAt leaseExpiresAt data payload offset")
	is(t, newest, "transactionId", "c", "queuePath", "bills.new/p", "namespace", "bills", "status", "pending", "payloadAvailable", true)
	keys(t, at(t, newest, "busStatus"), "consumedBy totalGroups")
	keys(t, at(t, newest, "segment"), "seq frameIdx")
	is(t, h.ask(200, "GET", "/api/v1/messages?status=dead_letter", ""), "total", 1)
	is(t, h.ask(200, "GET", "/api/v1/messages?ns=bills&task=new&limit=2", ""), "total", 2)
	is(t, h.ask(200, "GET", "/api/v1/messages?to=2001-01-01T00:00:00Z", ""), "total", 0)
	h.ask(400, "GET", "/api/v1/messages?limit=many", "")
	pid := at(t, newest, "partitionId").(string)
	d := h.ask(200, "GET", "/api/v1/messages/"+pid+"/a", "")
	keys(t, d, "id transactionId data payload traceId producerSub createdAt partitionId partition isEncrypted queue queuePath namespace task "+
		"status errorMessage retryCount leaseExpiresAt consumerGroups mode queueConfig offset")
	is(t, d, "status", "dead_letter", "errorMessage", "smtp 550", "retryCount", 0, "isEncrypted", false)
	keys(t, at(t, d, "consumerGroups", 0), "name group consumed leaseExpiresAt")
	keys(t, at(t, d, "queueConfig"), "leaseTime retryLimit retryDelay ttl priority")
	for _, path := range []string{pid + "/ghost", "nowhere/a"} {
		is(t, h.ask(404, "GET", "/api/v1/messages/"+path, ""), "error", "Message not found")
	}
	if got := fmt.Sprint(h.do("GET", "/api/v1/messages/"+pid, "").status); got != "404" {
		t.Error(got)
	}
}
