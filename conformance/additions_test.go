package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// headed writes a push item with headers.
func headed(q, p, id, headers string) string {
	return strings.TrimSuffix(item(q, p, id, "1"), "}") + `,"headers":` + headers + `}`
}

func TestA1_HeadersComeBackWithThePop(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.pushItems(headed(q, "p", "a", `{"trace":"x-1","Ünï":""}`), item(q, "p", "b", "1"), headed(q, "p", "c", `{}`), headed(q, "p", "d", `null`))
	b := e.pop(q).want("a", "b", "c", "d")
	b.msgs[0].onlyKeys(messageKeys+" headers").at("headers").onlyKeys("trace Ünï").is("trace", "x-1", "Ünï", "")
	b.msgs[1].onlyKeys(messageKeys)
	b.msgs[3].lacks("headers")
}

func TestA1_HeadersInEveryRead(t *testing.T) {
	e := shared(t, "S6", "S11")
	q := e.queue()
	e.transact(txPush(headed(q, "p", "a", `{"k":"v"}`))).is("success", true)
	b := e.pop(q)
	b.msgs[0].at("headers").is("k", "v")
	e.get(address(b.pid(), "a")).obj(http.StatusOK).at("headers").is("k", "v")
	e.get("/api/v1/messages?queue="+arg(q)).obj(http.StatusOK).at("messages", 0, "headers").is("k", "v")
	e.post("/api/v1/fetch", `{"entries":[{"queue":`+quote(q)+`,"partition":"p","offset":0}]}`).obj(http.StatusOK).at("entries", 0, "records", 0, "headers").is("k", "v")
	e.ack("", b, "a=dlq")
	row := e.dlq(q)[0]
	row.at("headers").is("k", "v")
	e.replay(row.str("id"), "").want(http.StatusOK)
	c := e.pop(q)
	c.msgs[0].at("headers").is("k", "v")
	id := c.ids()[0]
	e.ack("", c, id+"=dlq")
	e.post(address(c.pid(), id)+"/retry", "").want(http.StatusOK)
	e.pop(q).msgs[0].at("headers").is("k", "v")
}

func TestA1_HeadersAreNotPartOfDedup(t *testing.T) {
	e := shared(t, "R80")
	q := e.queue()
	e.pushItems(headed(q, "p", "a", `{"k":"1"}`))
	e.pushItems(headed(q, "p", "a", `{"k":"2"}`))[0].is("status", "duplicate")
	e.pop(q).msgs[0].at("headers").is("k", "1")
}

func TestA1_BadHeadersRefuseTheRequest(t *testing.T) {
	e := shared(t)
	q := e.queue()
	many, most := []string{}, []string{}
	for i := range 65 {
		many = append(many, fmt.Sprintf(`"k%d":"v"`, i))
		if i < 64 {
			most = append(most, fmt.Sprintf(`"k%d":"v"`, i))
		}
	}
	for _, h := range []string{`"x"`, `[]`, `7`, `{"k":1}`, `{"k":null}`, `{"k":{}}`, `{` + strings.Join(many, ",") + `}`, `{"k":"` + strings.Repeat("v", 17000) + `"}`} {
		for path, body := range map[string]string{
			"/api/v1/push":        `{"items":[` + item(q, "p", "ok", "1") + "," + headed(q, "p", "bad", h) + `]}`,
			"/api/v1/transaction": `{"operations":[` + txPush(item(q, "p", "ok", "1"), headed(q, "p", "bad", h)) + `]}`,
		} {
			text := e.post(path, body).obj(http.StatusBadRequest).str("error")
			if !strings.Contains(text, "headers") || !strings.Contains(text, "1") {
				t.Errorf("error %q names not the item and the field", text)
			}
		}
	}
	e.notThere(q)
	e.pushItems(headed(q, "p", "most", `{`+strings.Join(most, ",")+`}`), headed(q, "p", "long", `{"k":"`+strings.Repeat("v", 16000)+`"}`))
}

func TestA2_DelayedRetryIsHeldBack(t *testing.T) {
	e := shared(t, "R12")
	for _, status := range []string{"failed", "retry"} {
		q := e.queue()
		e.push(q, "p", "a", "b")
		b := e.pop(q)
		begun := time.Now()
		e.ackItems("", ackItem("a", b.pid(), b.lease, status, `"delayMs":1500`))[0].is("success", true, "error", nil, "leaseReleased", true)
		e.popNone(q)
		e.get(pinPath(q, "p")).empty()
		e.popSoon(q).want("a", "b").attempt(2)
		e.atLeast(begun, 1400*time.Millisecond, "redelivery")
	}
}

func TestA2_DelayConcernsOneGroupAndPartition(t *testing.T) {
	e := shared(t)
	q, g, h := e.queue(), e.name("g"), e.name("g")
	e.push(q, "p", "a")
	b := e.pop(q, all(g))
	e.ackItems(g, ackItem("a", b.pid(), b.lease, "retry", `"delayMs":600000`))
	e.pop(q, all(h)).want("a")
	e.push(q, "p2", "b")
	e.pop(q, group(g)).want("b")
	e.push(q, "p", "c")
	e.popNone(q, group(g)) // order holds: c does not pass a
}

func TestA2_DelayIsRefusedWithOtherStatuses(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b")
	for _, status := range []string{"completed", "dlq"} {
		n := e.ackItems("", ackItem("a", b.pid(), b.lease, status, `"delayMs":100`))[0]
		n.is("success", false, "error", "delayMs applies to failed and retry", "leaseReleased", false)
	}
	e.leased(b.lease, true)
	e.depth(q, "").is("pending", 2)
}

func TestA2_DelayOutOfRangeIsRefused(t *testing.T) {
	e := shared(t)
	_, b := taken(e, "a")
	for _, delay := range []string{"-1", "86400001"} {
		r := e.post("/api/v1/ack", ackItem("a", b.pid(), b.lease, "retry", `"delayMs":`+delay))
		if r.status == http.StatusOK {
			r.json().list()[0].is("success", false)
		} else {
			r.obj(http.StatusBadRequest).hasKeys("error")
		}
	}
	e.leased(b.lease, true)
	accepted(e.ackItems("", ackItem("a", b.pid(), b.lease, "retry", `"delayMs":86400000`))...)
}

func TestA2_QueueOptionSpacesRetries(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"redeliveryDelayMs":500,"redeliveryDelayMaxMs":1000}`)
	e.push(q, "p", "a")
	b := e.pop(q)
	for _, want := range []time.Duration{500, 1000, 1000} {
		begun := time.Now()
		e.ack("", b, "a=failed")
		b = e.popSoon(q).want("a")
		e.atLeast(begun, want*time.Millisecond-50*time.Millisecond, "redelivery")
	}
	e.ack("", b, "a=retry")
	e.pop(q).want("a") // a retry without delayMs is not spaced
}

func TestA2_WithoutMaximumTheDelayIsNotDoubled(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"redeliveryDelayMs":600000,"retryLimit":5}`)
	e.push(q, "p", "a")
	b := e.pop(q)
	e.ackItems("", ackItem("a", b.pid(), b.lease, "failed", `"delayMs":0`))
	b = e.popSoon(q).want("a")
	e.ack("", b, "a=failed")
	e.popNone(q)
	e.configure(q, `{"redeliveryDelayMs":0}`) // a configure to 0 ends it
	e.pop(q).want("a")
}

func TestA2_SeekAndLeaselessCompletedEndTheDelay(t *testing.T) {
	e := shared(t, "R44")
	for _, end := range []string{"seek", "completed"} {
		q, g := e.queue(), e.name("g")
		e.push(q, "p", "a", "b")
		b := e.pop(q, all(g))
		e.ackItems(g, ackItem("a", b.pid(), b.lease, "failed", `"delayMs":600000`))
		e.popNone(q, group(g))
		if end == "seek" {
			e.seek(g, q, farPast).want(http.StatusOK)
			e.pop(q, group(g)).want("a", "b")
		} else {
			accepted(e.ackAs(g, b, "", "a=completed")...)
			e.pop(q, group(g)).want("b")
		}
	}
}

func TestA2_DelaySurvivesARestart(t *testing.T) {
	b, e := own(t)
	q := e.queue()
	e.push(q, "p", "a")
	c := e.pop(q)
	begun := time.Now()
	e.ackItems("", ackItem("a", c.pid(), c.lease, "retry", `"delayMs":3000`))
	b.Kill()
	e = b.Restart(t)
	e.popSoon(q).want("a")
	e.atLeast(begun, 2900*time.Millisecond, "redelivery")
}

func TestA3_DeliveryLimitDeadLetters(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"maxDeliveries":2}`)
	e.push(q, "p", "a", "b")
	for range 2 {
		e.ack("", e.pop(q, "batch=1").want("a"), "a=retry")
	}
	e.pop(q, "batch=1").want("b")
	row := e.dlq(q)[0].is("transactionId", "a", "errorMessage", "delivery limit reached", "attempts", 2)
	if got := row.at("data").text(); got != payloadOf("a") {
		t.Errorf("data %s", got)
	}
}

func TestA3_ExpiryCountsAsADelivery(t *testing.T) {
	e := shared(t, "R15")
	q := e.queue()
	e.configure(q, `{"maxDeliveries":1}`)
	e.push(q, "p", "a", "b")
	e.pop(q, "batch=1", "leaseSeconds=1").want("a")
	e.popSoon(q, "batch=1").want("b")
	e.dlq(q)[0].is("transactionId", "a", "attempts", 1)
}

func TestA3_RedeliveredSpanGoesOutOneByOne(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"maxDeliveries":3}`)
	e.push(q, "p", "a", "b", "c")
	e.ack("", e.pop(q, "batch=2").want("a", "b"), "a=retry")
	b := e.pop(q, "batch=10").want("a")
	e.finish("", b)
	e.finish("", e.pop(q, "batch=10").want("b"))
	e.pop(q, "batch=10").want("c")
}

func TestA3_DroppedWithTheQueueOff(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"maxDeliveries":1,"deadLetterQueue":false,"dlqAfterMaxRetries":false}`)
	e.push(q, "p", "a", "b")
	e.ack("", e.pop(q, "batch=1").want("a"), "a=retry")
	e.pop(q, "batch=1").want("b")
	if n := len(e.dlq(q)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

func TestA6_LeaseIsGivenBack(t *testing.T) {
	e := shared(t, "R12")
	q := lanes(e, 3)
	b := e.pop(q, "partitions=3")
	p := e.park(q, "partitions=3")
	p.stillParked()
	e.del("/api/v1/lease/"+b.lease).obj(http.StatusOK).onlyKeys("leaseId success released").is("leaseId", b.lease, "success", true, "released", 3)
	e.leased(b.lease, false)
	refused(badLease, e.ack("", b, b.ids()[0]+"=completed")...)
	c := p.wakes()
	for _, m := range c.msgs {
		m.is("deliveryAttempt", 2)
	}
	e.del("/api/v1/lease/"+b.lease).obj(http.StatusOK).is("success", false, "released", 0)
	id := c.ids()[0]
	e.ack("", c, id+"=dlq")
	e.dlq(q)[0].is("retryCount", 0)
}

func TestA7_LeaseRequired(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"requireLease":true}`)
	e.push(q, "p", "a", "b")
	b := e.pop(q)
	for _, status := range []string{"completed", "failed", "retry", "dlq"} {
		refused("lease required", e.ackAs("", b, "", "a="+status)...)
	}
	rolledBack(e.transact(txAck("", "a", b.pid(), "", "completed")), "rejected_ack")
	e.leased(b.lease, true)
	e.finish("", b)
}

func TestA8_EmptyPopSaysWhy(t *testing.T) {
	e := shared(t)
	q := e.queue()
	for reason, path := range map[string]string{
		"empty": popPath(q), "timeout": popPath(q, patiently(300)), " empty": pinPath(q, "p"), " timeout": pinPath(q, "p", patiently(300)),
		"  empty": discPath("namespace=" + arg(q)), "  timeout": discPath("namespace="+arg(q), patiently(300)),
	} {
		if got := e.get(path).empty().header.Get("X-Queen-Empty"); got != strings.TrimSpace(reason) {
			t.Errorf("%s: X-Queen-Empty %q", path, got)
		}
	}
}

func TestA9_HealthTellsMore(t *testing.T) {
	_, e := own(t)
	n := e.get("/health").obj(http.StatusOK).hasKeys("status database engine version fsync encryption disk")
	n.is("status", "healthy", "database", "connected", "encryption", "off").at("disk").onlyKeys("usedPct full").is("full", false)
	if n.str("fsync") == "" {
		t.Error("fsync is empty")
	}
}
