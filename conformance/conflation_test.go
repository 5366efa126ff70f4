package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// newest are the parameters of a conflating pop over all history.
func newest(g string) string { return all(g) + "&conflation=true" }

func TestR70_ConflationNeedsAGroup(t *testing.T) {
	e := shared(t, "S4")
	q := e.queue()
	e.push(q, "p", "a")
	for _, path := range []string{popPath(q, "conflation=true"), pinPath(q, "p", "conflation=true"), popPath(q, "conflation=true", "consumerGroup=")} {
		n := e.get(path).obj(http.StatusBadRequest).is("success", false)
		if n.str("error") == "" || len(n.list("messages")) != 0 {
			t.Errorf("refusal %s", n.text())
		}
	}
}

func TestR70_ConflationRefusesAutoAck(t *testing.T) {
	e := shared(t, "S4")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	for _, param := range []string{"autoAck=true", "commitOnDelivery=true"} {
		n := e.get(popPath(q, newest(g), param)).obj(http.StatusBadRequest).is("success", false)
		if text := n.str("error"); !strings.Contains(text, "autoAck") || !strings.Contains(text, "commitOnDelivery") {
			t.Errorf("error %q names not both spellings", text)
		}
		if len(n.list("messages")) != 0 {
			t.Error("messages is not empty")
		}
	}
}

func TestR71_OnlyTheNewestIsDelivered(t *testing.T) {
	e := shared(t, "R70", "S4")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", series(0, 4)...)
	b := e.pop(q, newest(g)).want("m4")
	b.onlyKeys(popKeys+" conflation").is("conflation", true)
	b.msgs[0].onlyKeys(messageKeys).is("offset", 4, "deliveryAttempt", 1)
	e.depth(q, g).is("conflation", true, "pending", 5, "effectivePending", 1)
}

func TestR71_EveryPartitionGivesItsNewest(t *testing.T) {
	e := shared(t, "S20")
	q, g := e.queue(), e.name("g")
	for i := range 4 {
		e.push(q, fmt.Sprint("p", i), fmt.Sprint("old", i), fmt.Sprint("new", i))
	}
	b := e.pop(q, newest(g))
	b.is("partitionsClaimed", 4)
	for _, m := range b.msgs {
		if m.str("transactionId") != "new"+m.str("partition")[1:] {
			t.Errorf("delivered %s", m.text())
		}
	}
	e.pop(q, newest(e.name("g")), "batch=3").is("partitionsClaimed", 3)
	e.pop(q, newest(e.name("g")), "partitions=2").is("partitionsClaimed", 2)
}

func TestR71_PinnedConflation(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	e.pin(q, "p", newest(g)).want("b").is("conflation", true)
}

func TestR72_CleanAckCommitsTheSpan(t *testing.T) {
	e := shared(t, "S4")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", series(0, 4)...)
	b := e.pop(q, newest(g))
	e.push(q, "p", "later")
	n := e.ack(g, b, "m4=completed")[0]
	n.is("success", true, "error", nil, "conflated", 4, "leaseReleased", true)
	e.depth(q, g).is("pending", 1)
	c := e.pop(q, newest(g)).want("later")
	// Nothing was skipped this time.
	if n := e.ack(g, c, "later=completed")[0]; n.has("conflated") {
		n.is("conflated", 0)
	}
}

func TestR72_TheIDMayRepeatLowerDown(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.configure(q, `{"dedupWindowSeconds":0}`)
	e.push(q, "p", "x", "y")
	e.push(q, "p", "x")
	b := e.pop(q, newest(g)).want("x")
	b.msgs[0].is("offset", 2)
	e.ack(g, b, "x=completed")[0].is("success", true, "conflated", 2, "leaseReleased", true)
	e.depth(q, g).is("pending", 0)
}

func TestR72_FailuresWorkAsUsual(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.configure(q, `{"retryLimit":1}`)
	e.push(q, "p", "a", "b", "c")
	e.ack(g, e.pop(q, newest(g)), "c=retry")[0].is("success", true, "leaseReleased", true)
	e.ack(g, e.pop(q, newest(g)).want("c"), "c=failed")[0].is("dlq", false)
	e.ack(g, e.pop(q, newest(g)).want("c"), "c=failed")[0].is("success", true, "dlq", true)
	rows := e.dlq(q)
	if len(rows) != 1 {
		t.Fatalf("%d dead letters", len(rows))
	}
	rows[0].is("transactionId", "c", "retryCount", 1, "offset", 2)
	e.depth(q, g).is("pending", 0)
}

func TestR72_ANewerMessageReplacesTheFailedOne(t *testing.T) {
	e := shared(t, "R71")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	b := e.pop(q, newest(g)).want("b")
	e.push(q, "p", "c")
	e.ack(g, b, "b=failed")
	e.pop(q, newest(g)).want("c")
}

func TestR73_NewAndConflation(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	e.get(popPath(q, group(g), "conflation=true")).obj(http.StatusOK)
	e.push(q, "p", "c")
	e.push(q, "p", "d")
	e.pop(q, group(g), "conflation=true").want("d")
}

// emptyConflating checks the body of a conflating pop that found nothing.
func emptyConflating(r reply, q, g string) {
	r.t.Helper()
	n := r.obj(http.StatusOK)
	n.onlyKeys("success queue partition partitionId leaseId consumerGroup messages partitionsClaimed conflation")
	n.is("success", true, "queue", q, "partition", nil, "partitionId", nil, "leaseId", "", "consumerGroup", g, "partitionsClaimed", 0, "conflation", true)
	if len(n.list("messages")) != 0 {
		r.t.Error("messages is not empty")
	}
}

func TestS20_EmptyConflatingPop(t *testing.T) {
	e := shared(t, "R70", "S4")
	q, g := e.queue(), e.name("g")
	emptyConflating(e.get(popPath(q, newest(g))), q, g)
	e.push(q, "p", "a")
	e.finish(g, e.pop(q, newest(g)))
	emptyConflating(e.get(popPath(q, newest(g))), q, g)
	begun := time.Now()
	emptyConflating(e.get(popPath(q, newest(g), patiently(900))), q, g)
	e.atLeast(begun, 600*time.Millisecond, "empty answer")
	emptyConflating(e.get(popPath(q, group(g))), q, g) // the flag need not be sent
	emptyConflating(e.get(pinPath(q, "p", newest(g))), q, g)
}

func TestS20_StoredConflationWinsWithoutTheFlag(t *testing.T) {
	e := shared(t, "R70")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	e.ack(g, e.pop(q, newest(g)), "b=retry")
	b := e.pop(q, group(g)).want("b")
	b.is("conflation", true).lacks("conflationConflict")
}

func TestR70_ConflictWithAPlainGroup(t *testing.T) {
	e := shared(t, "S4")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	e.ack(g, e.pop(q, all(g)), "a=retry")
	b := e.pop(q, newest(g)).want("a", "b")
	b.is("conflationConflict", true)
	if b.has("conflation") {
		b.is("conflation", false)
	}
	e.finish(g, b)
	n := e.get(popPath(q, newest(g))).obj(http.StatusOK).is("conflationConflict", true)
	if len(n.list("messages")) != 0 {
		t.Error("messages is not empty")
	}
}

func TestR70_ConflationIsStoredPerGroup(t *testing.T) {
	e := shared(t, "S7")
	q, g, h := e.queue(), e.name("g"), e.name("g")
	e.push(q, "p", "a", "b")
	e.pop(q, newest(g)).want("b")
	e.pop(q, all(h)).want("a", "b").lacks("conflation", "conflationConflict")
	list := e.get("/api/v1/consumer-groups").arr(http.StatusOK)
	find(t, list, "name", g).is("conflation", true)
	find(t, list, "name", h).is("conflation", false)
}

func TestR12_ConflatingPopParks(t *testing.T) {
	e := shared(t, "R70")
	q, g := e.queue(), e.name("g")
	p := e.park(q, newest(g))
	p.stillParked()
	e.push(q, "p", "a", "b")
	p.wakes().want("b").is("conflation", true)
}
