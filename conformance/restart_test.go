package conformance

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestS1_AnsweredWritesSurviveAKill(t *testing.T) {
	b, e := own(t)
	q, g := e.queue(), e.name("g")
	e.configure(q, `{"leaseTime":77,"retryLimit":1,"namespace":"ns","redeliveryDelayMs":0}`)
	before := e.push(q, "p", series(0, 9)...)
	e.ack(g, e.pop(q, all(g), "batch=3"), "m2=completed")
	id := e.detail(q).str("id")
	e.transact(txPush(item(q, "p2", "t", `{"n": 9007199254740993}`))).is("success", true)
	b.Kill()
	e = b.Restart(t)
	e.detail(q).is("id", id, "namespace", "ns").at("options").is("leaseTime", 77, "retryLimit", 1)
	c := e.pin(q, "p", group(g)).want(series(3, 9)...)
	c.msgs[0].is("offset", 3, "id", before[3].str("message_id"))
	e.again(q, "p", "m0").is("status", "duplicate", "message_id", before[0].str("message_id"), "offset", 0)
	e.push(q, "p", "next")[0].is("offset", 10)
	if got := e.pin(q, "p2").want("t").msgs[0].at("data").text(); got != `{"n": 9007199254740993}` {
		t.Errorf("data %s", got)
	}
}

func TestS20_LeasesSurviveARestart(t *testing.T) {
	b, e := own(t)
	q := e.queue()
	e.push(q, "p", "a", "b")
	begun := time.Now()
	c := e.pop(q, "leaseSeconds=100")
	for i, end := range []func(){b.Kill, b.Stop} {
		end()
		e = b.Restart(t)
		e.popNone(q)
		e.leaseLasts(c, begun, 100)
		if i == 0 {
			accepted(e.ack("", c, "a=completed")...)
		}
	}
	accepted(e.ack("", c, "b=completed")...)
	e.popNone(q)
	b.Kill()
	e = b.Restart(t)
	e.popNone(q)
	accepted(e.ack("", c, "b=completed")...) // R34 outlives a restart as well
}

func TestS20_BudgetsAndAttemptsSurviveARestart(t *testing.T) {
	b, e := own(t)
	q := e.queue()
	e.push(q, "p", "a")
	for range 2 {
		e.ack("", e.pop(q), "a=failed")
	}
	b.Kill()
	e = b.Restart(t)
	c := e.pop(q).want("a").attempt(3)
	e.ack("", c, "a=failed")
	b.Stop()
	e = b.Restart(t)
	e.ack("", e.pop(q).attempt(4), "a=failed")[0].is("dlq", true)
	e.dlq(q)[0].is("retryCount", 3)
}

func TestR15_ExpiryAcrossARestart(t *testing.T) {
	b, e := own(t)
	q := e.queue()
	e.push(q, "p", "a")
	begun := time.Now()
	c := e.pop(q, "leaseSeconds=2")
	b.Kill()
	e = b.Restart(t)
	e.popSoon(q).want("a").attempt(2)
	e.atLeast(begun, 1900*time.Millisecond, "redelivery")
	refused(badLease, e.ack("", c, "a=completed")...)
}

func TestR40_RegistrationsSurviveARestart(t *testing.T) {
	b, e := own(t)
	q, g, h := e.queue(), e.name("g"), e.name("g")
	e.push(q, "p", "old")
	e.popNone(q, group(g))
	e.pop(q, newest(h)).want("old")
	e.del("/api/v1/consumer-groups/" + g + "?deleteMetadata=false").obj(http.StatusOK)
	b.Kill()
	e = b.Restart(t)
	e.push(q, "late", "fresh")
	e.pop(q, all(g)).want("fresh")
	e.pop(q, group(h)).want("fresh").is("conflation", true)
}

func TestR30_DeadLettersSurviveARestart(t *testing.T) {
	b, e := own(t)
	covers(t, "F32")
	q := e.queue()
	row := e.deadLetter(q, "p", "a")
	b.Kill()
	e = b.Restart(t)
	e.popNone(q)
	e.dlq(q)[0].is("id", row.str("id"), "transactionId", "a", "failedAt", row.str("failedAt"))
	e.replay(row.str("id"), "").want(http.StatusOK)
	b.Kill()
	e = b.Restart(t)
	if len(e.dlq(q)) != 0 {
		t.Error("a replayed dead letter came back")
	}
	e.pop(q).want("dlq:" + row.str("id"))
}

func TestR50_DelaySurvivesARestart(t *testing.T) {
	b, e := own(t)
	covers(t, "F24")
	q := e.queue()
	e.configure(q, `{"delayedProcessing":3}`)
	begun := time.Now()
	e.push(q, "p", "a")
	b.Kill()
	e = b.Restart(t)
	if r := e.get(popPath(q)); r.status == http.StatusOK {
		e.atLeast(begun, 2900*time.Millisecond, "delivery")
		return
	}
	e.popSoon(q).want("a")
	e.atLeast(begun, 2900*time.Millisecond, "delivery")
}

func TestR44_SeeksAndDeletesSurviveARestart(t *testing.T) {
	b, e := own(t)
	q, g, gone := e.queue(), e.name("g"), e.queue()
	e.push(q, "p", "a", "b")
	e.push(gone, "p", "x")
	e.finish(g, e.pop(q, all(g)))
	e.seek(g, q, farPast).want(http.StatusOK)
	e.del("/api/v1/resources/queues/" + gone).want(http.StatusOK)
	b.Kill()
	e = b.Restart(t)
	e.pop(q, group(g)).want("a", "b")
	e.notThere(gone)
	e.push(gone, "p", "x")[0].is("offset", 0)
}

func TestF14_ManyKillsLoseNothing(t *testing.T) {
	b, e := own(t)
	q := e.queue()
	seen := map[string]string{} // offset by id
	for round := range 5 {
		for i := range 4 {
			id := fmt.Sprintf("%d-%d", round, i)
			seen[id] = e.push(q, "p", id)[0].at("offset").text()
		}
		b.Kill()
		e = b.Restart(t)
	}
	got := e.pin(q, "p", all(e.name("g")), "batch=100")
	if len(got.msgs) != len(seen) {
		t.Fatalf("%d messages, want %d", len(got.msgs), len(seen))
	}
	for _, m := range got.msgs {
		if want := seen[m.str("transactionId")]; m.at("offset").text() != want {
			t.Errorf("%s moved from %s", m.text(), want)
		}
	}
}

func TestS8_TracesSurviveARestart(t *testing.T) {
	b, e := own(t)
	e.post("/api/v1/traces", `{"transactionId":"t","partitionId":"1","data":{"a":1},"traceNames":["n"]}`).obj(http.StatusCreated)
	b.Kill()
	e = b.Restart(t)
	if n := len(e.get("/api/v1/traces/1/t").obj(http.StatusOK).list("traces")); n != 1 {
		t.Errorf("%d traces", n)
	}
	e.get("/api/v1/traces/by-name/n").obj(http.StatusOK).is("total", 1)
}
