package broker

import "testing"

// traffic adds up what q remembers.
func (r *rig) traffic() (sum Traffic) {
	r.Helper()
	all, err := r.b.Traffic(r.Context(), TrafficQuery{Tenant: DefaultTenant, To: never, Step: Hour})
	r.must(err)
	for i := range all {
		for k := range all[i].Points {
			sum.Add(&all[i].Points[k].Traffic)
		}
	}
	return sum
}

func TestTrafficCountsWhatHappens(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	r.later(Second)
	r.pop(3).ack("a=completed b=failed c=completed")
	r.popReq(func(q *PopRequest) { q.AutoAck = true })
	r.popReq()
	want := Traffic{
		PushRequests: 1, PushMessages: 3, PopMessages: 5, PopEmpty: 1, AutoAcked: 2, AckRequests: 1, AckSuccess: 2, AckFailed: 1,
		PartitionsCreated: 1, LagCount: 5, LagTotal: 5*Second - 5, LagMax: Second,
	}
	got := r.traffic()
	got.LagTotal, got.LagMax, want.LagTotal, want.LagMax = 0, 0, 0, 0
	if got != want {
		t.Errorf("traffic %+v, want %+v", got, want)
	}
	if s := r.b.QueueStats(); len(s) != 1 || s[0].Last == nil || s[0].Last.PushMessages != 3 {
		t.Errorf("stats %+v", s)
	}
	r.later(6 * Minute)
	if s := r.b.QueueStats(); s[0].Last != nil {
		t.Errorf("a queue without traffic: %+v", s)
	}
}
