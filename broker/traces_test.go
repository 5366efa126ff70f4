package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"queend"
)

func (r *rig) trace(pid, txn, data string, names ...string) queend.ID {
	r.Helper()
	id, err := r.b.RecordTrace(context.Background(), DefaultTenant,
		TraceEntry{PartitionID: pid, TxnID: txn, Data: []byte(data), Names: names})
	r.must(err)
	return id
}

func (r *rig) tracesOf(pid, txn string) []Trace {
	r.Helper()
	traces, err := r.b.TracesOf(context.Background(), DefaultTenant, pid, txn)
	r.must(err)
	return traces
}

// named lists the data of a page of traces with a name and their total.
func (r *rig) named(name string, limit, offset int) string {
	r.Helper()
	page, err := r.b.TracesByName(context.Background(), DefaultTenant, name, limit, offset)
	r.must(err)
	var out []string
	for _, tr := range page.Traces {
		out = append(out, string(tr.Data))
	}
	return fmt.Sprint(out, " of ", page.Total)
}

func (r *rig) traceNames() string {
	r.Helper()
	page, err := r.b.TraceNames(context.Background(), DefaultTenant, 10, 0)
	r.must(err)
	var out []string
	for _, n := range page.Names {
		out = append(out, fmt.Sprintf("%s:%d/%d", n.Name, n.Traces, n.Messages))
	}
	return fmt.Sprint(strings.Join(out, " "), " of ", page.Total)
}

func TestTracesAreFoundByAddressAndByName(t *testing.T) {
	for _, at := range []string{"in memory", "in segments", "after a restart"} {
		t.Run(at, func(t *testing.T) {
			r := newRig(t)
			r.trace("p1", "a", "1", "x")
			r.later(Second)
			r.trace("p1", "a", "2", "x", "y", "x")
			r.later(Second)
			r.trace("p1", "b", "3", "x")
			r.trace("p", "1a", "4")
			switch at {
			case "in segments":
				r.flushed()
			case "after a restart":
				r.reopen()
			}
			if got := r.tracesOf("p1", "a"); len(got) != 2 || string(got[0].Data) != "1" || string(got[1].Data) != "2" ||
				got[0].EventType != "info" || got[0].Group != QueueMode || got[1].At <= got[0].At {
				t.Errorf("traces of a: %+v", got)
			}
			if got := r.tracesOf("p1", "c"); len(got) != 0 {
				t.Errorf("traces of nothing: %+v", got)
			}
			if got, want := r.named("x", 2, 1), "[2 1] of 3"; got != want {
				t.Errorf("second page of x: %s, want %s", got, want)
			}
			if got, want := r.traceNames(), "x:3/2 y:1/1 of 2"; got != want {
				t.Errorf("names: %s, want %s", got, want)
			}
			r.trace("p1", "a", "5", "y")
			if got, want := r.named("y", 10, 0), "[5 2] of 2"; got != want {
				t.Errorf("after another one: %s, want %s", got, want)
			}
		})
	}
}

func TestATraceKnowsTheLeaseOfItsGroup(t *testing.T) {
	r := newRig(t)
	r.push("a")
	pop := r.pop(1)
	pid := r.part("p").uuid.String()
	r.trace(pid, "a", "1")
	if got := r.tracesOf(pid, "a")[0]; got.Worker != pop.LeaseID.String() || got.Queue != "q" || got.Partition != "p" {
		t.Errorf("trace %+v", got)
	}
}

func TestTracesGoWithTheirRetention(t *testing.T) {
	r := newRig(t)
	r.trace("p", "a", "1", "x")
	r.cfg.TraceRetentionSeconds = 60
	r.reopen()
	r.later(30 * Second)
	r.trace("p", "b", "2", "x", "y")
	r.later(31 * Second)
	r.b.retain()
	if got := r.tracesOf("p", "a"); len(got) != 0 {
		t.Errorf("an old trace is left: %+v", got)
	}
	if got, want := r.traceNames(), "x:1/1 y:1/1 of 2"; got != want {
		t.Errorf("names: %s, want %s", got, want)
	}
	r.later(Minute)
	r.b.retain()
	if got, want := r.traceNames(), " of 0"; got != want {
		t.Errorf("names: %s, want %s", got, want)
	}
}

func TestTracesAreNoQueue(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.trace("p", "a", "1", "x")
	queues, err := r.b.Queues(context.Background(), DefaultTenant)
	r.must(err)
	if len(queues) != 1 || queues[0].Name != "q" {
		t.Errorf("queues %+v", queues)
	}
	o, err := r.b.Overview(context.Background(), DefaultTenant)
	r.must(err)
	if o.Counts.Total != 1 {
		t.Errorf("overview %+v", o)
	}
	if _, err := r.b.QueueDetail(context.Background(), DefaultTenant, tracesQueue); err == nil {
		t.Error("the queue of the traces has a detail")
	}
	if res := r.popReq(); len(res.Messages) != 1 {
		t.Errorf("popped %d messages", len(res.Messages))
	}
}

func TestTracesOfTenantsStayApart(t *testing.T) {
	r := newRig(t)
	r.trace("p", "a", "1", "x")
	traces, err := r.b.TracesOf(context.Background(), queend.ID{15: 9}, "p", "a")
	r.must(err)
	if len(traces) != 0 {
		t.Errorf("another tenant sees %+v", traces)
	}
}

func TestTracesAreRecordedInMaintenance(t *testing.T) {
	r := newRig(t)
	r.maintenance(true)
	r.trace("p", "a", "1")
	if got := r.tracesOf("p", "a"); len(got) != 1 {
		t.Errorf("traces %+v", got)
	}
}
