package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// transactWith runs a transaction with further top-level members.
func (e *env) transactWith(more string, operations ...string) reply {
	e.Helper()
	return e.post("/api/v1/transaction", `{"operations":[`+strings.Join(operations, ",")+`],`+more+`}`)
}

// rolledBack checks the shape of a rolled back transaction.
func rolledBack(n node, reason string) node {
	n.t.Helper()
	n.is("success", false, "reason", reason)
	n.matches(uuid7, "transactionId")
	if n.str("error") == "" {
		n.t.Error("a rollback needs an error text")
	}
	if len(n.list("results")) != 0 {
		n.t.Error("a rollback has results")
	}
	return n
}

// notThere checks that a queue was never created.
func (e *env) notThere(q string) {
	e.Helper()
	e.get("/api/v1/resources/queues/" + seg(q)).want(http.StatusNotFound)
}

func TestS4_TransactionShape(t *testing.T) {
	e := shared(t, "R110")
	q, b := taken(e, "a", "b")
	out := e.queue()
	n := e.transact(txAck("", "b", b.pid(), b.lease, "completed"), txPush(item(out, "p", "r1", "1"), item(out, "p", "r2", "2")))
	n.onlyKeys("transactionId success results").is("success", true)
	n.matches(uuid7, "transactionId")
	res := n.list("results")
	if len(res) != 3 {
		t.Fatalf("%d results", len(res))
	}
	res[0].hasKeys("index type success transactionId error dlq").is("index", 0, "type", "ack", "success", true, "transactionId", "b", "error", nil, "dlq", false)
	for i, r := range res[1:] {
		r.hasKeys("index type success transactionId messageId queueName").lacks("duplicate")
		r.is("index", i+1, "type", "push", "success", true, "transactionId", fmt.Sprint("r", i+1), "queueName", out)
		r.matches(uuid7, "messageId")
	}
	e.popNone(q)
	got := e.pop(out).want("r1", "r2")
	got.msgs[0].is("id", res[1].str("messageId"), "offset", 0)
}

func TestS4_TransactionNeedsOperations(t *testing.T) {
	e := shared(t)
	for _, body := range []string{`{}`, `{"operations":null}`, `{"operations":{}}`, `{"operations":"x"}`} {
		n := e.post("/api/v1/transaction", body).obj(http.StatusBadRequest)
		rolledBack(n, "bad_request")
	}
	for _, body := range []string{"", "{", "[]"} {
		e.post("/api/v1/transaction", body).obj(http.StatusBadRequest).hasKeys("error")
	}
}

func TestS4_TransactionOfNoOperations(t *testing.T) {
	rolledBack(shared(t).transact(), "bad_request")
}

func TestS4_TransactionOfAnUnknownTypeWritesNothing(t *testing.T) {
	e := shared(t)
	q := e.queue()
	for _, op := range []string{`{"type":"pop"}`, `{"type":"PUSH","items":[]}`, `{"type":"kv"}`, `{}`, `{"type":null}`} {
		n := e.post("/api/v1/transaction", `{"operations":[`+txPush(item(q, "p", "a", "1"))+","+op+`]}`).obj(http.StatusBadRequest)
		rolledBack(n, "bad_request")
	}
	e.notThere(q)
}

func TestS4_TransactionTakesAnInlineItem(t *testing.T) {
	e := shared(t)
	q := e.queue()
	n := e.transact(`{"type":"push","queue":`+quote(q)+`,"partition":"p","transactionId":"a","payload":{"x": 1}}`,
		`{"type":"push","queue":`+quote(q)+`,"data":[ 2 ]}`).is("success", true)
	minted := n.str("results", 1, "transactionId")
	if minted != n.matches(uuid7, "results", 1, "messageId") {
		t.Errorf("minted id %q is not the message id", minted)
	}
	if got := e.pin(q, "p").want("a").msgs[0].at("data").text(); got != `{"x": 1}` {
		t.Errorf("data %s", got)
	}
	if got := e.pin(q, "Default").want(minted).msgs[0].at("data").text(); got != `[ 2 ]` {
		t.Errorf("data %s", got)
	}
}

func TestS4_TransactionPushWithoutPayload(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.transact(txPush(`{"queue":`+quote(q)+`,"transactionId":"a"}`)).is("success", true)
	if got := e.pop(q).want("a").msgs[0].at("data").text(); got != "{}" {
		t.Errorf("data %s", got)
	}
}

func TestS4_TransactionInlinePushWithoutQueue(t *testing.T) {
	rolledBack(shared(t).transact(`{"type":"push","payload":1}`), "bad_request")
}

func TestS4_TransactionStoresAUUIDTraceID(t *testing.T) {
	e := shared(t)
	q := e.queue()
	const id = "6fa459ea-ee8a-4ca4-894e-db77e160355e"
	it := func(txn, trace string) string {
		return `{"queue":` + quote(q) + `,"transactionId":` + quote(txn) + `,"payload":1,"traceId":` + trace + `}`
	}
	e.transact(txPush(it("a", quote(id)), it("b", `"not a uuid"`), it("c", `null`), it("d", `7`))).is("success", true)
	b := e.pop(q).want("a", "b", "c", "d")
	b.msgs[0].is("traceId", id)
	for _, m := range b.msgs[1:] {
		m.is("traceId", nil)
	}
}

func TestS4_TransactionStatusWords(t *testing.T) {
	e := shared(t, "R112")
	for _, row := range []struct {
		status string
		done   bool
	}{{"", true}, {"completed", true}, {"ok", true}, {"acked", true}, {"success", true}, {"nack", false}, {"Completed", false}, {"failed", false}} {
		q, b := taken(e, "a")
		e.transact(txAck("", "a", b.pid(), b.lease, row.status)).is("success", true)
		if got := e.pending(q, "") == 0; got != row.done {
			t.Errorf("status %q completed: %v", row.status, got)
		} else if !row.done {
			e.ack("", e.pop(q), "a=dlq")
			e.dlq(q)[0].is("retryCount", 1)
		}
	}
}

func TestR110_AllOverManyQueuesAndGroups(t *testing.T) {
	e := shared(t)
	g := e.name("g")
	q1, b1 := taken(e, "a")
	q2 := e.queue()
	e.push(q2, "x", "b")
	b2 := e.pop(q2, all(g))
	out1, out2 := e.queue(), e.queue()
	ops := []string{
		txAck("", "a", b1.pid(), b1.lease, "completed"), txPush(item(out1, "p1", "o1", "1")),
		txAck(g, "b", b2.pid(), b2.lease, "completed"), txPush(item(out1, "p2", "o2", "1"), item(out2, "p", "o3", "1")),
	}
	if n := len(e.transact(ops...).is("success", true).list("results")); n != 5 {
		t.Errorf("%d results", n)
	}
	e.depth(q1, "").is("pending", 0, "processing", 0)
	e.depth(q2, g).is("pending", 0, "processing", 0)
	e.pin(out1, "p1").want("o1")
	e.pin(out1, "p2").want("o2")
	e.pin(out2, "p").want("o3")
}

func TestR110_NothingOfARefusedBundle(t *testing.T) {
	e := shared(t)
	q1, b1 := taken(e, "a")
	q2, b2 := taken(e, "b")
	out := e.queue()
	n := e.transact(txAck("", "a", b1.pid(), b1.lease, "completed"), txPush(item(out, "p", "o", "1")), txAck("", "b", b2.pid(), "wrong", "completed"))
	rolledBack(n, "rejected_ack")
	e.notThere(out)
	e.leased(b1.lease, true)
	e.leased(b2.lease, true)
	e.depth(q1, "").is("pending", 1)
	e.depth(q2, "").is("pending", 1)
	e.push(out, "p", "o")[0].is("offset", 0) // neither offset nor id was used up
}

func TestR111_KnownIDRollsBack(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "old")
	src, b := taken(e, "a")
	n := e.transact(txAck("", "a", b.pid(), b.lease, "completed"), txPush(item(q, "p", "new", "1"), item(q, "p", "old", "1")))
	rolledBack(n, "duplicate")
	if !strings.HasPrefix(n.str("error"), "QDUP") {
		t.Errorf("error %q", n.str("error"))
	}
	e.pop(q).want("old")
	e.depth(src, "").is("pending", 1, "processing", 1)
	// In another partition the id is new.
	e.transact(txPush(item(q, "p2", "old", "1"))).is("success", true)
}

func TestR111_RepeatInsideTheBundleCommits(t *testing.T) {
	e := shared(t)
	q := e.queue()
	res := e.transact(txPush(item(q, "p", "a", "1")), txPush(item(q, "p", "a", "2"), item(q, "p", "b", "3"))).is("success", true).list("results")
	res[0].is("success", true, "transactionId", "a").lacks("duplicate")
	res[1].is("success", true, "transactionId", "a", "duplicate", true)
	res[2].is("success", true, "transactionId", "b").lacks("duplicate")
	b := e.pop(q).want("a", "b")
	if got := b.msgs[0].at("data").text(); got != "1" {
		t.Errorf("the second of two equal ids won: %s", got)
	}
}

func TestR112_RefusedAcksRollBack(t *testing.T) {
	e := shared(t, "S4")
	q, b := taken(e, "a", "b", "c")
	e.push(q, "p", "later")
	e.ack("", b, "a=completed")
	out := e.queue()
	for name, ack := range map[string]string{
		"wrong lease":        txAck("", "b", b.pid(), "0199aa01-0000-7000-8000-000000000001", "completed"),
		"above the batch":    txAck("", "later", b.pid(), b.lease, "completed"),
		"failed below":       txAck("", "a", b.pid(), b.lease, "failed"),
		"retry below":        txAck("", "a", b.pid(), b.lease, "retry"),
		"dlq below":          txAck("", "a", b.pid(), b.lease, "dlq"),
		"unknown id":         txAck("", "ghost", b.pid(), b.lease, "completed"),
		"unknown partition":  txAck("", "b", "nowhere", b.lease, "completed"),
		"group never popped": txAck(e.name("g"), "b", b.pid(), "", "completed"),
	} {
		n := e.transact(txPush(item(out, "p", "o", "1")), ack)
		rolledBack(n, "rejected_ack")
		if name == "unknown id" {
			n.is("error", "QTXN ack references unknown transactionId; transaction rolled back")
		}
	}
	e.notThere(out)
	e.leased(b.lease, true)
	e.depth(q, "").is("pending", 3)
}

func TestR112_CompletedBelowTheCursorCommits(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b")
	e.ack("", b, "a=completed")
	out := e.queue()
	e.transact(txAck("", "a", b.pid(), b.lease, "completed"), txPush(item(out, "p", "o", "1"))).is("success", true)
	e.pop(out).want("o")
	e.depth(q, "").is("pending", 1, "processing", 1)
}

func TestR112_SignalsKeepTheirMeaning(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b", "c")
	res := e.transact(txAck("", "a", b.pid(), b.lease, "completed"), txAck("", "b", b.pid(), b.lease, "failed")).is("success", true).list("results")
	res[1].is("success", true, "dlq", false)
	b = e.pop(q).want("b", "c").attempt(2)
	e.transact(txAck("", "b", b.pid(), b.lease, "retry")).is("success", true)
	b = e.pop(q).want("b", "c")
	n := e.transact(ackItem("b", b.pid(), b.lease, "dlq", `"type":"ack"`, `"error":"no good"`), txAck("", "c", b.pid(), b.lease, "completed"))
	n.is("success", true)
	n.at("results", 0).is("dlq", true)
	n.at("results", 1).is("dlq", false)
	e.popNone(q)
	e.dlq(q)[0].is("transactionId", "b", "errorMessage", "no good", "retryCount", 1)
}

func TestR112_BudgetRunsOutInsideATransaction(t *testing.T) {
	e := shared(t, "R29")
	q := e.queue()
	e.configure(q, `{"retryLimit":1}`)
	e.push(q, "p", "a", "b")
	for _, dlq := range []bool{false, true} {
		b := e.pop(q)
		e.transact(txAck("", "a", b.pid(), b.lease, "failed")).is("success", true).at("results", 0).is("dlq", dlq)
	}
	e.pop(q).want("b")
}

func TestR112_TransactionReleasesTheLease(t *testing.T) {
	e := shared(t, "R24")
	q, b := taken(e, "a", "b")
	e.transact(txAck("", "a", b.pid(), b.lease, "completed")).is("success", true)
	e.leased(b.lease, true)
	e.push(q, "p", "c")
	p := e.park(q)
	e.transact(txAck("", "b", b.pid(), b.lease, "completed")).is("success", true)
	e.leased(b.lease, false)
	p.wakes().want("c")
}

func TestR112_RepeatOfASettledLeaseIsRejected(t *testing.T) {
	e := shared(t, "R34")
	_, b := taken(e, "a")
	e.finish("", b)
	accepted(e.ack("", b, "a=completed")...)
	rolledBack(e.transact(txAck("", "a", b.pid(), b.lease, "completed")), "rejected_ack")
}

func TestR113_RequiredLeasesFence(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b")
	out := e.queue()
	stale := `"requiredLeases":["0199aa01-0000-7000-8000-000000000001"]`
	rolledBack(e.transactWith(stale, txAck("", "a", b.pid(), "", "completed"), txPush(item(out, "p", "o", "1"))).obj(http.StatusOK), "rejected_ack")
	e.notThere(out)
	e.transactWith(`"requiredLeases":[`+quote(b.lease)+`]`, txAck("", "a", b.pid(), "", "completed"), txPush(item(out, "p", "o", "1"))).obj(http.StatusOK).is("success", true)
	e.pop(out).want("o")
	e.depth(q, "").is("pending", 1)
}

func TestR113_OneOfSeveralRequiredLeases(t *testing.T) {
	e := shared(t)
	q1, b1 := taken(e, "a")
	q2, b2 := taken(e, "b")
	q3, b3 := taken(e, "c")
	both := `"requiredLeases":[` + quote(b1.lease) + "," + quote(b2.lease) + `]`
	rolledBack(e.transactWith(both, txAck("", "a", b1.pid(), "", "completed"), txAck("", "c", b3.pid(), "", "completed")).obj(http.StatusOK), "rejected_ack")
	e.depth(q1, "").is("pending", 1)
	e.depth(q3, "").is("pending", 1)
	e.transactWith(both, txAck("", "a", b1.pid(), "", "completed"), txAck("", "b", b2.pid(), "", "completed")).obj(http.StatusOK).is("success", true)
	e.popNone(q1)
	e.popNone(q2)
}

func TestR113_ExpiredRequiredLeaseIsRejected(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	old := e.pop(q, "leaseSeconds=1")
	b := e.popSoon(q)
	fence := `"requiredLeases":[` + quote(old.lease) + `]`
	rolledBack(e.transactWith(fence, txAck("", "a", b.pid(), "", "completed")).obj(http.StatusOK), "rejected_ack")
	e.ack("", b, "a=retry")
	rolledBack(e.transactWith(fence, txAck("", "a", b.pid(), "", "completed")).obj(http.StatusOK), "rejected_ack")
	e.depth(q, "").is("pending", 1)
}

func TestS20_OwnLeaseBeatsRequiredLeases(t *testing.T) {
	e := shared(t, "R113")
	q, b := taken(e, "a")
	e.transactWith(`"requiredLeases":["0199aa01-0000-7000-8000-000000000001"]`, txAck("", "a", b.pid(), b.lease, "completed")).obj(http.StatusOK).is("success", true)
	e.popNone(q)
}

func TestS20_EmptyRequiredLeasesCountAsAbsent(t *testing.T) {
	e := shared(t, "R113")
	for _, more := range []string{`"requiredLeases":[]`, `"requiredLeases":null`} {
		q, b := taken(e, "a")
		e.transactWith(more, txAck("", "a", b.pid(), "", "completed")).obj(http.StatusOK).is("success", true)
		e.popNone(q)
	}
}

func TestR113_LeaselessAckIsUnfenced(t *testing.T) {
	e := shared(t, "R32")
	q, b := taken(e, "a", "b")
	e.transact(txAck("", "a", b.pid(), "", "completed")).is("success", true)
	e.leased(b.lease, true)
	e.transact(txAck("", "b", b.pid(), "", "completed")).is("success", true)
	e.leased(b.lease, false)
	e.popNone(q)
}

func TestR114_TheFirstRefusalNamesTheReason(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a")
	known := txPush(item(q, "p", "a", "1"))
	bad := txAck("", "ghost", b.pid(), b.lease, "completed")
	rolledBack(e.transact(known, bad), "rejected_ack")
	rolledBack(e.transact(bad, known), "rejected_ack")
	rolledBack(e.transact(known), "duplicate")
}

func TestS17_RidersAreRefused(t *testing.T) {
	e := shared(t, "S20")
	q := e.queue()
	for _, rider := range []string{`"kv":[{"op":"get"}]`, `"timers":[{"op":"cancel"}]`, `"positions":[{"queue":"x"}]`, `"kv":{}`, `"timers":"x"`, `"positions":7`} {
		n := e.transactWith(rider, txPush(item(q, "p", "a", "1"))).obj(http.StatusBadRequest)
		rolledBack(n, "bad_request")
	}
	e.notThere(q)
	e.transactWith(`"kv":[],"timers":null`, txPush(item(q, "p", "a", "1"))).obj(http.StatusOK).is("success", true)
}

func TestS20_TransactionNameLimits(t *testing.T) {
	e := shared(t)
	for _, it := range []string{item(strings.Repeat("q", 412), "", "a", "1"), item("q", "", strings.Repeat("i", 65536), "1")} {
		r := e.post("/api/v1/transaction", `{"operations":[`+txPush(it)+`]}`)
		switch r.status {
		case http.StatusOK:
			r.json().is("success", false)
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			r.json().hasKeys("error")
		default:
			t.Errorf("status %d: %s", r.status, clip(string(r.body)))
		}
	}
}

func TestS4_TransactionCreatesTheQueue(t *testing.T) {
	e := shared(t)
	ns := e.name("n")
	e.transact(txPush(item(ns+".sub.x", "", "a", "1"))).is("success", true)
	e.detail(ns+".sub.x").is("namespace", ns, "task", "sub").at("options").is("leaseTime", 60)
}

func TestR111_PushedIDsCountForDedup(t *testing.T) {
	e := shared(t, "R80")
	q := e.queue()
	id := e.transact(txPush(item(q, "p", "a", "1"))).str("results", 0, "messageId")
	e.pushItems(item(q, "p", "a", "2"))[0].is("status", "duplicate", "message_id", id, "offset", 0)
}
