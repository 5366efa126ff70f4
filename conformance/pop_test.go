package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The exact members of a plain pop answer and of its messages.
const (
	popKeys     = "success queue partition partitionId leaseId consumerGroup messages partitionsClaimed"
	messageKeys = "id transactionId traceId data producerSub createdAt queue partitionId partition offset leaseId consumerGroup deliveryAttempt"
)

func TestS4_PopShape(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	pushed := e.push(q, "acct-9", "bill-31")[0]
	b := e.pop(q, all(g))
	b.onlyKeys(popKeys).is("success", true, "queue", q, "partition", "acct-9", "consumerGroup", g, "partitionsClaimed", 1)
	lease := b.matches(uuid7, "leaseId")
	pid := b.str("partitionId")
	if pid == "" {
		t.Error("partitionId is empty")
	}
	m := b.msgs[0].onlyKeys(messageKeys)
	m.is("id", pushed.str("message_id"), "transactionId", "bill-31", "traceId", nil, "producerSub", nil, "queue", q,
		"partitionId", pid, "partition", "acct-9", "offset", 0, "leaseId", lease, "consumerGroup", g, "deliveryAttempt", 1)
	m.matches(timeMicro, "createdAt")
	if got := m.at("data").text(); got != payloadOf("bill-31") {
		t.Errorf("data %s", got)
	}
}

func TestS4_PinnedPopShape(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "a", "x")
	e.push(q, "b", "y")
	b := e.pin(q, "b").want("y")
	b.onlyKeys(popKeys).is("success", true, "queue", q, "partition", "b", "consumerGroup", "__QUEUE_MODE__", "partitionsClaimed", 1)
	b.msgs[0].onlyKeys(messageKeys).is("partition", "b", "consumerGroup", "__QUEUE_MODE__", "leaseId", b.lease)
}

func TestS4_PopWithoutGroupIsQueueMode(t *testing.T) {
	e := shared(t, "S1", "S20")
	for _, param := range []string{"batch=1", "consumerGroup=", "consumerGroup=__QUEUE_MODE__"} {
		q := e.queue()
		e.push(q, "p", "a")
		e.pop(q, param).is("consumerGroup", "__QUEUE_MODE__")
	}
}

func TestS1_EmptyPopHasNoBodyAndNoLength(t *testing.T) {
	e := shared(t, "S4")
	raw := rawExchange(e, "GET "+popPath(e.queue())+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	head, body, ok := strings.Cut(raw, "\r\n\r\n")
	if !ok || !strings.HasPrefix(head, "HTTP/1.1 204 ") || body != "" {
		t.Fatalf("answer %q", raw)
	}
	lower := strings.ToLower(head)
	if strings.Contains(lower, "content-length") || strings.Contains(lower, "transfer-encoding") {
		t.Errorf("a 204 announces a body: %q", head)
	}
}

func TestS4_BatchDefaultsTo200(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", series(1, 201)...)
	if got := len(e.pop(q).msgs); got != 200 {
		t.Errorf("default batch delivered %d", got)
	}
}

func TestS4_BatchBelowOneIsOne(t *testing.T) {
	e := shared(t)
	for _, param := range []string{"batch=0", "batch=-5"} {
		q := e.queue()
		e.push(q, "p", "a", "b")
		e.pop(q, param).want("a")
	}
}

// lanes pushes one message to each of n partitions of a fresh queue.
func lanes(e *env, n int) string {
	e.Helper()
	q := e.queue()
	var items []string
	for i := range n {
		items = append(items, item(q, fmt.Sprint("p", i), fmt.Sprint("m", i), "1"))
	}
	e.pushItems(items...)
	return q
}

func TestS4_PartitionsDefaultsToOne(t *testing.T) {
	e := shared(t, "S20")
	e.pop(lanes(e, 3)).is("partitionsClaimed", 1)
	e.pop(lanes(e, 3), "partitions=0").is("partitionsClaimed", 1)
	e.pop(lanes(e, 3), "partitions=-3").is("partitionsClaimed", 1)
}

func TestS4_PartitionsAbove64IsClamped(t *testing.T) {
	e := shared(t, "S20")
	q := lanes(e, 70)
	b := e.pop(q, "partitions=1000").is("partitionsClaimed", 64)
	if n := len(b.list("messages")); n != 64 {
		t.Errorf("%d messages", n)
	}
}

func TestS4_PinnedPopIgnoresPartitions(t *testing.T) {
	e := shared(t)
	q := lanes(e, 3)
	e.pin(q, "p1", "partitions=3").want("m1").is("partitionsClaimed", 1)
}

func TestS4_FirstClaimedPartitionOnTop(t *testing.T) {
	e := shared(t)
	b := e.pop(lanes(e, 4), "partitions=4")
	b.is("partitionsClaimed", 4, "partition", b.msgs[0].str("partition"), "partitionId", b.pid())
	seen := map[string]bool{}
	for _, m := range b.msgs {
		seen[m.str("partitionId")] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d partitions in the messages", len(seen))
	}
}

func TestS4_AutoAckUnderBothNames(t *testing.T) {
	e := shared(t, "R7")
	for _, param := range []string{"autoAck=true", "commitOnDelivery=true", "autoAck=true&commitOnDelivery=true"} {
		q, g := e.queue(), e.name("g")
		e.push(q, "p", "a", "b")
		b := e.pop(q, all(g), param).want("a", "b")
		b.is("leaseId", "", "success", true)
		for _, m := range b.msgs {
			m.onlyKeys(messageKeys).is("leaseId", "", "deliveryAttempt", 1)
		}
		e.depth(q, g).is("pending", 0, "processing", 0)
		e.popNone(q, group(g))
	}
}

func TestS4_AutoAckFalseLeases(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	b := e.pop(q, "autoAck=false", "commitOnDelivery=false")
	e.leased(b.matches(uuid7, "leaseId"), true)
}

func TestS4_DiscoveryNeedsNamespaceOrTask(t *testing.T) {
	e := shared(t, "R46")
	for _, path := range []string{discPath(), discPath("batch=5"), discPath("namespace=", "task=")} {
		n := e.get(path).refuses(http.StatusBadRequest, "namespace or task is required")
		n.is("success", false)
		if len(n.list("messages")) != 0 {
			t.Error("messages is not empty")
		}
	}
}

func TestS1_WrongTypeInAPopParameterIs400(t *testing.T) {
	e := shared(t, "S20", "S4")
	q := e.queue()
	e.push(q, "p", "a")
	for _, param := range []string{
		"batch=abc", "batch=1.5", "batch=true", "partitions=x", "timeout=soon", "leaseSeconds=1m", "wait=maybe", "wait=1", "wait=yes",
		"autoAck=2", "commitOnDelivery=on", "conflation=maybe", "autopilot=x",
	} {
		for _, path := range []string{popPath(q, param), pinPath(q, "p", param), discPath("namespace="+arg(q)) + "&" + param} {
			n := e.get(path).obj(http.StatusBadRequest).is("success", false)
			if n.str("error") == "" || len(n.list("messages")) != 0 {
				t.Errorf("%s: %s", path, n.text())
			}
		}
	}
	e.pop(q).want("a").attempt(1)
}

func TestS1_UnknownPopParametersAreIgnored(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	e.pop(q, "nope=1", "Batch=x", "batch_size=y").want("a")
}

func TestS4_PopOfAnUnknownQueueCreatesIt(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.popNone(q, group(g))
	n := e.detail(q).is("name", q)
	n.at("options").is("leaseTime", 60)
	// The group was registered by that pop: what comes now is its own.
	e.push(q, "p", "a")
	e.pop(q, group(g)).want("a")
}

func TestS4_PinnedPopOfAnUnknownQueueCreatesIt(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.get(pinPath(q, "p", group(g))).empty()
	e.detail(q).at("options").is("leaseTime", 60)
	e.push(q, "p", "a")
	e.pin(q, "p", group(g)).want("a")
}

func TestS4_PopOfAnUnknownQueueParks(t *testing.T) {
	e := shared(t, "F18", "R12")
	q := e.queue()
	p := e.park(q)
	p.stillParked()
	e.push(q, "p", "a")
	p.wakes().want("a")
}

func TestS4_WaitingPopAnswersEmptyAfterItsTimeout(t *testing.T) {
	e := shared(t, "R11")
	q := e.queue()
	for _, path := range []string{popPath(q, patiently(900)), pinPath(q, "p", patiently(900)), discPath("namespace="+arg(q), patiently(900))} {
		begun := time.Now()
		e.get(path).empty()
		e.atLeast(begun, 600*time.Millisecond, "empty answer")
	}
}

func TestS4_PopWithoutWaitAnswersAtOnce(t *testing.T) {
	e := shared(t)
	q := e.queue()
	for _, path := range []string{popPath(q, "timeout=30000"), popPath(q, "wait=false"), pinPath(q, "p", "timeout=30000")} {
		e.start("GET", path, "").wait(10 * time.Second).empty()
	}
}

func TestS13_DefaultTimeoutAppliesWhenNoneIsSent(t *testing.T) {
	_, e := own(t, "DEFAULT_TIMEOUT=900", "POP_DEFAULT_TIMEOUT_MS=45000")
	q := e.queue()
	for _, param := range []string{"wait=true", "wait=true&timeout=0", "wait=true&timeout=-1"} {
		begun := time.Now()
		e.start("GET", popPath(q, param), "").wait(20 * time.Second).empty()
		e.atLeast(begun, 600*time.Millisecond, "empty answer")
	}
}

func TestS13_PopDefaultTimeoutIsTheSecondName(t *testing.T) {
	_, e := own(t, "POP_DEFAULT_TIMEOUT_MS=900")
	begun := time.Now()
	e.start("GET", popPath(e.queue(), "wait=true"), "").wait(20 * time.Second).empty()
	e.atLeast(begun, 600*time.Millisecond, "empty answer")
}

func TestR2_ClaimRunsFromTheCursorToTheBudget(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", series(0, 9)...)
	e.finish(g, e.pop(q, all(g), "batch=3").want(series(0, 2)...))
	b := e.pop(q, group(g), "batch=4").want(series(3, 6)...)
	// The cursor does not move by the claim; the whole span is under lease.
	e.depth(q, g).is("pending", 7, "processing", 4, "ready", 3)
	refused(unresolvable, e.ack(g, b, "m7=completed")...)
	accepted(e.ack(g, b, "m6=completed")...)
	e.depth(q, g).is("pending", 3, "processing", 0, "ready", 3)
}

func TestR2_PopStopsAtMaxBytesAfterOneMessage(t *testing.T) {
	_, e := own(t, "QUEEN_POP_MAX_BYTES=3000")
	q := e.queue()
	big := `"` + strings.Repeat("x", 1200) + `"`
	huge := `"` + strings.Repeat("y", 9000) + `"`
	e.pushItems(item(q, "p", "a", big), item(q, "p", "b", big), item(q, "p", "c", big), item(q, "p", "d", huge), item(q, "p", "e", "1"))
	b := e.pop(q)
	if n := len(b.msgs); n < 1 || n > 2 {
		t.Fatalf("3000 bytes hold %d messages of 1200", n)
	}
	e.finish("", b)
	for range 5 {
		if b = e.pop(q); b.ids()[0] == "d" {
			b.want("d") // larger than the bound: delivered, alone
		}
		e.finish("", b)
		if e.pending(q, "") == 0 {
			return
		}
	}
	t.Error("the queue never drained")
}

func TestR3_LeasedPartitionIsSkippedOnEveryRoute(t *testing.T) {
	e := shared(t, "F27")
	ns := e.name("n")
	q, g, other := ns+".t", e.name("g"), e.name("g")
	e.push(q, "p", "a", "b")
	e.pop(q, all(g), "batch=1").want("a")
	e.popNone(q, group(g))
	e.get(pinPath(q, "p", group(g))).empty()
	e.get(discPath("namespace="+ns, group(g))).empty()
	e.push(q, "p", "c")
	e.popNone(q, group(g))
	e.pop(q, all(other)).want("a", "b", "c")
	e.pop(q).want("a", "b", "c")
}

func TestR3_NothingPassesALeaseAfterExtendOrPush(t *testing.T) {
	e := shared(t, "F27")
	q := e.queue()
	e.push(q, "p", "t1")
	b := e.pop(q, "batch=1", "leaseSeconds=30").want("t1")
	e.push(q, "p", "t2")
	e.popNone(q)
	e.extend(b.lease, 60).is("success", true)
	e.popNone(q)
	e.finish("", b)
	e.pop(q).want("t2")
}

func TestR3_ConcurrentPopsShareOutThePartitions(t *testing.T) {
	e := shared(t)
	q, g := lanes(e, 6), e.name("g")
	var parked []*pending
	for range 12 {
		parked = append(parked, e.start("GET", popPath(q, all(g), patiently(1500)), ""))
	}
	seen := map[string]int{}
	for _, p := range parked {
		r := p.wait(20 * time.Second)
		if r.status == http.StatusOK {
			for _, m := range r.asBatch().msgs {
				seen[m.str("transactionId")]++
			}
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was leased %d times", id, n)
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d of 6 messages delivered", len(seen))
	}
}

func TestR4_OnePopOneLease(t *testing.T) {
	e := shared(t)
	q := lanes(e, 3)
	b := e.pop(q, "partitions=3")
	for _, m := range b.msgs {
		m.is("leaseId", b.lease)
	}
	e.extend(b.lease, 90).is("renewed", 3)
	var seen []string
	for range 2 {
		c := e.pop(lanes(e, 1), "leaseId=mine")
		seen = append(seen, c.matches(uuid7, "leaseId"))
	}
	if seen[0] == seen[1] || seen[0] == b.lease {
		t.Error("two pops share a lease id")
	}
}

func TestR6_BatchIsSharedOverThePartitions(t *testing.T) {
	e := shared(t)
	q := e.queue()
	for _, p := range []string{"a", "b", "c"} {
		var ids []string
		for i := range 5 {
			ids = append(ids, fmt.Sprint(p, i))
		}
		e.push(q, p, ids...)
	}
	b := e.pop(q, "partitions=3", "batch=7")
	if len(b.msgs) != 7 {
		t.Errorf("%d messages, want 7", len(b.msgs))
	}
	next := map[string]int64{}
	for _, m := range b.msgs {
		p := m.str("partition")
		m.is("offset", next[p])
		next[p]++
	}
	b.is("partitionsClaimed", len(next))
	if len(next) < 2 {
		t.Errorf("7 messages from %d partitions of 5", len(next))
	}
}

func TestR7_AutoAckMovesTheCursorAtDelivery(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", series(0, 4)...)
	e.pop(q, "autoAck=true", "batch=2").want("m0", "m1").attempt(1)
	e.depth(q, "").is("pending", 3, "processing", 0)
	e.pop(q, "autoAck=true", "batch=2").want("m2", "m3").attempt(1)
	e.pop(q, "batch=2").want("m4").attempt(1)
}

func TestR7_AutoAckSkipsALeasedPartition(t *testing.T) {
	e := shared(t, "R3")
	q := e.queue()
	e.push(q, "p", "a", "b")
	e.pop(q, "batch=1").want("a")
	e.popNone(q, "autoAck=true")
}
