package conformance

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// named configures a queue with these labels and pushes one message to it.
func named(e *env, ns, task, id string) string {
	e.Helper()
	q := e.queue()
	e.configure(q, `{"namespace":`+quote(ns)+`,"task":`+quote(task)+`}`)
	e.push(q, "p", id)
	return q
}

func TestR46_MatchesNamespaceAndTaskExactly(t *testing.T) {
	e := shared(t, "S4")
	ns, task := e.name("n"), e.name("t")
	named(e, ns, "", "a")
	named(e, ns, task, "b")
	named(e, ns+"x", task, "c")
	named(e, "", task, "d")
	got := func(params ...string) []string {
		ids := e.get(discPath(append(params, "partitions=10", all(e.name("g")))...)).asBatch().ids()
		slices.Sort(ids)
		return ids
	}
	if ids := got("namespace=" + ns); !slices.Equal(ids, []string{"a", "b"}) {
		t.Errorf("namespace alone: %v", ids)
	}
	if ids := got("namespace="+ns, "task="+task); !slices.Equal(ids, []string{"b"}) {
		t.Errorf("both: %v", ids)
	}
	if ids := got("task=" + task); !slices.Equal(ids, []string{"b", "c", "d"}) {
		t.Errorf("task alone: %v", ids)
	}
	e.get(discPath("namespace=" + ns[:len(ns)-1] + "%25")).empty()
	e.get(discPath("namespace=" + "N" + ns[1:])).empty()
}

func TestR46_ShapeAndSharedLease(t *testing.T) {
	e := shared(t, "S4", "R4")
	ns := e.name("n")
	q1, q2 := named(e, ns, "", "a"), named(e, ns, "", "b")
	b := e.get(discPath("namespace="+ns, "partitions=10")).asBatch()
	b.onlyKeys(popKeys).is("queue", "", "partitionsClaimed", 2, "partition", "p", "partitionId", b.pid())
	for _, m := range b.msgs {
		m.onlyKeys(messageKeys).is("leaseId", b.lease, "queue", map[string]string{"a": q1, "b": q2}[m.str("transactionId")])
	}
	e.extend(b.lease, 90).is("renewed", 2)
	accepted(e.ack("", b, "a=completed", "b=completed")...)
	e.get(discPath("namespace=" + ns)).empty()
}

func TestR46_DefaultsToOnePartition(t *testing.T) {
	e := shared(t, "S20")
	ns := e.name("n")
	named(e, ns, "", "a")
	named(e, ns, "", "b")
	e.get(discPath("namespace="+ns)).asBatch().is("partitionsClaimed", 1)
	e.get(discPath("namespace="+ns)).asBatch().is("partitionsClaimed", 1)
	e.get(discPath("namespace=" + ns)).empty()
}

func TestR46_Parks(t *testing.T) {
	e := shared(t, "R12", "S14")
	ns := e.name("n")
	q := e.queue()
	e.configure(q, `{"namespace":`+quote(ns)+`}`)
	p := e.start("GET", discPath("namespace="+ns, patiently(20000)), "")
	settle()
	p.stillParked()
	e.push(q, "p", "a")
	p.wakes().want("a")
}

func TestR46_ParksBeforeAnyQueueMatches(t *testing.T) {
	e := shared(t, "R12")
	ns := e.name("n")
	p := e.start("GET", discPath("namespace="+ns, "task=mail", patiently(20000)), "")
	settle()
	p.stillParked()
	e.push(ns+".mail", "p", "a")
	p.wakes().want("a")
}

func TestR46_ConfigureMovesAQueueBetweenNamespaces(t *testing.T) {
	e := shared(t, "S20", "R12")
	n1, n2 := e.name("n"), e.name("n")
	q := named(e, n1, "", "a")
	p := e.start("GET", discPath("namespace="+n2, patiently(20000)), "")
	settle()
	e.configure(q, `{"namespace":`+quote(n2)+`}`)
	b := p.wakes().want("a")
	e.ack("", b, "a=retry")
	e.get(discPath("namespace=" + n1)).empty()
}

func TestR46_GroupStartsByItsMode(t *testing.T) {
	e := shared(t, "R40")
	ns := e.name("n")
	q := named(e, ns, "", "old")
	g := e.name("g")
	e.get(discPath("namespace="+ns, group(g))).empty()
	e.push(q, "p", "fresh")
	e.get(discPath("namespace="+ns, group(g))).asBatch().want("fresh")
	b := e.get(discPath("namespace="+ns, all(e.name("g")))).asBatch()
	b.want("old", "fresh")
}

func TestR46_AutoAck(t *testing.T) {
	e := shared(t, "R7")
	ns := e.name("n")
	q := named(e, ns, "", "a")
	e.get(discPath("namespace="+ns, "autoAck=true")).asBatch().want("a").is("leaseId", "")
	e.depth(q, "").is("pending", 0)
}

func TestR46_BatchIsShared(t *testing.T) {
	e := shared(t, "R6")
	ns := e.name("n")
	for range 2 {
		q := named(e, ns, "", "x0")
		e.push(q, "p", "x1", "x2", "x3")
	}
	b := e.get(discPath("namespace="+ns, "partitions=2", "batch=6")).asBatch()
	if len(b.msgs) != 6 {
		t.Errorf("%d messages, want 6", len(b.msgs))
	}
}

func TestR46_IsNotAQueueNamedPop(t *testing.T) {
	e := shared(t, "S3")
	e.get("/api/v1/pop/").want(http.StatusNotFound)
}

func TestR46_LeaseIsSixtySecondsWhateverTheQueueSays(t *testing.T) {
	e := shared(t, "R5")
	ns := e.name("n")
	q := e.queue()
	e.configure(q, `{"leaseTime":1,"namespace":`+quote(ns)+`}`)
	e.push(q, "p", "a")
	begun := time.Now()
	e.leaseLasts(e.get(discPath("namespace="+ns)).asBatch(), begun, 60)
}
