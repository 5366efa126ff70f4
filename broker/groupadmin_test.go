package broker

import (
	"runtime"
	"testing"
)

func (r *rig) deleteGroup(group string, queue *string, metadata bool) int {
	r.Helper()
	n, err := r.b.DeleteGroup(r.Context(), DefaultTenant, group, queue, metadata)
	r.must(err)
	return n
}

func TestR45_ADeletedGroupBeginsAfresh(t *testing.T) {
	r := newRig(t)
	queue := "q"
	r.push("a", "b")
	r.pushTo("q", "p2", "c")
	p := r.popAs("g", 1)
	if n := r.deleteGroup("g", &queue, true); n != 2 {
		t.Fatalf("deleted %d cursors, want 2", n)
	}
	// F29: the old lease is refused and brings no group back.
	r.said(p.ack("a=completed"), errNoConsumer)
	if len(r.part("p").q.groups) != 0 {
		t.Error("a group is left")
	}
	for range 2 {
		if n := r.deleteGroup("g", nil, true); n != 0 {
			t.Fatalf("deleted %d cursors of nothing", n)
		}
	}
	res := r.popReq(func(q *PopRequest) { q.Group, q.Mode = "g", "new" })
	if len(res.Messages) != 0 {
		t.Errorf("popped %d", len(res.Messages))
	}
	r.popAs("h", 100).want("a b c")
}

func TestR45_AKeptRegistrationSeedsTheNextPop(t *testing.T) {
	r := newRig(t)
	r.push("old")
	if res := r.popReq(func(q *PopRequest) { q.Group, q.Mode = "g", "new" }); len(res.Messages) != 0 {
		t.Fatal("a new group got what was there")
	}
	r.push("a", "b")
	r.said(r.popAs("g", 10).want("a b").ack("b=completed"), "ok")
	if n := r.deleteGroup("g", nil, false); n != 1 {
		t.Fatalf("deleted %d cursors", n)
	}
	g := r.part("p").q.groups["g"]
	if g.popped || r.b.cursors(g) != 0 {
		t.Errorf("popped %v, %d cursors", g.popped, r.b.cursors(g))
	}
	r.said(r.leaseless("g", "a=completed"), errNoConsumer)
	r.reopen()
	r.popAs("g", 10).want("a b") // its own mode would be all
}

func TestSetSubscriptionMovesNoCursor(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.popAs("g", 1).want("a").ack("a=completed")
	rows, err := r.b.SetSubscription(t.Context(), DefaultTenant, "g", r.now+Hour)
	r.must(err)
	if rows != 1 {
		t.Fatalf("%d rows", rows)
	}
	r.push("b")
	r.popAs("g", 10).want("b")
	r.pushTo("q", "fresh", "early")
	r.pass(2 * Hour)
	r.pushTo("q", "fresh", "late")
	res := r.popReq(func(q *PopRequest) { q.Group, q.Pinned, q.Partition = "g", true, "fresh" })
	if got := sortedIDs(res.Messages); got != "late" {
		t.Errorf("popped %q", got)
	}
	if rows, err := r.b.SetSubscription(t.Context(), DefaultTenant, "nobody", 1); rows != 0 || err != nil {
		t.Errorf("%d rows, %v", rows, err)
	}
}

func TestDeletingADiscoveryGroupRemovesItsLabels(t *testing.T) {
	r := newRig(t)
	discover := func(q *PopRequest) { q.Queue, q.Discovery, q.Namespace, q.Group = "", true, "ns", "g" }
	r.pushTo("ns.x", "p", "a")
	if res := r.popReq(discover); len(res.Messages) != 1 {
		t.Fatalf("popped %d", len(res.Messages))
	}
	if rows, err := r.b.SetSubscription(t.Context(), DefaultTenant, "g", 1); rows != 2 || err != nil {
		t.Fatalf("%d rows, %v", rows, err)
	}
	if n := r.deleteGroup("g", nil, true); n != 1 || len(r.b.state.labels) != 0 {
		t.Fatalf("deleted %d cursors, %d labels left", n, len(r.b.state.labels))
	}
	if res := r.popReq(discover); len(res.Messages) != 1 {
		t.Errorf("popped %d", len(res.Messages))
	}
}

// parked waits until a number of pops are parked.
func (r *rig) parked(n int) {
	for {
		found := 0
		r.b.locked(func() {
			for _, w := range r.b.delivery.waiters {
				if w.parked != nil {
					found++
				}
			}
		})
		if found == n {
			return
		}
		runtime.Gosched()
	}
}

func TestS20_ADeletedGroupWakesItsParkedPopsWhichRegisterAfresh(t *testing.T) {
	for name, change := range map[string]func(*PopRequest){
		"queue":     func(q *PopRequest) { q.Queue = "ns.x" },
		"pinned":    func(q *PopRequest) { q.Queue, q.Pinned, q.Partition = "ns.x", true, "p" },
		"discovery": func(q *PopRequest) { q.Queue, q.Discovery, q.Namespace = "", true, "ns" },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pushTo("ns.x", "p", "old")
			done := make(chan *PopResult)
			go func() {
				req := PopRequest{Tenant: DefaultTenant, Batch: 10, Partitions: 64, Mode: "new", Group: "g", Wait: true, TimeoutMS: 60000}
				change(&req)
				res, err := r.b.Pop(t.Context(), req)
				if err != nil {
					t.Error(err)
				}
				done <- res
			}()
			r.parked(1)
			before := r.b.state.queue(DefaultTenant, "ns.x").groups["g"]
			queue := "ns.x"
			r.deleteGroup("g", &queue, true)
			for registered := false; !registered; runtime.Gosched() {
				r.b.locked(func() {
					g := r.b.state.queue(DefaultTenant, "ns.x").groups["g"]
					registered = g != nil && g != before
				})
			}
			r.parked(1)
			r.pushTo("ns.x", "p", "fresh")
			if got := sortedIDs((<-done).Messages); got != "fresh" {
				t.Errorf("popped %q", got)
			}
		})
	}
}
