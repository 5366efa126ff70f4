package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestF26_AStalledBrokerEndsItsLeases(t *testing.T) {
	b, e := own(t)
	covers(t, "R15")
	q := e.queue()
	e.push(q, "p", "a")
	c := e.pop(q, "leaseSeconds=1")
	if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1500 * time.Millisecond) // the stall is what the test is about
	if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	refused(badLease, e.ack("", c, "a=completed")...)
	e.pop(q).want("a").attempt(2)
}

func TestF34_AckAtTheInstantOfExpiry(t *testing.T) {
	e := shared(t, "R15", "R20")
	const n = 24
	q := lanes(e, n)
	begun := time.Now()
	b := e.pop(q, fmt.Sprint("partitions=", n), "leaseSeconds=1")
	second := map[string]bool{}
	var polls, acks []*pending
	ids := b.ids()
	for i, id := range ids {
		at := begun.Add(time.Second + time.Duration(i-n/2)*8*time.Millisecond)
		time.Sleep(time.Until(at)) // aimed at the expiry of the lease
		acks = append(acks, e.start("POST", "/api/v1/ack", ackItem(id, b.pidOf(id), b.lease, "completed")))
		polls = append(polls, e.start("GET", popPath(q, "partitions=64"), ""))
	}
	done := map[string]bool{}
	for i, p := range acks {
		r := p.wait(15 * time.Second).arr(http.StatusOK)[0]
		if r.at("success").text() == "true" {
			done[ids[i]] = true
		} else {
			r.is("error", badLease)
		}
	}
	take := func(r reply) {
		if r.status == http.StatusOK {
			for _, id := range r.asBatch().ids() {
				if second[id] {
					t.Errorf("%s was leased to two at once", id)
				}
				second[id] = true
			}
		}
	}
	for _, p := range polls {
		take(p.wait(15 * time.Second))
	}
	for end := time.Now().Add(10 * time.Second); len(done)+len(second) < n && time.Now().Before(end); {
		take(e.get(popPath(q, "partitions=64", patiently(1000))))
	}
	for _, id := range ids {
		if done[id] == second[id] {
			t.Errorf("%s: acked %v, delivered again %v", id, done[id], second[id])
		}
	}
}

func TestF21_CancelledPopsUnderLoad(t *testing.T) {
	e := shared(t, "R11")
	q, g := e.queue(), e.name("g")
	e.popNone(q, group(g))
	want := 0
	for i := range 40 {
		p := e.start("GET", popPath(q, group(g), "leaseSeconds=1", "autoAck=false", patiently(15000)), "")
		e.push(q, fmt.Sprint("p", i%10), fmt.Sprint("m", i))
		want++
		time.Sleep(time.Duration(i%5) * time.Millisecond) // the cancel comes at any stage
		p.drop()
	}
	got := map[string]bool{}
	for len(got) < want {
		b := e.popSoon(q, group(g), "partitions=64")
		for _, id := range b.ids() {
			got[id] = true
		}
		e.finish(g, b)
	}
	e.depth(q, g).is("pending", 0)
}

func TestR2_PagesStopAtMaxBytesToo(t *testing.T) {
	_, e := own(t, "QUEEN_POP_MAX_BYTES=5000")
	covers(t, "S6")
	q := e.queue()
	big := `"` + strings.Repeat("x", 2000) + `"`
	var items, acks []string
	for i := range 6 {
		items = append(items, item(q, "p", fmt.Sprint("m", i), big))
	}
	e.pushItems(items...)
	page := e.get("/api/v1/messages?queue=" + q).obj(http.StatusOK).list("messages")
	if len(page) < 1 || len(page) > 3 {
		t.Errorf("a page of 5000 bytes holds %d messages of 2000", len(page))
	}
	for e.pending(q, "") > 0 {
		b := e.pop(q)
		acks = acks[:0]
		for _, id := range b.ids() {
			acks = append(acks, ackItem(id, b.pid(), b.lease, "dlq"))
		}
		accepted(e.ackItems("", acks...)...)
	}
	n := e.get("/api/v1/dlq?queue="+q).obj(http.StatusOK).is("totalCount", 6)
	if rows := n.list("messages"); len(rows) < 1 || len(rows) > 3 {
		t.Errorf("a page of 5000 bytes holds %d rows of 2000", len(rows))
	}
}

func TestF20_SeekAndDeleteForgetEmptiness(t *testing.T) {
	e := shared(t, "R44", "R45")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	e.finish(g, e.pop(q, all(g)))
	for range 5 {
		e.popNone(q, group(g))
	}
	e.seek(g, q, farPast).want(http.StatusOK)
	e.finish(g, e.pop(q, group(g)).want("a"))
	for range 5 {
		e.popNone(q, group(g))
	}
	e.del("/api/v1/consumer-groups/" + g + "?deleteMetadata=true").want(http.StatusOK)
	e.pop(q, all(g)).want("a")
}

func TestF36_ProducerIdentityIsNotTakenFromATransaction(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.transact(txPush(`{"queue":`+quote(q)+`,"payload":1,"producerSub":"mallory"}`)).is("success", true)
	e.pop(q).msgs[0].is("producerSub", nil)
}
