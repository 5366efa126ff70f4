package conformance

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestR5_LeaseLengthOfAPushCreatedQueueIs60(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	begun := time.Now()
	e.leaseLasts(e.pop(q), begun, 60)
}

func TestR5_LeaseLengthOfAConfiguredQueueIs300(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{}`)
	e.push(q, "p", "a")
	begun := time.Now()
	e.leaseLasts(e.pop(q), begun, 300)
}

func TestR5_LeaseTimeOfTheQueue(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"leaseTime":120}`)
	e.push(q, "p", "a")
	begun := time.Now()
	e.leaseLasts(e.pin(q, "p"), begun, 120)
}

func TestR5_LeaseSecondsBeatsLeaseTime(t *testing.T) {
	e := shared(t, "S4")
	for _, row := range []struct {
		param string
		want  int
	}{{"leaseSeconds=45", 45}, {"leaseSeconds=0", 200}, {"leaseSeconds=-7", 200}} {
		q := e.queue()
		e.configure(q, `{"leaseTime":200}`)
		e.push(q, "p", "a")
		begun := time.Now()
		e.leaseLasts(e.pop(q, row.param), begun, row.want)
	}
}

func TestR5_LeaseTimeZeroActsAs60(t *testing.T) {
	e := shared(t, "S20")
	q := e.queue()
	e.configure(q, `{"leaseTime":0}`).at("options").is("leaseTime", 0)
	e.push(q, "p", "a")
	begun := time.Now()
	e.leaseLasts(e.pop(q), begun, 60)
}

func TestR5_ChangedLeaseTimeActsOnNewPopsOnly(t *testing.T) {
	e := shared(t, "S20")
	q := e.queue()
	e.configure(q, `{"leaseTime":100}`)
	e.push(q, "p1", "a")
	e.push(q, "p2", "b")
	begun := time.Now()
	first := e.pin(q, "p1")
	e.configure(q, `{"leaseTime":500}`)
	e.leaseLasts(first, begun, 100)
	begun = time.Now()
	e.leaseLasts(e.pin(q, "p2"), begun, 500)
}

func TestR5_DiscoveryLeasesFor60(t *testing.T) {
	e := shared(t)
	ns := e.name("n")
	for _, row := range []struct {
		param string
		want  int
	}{{"batch=10", 60}, {"leaseSeconds=25", 25}} {
		q := e.queue()
		e.configure(q, `{"leaseTime":200,"namespace":`+quote(ns+q)+`}`)
		e.push(q, "p", "a")
		begun := time.Now()
		e.leaseLasts(e.get(discPath("namespace="+ns+q, row.param)).asBatch(), begun, row.want)
	}
}

func TestR10_DeliveryAttemptCountsTheSameStart(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b", "c", "d")
	for i := 1; i <= 3; i++ {
		b := e.pop(q, all(g), "batch=2").want("a", "b").attempt(i)
		accepted(e.ack(g, b, "a=retry")...)
	}
	b := e.pop(q, group(g), "batch=2").attempt(4)
	e.finish(g, b)
	e.pop(q, group(g), "batch=2").want("c", "d").attempt(1)
}

func TestR10_FailedInTheMiddleStillCountsUp(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b", "c")
	b := e.pop(q, all(g)).want("a", "b", "c").attempt(1)
	e.ack(g, b, "a=completed", "b=failed")
	e.pop(q, group(g)).want("b", "c").attempt(2)
}

func TestR10_ExpiryCountsUp(t *testing.T) {
	e := shared(t, "R15")
	q := e.queue()
	e.push(q, "p", "a")
	e.pop(q, "leaseSeconds=1").attempt(1)
	e.popSoon(q, "leaseSeconds=1").want("a").attempt(2)
	e.popSoon(q).want("a").attempt(3)
}

func TestR10_ExpiryBehindAPartialAckCountsUp(t *testing.T) {
	e := shared(t, "R15")
	q := e.queue()
	e.push(q, "p", "a", "b", "c", "d")
	b := e.pop(q, "batch=3", "leaseSeconds=1")
	e.ackAs("", b, "", "a=completed")
	e.popSoon(q, "batch=2").want("b", "c").attempt(2)
}

func TestR10_AttemptIsPerPartitionAndGroup(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p1", "a")
	e.push(q, "p2", "b")
	b := e.pin(q, "p1", all(g)).attempt(1)
	e.ack(g, b, "a=retry")
	for _, m := range e.pop(q, group(g), "partitions=2").msgs {
		m.is("deliveryAttempt", map[string]int{"a": 2, "b": 1}[m.str("transactionId")])
	}
	e.pin(q, "p1", all(e.name("g"))).attempt(1)
}

func TestR10_AutoAckIsAlwaysAttemptOne(t *testing.T) {
	e := shared(t, "R7")
	q := e.queue()
	e.push(q, "p", "a", "b")
	b := e.pop(q).attempt(1)
	e.ack("", b, "a=retry")
	e.pop(q, "autoAck=true").want("a", "b").attempt(1)
}

func TestR11_AbandonedPopLeavesNothingBehind(t *testing.T) {
	e := shared(t, "F21")
	q, g := e.queue(), e.name("g")
	var parked []*pending
	for range 5 {
		parked = append(parked, e.start("GET", popPath(q, group(g), patiently(20000)), ""))
	}
	settle()
	for _, p := range parked {
		p.drop()
	}
	settle()
	e.push(q, "p", "a")
	e.popSoon(q, group(g)).want("a").attempt(1)
}

func TestR11_DroppedPopsDoNotStrandMessages(t *testing.T) {
	e := shared(t, "F21")
	q := e.queue()
	for i := range 10 {
		p := e.start("GET", popPath(q, patiently(20000)), "")
		time.Sleep(time.Duration(i) * 4 * time.Millisecond)
		p.drop()
	}
	settle()
	e.push(q, "p", "a")
	e.popSoon(q).want("a")
}

func TestR12_PushWakes(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "old")
	p := e.park(q, group(g))
	pinned := e.start("GET", pinPath(q, "fresh", group(e.name("g")), patiently(20000)), "")
	settle()
	e.push(q, "p", "a")
	p.wakes().want("a")
	pinned.stillParked()
	e.push(q, "fresh", "b")
	pinned.wakes().want("b")
}

func TestR12_LeaseReleaseWakes(t *testing.T) {
	e := shared(t, "F19")
	q := e.queue()
	e.push(q, "p", series(0, 4)...)
	b := e.pop(q, "batch=5", "leaseSeconds=60")
	e.push(q, "p", series(5, 9)...)
	p := e.park(q)
	p.stillParked()
	accepted(e.ack("", b, "m4=completed")...)
	p.wakes().want(series(5, 9)...)
}

func TestR12_NackWakes(t *testing.T) {
	e := shared(t, "R25")
	for _, status := range []string{"failed", "retry"} {
		q := e.queue()
		e.push(q, "p", "a", "b")
		b := e.pop(q)
		p := e.park(q)
		e.ack("", b, "a="+status)
		p.wakes().want("a", "b").attempt(2)
	}
}

func TestR12_ExpiryWakes(t *testing.T) {
	e := shared(t, "R15", "F20")
	q := e.queue()
	e.push(q, "p", "a", "b")
	begun := time.Now()
	e.pop(q, "leaseSeconds=2").want("a", "b")
	p := e.park(q)
	p.wakes().want("a", "b").attempt(2)
	e.atLeast(begun, 1900*time.Millisecond, "redelivery")
}

func TestR12_EmptyPollsDoNotHideTheBacklog(t *testing.T) {
	e := shared(t, "F20")
	q := e.queue()
	e.push(q, "p", "a")
	e.pop(q, "leaseSeconds=2")
	for range 10 {
		e.popNoneOr(q, "a")
	}
	e.popSoon(q).want("a")
}

// popNoneOr polls once; a slow machine may find the lease over already, then
// the message is given back.
func (e *env) popNoneOr(q, id string) {
	e.Helper()
	if r := e.get(popPath(q)); r.status != http.StatusNoContent {
		e.ack("", r.asBatch().want(id), id+"=retry")
	}
}

func TestR12_SeekWakes(t *testing.T) {
	e := shared(t, "R44")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	e.finish(g, e.pop(q, all(g)))
	p := e.park(q, group(g))
	e.seek(g, q, `{"timestamp":"2001-01-01T00:00:00Z"}`).obj(http.StatusOK)
	p.wakes().want("a", "b")
}

func TestR12_ConfigureWakes(t *testing.T) {
	e := shared(t, "R50")
	q := e.queue()
	e.configure(q, `{"delayedProcessing":3600}`)
	e.push(q, "p", "a")
	p := e.park(q)
	p.stillParked()
	e.configure(q, `{"delayedProcessing":0}`)
	p.wakes().want("a")
}

func TestR12_ReplayWakes(t *testing.T) {
	e := shared(t, "F18")
	q := e.queue()
	row := e.deadLetter(q, "p", "a")
	p := e.park(q)
	e.post("/api/v1/dlq/"+row.str("id")+"/replay", "").obj(http.StatusOK)
	p.wakes().want("dlq:" + row.str("id"))
}

func TestR12_TransactionWakes(t *testing.T) {
	e := shared(t, "F18")
	q := e.queue()
	p := e.park(q)
	e.transact(txPush(item(q, "p", "a", "1"))).is("success", true)
	p.wakes().want("a")
	p = e.park(q)
	e.transact(txPush(item(q, "brand-new", "b", "1"))).is("success", true)
	p.wakes().want("b")
}

func TestR12_BacklogIsServedBesideALease(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p1", "a")
	e.pop(q).want("a")
	p := e.park(q)
	e.push(q, "p2", "b")
	p.wakes().want("b")
}

func TestR12_EveryParkedPopIsServed(t *testing.T) {
	e := shared(t)
	q := e.queue()
	var parked []*pending
	for range 8 {
		parked = append(parked, e.start("GET", popPath(q, patiently(20000)), ""))
	}
	settle()
	for i := range 8 {
		e.push(q, fmt.Sprint("p", i), fmt.Sprint("m", i))
	}
	seen := map[string]bool{}
	for _, p := range parked {
		for _, id := range p.wakes().ids() {
			if seen[id] {
				t.Errorf("%s was delivered twice", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d of 8 delivered", len(seen))
	}
}

func TestR15_ExpiryRedeliversTheUnackedSpan(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a", "b", "c", "d")
	b := e.pop(q, "batch=3", "leaseSeconds=2").want("a", "b", "c")
	accepted(e.ackAs("", b, "", "a=completed")...)
	e.popSoon(q, "batch=3").want("b", "c", "d")
}

func TestR15_ExpiryChargesNothingAndFilesNothing(t *testing.T) {
	e := shared(t, "R29")
	q := e.queue()
	e.configure(q, `{"retryLimit":1}`)
	e.push(q, "p", "a")
	for range 2 {
		e.popSoon(q, "leaseSeconds=1").want("a")
	}
	b := e.popSoon(q).want("a")
	if n := len(e.dlq(q)); n != 0 {
		t.Fatalf("%d dead letters after expiry", n)
	}
	e.ack("", b, "a=failed")[0].is("success", true, "dlq", false)
	e.ack("", e.pop(q).want("a"), "a=failed")[0].is("success", true, "dlq", true)
}

func TestR15_AckUnderAnExpiredLeaseIsRefused(t *testing.T) {
	e := shared(t, "R20")
	q := e.queue()
	e.push(q, "p", "a")
	b := e.pop(q, "leaseSeconds=1")
	c := e.popSoon(q).want("a")
	refused(badLease, e.ack("", b, "a=completed")...)
	e.leased(c.lease, true)
	e.finish("", c)
}

func TestS4_ExtendShape(t *testing.T) {
	e := shared(t, "R16")
	q := e.queue()
	e.push(q, "p", "a")
	b := e.pop(q)
	before := time.Now()
	n := e.extend(b.lease, 120).onlyKeys("leaseId success renewed newExpiresAt expiresAt lease_expires_at")
	n.is("leaseId", b.lease, "success", true, "renewed", 1)
	at := n.matches(timeMicro, "newExpiresAt")
	n.is("expiresAt", at, "lease_expires_at", at)
	if left := n.when("newExpiresAt").Sub(before); left < 119*time.Second || left > 150*time.Second {
		t.Errorf("expires in %v, want 120 s", left)
	}
}

func TestS4_ExtendOfNothing(t *testing.T) {
	e := shared(t, "R16", "F35")
	for _, id := range []string{"0199aa01-0000-7000-8000-000000000000", "nonsense", "a b/c"} {
		e.extend(id, 60).onlyKeys("leaseId success renewed newExpiresAt expiresAt lease_expires_at").
			is("leaseId", id, "success", false, "renewed", 0, "newExpiresAt", nil, "expiresAt", nil, "lease_expires_at", nil)
	}
}

func TestS4_ExtendBodies(t *testing.T) {
	e := shared(t, "R16", "S20")
	for _, row := range []struct {
		body string
		want int
	}{{"", 60}, {"{}", 60}, {"not json", 60}, {"[]", 60}, {`{"seconds":null}`, 60}, {`{"seconds":0}`, 2}, {`{"seconds":-9}`, 2}, {`{"seconds":500}`, 500}} {
		q := e.queue()
		e.push(q, "p", "a")
		b := e.pop(q, "leaseSeconds=2")
		begun := time.Now()
		n := e.post("/api/v1/lease/"+b.lease+"/extend", row.body).obj(http.StatusOK)
		if n.at("success").text() == "false" && row.want == 2 {
			continue // the machine was so slow that the lease was over
		}
		left := n.is("success", true).when("newExpiresAt").Sub(begun)
		low, high := time.Duration(row.want)*time.Second, time.Duration(row.want+30)*time.Second
		if row.want == 2 {
			low, high = 0, 3*time.Second
		}
		if left < low || left > high {
			t.Errorf("body %q: expires in %v", row.body, left)
		}
	}
}

func TestR16_ExtendNeverShortens(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	begun := time.Now()
	b := e.pop(q, "leaseSeconds=300")
	e.extend(b.lease, 5).is("success", true, "renewed", 1)
	e.leaseLasts(b, begun, 300)
}

func TestR16_ExtendRenewsEveryRowOfTheLease(t *testing.T) {
	e := shared(t, "S20")
	q := lanes(e, 3)
	b := e.pop(q, "partitions=3", "leaseSeconds=40")
	e.extend(b.lease, 90).is("renewed", 3)
	accepted(e.ack("", b, b.ids()[0]+"=completed")...)
	e.extend(b.lease, 10).is("success", true, "renewed", 2) // also rows whose expiry stays
}

func TestR16_ExtendKeepsTheLeaseAlive(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	b := e.pop(q, "leaseSeconds=3")
	e.extend(b.lease, 60).is("success", true)
	e.get(popPath(q, patiently(3500))).empty()
	e.finish("", b)
}

func TestR16_ReleasedAndExpiredLeasesStayGone(t *testing.T) {
	e := shared(t, "F35")
	q := e.queue()
	e.push(q, "p", "a")
	b := e.pop(q, "leaseSeconds=1")
	c := e.popSoon(q) // the first lease is over now
	e.extend(b.lease, 60).is("success", false, "renewed", 0)
	e.finish("", c)
	e.extend(c.lease, 60).is("success", false, "renewed", 0)
}
