package conformance

import (
	"net/http"
	"strings"
	"testing"
)

// ackKeys are the members of every plain ack result.
const ackKeys = "index transactionId success error leaseReleased dlq noop"

// taken pushes the ids to a fresh queue and leases them all in queue mode.
func taken(e *env, ids ...string) (string, batch) {
	e.Helper()
	q := e.queue()
	e.push(q, "p", ids...)
	return q, e.pop(q).want(ids...)
}

func TestS4_AckShape(t *testing.T) {
	e := shared(t)
	_, b := taken(e, "a", "b")
	out := e.ack("", b, "b=completed", "a=completed")
	out[0].onlyKeys(ackKeys).is("index", 0, "transactionId", "b", "success", true, "error", nil, "leaseReleased", true, "dlq", false, "noop", false)
	out[1].onlyKeys(ackKeys).is("index", 1, "transactionId", "a", "success", true, "error", nil, "leaseReleased", true, "dlq", false, "noop", false)
}

func TestS4_SingleAckAnswersAnArrayOfOne(t *testing.T) {
	e := shared(t)
	q := e.queue()
	g := e.name("g")
	e.push(q, "p", "a")
	b := e.pop(q, all(g))
	out := e.post("/api/v1/ack", ackItem("a", b.pid(), b.lease, "completed", `"consumerGroup":`+quote(g))).arr(http.StatusOK)
	if len(out) != 1 {
		t.Fatalf("%d results", len(out))
	}
	out[0].onlyKeys(ackKeys).is("index", 0, "transactionId", "a", "success", true, "error", nil, "leaseReleased", true, "dlq", false, "noop", false)
}

func TestS4_AckStatusWords(t *testing.T) {
	e := shared(t)
	for _, row := range []struct {
		status string // as JSON; "" leaves it out
		done   bool   // counts as completed
	}{
		{"", true}, {"null", true}, {`"completed"`, true}, {`"success"`, true}, {`"acked"`, true}, {`"ok"`, true},
		{`""`, false}, {`"nack"`, false}, {`"Completed"`, false}, {`"OK"`, false}, {`"completed "`, false}, {`"failed"`, false}, {`"error"`, false},
	} {
		q := e.queue()
		e.configure(q, `{"retryLimit":5}`)
		e.push(q, "p", "a")
		b := e.pop(q)
		extra := []string{}
		if row.status != "" {
			extra = append(extra, `"status":`+row.status)
		}
		e.ackItems("", ackItem("a", b.pid(), b.lease, "", extra...))[0].is("success", true, "leaseReleased", true)
		if got := e.pending(q, "") == 0; got != row.done {
			t.Errorf("status %s completed: %v, want %v", row.status, got, row.done)
			continue
		}
		if !row.done {
			c := e.pop(q).attempt(2)
			e.ack("", c, "a=dlq")
			e.dlq(q)[0].is("retryCount", 1) // it was charged as failed
		}
	}
}

func TestS4_AckRetryAndDlqWords(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a")
	e.ack("", b, "a=retry")[0].is("success", true, "leaseReleased", true, "dlq", false)
	e.ack("", e.pop(q), "a=dlq")[0].is("success", true, "leaseReleased", true, "dlq", true)
	e.dlq(q)[0].is("retryCount", 0)
}

func TestS4_AckWithoutLease(t *testing.T) {
	e := shared(t, "R32")
	for _, lease := range []string{`"leaseId":null`, `"leaseId":""`, `"error":null`} {
		q, b := taken(e, "a")
		accepted(e.ackItems("", ackItem("a", b.pid(), "", "completed", lease))...)
		e.popNone(q)
	}
}

func TestS4_AckBatchShapeRefusals(t *testing.T) {
	e := shared(t, "S20")
	for _, body := range []string{`{}`, `{"acknowledgments":null}`, `{"acknowledgments":{}}`, `{"consumerGroup":"g"}`} {
		if e.post("/api/v1/ack/batch", body).obj(http.StatusBadRequest).str("error") == "" {
			t.Errorf("%s: empty error", body)
		}
	}
	if n := e.post("/api/v1/ack/batch", `{"acknowledgments":[]}`).arr(http.StatusOK); len(n) != 0 {
		t.Errorf("%d results for no acks", len(n))
	}
}

func TestS4_AckOfBadJSONSaysBadBody(t *testing.T) {
	e := shared(t)
	for _, path := range []string{"/api/v1/ack", "/api/v1/ack/batch"} {
		for _, body := range []string{"", "{", "nope"} {
			if got := e.post(path, body).obj(http.StatusBadRequest).str("error"); !strings.HasPrefix(got, "bad body: ") {
				t.Errorf("%s %q: error %q", path, body, got)
			}
		}
	}
}

func TestS4_AckOfAnUnknownPartitionIsAnItemError(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a")
	out := e.ackItems("",
		ackItem("a", "no-such-partition", b.lease, "completed"), ackItem("a", "", b.lease, "completed"), ackItem("a", zeroID, "", "failed"),
		ackItem("a", "99999999", b.lease, "dlq"), ackItem("a", b.pid(), b.lease, "completed"))
	for i, n := range out[:4] {
		n.is("index", i, "success", false, "leaseReleased", false, "dlq", false, "noop", false)
		if n.str("error") == "" {
			t.Error("an unknown partition needs an error text")
		}
	}
	accepted(out[4])
	e.popNone(q)
}

func TestS4_AckItemsIgnoreAGroupOfTheirOwn(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	b := e.pop(q, all(g))
	accepted(e.ackItems(g, ackItem("a", b.pid(), b.lease, "completed", `"consumerGroup":"elsewhere"`))...)
	e.depth(q, g).is("pending", 0)
}

func TestS14_AckWithTheNullsOfTheSDK(t *testing.T) {
	e := shared(t)
	_, b := taken(e, "a")
	out := e.post("/api/v1/ack", ackItem("a", b.pid(), b.lease, "completed", `"error":null`, `"consumerGroup":null`)).arr(http.StatusOK)
	accepted(out...)
	q, c := taken(e, "b")
	body := `{"consumerGroup":null,"acknowledgments":[` + ackItem("b", c.pid(), c.lease, "completed", `"error":null`) + `]}`
	accepted(e.post("/api/v1/ack/batch", body).arr(http.StatusOK)...)
	e.popNone(q)
}

func TestR20_WrongLeaseMovesNothing(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b")
	for _, lease := range []string{"0199aa01-0000-7000-8000-000000000001", "x", b.lease + "0"} {
		out := e.ackAs("", b, lease, "a=completed", "b=failed")
		refused(badLease, out...)
		out[0].onlyKeys(ackKeys).is("leaseReleased", false, "dlq", false, "noop", false)
	}
	e.depth(q, "").is("pending", 2, "processing", 2)
	e.leased(b.lease, true)
}

func TestR20_LeaseOfAnotherGroupIsWrong(t *testing.T) {
	e := shared(t)
	q, g1, g2 := e.queue(), e.name("g"), e.name("g")
	e.push(q, "p", "a")
	b1, b2 := e.pop(q, all(g1)), e.pop(q, all(g2))
	refused(badLease, e.ackAs(g1, b1, b2.lease, "a=completed")...)
	accepted(e.ack(g1, b1, "a=completed")...)
	e.depth(q, g2).is("pending", 1)
}

func TestR20_GroupsOfOneCallAreIndependent(t *testing.T) {
	e := shared(t, "S12")
	q := lanes(e, 2)
	b := e.pop(q, "partitions=2")
	out := e.ackItems("",
		ackItem("m0", b.pidOf("m0"), "wrong-lease", "completed"),
		ackItem("m1", b.pidOf("m1"), b.lease, "completed"))
	refused(badLease, out[0])
	out[0].is("leaseReleased", false)
	accepted(out[1])
	out[1].is("leaseReleased", true)
	e.depth(q, "").is("pending", 1)
}

func TestR21_UnknownIDChargesNothing(t *testing.T) {
	e := shared(t, "F30")
	q, b := taken(e, "a", "b")
	for _, status := range []string{"completed", "failed", "retry", "dlq"} {
		out := e.ack("", b, "ghost="+status)
		refused(unresolvable, out...)
		out[0].onlyKeys(ackKeys).is("leaseReleased", false, "dlq", false, "noop", false)
	}
	e.leased(b.lease, true)
	if n := len(e.dlq(q)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	out := e.ack("", b, "ghost=failed", "b=completed")
	refused(unresolvable, out[0])
	accepted(out[1])
	e.popNone(q)
}

func TestR21_UnknownIDDoesNotChargeTheBudget(t *testing.T) {
	e := shared(t, "R29", "F30")
	q, b := taken(e, "a")
	e.ack("", b, "ghost=failed")
	e.ack("", b, "ghost=dlq", "a=dlq")
	e.dlq(q)[0].is("retryCount", 0, "transactionId", "a")
}

func TestR21_IDResolvesToTheLowestInTheSpan(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"dedupWindowSeconds":0}`)
	for _, id := range []string{"x", "x", "y", "x"} {
		e.push(q, "p", id)
	}
	b := e.pop(q).want("x", "x", "y", "x")
	e.ack("", b, "x=completed")[0].is("success", true, "leaseReleased", false)
	e.depth(q, "").is("pending", 3)
	e.ack("", b, "x=completed")[0].is("success", true, "noop", false)
	e.depth(q, "").is("pending", 2)
	e.ack("", b, "x=completed")[0].is("success", true, "leaseReleased", true)
	e.popNone(q)
}

func TestR21_AboveTheBatchIsUnresolvable(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a", "b", "c")
	b := e.pop(q, "batch=2").want("a", "b")
	for _, status := range []string{"completed", "failed", "dlq"} {
		refused(unresolvable, e.ack("", b, "c="+status)...)
	}
	e.leased(b.lease, true)
	e.depth(q, "").is("pending", 3)
}

func TestR22_TheWorstWordOnOneOffsetCounts(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b")
	e.ack("", b, "a=completed", "a=retry")
	b = e.pop(q).want("a", "b")
	e.ack("", b, "a=retry", "a=failed", "a=completed")
	b = e.pop(q).want("a", "b")
	e.ack("", b, "a=failed", "a=dlq", "a=retry")
	e.pop(q).want("b")
	e.dlq(q)[0].is("transactionId", "a", "retryCount", 1)
}

func TestR22_SignalsBelowTheCursorDoNotCount(t *testing.T) {
	e := shared(t, "R27")
	q, b := taken(e, "a", "b", "c")
	e.ack("", b, "a=completed")
	out := e.ack("", b, "a=failed", "b=completed")
	refused(committed, out[0])
	accepted(out[1])
	e.leased(b.lease, true)
	e.depth(q, "").is("pending", 1)
}

func TestR23_CursorStopsBelowTheSignal(t *testing.T) {
	e := shared(t)
	q, b := taken(e, series(0, 9)...)
	out := e.ack("", b, "m9=completed", "m5=failed")
	accepted(out...)
	e.depth(q, "").is("pending", 5)
	e.pop(q).want(series(5, 9)...)
}

func TestR23_UnmentionedBelowACompletedAreImplied(t *testing.T) {
	e := shared(t)
	q, b := taken(e, series(0, 9)...)
	e.ack("", b, "m6=completed")
	e.depth(q, "").is("pending", 3)
	for _, id := range []string{"m0", "m3", "m6"} {
		e.ack("", b, id+"=completed")[0].is("success", true, "noop", true)
	}
	e.ack("", b, "m7=retry")
	e.pop(q).want(series(7, 9)...)
}

func TestR23_UnmentionedAboveAreNotImplied(t *testing.T) {
	e := shared(t)
	q, b := taken(e, series(0, 9)...)
	e.ack("", b, "m2=completed", "m6=failed")
	e.pop(q).want(series(3, 9)...)
}

func TestR24_ReachingTheEndReleasesAndResets(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a", "b", "c")
	for range 2 {
		e.ack("", e.pop(q, "batch=2"), "a=failed")
	}
	b := e.pop(q, "batch=2").attempt(3)
	e.ack("", b, "b=completed")[0].is("leaseReleased", true)
	e.leased(b.lease, false)
	c := e.pop(q).want("c").attempt(1)
	e.ack("", c, "c=dlq")
	e.dlq(q)[0].is("retryCount", 0)
}

func TestR24_BelowTheEndKeepsTheLease(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a", "b")
	e.ack("", e.pop(q), "a=failed")
	b := e.pop(q)
	e.ack("", b, "a=completed")[0].is("success", true, "leaseReleased", false)
	e.leased(b.lease, true)
	e.popNone(q)
	e.ack("", b, "b=dlq")
	e.dlq(q)[0].is("retryCount", 1) // the counter survived the partial ack
}

func TestR25_RetryReleasesWithoutCharge(t *testing.T) {
	e := shared(t, "R29")
	q, b := taken(e, "a", "b")
	for range 5 {
		e.ack("", b, "a=retry")[0].is("success", true, "leaseReleased", true, "dlq", false)
		e.leased(b.lease, false)
		b = e.pop(q).want("a", "b")
	}
	e.ack("", b, "a=dlq")
	e.dlq(q)[0].is("retryCount", 0)
}

func TestR25_FailedIsChargedOncePerCall(t *testing.T) {
	e := shared(t, "S20")
	q, b := taken(e, "a", "b", "c")
	e.ack("", b, "a=failed", "b=failed", "c=failed")
	b = e.pop(q).want("a", "b", "c")
	e.ack("", b, "a=dlq")
	e.dlq(q)[0].is("retryCount", 1)
}

func TestS20_EachPartitionOfACallIsCharged(t *testing.T) {
	e := shared(t, "R25", "R29")
	q := lanes(e, 2)
	b := e.pop(q, "partitions=2")
	e.ack("", b, "m0=failed", "m1=failed")
	b = e.pop(q, "partitions=2").attempt(2)
	e.ack("", b, "m0=dlq", "m1=dlq")
	for _, row := range e.dlq(q) {
		row.is("retryCount", 1)
	}
}

func TestS20_EmptyGroupOfAnAckIsQueueMode(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b")
	accepted(e.post("/api/v1/ack", ackItem("a", b.pid(), b.lease, "completed", `"consumerGroup":""`)).arr(http.StatusOK)...)
	accepted(e.post("/api/v1/ack/batch", `{"consumerGroup":"","acknowledgments":[`+ackItem("b", b.pid(), b.lease, "completed")+`]}`).arr(http.StatusOK)...)
	e.popNone(q)
}

func TestR25_RedeliveryIsImmediate(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b", "c")
	e.ack("", b, "a=completed", "b=failed")
	e.pop(q).want("b", "c")
}

func TestR27_AtOrBelowTheCursor(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a", "b", "c")
	b := e.pop(q, "batch=2")
	e.ack("", b, "a=completed")
	out := e.ack("", b, "a=completed", "a=failed", "a=retry", "a=dlq")
	out[0].is("success", true, "error", nil, "noop", true, "leaseReleased", false)
	refused(committed, out[1:]...)
	out[1].onlyKeys(ackKeys).is("noop", false, "dlq", false)
	e.leased(b.lease, true)
	if n := len(e.dlq(q)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

func TestR28_CompletedAboveASignalRedeliver(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b", "c")
	out := e.ack("", b, "a=retry", "b=completed", "c=completed")
	accepted(out...)
	for _, n := range out {
		n.is("dlq", false, "leaseReleased", true, "noop", false)
	}
	e.pop(q).want("a", "b", "c")
}

func TestR29_FourthFailureDeadLetters(t *testing.T) {
	e := shared(t, "R26")
	q, b := taken(e, "a", "b")
	for range 3 {
		e.ack("", b, "a=failed")[0].onlyKeys(ackKeys).is("success", true, "dlq", false, "leaseReleased", true)
		b = e.pop(q).want("a", "b")
	}
	e.ack("", b, "a=failed")[0].onlyKeys(ackKeys).is("success", true, "error", nil, "dlq", true, "leaseReleased", true)
	e.pop(q).want("b").attempt(1)
	e.dlq(q)[0].is("transactionId", "a", "retryCount", 3)
}

func TestR29_RetryLimitZeroDeadLettersAtOnce(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"retryLimit":0}`)
	e.push(q, "p", "a", "b")
	e.ack("", e.pop(q), "a=failed")[0].is("dlq", true)
	e.pop(q).want("b")
	e.dlq(q)[0].is("retryCount", 0)
}

func TestR29_TheBudgetBelongsToTheLane(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"retryLimit":2}`)
	e.push(q, "p", "a", "b", "c")
	e.ack("", e.pop(q), "a=failed")
	e.ack("", e.pop(q), "a=completed", "b=failed")
	e.ack("", e.pop(q).want("b", "c"), "b=failed")[0].is("dlq", true)
	e.dlq(q)[0].is("retryCount", 2)
	// The next message starts with a fresh budget.
	e.ack("", e.pop(q).want("c"), "c=failed")[0].is("dlq", false)
}

func TestR29_BudgetsOfGroupsAndPartitionsAreApart(t *testing.T) {
	e := shared(t)
	q, g1, g2 := e.queue(), e.name("g"), e.name("g")
	e.configure(q, `{"retryLimit":1}`)
	e.push(q, "p1", "a")
	e.push(q, "p2", "b")
	e.ack(g1, e.pin(q, "p1", all(g1)), "a=failed")
	e.ack(g1, e.pin(q, "p2", all(g1)), "b=failed")[0].is("dlq", false)
	e.ack(g2, e.pin(q, "p1", all(g2)), "a=failed")[0].is("dlq", false)
	e.ack(g1, e.pin(q, "p1", group(g1)), "a=failed")[0].is("dlq", true)
}

func TestR29_LoweredLimitMakesTheNextFailureTerminal(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a")
	for range 2 {
		e.ack("", b, "a=failed")
		b = e.pop(q)
	}
	e.configure(q, `{"retryLimit":1}`)
	e.ack("", b, "a=failed")[0].is("dlq", true)
	e.dlq(q)[0].is("retryCount", 2)
}

func TestR33_AckOfAGroupThatNeverPopped(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a")
	for _, status := range []string{"completed", "failed", "dlq"} {
		refused(noConsumer, e.ackAs(e.name("g"), b, "", "a="+status)...)
	}
	e.leased(b.lease, true)
	e.depth(q, "").is("pending", 1)
}
