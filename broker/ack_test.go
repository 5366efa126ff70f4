package broker

import (
	"testing"

	"queend"
)

func TestR20_OnlyTheLiveLeaseAcks(t *testing.T) {
	r := newRig(t)
	r.push("a", "b")
	first := r.pop(10).want("a b")
	for _, lease := range []string{queend.ID{1}.String(), queend.ID{}.String(), "x", first.LeaseID.String() + "0"} {
		r.said(r.ackItems("", ackCallOf(t, r.part("p").uuid, lease, "a=completed b=failed")), errBadLease)
	}
	r.pass(61 * Second)
	r.said(first.ack("a=completed"), errBadLease)
	second := r.pop(10).want("a b").attempt(2)
	r.said(first.ack("a=completed"), errBadLease)
	r.said(second.ack("a=completed b=completed"), "ok")
}

func TestR21_AnIDIsTheLowestMatchAboveTheCursorInTheBatch(t *testing.T) {
	r := newRig(t)
	r.options(func(o *Options) { o.DedupWindowSeconds = 0 })
	for _, id := range []string{"x", "x", "y", "x", "z"} {
		r.push(id)
	}
	// From the tail, from files, and from what the pop has kept of either.
	for i, group := range []string{"g1", "g2", "g3", "g4"} {
		if i == 2 {
			r.flushed()
		}
		p := r.popAs(group, 4).want("x x y x")
		if i%2 == 1 {
			r.b.storage.batches.Drop(laneKey{r.part("p").id, r.part("p").q.groups[group].id})
		}
		r.said(p.ack("z=completed ghost=failed"), "ghost")
		r.said(p.ack("x=completed"), "ok")
		if c := r.cursor(p.Group); c != 0 {
			t.Fatalf("cursor %v", c)
		}
		r.said(p.ack("x=completed"), "ok")
		if out := p.ack("x=completed"); !out[0].LeaseReleased {
			t.Fatal("the last x does not end the batch")
		}
	}
}

func TestGroupsOfOneCallSettleApart(t *testing.T) {
	r := newRig(t)
	r.pushTo("q", "p", "a")
	r.pushTo("q", "p2", "b")
	p := r.pop(10)
	lease := p.LeaseID.String()
	items := ackCallOf(t, r.part("p").uuid, lease, "a=completed")
	items = append(items, ackCallOf(t, r.part("p2").uuid, "wrong", "b=failed")...)
	items = append(items, ackCallOf(t, r.part("p2").uuid, lease, "b=dlq")...)
	items = append(items, AckItem{Partition: "nonsense", DelayMS: -1, Signal: Completed}, AckItem{Partition: queend.ID{9}.String(), DelayMS: -1, Signal: Completed})
	r.said(r.ackItems("", items), "ok "+errBadLease+" dlq malformed partitionId unknown partitionId")
}

func TestForeignPartitionsAreAnsweredLikeMissingOnes(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.pop(1)
	for _, part := range []queend.ID{r.part("p").uuid, {9}} {
		out, err := r.b.Ack(t.Context(), queend.ID{5}, "", ackCallOf(t, part, "", "a=completed"))
		r.must(err)
		r.said(out, "partition not owned by tenant")
	}
}

func TestR33_AGroupThatNeverPoppedIsNoConsumer(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.said(r.leaseless("g", "a=completed"), errNoConsumer)
	r.pushTo("q", "other", "b")
	r.popReq(func(q *PopRequest) { q.Group, q.Pinned, q.Partition = "g", true, "other" })
	// It registered for every partition of the time, so it stands on p (R40).
	r.said(r.leaseless("g", "a=completed"), "ok")
	r.pushTo("q", "later", "c")
	r.said(r.ackItems("g", ackCallOf(t, r.part("later").uuid, "", "c=completed")), errNoConsumer)
}

func TestR34_RepeatOfASettlingAckAnswersAlike(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	p := r.pop(10)
	r.said(p.ack("a=completed"), "ok")
	first := p.ack("b=completed c=completed")
	for range 2 {
		again := p.ack("b=completed c=completed")
		if again[0] != first[0] || again[1] != first[1] {
			t.Fatalf("first %+v, again %+v", first, again)
		}
		if out := p.ack("a=completed"); !out[0].Success || out[0].LeaseReleased {
			t.Fatalf("repeat of a partial ack: %+v", out)
		}
		r.flushed()
		r.reopen()
	}
	r.said(p.ack("c=failed ghost=completed"), errBadLease)
	r.push("d")
	next := r.pop(10).want("d")
	r.said(p.ack("c=completed d=completed"), "ok "+errBadLease)
	r.said(next.ack("d=retry"), "ok")
	r.said(next.ack("d=completed"), errBadLease)
}

func TestR85_AnIDUnderTheOwnLeaseResolvesHoweverOld(t *testing.T) {
	r := newRig(t)
	r.options(func(o *Options) { o.LeaseTime = 100000 })
	r.push("a", "b", "c")
	p := r.pop(10)
	r.pass(2 * Hour)
	r.said(r.leaseless("", "a=completed"), "ghost")
	r.said(p.ack("a=completed"), "ok")
	r.said(p.ack("a=completed"), "ghost") // below the cursor the window counts
	r.said(p.ack("c=completed"), "ok")
}

func TestS20_LeaselessAcksWithoutALiveLease(t *testing.T) {
	r := newRig(t)
	r.push("m0", "m1", "m2", "m3", "m4", "m5")
	r.pop(2).want("m0 m1").ack("m0=retry")
	r.said(r.leaseless("", "m4=failed m4=retry m4=dlq"), "ghost")
	r.said(r.leaseless("", "m1=failed"), "ok")
	r.said(r.leaseless("", "m4=completed"), "ok")
	r.said(r.leaseless("", "m3=failed m3=completed"), "passed noop")
	r.pop(10).want("m5").attempt(1)
}

func TestA2_ADelayedLaneIsNotOfferedBeforeItsTime(t *testing.T) {
	r := newRig(t)
	r.push("a", "b")
	r.popAs("other", 1)
	r.said(r.pop(10).ack("a=failed~5000"), "ok")
	r.reopen()
	r.pop(10).want("")
	r.pass(4999 * Millisecond)
	r.pop(10).want("")
	r.pass(2 * Millisecond)
	p := r.pop(10).want("a b")
	r.said(p.ack("a=completed~1 b=dlq~1"), errDelayStatus)
	r.said(p.ack("a=retry~86400001"), errDelayRange)
	r.said(p.ack("a=retry~60000"), "ok")
	r.said(r.leaseless("", "a=completed"), "ok")
	r.pop(10).want("b")
}

func TestA3_TheHeadIsFiledBeforeTheClaim(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		r := newRig(t)
		r.options(func(o *Options) { o.MaxDeliveries = 2 })
		r.push("a", "b", "c")
		if flushed {
			r.flushed()
		}
		r.pop(10).want("a b c")
		r.pass(61 * Second)
		r.pop(10).want("a")
		r.pass(61 * Second)
		p := r.pop(10).want("b")
		l := r.page().Letters[0]
		if string(l.TxnID) != "a" || l.Error != deliveryLimit || l.Attempts != 2 || l.RetryCount != 0 || string(l.Payload) != `"a"` {
			t.Fatalf("%+v", l)
		}
		r.said(p.ack("b=completed"), "ok")
		r.said(r.pop(10).want("c").ack("c=completed"), "ok")
	}
}

func TestA3_WithoutADeadLetterQueueTheHeadIsDropped(t *testing.T) {
	r := newRig(t)
	r.options(func(o *Options) { o.MaxDeliveries, o.DeadLetterQueue, o.DLQAfterMaxRetries = 1, false, false })
	r.push("a", "b")
	r.pop(1).want("a")
	r.pass(61 * Second)
	r.pop(10).want("b")
	if got := r.letters(); got != "" {
		t.Errorf("dead letters %q", got)
	}
}

func TestA7_RequireLeaseRefusesLeaselessAcks(t *testing.T) {
	r := newRig(t)
	r.options(func(o *Options) { o.RequireLease = true })
	r.push("a")
	p := r.pop(1)
	r.said(r.leaseless("", "a=completed"), errLeaseRequired)
	r.said(p.ack("a=completed"), "ok")
}

func TestR72_AckOfAConflatingGroup(t *testing.T) {
	r := newRig(t)
	r.options(func(o *Options) { o.DedupWindowSeconds = 0 })
	r.push("x", "y")
	r.push("x")
	conflating := func(q *PopRequest) { q.Group, q.Conflation = "g", true }
	p := &popped{r, r.popReq(conflating)}
	p.want("x")
	r.push("z")
	r.said(p.ack("y=completed y=failed"), "ghost") // skipped, not delivered
	out := p.ack("x=completed")
	if !out[0].LeaseReleased || out[0].Conflated != 2 {
		t.Fatalf("%+v", out)
	}
	if again := p.ack("x=completed"); again[0] != out[0] {
		t.Fatalf("repeat %+v", again)
	}
	q := &popped{r, r.popReq(conflating)}
	if out := q.want("z").ack("z=completed"); out[0].Conflated != 0 {
		t.Fatalf("%+v", out)
	}
}
