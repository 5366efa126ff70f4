package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"queend"
)

var background = context.Background()

func (r *rig) depth(group string) *Depth {
	r.Helper()
	var g *string
	if group != "" {
		g = &group
	}
	d, err := r.b.Depth(background, DefaultTenant, "q", g)
	r.must(err)
	return d
}

// owes checks pending and processing of q for a group, "" without one.
func (r *rig) owes(group string, pending, processing int64) {
	r.Helper()
	if d := r.depth(group); d.Pending != pending || d.Processing != processing || d.Ready != pending-processing {
		r.Errorf("%q: pending %d processing %d ready %d, want %d %d", group, d.Pending, d.Processing, d.Ready, pending, processing)
	}
}

func TestDepthIsMeasuredFromTheGroupsCursor(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	r.owes("", 3, 0)
	r.owes("nobody", 3, 0)
	pop := r.popAs("g", 2)
	r.owes("g", 3, 2)
	r.owes("", 3, 2)
	pop.ack("a=completed b=completed")
	r.owes("g", 1, 0)
	r.popReq(func(q *PopRequest) { q.Group, q.Mode = "late", "new" })
	r.owes("late", 0, 0)
	r.push("d")
	r.owes("late", 1, 0)
	r.owes("g", 2, 0)
}

func TestF47APlainPopColoursNoNamedGroup(t *testing.T) {
	r := newRig(t)
	r.push("a", "b")
	r.pop(1)
	r.popAs("g", 2).ack("a=completed b=completed")
	r.owes("g", 0, 0)
	r.owes("", 2, 1) // the lowest cursor is the plain queue's
}

func TestF47RetentionBehindASlowGroupLeavesNoDepth(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	r.popAs("g", 1).ack("a=completed")
	r.options(func(o *Options) { o.RetentionEnabled, o.RetentionSeconds = true, 10 })
	r.later(11 * Second)
	r.b.retain()
	r.owes("g", 0, 0)
	groups, err := r.b.ConsumerGroups(background, DefaultTenant)
	r.must(err)
	if g := groups[0]; g.TotalLag != 0 || g.PartitionsWithLag != 0 || g.MaxTimeLag != 0 || g.State != GroupStable {
		t.Errorf("group %+v", g)
	}
}

func TestProcessingCountsAMessageOnce(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c", "d")
	r.popAs("g", 2)
	r.popAs("h", 3)
	r.owes("", 4, 3)
	r.later(61 * Second) // leases are over
	r.owes("", 4, 0)
}

func TestAConflatingGroupOwesOneDeliveryPerPartition(t *testing.T) {
	r := newRig(t)
	r.pushTo("q", "p", "a", "b", "c")
	r.pushTo("q", "o", "d")
	r.popReq(func(q *PopRequest) { q.Group, q.Conflation, q.Batch, q.Partitions = "g", true, 1, 1 })
	d := r.depth("g")
	if !d.Conflation || d.Pending != 4 || d.EffectivePending != 2 || d.EffectiveReady != 1 {
		t.Errorf("depth %+v", d)
	}
}

func TestListingsAddUp(t *testing.T) {
	r := newRig(t)
	r.pushTo("ns.task", "p", "a", "b")
	r.later(Second)
	r.pushTo("ns.task", "o", "c")
	r.push("x")
	r.pop(1).ack("x=dlq")
	queues, err := r.b.Queues(background, DefaultTenant)
	r.must(err)
	if len(queues) != 2 || queues[0].Name != "ns.task" || queues[0].Partitions != 2 || queues[0].Counts.Pending != 3 ||
		queues[1].Counts != (MessageCounts{Total: 1, Completed: 1, DeadLetter: 1}) || queues[0].RetainedBytes == 0 {
		t.Errorf("queues %+v", queues)
	}
	spaces, err := r.b.Namespaces(background, DefaultTenant)
	r.must(err)
	if len(spaces) != 2 || spaces[0].Name != "ns" || spaces[0].Counts.Total != 3 {
		t.Errorf("namespaces %+v", spaces)
	}
	o, err := r.b.Overview(background, DefaultTenant)
	r.must(err)
	if o.Queues != 2 || o.Partitions != 3 || o.Namespaces != 2 || o.Tasks != 1 || o.Counts.Total != 4 || o.OffsetLag.Max != 2 {
		t.Errorf("overview %+v", o)
	}
	top, err := r.b.Partitions(background, DefaultTenant, nil, 2)
	r.must(err)
	if len(top) != 2 || top[0].Partition != "p" || top[0].Pending != 2 || *top[0].Lag < Second {
		t.Errorf("busiest %+v", top)
	}
	d, err := r.b.QueueDetail(background, DefaultTenant, "ns.task")
	r.must(err)
	if len(d.Partitions) != 2 || d.Partitions[0].Name != "p" || *d.Partitions[0].Oldest != *d.Partitions[0].Newest || d.Values.LeaseTime != 60 {
		t.Errorf("detail %+v", d)
	}
	if _, err := r.b.QueueDetail(background, DefaultTenant, "none"); err == nil {
		t.Error("a queue that is not there has a detail")
	}
}

// clock is the broker's clock, which stamps may have taken ahead of r.now.
func (r *rig) clock() (now int64) {
	r.b.locked(func() { now = r.b.now() })
	return now
}

func TestLagIsExactInMessagesAndTime(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		r := newRig(t)
		var stamps []int64
		for i := range 5 {
			r.pushTo("q", "p", fmt.Sprint("a", i))
			r.pushTo("q", "o", fmt.Sprint("b", i))
			stamps = append(stamps, r.part("p").lastTime)
			r.later(100 * Second)
		}
		if flushed {
			r.flushed()
		}
		r.popReq(func(q *PopRequest) { q.Group, q.Pinned, q.Partition, q.Batch = "g", true, "p", 2 })
		r.leaseless("g", "a1=completed")
		r.popReq(func(q *PopRequest) { q.Group, q.Pinned, q.Partition, q.AutoAck = "g", true, "o", true })
		rows, err := r.b.ConsumerGroups(background, DefaultTenant)
		r.must(err)
		want := r.clock() - stamps[2]
		if g := rows[0]; len(rows) != 1 || g.TotalLag != 3 || g.PartitionsWithLag != 1 || g.MaxTimeLag != want || g.Cursors != 2 {
			t.Errorf("flushed %v: group %+v, want an age of %d", flushed, g, want)
		}
		lags, err := r.b.Lagging(background, DefaultTenant, want+1)
		r.must(err)
		if len(lags) != 0 {
			t.Errorf("flushed %v: lagging %+v", flushed, lags)
		}
		lags, err = r.b.Lagging(background, DefaultTenant, want)
		r.must(err)
		if len(lags) != 1 || lags[0].Partition != "p" || lags[0].Lag != 3 || *lags[0].TimeLag != want || lags[0].Consumed != 2 {
			t.Errorf("flushed %v: lagging %+v", flushed, lags)
		}
		detail, err := r.b.GroupDetail(background, DefaultTenant, "g")
		r.must(err)
		if len(detail) != 1 || len(detail[0].Partitions) != 2 || detail[0].Partitions[1].TimeLag != nil {
			t.Errorf("flushed %v: detail %+v", flushed, detail)
		}
	}
}

// browse lists transaction ids, the newest first.
func (r *rig) browse(change ...func(*MessagesQuery)) string {
	r.Helper()
	name := "q"
	q := MessagesQuery{Tenant: DefaultTenant, Queue: &name, Limit: 100}
	for _, f := range change {
		f(&q)
	}
	page, err := r.b.Messages(background, q)
	r.must(err)
	var out []string
	for i := range page.Messages {
		out = append(out, string(page.Messages[i].TxnID))
	}
	return strings.Join(out, " ")
}

func (r *rig) browses(want string, change ...func(*MessagesQuery)) {
	r.Helper()
	if got := r.browse(change...); got != want {
		r.Errorf("browsed %q, want %q", got, want)
	}
}

func TestMessagesComeNewestFirstByStatus(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		r := newRig(t)
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			r.push(id)
			r.later(Second)
		}
		pop := r.pop(4)
		pop.ack("a=completed b=dlq")
		r.pop(2) // c and d
		if flushed {
			r.flushed()
		}
		status := func(s MessageStatus) func(*MessagesQuery) { return func(q *MessagesQuery) { q.Status = s } }
		r.browses("f e d c b a")
		r.browses("e d", func(q *MessagesQuery) { q.Offset, q.Limit = 1, 2 })
		r.browses("f e", status(StatusPending))
		r.browses("d c", status(StatusProcessing))
		r.browses("b", status(StatusDeadLetter))
		r.browses("a", status(StatusCompleted))
		r.browses("", func(q *MessagesQuery) { q.Partition = "o" })
		r.browses("f e d", func(q *MessagesQuery) { q.From = r.now - 3*Second })
		page, err := r.b.Messages(background, MessagesQuery{Tenant: DefaultTenant, Limit: 1})
		r.must(err)
		if m := page.Messages[0]; m.Queue != "q" || m.Partition != "p" || m.QueueStatus != StatusPending || page.Mode.Type != "queue" ||
			string(m.Payload) != `"f"` || (m.Segment != 0) != flushed {
			t.Errorf("flushed %v: message %+v, mode %+v", flushed, m, page.Mode)
		}
	}
}

func TestTheWholeMinuteOfToBelongsToAPage(t *testing.T) {
	r := newRig(t)
	r.now -= r.now % Minute
	var at []int64
	for i := range 4 {
		r.push(fmt.Sprint("a", i))
		at = append(at, r.part("p").lastTime)
		r.later(30 * Second)
	}
	r.browses("a1 a0", func(q *MessagesQuery) { q.To = at[0] })
	r.flushed()
	r.browses("a1 a0", func(q *MessagesQuery) { q.To = at[0] })
	r.browses("a3 a2 a1", func(q *MessagesQuery) { q.From = at[1] })
}

func TestBrowsingMergesPartitionsByTime(t *testing.T) {
	r := newRig(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	type sent struct {
		id string
		at int64
		p  queend.PartitionID
	}
	var all []sent
	for i := range 300 {
		name := fmt.Sprint("p", rnd.IntN(7))
		id := fmt.Sprint("m", i)
		r.pushTo("q", name, id)
		all = append(all, sent{id, r.part(name).lastTime, r.part(name).id})
		r.later(int64(rnd.IntN(3)) * Millisecond)
		if rnd.IntN(40) == 0 {
			r.flushed()
		}
	}
	slices.Reverse(all)
	for _, page := range []int{1, 7, 300} {
		var got []string
		for from := 0; from < len(all); from += page {
			got = append(got, r.browse(func(q *MessagesQuery) { q.Limit, q.Offset = page, from }))
		}
		var want []string
		for _, s := range all {
			want = append(want, s.id)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Fatalf("pages of %d are not in order", page)
		}
	}
}

func TestABrowsedPageStopsAtItsBytes(t *testing.T) {
	r := newRig(t, func(c *Config) { c.PopMaxBytes = 10 })
	r.push("aaaa", "bbbb", "cccc")
	r.browses("cccc")
}

func TestAMessageIsFoundByItsAddress(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		r := newRig(t)
		r.push("a", "b")
		pop := r.popAs("g", 2)
		pop.ack("a=dlq:broken")
		if flushed {
			r.flushed()
		}
		pid := r.part("p").uuid.String()
		d, err := r.b.MessageByAddress(background, DefaultTenant, pid, []byte("a"))
		r.must(err)
		if d.Status != StatusDeadLetter || d.Error != "broken" || d.Retries != 0 || len(d.Groups) != 1 || !d.Groups[0].Consumed ||
			string(d.Payload) != `"a"` || d.Mode.Type != "bus" || d.Options.RetryLimit != 3 {
			t.Errorf("flushed %v: a is %+v", flushed, d)
		}
		r.popAs("g", 1).want("b")
		d, err = r.b.MessageByAddress(background, DefaultTenant, pid, []byte("b"))
		r.must(err)
		if d.Status != StatusProcessing || d.LeaseExpires == nil || d.Groups[0].LeaseExpires == nil || d.Groups[0].Consumed {
			t.Errorf("flushed %v: b is %+v", flushed, d)
		}
		for _, address := range [][2]string{{pid, "c"}, {"nonsense", "a"}, {queend.ID{1}.String(), "a"}} {
			if _, err := r.b.MessageByAddress(background, DefaultTenant, address[0], []byte(address[1])); err == nil {
				t.Errorf("%v is found", address)
			}
		}
		if _, err := r.b.MessageByAddress(background, queend.ID{15: 9}, pid, []byte("a")); err == nil {
			t.Error("another tenant finds a")
		}
	}
}
