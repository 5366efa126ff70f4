package broker

import "testing"

func TestR16_ExtendRenewsLiveRowsAndNeverShortens(t *testing.T) {
	r := newRig(t)
	r.pushTo("q", "p1", "a")
	r.pushTo("q", "p2", "b")
	p := r.popReq()
	lease := p.LeaseID.String()
	n, at, err := r.b.Extend(t.Context(), DefaultTenant, lease, 300)
	r.must(err)
	if n != 2 || at < r.now+300*Second || at > r.now+301*Second {
		t.Fatalf("renewed %d until %d", n, at-r.now)
	}
	n, again, err := r.b.Extend(t.Context(), DefaultTenant, lease, -5)
	r.must(err)
	if n != 2 || again != at {
		t.Fatalf("renewed %d until %d, want 2 until %d", n, again, at)
	}
	r.reopen()
	r.pass(299 * Second)
	if n, _, err := r.b.Extend(t.Context(), DefaultTenant, lease, 10); n != 2 || err != nil {
		t.Fatalf("after a restart: %d, %v", n, err)
	}
	r.pass(11 * Second)
	for _, id := range []string{lease, "nonsense", "", "0199aa01-0000-7000-8000-000000000000"} {
		if n, at, err := r.b.Extend(t.Context(), DefaultTenant, id, 60); n != 0 || at != 0 || err != nil {
			t.Fatalf("%q: %d, %d, %v", id, n, at, err)
		}
	}
}

func TestA6_ReleaseGivesEveryRowBackWithoutCharge(t *testing.T) {
	r := newRig(t)
	r.push("a", "b")
	r.said(r.pop(10).ack("a=failed"), "ok")
	p := r.pop(10)
	r.said(p.ack("a=completed"), "ok")
	n, err := r.b.Release(t.Context(), DefaultTenant, p.LeaseID.String())
	r.must(err)
	if n != 1 {
		t.Fatalf("released %d", n)
	}
	q := r.pop(10).want("b").attempt(3)
	r.said(p.ack("b=completed"), errBadLease)
	r.said(q.ack("b=dlq"), "dlq")
	if l := r.page().Letters[0]; l.RetryCount != 1 {
		t.Fatalf("retryCount %d, want 1", l.RetryCount)
	}
	if n, err := r.b.Release(t.Context(), DefaultTenant, p.LeaseID.String()); n != 0 || err != nil {
		t.Fatalf("released again: %d, %v", n, err)
	}
}

func TestR11_GivenBackClaimsLeaveNothingBehind(t *testing.T) {
	r := newRig(t)
	r.push("a", "b")
	r.b.GiveBack(t.Context(), r.pop(10).want("a b").attempt(1).PopResult)
	p := r.pop(10).want("a b").attempt(1)
	r.said(p.ack("a=retry"), "ok")
	q := r.pop(10).attempt(2)
	r.b.GiveBack(t.Context(), q.PopResult)
	q = r.pop(10).attempt(2)
	// What was acked under the lease stays acked.
	r.said(q.ack("a=completed"), "ok")
	r.b.GiveBack(t.Context(), q.PopResult)
	s := r.pop(10).want("b")
	r.b.GiveBack(t.Context(), p.PopResult) // somebody else's lease by now
	r.said(s.ack("b=completed"), "ok")
}
