package conformance

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestR50_DelayHidesOnEveryRoute(t *testing.T) {
	e := shared(t)
	ns := e.name("n")
	q := e.queue()
	e.configure(q, `{"delayedProcessing":600,"namespace":`+quote(ns)+`}`)
	e.push(q, "p", "a")
	e.popNone(q)
	e.popNone(q, all(e.name("g")))
	e.popNone(q, "autoAck=true")
	e.get(pinPath(q, "p")).empty()
	e.get(discPath("namespace=" + ns)).empty()
	e.depth(q, "").is("pending", 1)
}

func TestR50_LoweringShowsAndRaisingHides(t *testing.T) {
	e := shared(t, "S20")
	q := e.queue()
	e.configure(q, `{"delayedProcessing":600}`)
	e.push(q, "p", "a", "b")
	e.popNone(q)
	e.configure(q, `{"delayedProcessing":0}`)
	e.finish("", e.pop(q, "batch=1").want("a"))
	e.configure(q, `{"delayedProcessing":600}`)
	e.popNone(q)
	e.configure(q, `{}`)
	e.pop(q).want("b")
}

func TestR50_DueMessageWakesAParkedPop(t *testing.T) {
	e := shared(t, "R12", "F22")
	q := e.queue()
	e.configure(q, `{"delayedProcessing":2}`)
	p := e.park(q)
	begun := time.Now()
	e.push(q, "p", "a")
	p.stillParked()
	b := p.wakes().want("a")
	e.atLeast(begun, 1900*time.Millisecond, "delivery")
	e.finish("", b)
	begun = time.Now()
	e.push(q, "p", "b")
	e.popSoon(q).want("b")
	e.atLeast(begun, 1900*time.Millisecond, "delivery")
}

func TestR50_DelayCutsOnlyTheTail(t *testing.T) {
	e := shared(t, "F23")
	q := e.queue()
	e.configure(q, `{"delayedProcessing":2}`)
	e.push(q, "p", "a")
	time.Sleep(2100 * time.Millisecond) // a has come of age; the age is what the test is about
	begun := time.Now()
	e.push(q, "p", "b")
	b := e.pop(q)
	if time.Since(begun) < 2*time.Second {
		b.want("a")
	}
	e.finish("", b)
	if len(b.msgs) == 1 {
		e.popSoon(q).want("b")
		e.atLeast(begun, 1900*time.Millisecond, "delivery of b")
	}
}

func TestR50_AnEarlierPartitionDoesNotHoldALaterOne(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"delayedProcessing":1}`)
	e.push(q, "p1", "a")
	e.push(q, "p2", "b")
	seen := map[string]bool{}
	for range 2 {
		for _, id := range e.popSoon(q).ids() {
			seen[id] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("delivered %v", seen)
	}
}

func TestR9_DeferredMessagesAreNotSealed(t *testing.T) {
	e := shared(t, "R50")
	q, g := e.queue(), e.name("g")
	e.configure(q, `{"delayedProcessing":600}`)
	e.push(q, "p", "a")
	e.popNone(q, all(g))
	e.popNone(q, all(g))
	e.depth(q, g).is("pending", 1)
	e.configure(q, `{}`)
	e.pop(q, all(g)).want("a")
}

func TestR51_WindowHoldsUntilItsEnd(t *testing.T) {
	e := shared(t, "R12")
	q := e.queue()
	e.configure(q, `{"windowBuffer":2}`)
	p := e.park(q)
	begun := time.Now()
	e.push(q, "p", "a")
	e.push(q, "p", "b")
	p.stillParked()
	p.wakes().want("a", "b")
	e.atLeast(begun, 1900*time.Millisecond, "delivery")
}

func TestR51_WindowHoldsOnEveryRoute(t *testing.T) {
	e := shared(t)
	ns, q := e.name("n"), e.queue()
	e.configure(q, `{"windowBuffer":600,"namespace":`+quote(ns)+`}`)
	e.push(q, "p", "a")
	e.popNone(q)
	e.get(pinPath(q, "p")).empty()
	e.get(discPath("namespace=" + ns)).empty()
	e.popNone(q, "autoAck=true")
	e.depth(q, "").is("pending", 1)
}

func TestR51_AHundredMessagesEndTheWindow(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"windowBuffer":600}`)
	e.push(q, "p", series(0, 97)...)
	e.popNone(q)
	p := e.park(q)
	e.push(q, "p", "m98")
	p.stillParked()
	e.push(q, "p", "m99")
	if n := len(p.wakes().msgs); n != 100 {
		t.Errorf("%d messages, want 100", n)
	}
}

func TestR51_ContinuousWritingDoesNotPostponeTheWindow(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"windowBuffer":1}`)
	p := e.start("GET", popPath(q, patiently(20000)), "")
	settle()
	begun := time.Now()
	for i := 0; len(p.result) == 0; i++ {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("a continuously written partition was never delivered")
		}
		e.push(q, "p", fmt.Sprint(i))
		time.Sleep(100 * time.Millisecond)
	}
	if got := p.wakes().ids()[0]; got != "0" {
		t.Errorf("first message %s", got)
	}
	e.atLeast(begun, 900*time.Millisecond, "delivery")
}

func TestR51_ChangingTheWindowActsAtOnce(t *testing.T) {
	e := shared(t, "R12", "S20")
	q := e.queue()
	e.configure(q, `{"windowBuffer":600}`)
	e.push(q, "p", "a")
	p := e.park(q)
	e.configure(q, `{"windowBuffer":0}`)
	p.wakes().want("a")
}

func TestS20_RedeliveryIsNotHeldByTheWindow(t *testing.T) {
	e := shared(t, "R51")
	q := e.queue()
	e.push(q, "p", "a", "b")
	b := e.pop(q)
	e.configure(q, `{"windowBuffer":600}`)
	e.ack("", b, "a=failed")
	b = e.pop(q).want("a", "b")
	e.ack("", b, "a=retry")
	e.pop(q, "leaseSeconds=1").want("a", "b")
	e.popSoon(q).want("a", "b")
}

func TestS20_WhatStaysBehindALeaseStartsANewWindow(t *testing.T) {
	e := shared(t, "R51")
	q := e.queue()
	e.configure(q, `{"windowBuffer":1}`)
	e.push(q, "p", "a", "b", "c")
	b := e.popSoon(q, "batch=2").want("a", "b")
	e.finish("", b)
	e.popSoon(q).want("c")
}

func TestR51_AutoAckStartsANewWindow(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"windowBuffer":2}`)
	e.push(q, "p", "a")
	e.popSoon(q, "autoAck=true").want("a")
	begun := time.Now()
	e.push(q, "p", "b")
	e.popSoon(q, "autoAck=true").want("b")
	e.atLeast(begun, 1900*time.Millisecond, "delivery")
}

func TestR51_QuietModeWaitsForSilence(t *testing.T) {
	_, e := own(t, "QUEEN_HOTLIST=0")
	q := e.queue()
	e.configure(q, `{"windowBuffer":1}`)
	begun := time.Now()
	e.push(q, "p", series(0, 149)...)
	if r := e.get(popPath(q)); r.status != http.StatusNoContent {
		if time.Since(begun) < time.Second {
			t.Error("quiet mode released a full batch early")
		}
		return
	}
	p := e.start("GET", popPath(q, "batch=1000", patiently(20000)), "")
	for i := range 5 {
		begun = time.Now()
		e.push(q, "p", fmt.Sprint("x", i))
		time.Sleep(300 * time.Millisecond)
	}
	b := p.wakes()
	if len(b.msgs) == 155 { // on a very slow machine a pause may have looked like silence
		e.atLeast(begun, 900*time.Millisecond, "delivery after the newest message")
	}
}

func TestR51_WindowBatchIsASetting(t *testing.T) {
	_, e := own(t, "QUEEN_HOTLIST_WINDOW_BATCH=3")
	q := e.queue()
	e.configure(q, `{"windowBuffer":600}`)
	e.push(q, "p", "a", "b")
	e.popNone(q)
	e.push(q, "p", "c")
	e.pop(q).want("a", "b", "c")
}

func TestR52_UnderfullBatchIsHeld(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"minPopWaitTime":1500}`)
	e.push(q, "p", "a")
	begun := time.Now()
	e.pop(q, "batch=5", patiently(20000)).want("a")
	e.atLeast(begun, 1400*time.Millisecond, "delivery")
	e.push(q, "pin", "b")
	begun = time.Now()
	e.pin(q, "pin", "batch=5", patiently(20000)).want("b")
	e.atLeast(begun, 1400*time.Millisecond, "pinned delivery")
}

func TestR52_AFullBatchEndsTheHold(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"minPopWaitTime":60000}`)
	e.push(q, "p", "a")
	p := e.start("GET", popPath(q, "batch=3", patiently(50000)), "")
	settle()
	p.stillParked()
	e.push(q, "p", "b", "c")
	p.wakes().want("a", "b", "c")
}

func TestR52_ServedAtOnceWithoutCause(t *testing.T) {
	e := shared(t)
	for _, params := range []string{"batch=5", "batch=1&" + patiently(50000), "batch=2&" + patiently(50000)} {
		q := e.queue()
		e.configure(q, `{"minPopWaitTime":60000}`)
		e.push(q, "p", "a", "b")
		begun := time.Now()
		e.start("GET", popPath(q, params), "").wait(15 * time.Second).asBatch()
		if time.Since(begun) > 12*time.Second {
			t.Errorf("%s was held", params)
		}
	}
}

func TestR52_PopWokenFromAnEmptyQueueIsServedAtOnce(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"minPopWaitTime":60000}`)
	p := e.park(q, "batch=5")
	e.push(q, "p", "a")
	p.wakes().want("a")
}

func TestR52_TheCallersDeadlineEndsTheHold(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"minPopWaitTime":60000}`)
	e.push(q, "p", "a")
	begun := time.Now()
	e.start("GET", popPath(q, "batch=5", patiently(1500)), "").wait(15 * time.Second).asBatch().want("a")
	e.atLeast(begun, 1100*time.Millisecond, "delivery")
}
