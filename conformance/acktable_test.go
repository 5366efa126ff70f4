package conformance

import (
	"slices"
	"strings"
	"testing"
)

// ackRow is one row of the worked table: messages m10 to m19 are delivered,
// the cursor stands at 9.
type ackRow struct {
	name      string
	charged   int    // the counter before the call
	dlqOff    bool   // both dead-letter flags false
	call      string // id=status ...
	committed int64  // the cursor after it
	kept      bool   // the lease is kept
	counter   int    // the counter after it
	filed     string // ids dead-lettered or dropped by the call
	errors    string // ids refused, as id=text prefix
	noop      string // ids answered with noop
}

// completions writes "m<a>=completed ... m<b>=completed".
func completions(a, b int) string { return strings.Join(series(a, b), "=completed ") + "=completed" }

var ackTable = []ackRow{
	{name: "last completed", call: "m19=completed", charged: 1, committed: 19},
	{name: "middle completed", call: "m14=completed", charged: 1, committed: 14, kept: true, counter: 1},
	{name: "failed among completed", call: completions(10, 11) + " m12=failed " + completions(13, 19), charged: 1, committed: 11, counter: 2},
	{name: "failed below the last completed", call: "m19=completed m15=failed", charged: 1, committed: 14, counter: 2},
	{name: "failed above a completed", call: "m12=completed m15=failed", charged: 1, committed: 12, counter: 2},
	{name: "failed alone", call: "m15=failed", charged: 1, committed: 9, counter: 2},
	{name: "dlq alone", call: "m15=dlq", charged: 1, committed: 15, filed: "m15"},
	{name: "failed without budget", call: "m10=failed", charged: 3, committed: 10, filed: "m10"},
	{name: "failed without budget, dlq off", call: "m10=failed", charged: 3, dlqOff: true, committed: 10, filed: "m10"},
	{name: "retry below failed", call: "m11=retry m12=failed m10=completed", charged: 2, committed: 10, counter: 2},
	{name: "dlq then completed", call: "m10=dlq " + completions(11, 19), charged: 1, committed: 19, filed: "m10"},
	{name: "dlq then failed", call: "m10=dlq m13=failed " + completions(11, 12) + " " + completions(14, 19), charged: 1, committed: 12, filed: "m10"},
	{name: "completed below the cursor", call: "m9=completed", charged: 1, committed: 9, kept: true, counter: 1, noop: "m9"},
	{name: "failed below the cursor", call: "m9=failed", charged: 1, committed: 9, kept: true, counter: 1, errors: "m9=" + committed},
	{name: "never pushed", call: "ghost=completed", charged: 1, committed: 9, kept: true, counter: 1, errors: "ghost=" + unresolvable},
	{name: "above the batch", call: "m25=completed", charged: 1, committed: 9, kept: true, counter: 1, errors: "m25=" + unresolvable},

	// The walk above a filed message (R26).
	{name: "two dlq", call: "m10=dlq m12=dlq " + completions(13, 19), charged: 1, committed: 19, filed: "m10 m12"},
	{name: "dlq then unmentioned below a completed", call: "m10=dlq m14=completed", charged: 1, committed: 14, filed: "m10"},
	{name: "dlq then retry", call: "m10=dlq m11=completed m12=retry " + completions(13, 19), charged: 2, committed: 11, filed: "m10"},
	{name: "dlq then failed, budget spent", call: "m10=dlq m11=completed m12=failed " + completions(13, 19), charged: 3, committed: 19, filed: "m10 m12"},
	{name: "two failed, budget spent", call: "m10=failed m11=failed m12=completed", charged: 3, committed: 12, filed: "m10 m11"},
	{name: "failed then retry, budget spent", call: "m10=failed m11=retry", charged: 3, committed: 10, filed: "m10"},
	{name: "two failed, budget spent, dlq off", call: "m10=failed m11=failed " + completions(12, 19), charged: 3, dlqOff: true, committed: 19, filed: "m10 m11"},
	{name: "completed and dlq last", call: completions(10, 18) + " m19=dlq", charged: 1, committed: 19, filed: "m19"},
	{name: "all completed", call: completions(10, 19), charged: 2, committed: 19},
	{name: "all failed", call: strings.ReplaceAll(completions(10, 19), "completed", "failed"), charged: 1, committed: 9, counter: 2},
	{name: "first completed only", call: "m10=completed", charged: 2, committed: 10, kept: true, counter: 2},
	{name: "a refused item among others", call: "ghost=dlq m9=retry m12=completed", charged: 1, committed: 12, kept: true, counter: 1,
		errors: "ghost=" + unresolvable + "|m9=" + committed},
}

// TestR26_WorkedTable runs every row of the worked ack table and of the walk
// above a filed message, and looks at the cursor, the lease, the counter, the
// next message and every flag.
func TestR26_WorkedTable(t *testing.T) {
	record(t, "R22", "R23", "R24", "R25", "R27", "R28", "R29", "S20")
	t.Parallel()
	for _, row := range ackTable {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			row.run(newEnv(t, sharedURL))
		})
	}
}

// run plays one row in a fresh queue.
func (r ackRow) run(e *env) {
	q := e.queue()
	options := `{"retryLimit":3}`
	if r.dlqOff {
		options = `{"retryLimit":3,"deadLetterQueue":false,"dlqAfterMaxRetries":false}`
	}
	e.configure(q, options)
	e.push(q, "p", series(0, 25)...)
	e.ack("", e.pop(q, "batch=10"), "m9=completed")[0].is("leaseReleased", true)
	b := e.pop(q, "batch=10").want(series(10, 19)...)
	for range r.charged {
		e.ack("", b, "m10=failed")[0].is("success", true, "dlq", false)
		b = e.pop(q, "batch=10").want(series(10, 19)...)
	}

	calls := strings.Fields(r.call)
	results := e.ack("", b, calls...)
	filed := strings.Fields(r.filed)
	for i, n := range results {
		id, _, _ := strings.Cut(calls[i], "=")
		n.is("index", i, "transactionId", id, "noop", r.noop == id)
		gone := slices.Contains(filed, id)
		n.is("dlq", gone && !r.dlqOff)
		if gone && r.dlqOff {
			n.is("dropped", true)
		} else {
			n.lacks("dropped")
		}
		if text, ok := r.refusal(id); ok {
			n.is("success", false, "error", text)
			continue
		}
		n.is("success", true, "error", nil, "leaseReleased", !r.kept)
	}

	e.depth(q, "").is("pending", 25-r.committed)
	e.leased(b.lease, r.kept)
	var letters []string
	for _, n := range e.dlq(q) {
		letters = append(letters, n.str("transactionId"))
	}
	slices.Sort(letters)
	if r.dlqOff {
		filed = nil
	}
	if !slices.Equal(letters, filed) {
		e.Errorf("dead letters %v, want %v", letters, filed)
	}

	next := series(int(r.committed)+1, int(r.committed)+1)[0]
	if !r.kept {
		b = e.pop(q, "batch=10")
		if got := b.ids()[0]; got != next {
			e.Fatalf("next is %s, want %s", got, next)
		}
	} else {
		e.popNone(q)
	}
	// A dead letter carries the counter as it stood.
	e.ack("", b, next+"=dlq")[0].is("success", true, "dlq", true)
	find(e.T, e.dlq(q), "transactionId", next).is("retryCount", r.counter)
}

// refusal is the text with which the call refuses the id, if it does.
func (r ackRow) refusal(id string) (string, bool) {
	for one := range strings.SplitSeq(r.errors, "|") {
		if who, text, ok := strings.Cut(one, "="); ok && who == id {
			return text, true
		}
	}
	return "", false
}

func TestR26_OneFlagIsEnoughForTheDeadLetterQueue(t *testing.T) {
	e := shared(t, "S5")
	for _, options := range []string{`{"retryLimit":0,"deadLetterQueue":false}`, `{"retryLimit":0,"dlqAfterMaxRetries":false}`} {
		q := e.queue()
		e.configure(q, options)
		e.push(q, "p", "a")
		e.ack("", e.pop(q), "a=failed")[0].is("dlq", true)
		if len(e.dlq(q)) != 1 {
			t.Errorf("%s: not filed", options)
		}
	}
}

func TestR26_DlqFilesEvenWithTheQueueOff(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"deadLetterQueue":false,"dlqAfterMaxRetries":false}`)
	e.push(q, "p", "a")
	e.ack("", e.pop(q), "a=dlq")[0].is("dlq", true).lacks("dropped")
	if len(e.dlq(q)) != 1 {
		t.Error("not filed")
	}
	e.popNone(q)
}

func TestR26_DroppedMessageIsGone(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"retryLimit":0,"deadLetterQueue":false,"dlqAfterMaxRetries":false}`)
	e.push(q, "p", "a", "b")
	n := e.ack("", e.pop(q), "a=failed")[0]
	n.onlyKeys(ackKeys+" dropped").is("success", true, "dlq", false, "dropped", true, "leaseReleased", true)
	e.pop(q).want("b").attempt(1)
	if len(e.dlq(q)) != 0 {
		t.Error("a dropped message was filed")
	}
}

func TestR26_OnlyTheFailingHeadIsFiled(t *testing.T) {
	e := shared(t, "F31")
	q := e.queue()
	e.configure(q, `{"retryLimit":1}`)
	e.push(q, "p", series(1, 10)...)
	e.ack("", e.pop(q), "m1=completed", "m2=completed", "m3=failed")
	e.ack("", e.pop(q).want(series(3, 10)...), "m3=failed")[0].is("dlq", true)
	e.pop(q).want(series(4, 10)...).attempt(1)
	rows := e.dlq(q)
	if len(rows) != 1 {
		t.Fatalf("%d dead letters", len(rows))
	}
	rows[0].is("transactionId", "m3", "retryCount", 1)
}

func TestR30_DeadLetterKeepsTheMessage(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	id := e.pushItems(item(q, "p", "a", `{"n":9007199254740993, "s":"x"}`))[0].str("message_id")
	b := e.pop(q, all(g))
	e.ackItems(g, ackItem("a", b.pid(), b.lease, "dlq", `"error":"bad \"thing\""`))
	row := e.dlq(q)[0].is("transactionId", "a", "consumerGroup", g, "errorMessage", `bad "thing"`, "retryCount", 0, "partitionId", b.pid(), "partition", "p", "queue", q)
	if got := row.at("data").text(); got != `{"n":9007199254740993, "s":"x"}` {
		t.Errorf("data %s", got)
	}
	// The message id is the one it had: the message reads know it by it.
	e.get("/api/v1/messages/"+seg(b.pid())+"/a").obj(200).is("id", id, "status", "dead_letter", "retryCount", 0, "errorMessage", `bad "thing"`)
}

func TestR30_ErrorMessageFallsBack(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b", "c")
	e.ackItems("", ackItem("a", b.pid(), b.lease, "dlq"),
		ackItem("b", b.pid(), b.lease, "retry", `"error":"first other"`), ackItem("c", b.pid(), b.lease, "retry", `"error":"second other"`))
	find(t, e.dlq(q), "transactionId", "a").is("errorMessage", "first other")

	b = e.pop(q).want("b", "c")
	e.ack("", b, "b=dlq")
	find(t, e.dlq(q), "transactionId", "b").is("errorMessage", "Retries exhausted")

	b = e.pop(q).want("c")
	e.ackItems("", ackItem("c", b.pid(), b.lease, "dlq", `"error":null`))
	find(t, e.dlq(q), "transactionId", "c").is("errorMessage", "Retries exhausted")
}

func TestR30_EachFiledItemKeepsItsOwnError(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b")
	e.ackItems("", ackItem("a", b.pid(), b.lease, "dlq", `"error":"one"`), ackItem("b", b.pid(), b.lease, "dlq", `"error":"two"`))
	find(t, e.dlq(q), "transactionId", "a").is("errorMessage", "one")
	find(t, e.dlq(q), "transactionId", "b").is("errorMessage", "two")
}

func TestR32_LeaselessAckWorksAfterExpiry(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a", "b")
	b := e.pop(q, "leaseSeconds=1")
	e.ack("", e.popSoon(q), "a=retry") // the first lease is over, and nobody holds one
	accepted(e.ackAs("", b, "", "a=completed")...)
	e.depth(q, "").is("pending", 1, "processing", 0)
	e.pop(q).want("b")
}

func TestR32_LeaselessCompletesAnothersBatch(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b", "c")
	e.ackAs("", b, "", "b=completed")[0].is("success", true, "leaseReleased", false)
	e.leased(b.lease, true)
	e.ackAs("", b, "", "c=completed")[0].is("success", true, "leaseReleased", true)
	e.leased(b.lease, false)
	e.popNone(q)
}

func TestS20_LeaselessAckIsBoundedByALiveBatch(t *testing.T) {
	e := shared(t, "R21", "R32")
	q := e.queue()
	e.push(q, "p", "a", "b", "c")
	b := e.pop(q, "batch=2")
	refused(unresolvable, e.ackAs("", b, "", "c=completed")...)
	e.leased(b.lease, true)
	e.depth(q, "").is("pending", 3)
}

func TestS20_LeaselessCompletedIsUnboundedWithoutALease(t *testing.T) {
	e := shared(t, "R21", "R32")
	q := e.queue()
	e.push(q, "p", series(0, 5)...)
	b := e.pop(q, "batch=2")
	e.ack("", b, "m0=retry")
	accepted(e.ackAs("", b, "", "m4=completed")...)
	e.depth(q, "").is("pending", 1)
	e.pop(q).want("m5").attempt(1)
}

func TestS20_LeaselessNackNeedsTheLastDeliveredSpan(t *testing.T) {
	e := shared(t, "R21", "R32")
	q := e.queue()
	e.push(q, "p", series(0, 5)...)
	b := e.pop(q, "batch=2")
	e.ack("", b, "m0=retry")
	for _, status := range []string{"failed", "retry", "dlq"} {
		refused(unresolvable, e.ackAs("", b, "", "m4="+status)...)
	}
	e.ackAs("", b, "", "m1=failed")[0].is("success", true, "dlq", false)
	c := e.pop(q, "batch=2").want("m0", "m1")
	e.ack("", c, "m0=dlq")
	e.dlq(q)[0].is("retryCount", 1)
}

func TestS20_LeaselessNackReleasesTheLiveLease(t *testing.T) {
	e := shared(t, "R32")
	q, b := taken(e, "a", "b")
	e.ackAs("", b, "", "a=failed")[0].is("success", true, "leaseReleased", true)
	e.leased(b.lease, false)
	e.pop(q).want("a", "b").attempt(2)
}

func TestS20_LeaselessAckOfTheEndResetsAfterExpiry(t *testing.T) {
	e := shared(t, "R24", "R32")
	q := e.queue()
	e.push(q, "p", "a", "b")
	e.ack("", e.pop(q, "batch=1"), "a=failed")
	e.pop(q, "batch=1", "leaseSeconds=1").attempt(2)
	b := e.popSoon(q, "batch=1", "leaseSeconds=1").want("a").attempt(3)
	e.eventually("the lease ends", func() bool { return e.depth(q, "").num("processing") == 0 })
	accepted(e.ackAs("", b, "", "a=completed")...)
	c := e.pop(q).want("b").attempt(1)
	e.ack("", c, "b=dlq")
	e.dlq(q)[0].is("retryCount", 0)
}

func TestR34_RepeatOfASettlingAckAnswersAlike(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a", "b", "c")
	first := e.ack("", b, "a=completed", "b=completed", "c=completed")
	again := e.ack("", b, "a=completed", "b=completed", "c=completed")
	for i := range first {
		if first[i].text() != again[i].text() {
			t.Errorf("first %s\nagain %s", first[i].text(), again[i].text())
		}
	}
	e.popNone(q)
	e.push(q, "p", "d")
	c := e.pop(q).want("d")
	// A repeat touches neither the new lease nor the cursor.
	accepted(e.ack("", b, "c=completed")...)
	e.leased(c.lease, true)
	e.depth(q, "").is("pending", 1)
	refused(badLease, e.ack("", b, "d=completed")...)
}

func TestR34_RepeatAnswersOnlyItsOwnBatch(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "z")
	e.finish("", e.pop(q))
	e.push(q, "p", "a")
	b := e.pop(q).want("a")
	e.finish("", b)
	refused(badLease, e.ack("", b, "z=completed")...)
	refused(badLease, e.ack("", b, "ghost=completed")...)
}

func TestR34_NoRepeatAfterANackOrASeek(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a")
	e.ack("", b, "a=retry")
	refused(badLease, e.ack("", b, "a=completed")...)
	c := e.pop(q).want("a")
	e.finish("", c)
	e.seek("__QUEUE_MODE__", q, `{"toEnd":true}`).obj(200)
	refused(badLease, e.ack("", c, "a=completed")...)
}
