package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// rowKeys are the members every dead-letter row has.
const rowKeys = "id transactionId partitionId queue partition consumerGroup errorMessage retryCount data producerSub createdAt failedAt"

// address is the path of a message by partition id and transaction id.
func address(pid, txn string) string { return "/api/v1/messages/" + seg(pid) + "/" + seg(txn) }

// replay moves a dead letter by its id.
func (e *env) replay(id, body string) reply {
	e.Helper()
	return e.post("/api/v1/dlq/"+seg(id)+"/replay", body)
}

func TestS6_DeadLetterListShape(t *testing.T) {
	e := shared(t, "A5")
	q := e.queue()
	pushed := e.push(q, "acct-9", "bill-31")[0]
	b := e.pop(q)
	e.ackItems("", ackItem("bill-31", b.pid(), b.lease, "dlq", `"error":"smtp 550"`))
	n := e.get("/api/v1/dlq?queue=" + arg(q)).obj(http.StatusOK)
	n.hasKeys("messages pagination total totalCount").is("total", 1, "totalCount", 1)
	n.at("pagination").is("limit", 100, "offset", 0)
	row := n.at("messages", 0).hasKeys(rowKeys + " offset enqueuedAt attempts originalProducerSub")
	row.is("transactionId", "bill-31", "partitionId", b.pid(), "queue", q, "partition", "acct-9", "consumerGroup", "__QUEUE_MODE__",
		"errorMessage", "smtp 550", "retryCount", 0, "producerSub", nil, "offset", 0, "attempts", 1, "originalProducerSub", nil)
	row.matches(uuid7, "id")
	failed := row.matches(timeMilli, "failedAt")
	row.is("createdAt", failed).lacks("isEncrypted")
	if row.str("id") == pushed.str("message_id") {
		t.Error("the row has the id of the message")
	}
	if d := row.when("failedAt").Sub(row.when("enqueuedAt")); d < -time.Millisecond {
		t.Errorf("enqueued %v after the failure", -d)
	}
}

func TestS6_DeadLettersNewestFirstAndPaged(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", series(1, 5)...)
	for i := 1; i <= 5; i++ {
		e.ack("", e.pop(q, "batch=1"), fmt.Sprintf("m%d=dlq", i))
	}
	ids := func(params ...string) []string {
		var out []string
		for _, n := range e.dlq(q, params...) {
			out = append(out, n.str("transactionId"))
		}
		return out
	}
	if got := ids(); !slices.Equal(got, []string{"m5", "m4", "m3", "m2", "m1"}) {
		t.Errorf("order %v", got)
	}
	if got := ids("limit=2"); !slices.Equal(got, []string{"m5", "m4"}) {
		t.Errorf("first page %v", got)
	}
	if got := ids("limit=2", "offset=4"); !slices.Equal(got, []string{"m1"}) {
		t.Errorf("last page %v", got)
	}
	n := e.get("/api/v1/dlq?queue=" + arg(q) + "&limit=2&offset=4").obj(http.StatusOK)
	n.is("total", 1, "totalCount", 5).at("pagination").is("limit", 2, "offset", 4)
}

func TestS6_DeadLetterFilters(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p1", "a")
	e.push(q, "p2", "b")
	e.ack("", e.pin(q, "p1"), "a=dlq")
	e.ack("", e.pin(q, "p2"), "b=dlq")
	e.ack(g, e.pin(q, "p1", all(g)), "a=dlq")
	count := func(want int, params ...string) {
		t.Helper()
		if got := len(e.dlq(q, params...)); got != want {
			t.Errorf("%v: %d rows, want %d", params, got, want)
		}
	}
	count(3)
	count(1, group(g))
	count(2, "consumerGroup=__QUEUE_MODE__")
	count(2, "partition=p1")
	count(1, "partition=p1", group(g))
	count(0, "partition=p2", group(g))
	count(0, "from=2999-01-01T00:00:00Z")
	count(3, "from=2001-01-01T00:00:00Z", "to=2999-01-01T00:00:00Z")
	count(0, "to=2001-01-01T00:00:00Z")
	if len(e.dlq(e.queue())) != 0 {
		t.Error("an unknown queue has dead letters")
	}
	found := false
	for _, n := range e.get("/api/v1/dlq?limit=1000").obj(http.StatusOK).list("messages") {
		found = found || n.str("queue") == q
	}
	if !found {
		t.Error("the list without a queue lacks the rows")
	}
}

func TestS6_RetryByAddress(t *testing.T) {
	e := shared(t, "S15")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	b := e.pop(q, all(g))
	e.ack(g, b, "a=dlq")
	row := e.dlq(q)[0]
	n := e.post(address(b.pid(), "a")+"/retry", "").obj(http.StatusOK)
	n.hasKeys("success queue partition replayedAs dlqRowRemoved result consumerGroup dlqId originalTransactionId")
	n.is("success", true, "queue", q, "partition", "p", "dlqRowRemoved", true, "result", "moved", "consumerGroup", g, "dlqId", row.str("id"), "originalTransactionId", "a")
	as := n.at("replayedAs").hasKeys("index message_id transaction_id queueName status offset")
	id := as.matches(uuid7, "message_id")
	as.is("index", 0, "transaction_id", id, "queueName", q, "status", "queued", "offset", 1)
	if len(e.dlq(q)) != 0 {
		t.Error("the row is still there")
	}
	c := e.pop(q, group(g)).want(id).attempt(1)
	c.msgs[0].is("id", id, "offset", 1)
	if got := c.msgs[0].at("data").text(); got != payloadOf("a") {
		t.Errorf("data %s", got)
	}
}

func TestS6_RetryTakesTheNewestOfTheAddress(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	b := e.pop(q)
	e.ack("", b, "a=dlq")
	e.ack(g, e.pop(q, all(g)), "a=dlq")
	e.post(address(b.pid(), "a")+"/retry", "{}").obj(http.StatusOK).is("consumerGroup", g)
	e.dlq(q)[0].is("consumerGroup", "__QUEUE_MODE__")
}

func TestS20_RetryOfALiveAddress(t *testing.T) {
	e := shared(t, "S6")
	q, b := taken(e, "a")
	for _, path := range []string{address(b.pid(), "a"), address(b.pid(), "ghost"), address("nowhere", "a")} {
		n := e.post(path+"/retry", "{}").refuses(http.StatusNotFound, "Message not found")
		n.is("success", false, "message", "No dead-letter row for this address. Only dead-lettered messages can be replayed")
		n.hasKeys("partitionId transactionId")
	}
	e.depth(q, "").is("pending", 1)
}

func TestS6_DeleteByAddress(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	b := e.pop(q)
	e.ack("", b, "a=dlq")
	e.ack(g, e.pop(q, all(g)), "a=dlq")
	e.del(address(b.pid(), "a")).obj(http.StatusOK).onlyKeys("success partitionId transactionId message").
		is("success", true, "partitionId", b.pid(), "transactionId", "a", "message", "Message deleted successfully")
	if n := len(e.dlq(q)); n != 0 {
		t.Errorf("%d rows left", n)
	}
	n := e.del(address(b.pid(), "a")).refuses(http.StatusNotFound, "Message not found")
	n.is("success", false, "partitionId", b.pid(), "transactionId", "a",
		"message", "No dead-letter row for this address. Live messages live in immutable segments and cannot be deleted")
	_, live := taken(e, "x")
	e.del(address(live.pid(), "x")).refuses(http.StatusNotFound, "Message not found")
}

func TestS6_ReplayByID(t *testing.T) {
	e := shared(t, "S15")
	q := e.queue()
	row := e.deadLetter(q, "p", "a")
	id := row.str("id")
	n := e.replay(id, "").obj(http.StatusOK)
	n.hasKeys("success queue partition replayedAs dlqRowRemoved result")
	n.is("success", true, "queue", q, "partition", "p", "dlqRowRemoved", true, "result", "moved")
	as := n.at("replayedAs").is("index", 0, "transaction_id", "dlq:"+id, "queueName", q, "status", "queued", "offset", 1)
	e.pop(q).want("dlq:" + id).msgs[0].is("id", as.matches(uuid7, "message_id"))
	if len(e.dlq(q)) != 0 {
		t.Error("the row is still there")
	}
}

func TestS6_ReplayOfNothing(t *testing.T) {
	e := shared(t, "S20")
	for _, id := range []string{"0199aa01-0000-7000-8000-000000000000", "nonsense", "a/b"} {
		n := e.replay(id, "{}").refuses(http.StatusNotFound, "Message not found")
		n.onlyKeys("success result dlqId error message").is("success", false, "result", "gone", "dlqId", id, "message", "No dead-letter row with this id")
	}
	row := e.deadLetter(e.queue(), "p", "a")
	e.replay(row.str("id"), "").want(http.StatusOK)
	e.replay(row.str("id"), "").refuses(http.StatusNotFound, "Message not found").is("result", "gone")
}

func TestS20_ReplayTakesOverrides(t *testing.T) {
	e := shared(t, "S6")
	q, to := e.queue(), e.queue()
	row := e.deadLetter(q, "p", "a")
	for _, body := range []string{`{"queue":""}`, `{"queue":"   "}`, `{"partition":""}`, `{"partition":" \t"}`, `{"queue":5}`, `nope`} {
		e.replay(row.str("id"), body).obj(http.StatusBadRequest).hasKeys("error")
	}
	if len(e.dlq(q)) != 1 {
		t.Fatal("a refused replay removed the row")
	}
	n := e.replay(row.str("id"), `{"queue":`+quote("  "+to+" ")+`,"partition":" other "}`).obj(http.StatusOK)
	n.is("queue", to, "partition", "other").at("replayedAs").is("queueName", to, "offset", 0)
	e.pin(to, "other").want("dlq:" + row.str("id"))
	row = e.deadLetter(q, "p2", "b")
	e.replay(row.str("id"), `{"partition":"elsewhere","queue":null}`).obj(http.StatusOK).is("queue", q, "partition", "elsewhere")
	e.pin(q, "elsewhere").want("dlq:" + row.str("id"))
}

func TestS6_ReplayIntoItsOwnWindow(t *testing.T) {
	e := shared(t)
	q := e.queue()
	row := e.deadLetter(q, "p", "a")
	txn := "dlq:" + row.str("id")
	e.push(q, "p", txn)
	n := e.replay(row.str("id"), "").obj(http.StatusOK).is("result", "duplicate", "dlqRowRemoved", false)
	n.at("replayedAs").is("status", "duplicate", "message_id", zeroID, "transaction_id", txn)
	if len(e.dlq(q)) != 1 {
		t.Error("the row went away")
	}
	e.pop(q).want(txn)
	e.push(q, "p", "next")[0].is("offset", 2)
}

func TestS6_ReplayStartsANewLife(t *testing.T) {
	e := shared(t, "F33")
	q := e.queue()
	e.configure(q, `{"retryLimit":1}`)
	e.push(q, "p", "a")
	for range 2 {
		e.ack("", e.pop(q), "a=failed")
	}
	row := e.dlq(q)[0]
	e.replay(row.str("id"), "").want(http.StatusOK)
	b := e.pop(q).attempt(1)
	id := b.ids()[0]
	e.ack("", b, id+"=failed")[0].is("dlq", false)
	e.pop(q).want(id).attempt(2)
}

func TestS6_ReplayReachesEveryGroup(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	e.finish(g, e.pop(q, all(g)))
	e.ack("", e.pop(q), "a=dlq")
	id := e.dlq(q)[0].str("id")
	e.replay(id, "").want(http.StatusOK)
	e.pop(q, group(g)).want("dlq:" + id)
	e.pop(q).want("dlq:" + id)
}

func TestS6_PurgeByQueueAndGroup(t *testing.T) {
	e := shared(t, "A4")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	e.ack("", e.pop(q), "a=dlq", "b=dlq")
	e.ack(g, e.pop(q, all(g)), "a=dlq")
	e.del("/api/v1/dlq").refuses(http.StatusBadRequest, "queue is required")
	e.del("/api/v1/dlq?consumerGroup="+g).refuses(http.StatusBadRequest, "queue is required")
	e.del("/api/v1/dlq?queue="+arg(q)+"&consumerGroup="+g).obj(http.StatusOK).is("success", true, "deleted", 1)
	e.del("/api/v1/dlq?queue="+arg(q)).obj(http.StatusOK).is("success", true, "deleted", 2)
	e.del("/api/v1/dlq?queue="+arg(q)).obj(http.StatusOK).is("success", true, "deleted", 0)
}

func TestA4_BulkReplay(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", series(1, 6)...)
	b := e.pop(q)
	var items []string
	for i, id := range series(1, 6) {
		items = append(items, ackItem(id, b.pid(), b.lease, "dlq", fmt.Sprintf(`"error":"code %d"`, i%2)))
	}
	e.ackItems("", items...)
	bulk := func(more string) node {
		return e.post("/api/v1/dlq/replay", `{"queue":`+quote(q)+more+`}`).obj(http.StatusOK).
			onlyKeys("success matched replayed duplicates failed remaining").is("success", true, "failed", 0, "duplicates", 0)
	}
	bulk(`,"dryRun":true`).is("matched", 6, "replayed", 0)
	if len(e.dlq(q)) != 6 {
		t.Fatal("a dry run moved something")
	}
	bulk(`,"errorContains":"code 1"`).is("matched", 3, "replayed", 3, "remaining", 0)
	bulk(`,"limit":2`).is("replayed", 2, "remaining", 1)
	bulk(`,"partition":"nowhere"`).is("matched", 0, "replayed", 0)
	bulk(`,"consumerGroup":"nowhere"`).is("matched", 0)
	bulk(`,"from":"2999-01-01T00:00:00Z"`).is("matched", 0)
	bulk(``).is("matched", 1, "replayed", 1, "remaining", 0)
	bulk(``).is("matched", 0, "replayed", 0)
	// Oldest first: m2 m4 m6, then m1 m3, then m5.
	var data []string
	for _, m := range e.pop(q).msgs {
		data = append(data, m.str("data", "v"))
	}
	if !slices.Equal(data, []string{"m2", "m4", "m6", "m1", "m3", "m5"}) {
		t.Errorf("replayed in the order %v", data)
	}
}

func TestA4_BulkReplayNeedsAQueue(t *testing.T) {
	e := shared(t)
	e.post("/api/v1/dlq/replay", `{}`).obj(http.StatusBadRequest).hasKeys("error")
	e.post("/api/v1/dlq/replay", "").obj(http.StatusBadRequest).hasKeys("error")
}

func TestA4_BulkReplayKeepsDuplicates(t *testing.T) {
	e := shared(t)
	q := e.queue()
	row := e.deadLetter(q, "p", "a")
	e.push(q, "p", "dlq:"+row.str("id"))
	e.post("/api/v1/dlq/replay", `{"queue":`+quote(q)+`}`).obj(http.StatusOK).is("matched", 1, "replayed", 0, "duplicates", 1, "failed", 0)
	if len(e.dlq(q)) != 1 {
		t.Error("the row went away")
	}
}

func TestA4_DeleteWithFilters(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p1", "a")
	e.push(q, "p2", "b", "c")
	e.ack("", e.pin(q, "p1"), "a=dlq")
	b := e.pin(q, "p2")
	e.ackItems("", ackItem("b", b.pid(), b.lease, "dlq", `"error":"red"`), ackItem("c", b.pid(), b.lease, "dlq", `"error":"blue"`))
	base := "/api/v1/dlq?queue=" + arg(q)
	e.del(base+"&partition=p3").obj(http.StatusOK).is("deleted", 0)
	e.del(base+"&errorContains=red").obj(http.StatusOK).is("success", true, "deleted", 1)
	e.del(base+"&from=2999-01-01").obj(http.StatusOK).is("deleted", 0)
	e.del(base+"&partition=p1").obj(http.StatusOK).is("deleted", 1)
	e.dlq(q)[0].is("transactionId", "c")
}

func TestA4_DeleteByID(t *testing.T) {
	e := shared(t)
	q := e.queue()
	id := e.deadLetter(q, "p", "a").str("id")
	e.del("/api/v1/dlq/"+id).obj(http.StatusOK).is("success", true)
	if len(e.dlq(q)) != 0 {
		t.Error("the row is still there")
	}
	e.del("/api/v1/dlq/"+id).obj(http.StatusNotFound).is("success", false)
}

func TestA5_RowsTellTheirHistory(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "x", "a")
	e.finish("", e.pop(q, "batch=1"))
	b := e.pop(q)
	for range 2 {
		e.ack("", b, "a=retry")
		b = e.pop(q)
	}
	e.ack("", b, "a=dlq")
	row := e.dlq(q)[0].is("offset", 1, "attempts", 3)
	if d := row.when("enqueuedAt").Sub(b.msgs[0].when("createdAt")); d > time.Millisecond || d < -time.Millisecond {
		t.Errorf("enqueuedAt is %v off", d)
	}
}
