package broker

import (
	"testing"

	"queend"
)

func (r *rig) seek(group string, to SeekTarget) int {
	r.Helper()
	n, err := r.b.SeekQueue(r.Context(), DefaultTenant, group, "q", to)
	r.must(err)
	return n
}

func TestR44_SeekGoesToTheEndOrToATime(t *testing.T) {
	r := newRig(t)
	r.pass(Hour)
	r.push("a")
	r.pass(Hour)
	middle := r.now
	r.push("b", "c")
	r.pass(Hour)
	r.pushTo("q", "p2", "d")
	r.popAs("g", 1).ack("a=completed")
	for _, flushed := range []bool{false, true} {
		if flushed {
			r.flushed()
		}
		for _, c := range []struct {
			to   SeekTarget
			want queend.Offset
		}{
			{SeekTarget{ToEnd: true}, 2},
			{SeekTarget{At: middle}, 0},
			{SeekTarget{At: 0}, -1},
			{SeekTarget{At: r.now + Hour}, 2},
		} {
			if n := r.seek("g", c.to); n != 2 {
				t.Fatalf("%+v: %d partitions", c.to, n)
			}
			if got := r.cursor("g"); got != c.want {
				t.Errorf("%+v: cursor %v, want %v", c.to, got, c.want)
			}
		}
	}
}

func TestR44_SeekEndsTheLeaseAndResetsTheBudget(t *testing.T) {
	r := newRig(t)
	r.push("a", "b")
	r.said(r.pop(10).ack("a=failed~1000"), "ok")
	r.seek("", SeekTarget{At: 1})
	p := r.pop(10).want("a b").attempt(1)
	r.seek("", SeekTarget{At: 1})
	r.said(p.ack("a=completed"), errBadLease)
	p = r.pop(10).want("a b").attempt(1)
	r.said(p.ack("a=completed b=completed"), "ok")
	r.seek("", SeekTarget{ToEnd: true})
	r.said(p.ack("b=completed"), errBadLease) // R34: nothing is remembered
	r.reopen()
	r.pop(10).want("")
}

func TestR44_SeekOfOnePartition(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.pushTo("q", "p2", "b")
	r.said((&popped{r, r.popReq()}).ackAll("a=completed b=completed"), "ok ghost ok")
	found, err := r.b.SeekPartition(t.Context(), DefaultTenant, "", "q", "p2", SeekTarget{At: 1})
	r.must(err)
	if !found {
		t.Fatal("not found")
	}
	r.pop(10).want("b")
	for _, c := range [][2]string{{"q", "nope"}, {"nope", "p"}} {
		if found, err := r.b.SeekPartition(t.Context(), DefaultTenant, "", c[0], c[1], SeekTarget{ToEnd: true}); found || err != nil {
			t.Errorf("%v: found %v, %v", c, found, err)
		}
	}
	if n, err := r.b.SeekQueue(t.Context(), queend.ID{6}, "", "q", SeekTarget{ToEnd: true}); n != 0 || err != nil {
		t.Errorf("foreign queue: %d, %v", n, err)
	}
}

func TestSeekOfAGroupThatNeverPoppedIsWhereItBegins(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.pass(Minute)
	at := r.now
	r.push("b")
	r.seek("g", SeekTarget{At: at})
	r.seek("h", SeekTarget{ToEnd: true})
	r.popAs("g", 10).want("b")
	r.popAs("h", 10).want("")
	r.push("c")
	r.popAs("h", 10).want("c")
}
