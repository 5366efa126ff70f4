package broker

import "testing"

// traffic adds up what q remembers.
func (r *rig) traffic() (sum Traffic) {
	r.Helper()
	all := r.b.Traffic(TrafficQuery{Tenant: DefaultTenant, To: never, Step: Hour})
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

func TestOldMinutesOfTrafficBecomeHours(t *testing.T) {
	var q queueTraffic
	now := int64(1_700_000_000) * Second
	now -= now % Hour
	begin := now
	for range 6 * 60 {
		q.note(now, &Traffic{PushMessages: 1})
		now += Minute
	}
	if n := len(q.minutes); n > 2*minutesKept {
		t.Errorf("%d minutes are kept", n)
	}
	for _, step := range []int64{Minute, Hour, Day} {
		total := int64(0)
		for _, p := range q.series(begin, now, step) {
			total += p.PushMessages
		}
		if total != 6*60 {
			t.Errorf("steps of %d add up to %d", step, total)
		}
	}
	if got := q.series(now-10*Minute, now, Minute); len(got) != 10 || got[0].At != now-10*Minute {
		t.Errorf("the last ten minutes are %d points", len(got))
	}
}
