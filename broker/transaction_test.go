package broker

import (
	"strings"
	"testing"

	"queend"
)

func txnPush(queue, part, id string) TxnOp {
	return TxnOp{Push: &PushItem{Queue: queue, Partition: part, TxnID: []byte(id), Payload: []byte("1")}}
}

// txnAcks makes operations of ack items of queue mode.
func (r *rig) txnAcks(lease, call string) []TxnOp {
	r.Helper()
	var ops []TxnOp
	for _, it := range ackCallOf(r.T, r.part("p").uuid, lease, call) {
		ops = append(ops, TxnOp{Ack: &it})
	}
	return ops
}

func (r *rig) transact(ops []TxnOp, leases ...string) TxnOutcome {
	r.Helper()
	out, err := r.b.Transaction(r.Context(), DefaultTenant, nil, ops, leases)
	r.must(err)
	if out.ID.IsZero() || out.Success != (out.Reason == "") || !out.Success && len(out.Results) != 0 {
		r.Fatalf("outcome %+v", out)
	}
	return out
}

// F15: half of a transaction over several queues survived.
func TestR110_ATransactionIsAllOrNothing(t *testing.T) {
	r := newRig(t)
	r.push("a", "b")
	p := r.pop(10)
	ops := append(r.txnAcks(p.LeaseID.String(), "a=completed b=dlq"), txnPush("out", "x", "1"), txnPush("out", "y", "1"), txnPush("out", "x", "1"))
	out := r.transact(ops)
	if !out.Success || len(out.Results) != 5 {
		t.Fatalf("%+v", out)
	}
	if res := out.Results; !res[0].Success || res[0].DLQ || !res[1].DLQ || !res[2].Push || res[2].MessageID.IsZero() || res[2].Queue != "out" ||
		res[3].Duplicate || !res[4].Duplicate || res[4].MessageID != res[2].MessageID {
		t.Fatalf("%+v", res)
	}
	r.reopen()
	if got := r.letters(); got != "b:"+retriesExhausted {
		t.Fatalf("letters %q", got)
	}
	if res := r.popReq(func(q *PopRequest) { q.Queue = "out" }); len(res.Messages) != 2 {
		t.Fatalf("popped %d", len(res.Messages))
	}
}

func TestR111_APushedIDInItsWindowRollsBack(t *testing.T) {
	r := newRig(t)
	r.push("a")
	p := r.pop(1)
	r.pushTo("out", "x", "1")
	ops := append([]TxnOp{txnPush("out", "x", "1"), txnPush("fresh", "x", "2")}, r.txnAcks(p.LeaseID.String(), "a=completed")...)
	out := r.transact(ops)
	if out.Reason != "duplicate" || !strings.HasPrefix(out.Error, "QDUP") {
		t.Fatalf("%+v", out)
	}
	if r.b.state.queue(DefaultTenant, "fresh") != nil || r.cursor(QueueMode) != -1 {
		t.Error("a rolled back transaction did something")
	}
}

func TestR112_ARefusedAckRollsBack(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	p := r.pop(2)
	lease := p.LeaseID.String()
	r.said(p.ack("a=completed"), "ok")
	for _, c := range []struct{ lease, call, want string }{
		{lease, "b=completed ghost=completed", txnUnknown},
		{lease, "c=completed", txnUnknown},
		{queend.ID{4}.String(), "b=completed", "QTXN invalid or expired lease; transaction rolled back"},
		{"nonsense", "b=completed", "QTXN invalid or expired lease; transaction rolled back"},
		{lease, "a=failed b=completed", "QTXN " + errPassed + "; transaction rolled back"},
		{lease, "b=completed~5", "QTXN " + errDelayStatus + "; transaction rolled back"},
	} {
		out := r.transact(append([]TxnOp{txnPush("out", "x", "1")}, r.txnAcks(c.lease, c.call)...))
		if out.Reason != "rejected_ack" || out.Error != c.want {
			t.Errorf("%s: %q, %q", c.call, out.Reason, out.Error)
		}
	}
	it := AckItem{TxnID: []byte("a"), Partition: "nowhere", Signal: Completed, DelayMS: -1}
	if out := r.transact([]TxnOp{{Ack: &it}}); out.Reason != "rejected_ack" {
		t.Errorf("%+v", out)
	}
	if out := r.transact([]TxnOp{{Ack: &it, Group: "nobody"}}); out.Reason != "rejected_ack" {
		t.Errorf("%+v", out)
	}
	// completed at the cursor is a no-op that commits.
	if out := r.transact(r.txnAcks(lease, "a=completed b=retry")); !out.Success {
		t.Errorf("%+v", out)
	}
	if r.b.state.queue(DefaultTenant, "out") != nil {
		t.Error("a rolled back transaction pushed")
	}
	r.pop(10).want("b c").attempt(2)
}

func TestR112_AcksOfOneLaneSettleTogether(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	p := r.pop(10)
	ops := r.txnAcks(p.LeaseID.String(), "c=completed")
	ops = append(ops, txnPush("out", "x", "1"))
	ops = append(ops, r.txnAcks("", "b=failed a=failed")...)
	if out := r.transact(ops); !out.Success {
		t.Fatalf("%+v", out)
	}
	p = r.pop(10).want("a b c").attempt(2)
	r.said(p.ack("a=dlq"), "dlq")
	if l := r.page().Letters[0]; l.RetryCount != 1 {
		t.Errorf("charged %d times", l.RetryCount)
	}
}

func TestR113_AckWithoutALeaseIsFencedByTheRequiredOnes(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	first := r.pop(1)
	r.pass(61 * Second)
	second := r.pop(3)
	one, two := first.LeaseID.String(), second.LeaseID.String()
	for _, c := range []struct {
		own      string
		required []string
		commits  bool
	}{
		{"", []string{one}, false},
		{"", []string{"nonsense"}, false},
		{one, []string{two}, false}, // its own beats the required ones
		{"", []string{one, two}, true},
		{two, []string{one}, true},
		{"", []string{}, true}, // counts as absent: unfenced
	} {
		if out := r.transact(r.txnAcks(c.own, "a=completed"), c.required...); out.Success != c.commits {
			t.Errorf("own %q, required %v: %+v", c.own, c.required, out)
		}
	}
	if out := r.transact(r.txnAcks("", "c=completed"), two); !out.Success {
		t.Errorf("%+v", out)
	}
	// R34 is not for transactions.
	if out := r.transact(r.txnAcks(two, "c=completed")); out.Success {
		t.Errorf("%+v", out)
	}
}

func TestR114_AcksAreGuardedBeforePushes(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.pop(1)
	ops := append([]TxnOp{txnPush("q", "p", "a")}, r.txnAcks("wrong", "a=completed")...)
	if out := r.transact(ops); out.Reason != "rejected_ack" {
		t.Errorf("%+v", out)
	}
	// Acks see the state before the pushes.
	ops = append([]TxnOp{txnPush("q", "p", "new")}, r.txnAcks("", "new=completed")...)
	if out := r.transact(ops); out.Error != txnUnknown {
		t.Errorf("%+v", out)
	}
}

func TestTransactionShapesAreRefused(t *testing.T) {
	r := newRig(t)
	if out := r.transact(nil); out.Reason != "bad_request" {
		t.Errorf("%+v", out)
	}
	if out := r.transact([]TxnOp{txnPush(strings.Repeat("x", 500), "p", "1")}); out.Reason != "name_too_long" {
		t.Errorf("%+v", out)
	}
	r.push("a")
	r.pop(1)
	r.b.locked(func() {
		b := r.b.begin()
		b.add(&flagsSet{maintenance: true})
		r.b.commit(b)
	})
	_, err := r.b.Transaction(t.Context(), DefaultTenant, nil, []TxnOp{txnPush("q", "p", "1")}, nil)
	r.wantCode(err, CodeMaintenance)
	if out := r.transact(r.txnAcks("", "a=completed")); !out.Success {
		t.Errorf("acks only: %+v", out)
	}
}
